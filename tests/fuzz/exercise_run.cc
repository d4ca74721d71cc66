// Runs, and what is drawn for gradients. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/trial.h"

#include "passes/gradient/select.h"
#include "runtime/gradcheck/gradcheck.h"

#include <cstring>

using namespace llvm;

namespace gradc::fuzz {
namespace {

/// Of all values together; nothing when some shape is unknown or the sum is beyond measure.
std::optional<int64_t> bytesOf(const Inference &inference) {
  int64_t sum = 0;
  for (size_t e = 0; e < inference.shape.size(); ++e) {
    const EntryId entry(static_cast<uint32_t>(e));
    if (!inference.isKnownShape(entry)) return std::nullopt;
    const std::optional<int64_t> size = numElements(inference.shapeOf(entry).dims());
    if (!size || *size > (int64_t{1} << 40)) return std::nullopt;
    sum += *size * dtypeBytes(inference.dtype[entry]);
    if (sum > (int64_t{1} << 50)) return std::nullopt;
  }
  return sum;
}

bool sameBytes(const TensorRef &a, const TensorRef &b) {
  return a.bytes() == b.bytes() && (a.bytes() == 0 || std::memcmp(a.data, b.data, a.bytes()) == 0);
}

}  // namespace

GradientRequest Trial::drawRequest(const Graph &graph, const Inference &inference) {
  GradientRequest request;
  request.wrt = allTargets(graph, &inference).targets;
  if (isUsual || graph.numNodes() == 0) return request;
  auto anyEntry = [&] {
    const NodeId n(static_cast<uint32_t>(dice.below(graph.numNodes())));
    return Value{n, static_cast<uint16_t>(graph.numOutputs(n) ? dice.below(graph.numOutputs(n)) : 0)};
  };
  constexpr Request kRequests[] = {Request::Write, Request::Write, Request::Add, Request::Null};
  for (GradientTarget &target : request.wrt)
    if (dice.chance(20)) target.request = dice.one<Request>(kRequests);
  if (request.wrt.size() > 1 && dice.chance(20))
    request.wrt.erase(request.wrt.begin() + dice.below(request.wrt.size()));
  if (dice.chance(5)) request.wrt.push_back({anyEntry()});
  if (dice.chance(15)) request.retained.push_back({anyEntry(), dice.one<Request>(kRequests)});
  if (dice.chance(10)) request.noGrad.push_back(anyEntry());
  if (dice.chance(10)) request.stop.push_back(anyEntry());
  if (dice.chance(15))
    for (size_t i = 1 + dice.below(2); i-- > 0;) {
      GradientHead head{anyEntry(), std::nullopt, ""};
      if (dice.chance(20)) head.seed = anyEntry();
      else if (dice.chance(30)) head.seedName = "seed";
      request.heads.push_back(head);
    }
  return request;
}

GradientOptions Trial::drawOptions() {
  GradientOptions options;
  options.unused = UnusedPolicy::Zeros;
  if (isUsual) return options;
  constexpr uint32_t kCaps[] = {1, 2, 3, 8, 8, 8, 1000};
  auto draw = [&](auto &field, size_t count, int percent) {
    if (dice.chance(percent)) field = static_cast<std::remove_reference_t<decltype(field)>>(dice.below(count));
  };
  draw(options.headPolicy, 4, 30);
  draw(options.duplicates, 2, 5);
  draw(options.unused, 3, 20);
  draw(options.controlOnly, 2, 20);
  draw(options.reach, 2, 5);
  draw(options.integers, 2, 20);
  draw(options.zeroTerms, 2, 20);
  draw(options.overwritten, 2, 10);
  draw(options.naming, 4, 20);
  draw(options.chain, 2, 20);
  options.sumCap = dice.one<uint32_t>(kCaps);
  options.isTraining = dice.chance(75);
  options.gradientOnly = dice.chance(10);
  return options;
}

void Trial::countNodes(const Graph &graph, Reached what) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (const OpDef *op = graph.op(NodeId(n)); op && !op->flags.isOpaque) tally.count(*op, what);
}

void Trial::countDifferentiated(const Graph &graph, const GradientRequest &request, const GradientOptions &options) {
  const Selection selection(graph, request, options);
  std::vector<GradientHead> heads = request.heads;
  if (heads.empty())
    for (Value head : graph.heads()) heads.push_back({head, std::nullopt, ""});
  const BitVector isReached = selection.connectedTo(graph, heads, false);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const OpDef *op = graph.op(NodeId(n));
    if (!op || op->flags.isOpaque || !isReached[n]) continue;
    // Through an operator without gradient none flows, nor through one that makes integers of numbers, and one without
    // inputs has none to pass on: reached is all they can be.
    auto isInteger = [&](Value v) { return !isFloating(options.inference->dtype[graph.entry(v)]); };
    bool makesIntegers = !llvm::all_of(graph.inputs(NodeId(n)), isInteger);
    for (uint16_t o = 0; o < graph.numOutputs(NodeId(n)); ++o) makesIntegers &= isInteger(Value{NodeId(n), o, 0});
    bool isOnPath = op->flags.hasNoGradient || makesIntegers || graph.inputs(NodeId(n)).empty();
    for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)); ++o)
      isOnPath |= selection.carries(EntryId(graph.firstEntry(NodeId(n)).value + o));
    if (isOnPath) tally.count(*op, Reached::Differentiated);
  }
}

std::optional<std::vector<Array>> Trial::headsIn(bool isTraining, const Graph &graph, StringRef stage) {
  SessionOptions options;
  options.initSeed = 1;
  options.exec.seed = 1;
  options.exec.isTraining = isTraining;
  options.exec.backend = Backend::Reference;
  Expected<Session> session = Session::create(ctx, graph, {}, options);
  if (!session) return isFine(session.takeError(), stage), std::nullopt;
  if (!isFine(session->run(1), stage)) return std::nullopt;
  std::vector<Array> heads;
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    const TensorRef head = session->head(i);
    heads.push_back({head.dtype, head.shape.vec(), {}});
    if (head.data) heads.back().bytes.assign(head.as<char>(), head.as<char>() + head.bytes());
  }
  return heads;
}

void Trial::checkForms(const Graph &graph, const Graph &pass, StringRef stage) {
  if (!isUsual && !dice.chance(30)) return;
  for (bool isTraining : {false, true}) {
    const std::string where = (stage + (isTraining ? ", in training" : ", in inference")).str();
    const std::optional<std::vector<Array>> before = headsIn(isTraining, graph, where),
                                            after = before ? headsIn(isTraining, pass, where) : std::nullopt;
    if (!before || !after) continue;
    for (size_t i = 0; i < std::min(before->size(), after->size()); ++i)
      // What is drawn for a variable that nothing reads depends on who reads it after the pass.
      if (!graph.isVariable(graph.heads()[i].node) && (*before)[i].bytes != (*after)[i].bytes &&
          !(*before)[i].bytes.empty() && !(*after)[i].bytes.empty())
        report(where + ": head " + Twine(i) + " is another one");
  }
}

void Trial::checkDifferences(const Graph &graph, const SessionOptions &session) {
  GradcheckOptions options;
  options.session = session;
  options.session.infer.floatAs = DType::Float64;
  options.samples = 2;
  options.gradientOptions.unused = UnusedPolicy::Zeros;
  options.order = 1 + static_cast<uint32_t>(dice.below(2));
  // Its verdict is ignored: the drawn values may be near kinks, where differences are not derivatives.
  Expected<GradcheckReport> report = gradcheck(ctx, graph, {}, options);
  if (!report) isFine(report.takeError(), "gradcheck");
}

bool Trial::isSmall(const Inference &inference) const {
  const std::optional<int64_t> bytes = bytesOf(inference);
  return bytes && *bytes <= maxRunBytes;
}

void Trial::checkRun(const Graph &graph, const Inference &inference, StringRef stage) {
  if (!isSmall(inference)) return;
  SessionOptions options;
  options.initSeed = 1 + dice.below(4);
  options.exec.seed = *options.initSeed;
  options.exec.isTraining = isUsual || dice.chance(70);
  if (!isUsual && dice.chance(12)) options.infer.floatAs = DType::Float64;
  options.exec.backend = !isUsual && dice.chance(30) ? Backend::Auto : Backend::Reference;
  const bool wantsBoth = isUsual || dice.chance(15), isTwice = !isUsual && dice.chance(15);
  const std::string where = (stage + ", run").str();
  Expected<Session> session = Session::create(ctx, graph, {}, options);
  if (!session) return void(isFine(session.takeError(), where));
  if (!isFine(session->run(1), where)) return;
  countNodes(graph, Reached::Run);
  // A graph that runs in one form runs in the other.
  SessionOptions otherForm = options;
  otherForm.exec.isTraining = !options.exec.isTraining;
  if (isUsual || dice.chance(60)) {
    Expected<Session> other = Session::create(ctx, graph, {}, otherForm);
    if (!other) return report(where + " in the other form: " + textOf(other.takeError()));
    isFine(other->run(1), where + " in the other form");
  }
  if (!isUsual && dice.chance(4)) checkDifferences(graph, options);
  if (isTwice) {
    // Neither memory shared in place nor what memory held before makes a difference.
    options.allowInplace = false;
    Expected<Session> again = Session::create(ctx, graph, {}, options);
    if (!again) return report(where + " without sharing memory: " + textOf(again.takeError()));
    if (Error error = again->run(1)) return report(where + " without sharing memory: " + textOf(std::move(error)));
    for (size_t i = 0; i < graph.heads().size(); ++i)
      if (session->head(i).data && !sameBytes(session->head(i), again->head(i)))
        report(where + ": head " + Twine(i) + " is another one when no memory is shared");
  }
  if (!wantsBoth) return;
  options.exec.backend = options.exec.backend == Backend::Auto ? Backend::Reference : Backend::Auto;
  Expected<Session> other = Session::create(ctx, graph, {}, options);
  if (!other) return report(where + " on the other backend: " + textOf(other.takeError()));
  if (Error error = other->run(1)) report(where + " on the other backend: " + textOf(std::move(error)));
}

}  // namespace gradc::fuzz
