// Every conformance sample on the tape: gradients that are recorded are those that are not, bit for bit, and at every
// order they are those of the compiled graph.
#include "imperative/imperative.h"
#include "runtime/session/session.h"
#include "tests/conformance_samples/samples.h"
#include "tests/support/ops/conformance.h"
#include "tests/support/runs/imperative.h"
#include "tests/support/runs/imperative_arrays.h"
#include "tests/support/test_graph.h"
#include "passes/gradient/higher_order/higher_order.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

using Bits = std::vector<char>;

Bits bitsOf(const Tensor &tensor) {
  if (!tensor) return {};
  const TensorRef ref = tensor.ref();
  return Bits(static_cast<const char *>(ref.data), static_cast<const char *>(ref.data) + ref.bytes());
}

/// At the first order the tape runs the compiled operators. Later it sums some terms in another order, and does not
/// know which gradients vanish identically, which then are none or zeros (HO-08).
bool agree(ArrayRef<double> compiled, ArrayRef<double> taped, unsigned order) {
  const auto isZero = [](double value) { return value == 0; };
  if (order > 1 && all_of(compiled, isZero) && all_of(taped, isZero)) return true;
  if (compiled.size() != taped.size()) return false;
  double scale = 1;
  for (double value : compiled)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  const double allowed = order > 1 ? 1e-10 * scale : 0;
  return all_of(zip_equal(compiled, taped), [&](const auto &pair) {
    const auto [a, b] = pair;
    return a == b || std::abs(a - b) <= allowed || (std::isnan(a) && std::isnan(b));
  });
}

struct Counts {
  size_t numRecorded[4] = {}, numCompiled[4] = {};
  size_t numConstant[4] = {};  // the tape knows that there is no gradient of this order
};

class SampleOnTape {
 public:
  SampleOnTape(const Sample &sample, Counts &counts)
      : sample(sample), start(context, sample), im(context, Tape::referenceOptions()), counts(counts) {}

  void run() {
    // That of a step of an optimizer is not to be requested.
    if (start.variables.empty() || start.graph.op(start.node)->flags.isStep || !record()) return;
    std::vector<Tensor> heads = ys;
    for (unsigned order = 1; order <= std::min(sample.orders, 3u); ++order) {
      SCOPED_TRACE("order " + std::to_string(order));
      if (heads.empty()) return expectZeros(order);
      GradOptions options{.retain = true, .unused = UnusedPolicy::None};
      const std::vector<Tensor> plain = grad(heads, options);
      options.createGraph = true;
      const std::vector<Tensor> recorded = grad(heads, options);
      if (plain.empty() || recorded.empty()) return;
      for (size_t i = 0; i < xs.size(); ++i) EXPECT_EQ(bitsOf(plain[i]), bitsOf(recorded[i])) << xs[i].name();
      ++counts.numRecorded[order];
      compareWithCompiled(order, recorded);
      heads.clear();
      for (const Tensor &gradient : recorded)
        if (gradient && gradient.isTracked()) heads.push_back(gradient);
    }
  }

 private:
  /// False if no output carries gradient.
  bool record() {
    InferOptions types;
    types.floatAs = DType::Float64;
    inference = cantFail(infer(context, start.graph, hintsOf(start.graph, start.bindings), types));
    const StringSet<> wanted(start.variables);
    std::vector<Tensor> inputs;
    for (Value v : start.graph.inputs(start.node)) {
      const Array &array = start.bindings.at(start.graph.name(v.node).str());
      // Nothing determines the type of what only lends its shape.
      const DType type = inference.dtype[start.graph.entry(v)];
      inputs.push_back(tensorOf(im, array, type == DType::Unknown ? DType::Float64 : type));
      cantFail(im.setName(inputs.back(), start.graph.name(v.node)));
      if (!wanted.contains(start.graph.name(v.node)) || !isFloating(inputs.back().dtype())) continue;
      cantFail(im.requireGrad(inputs.back()));
      xs.push_back(inputs.back());
    }
    if (xs.empty()) return false;
    std::optional<TrainScope> training;
    if (sample.isTraining) training.emplace(im);
    Expected<TensorList> outputs = im.callAll(cantFail(im.kind(start.graph.kindHandle(start.node))), inputs);
    if (!outputs) return ADD_FAILURE() << toString(outputs.takeError()), false;
    for (auto [o, output] : enumerate(*outputs)) {
      if (!output.isTracked()) continue;
      ys.push_back(output);
      positions.push_back(o);
    }
    return !ys.empty();
  }

  std::vector<Tensor> grad(Tensors heads, const GradOptions &options) {
    Expected<std::vector<Tensor>> found = im.grad(heads, xs, options);
    if (found) return *found;
    ADD_FAILURE() << (options.createGraph ? "recorded: " : "") << toString(found.takeError());
    return {};
  }

  /// Nothing that the gradients before read is tracked: they are constants.
  void expectZeros(unsigned order) {
    const std::optional<std::vector<Doubles>> compiled = compiledGradients(order);
    if (!compiled) return;
    for (size_t i = 0; i < xs.size(); ++i)
      EXPECT_TRUE(all_of((*compiled)[i], [](double value) { return value == 0; }))
          << xs[i].name() << ": " << print(testing::Array((*compiled)[i]));
    ++counts.numConstant[order];
  }

  void compareWithCompiled(unsigned order, Tensors taped) {
    const std::optional<std::vector<Doubles>> compiled = compiledGradients(order);
    if (!compiled) return;
    for (size_t i = 0; i < xs.size(); ++i) {
      const Doubles found = taped[i] ? widened(taped[i].ref()) : Doubles();
      EXPECT_TRUE(agree((*compiled)[i], found, order))
          << xs[i].name() << ": " << print(testing::Array((*compiled)[i])) << " is " << print(testing::Array(found));
    }
    ++counts.numCompiled[order];
  }

  /// By x; nothing where the gradient vanishes identically. None of samples that cannot be run twice.
  std::optional<std::vector<Doubles>> compiledGradients(unsigned order) {
    const NodeKind &kind = start.graph.kind(start.node);
    if (kind.draws || kind.drawsInBodies || !kind.mutated.isEmpty()) return std::nullopt;
    GradientRequest request;
    for (size_t o : positions) request.heads.push_back({start.graph.heads()[o], {}, ""});
    for (const Tensor &x : xs) request.wrt.push_back({Value{nodeNamed(start.graph, x.name())}});
    GradientOptions options;
    options.unused = UnusedPolicy::None;
    options.inference = &inference;
    options.isTraining = sample.isTraining;
    Expected<GradientResult> made = buildGradientOfOrder(context, start.graph, request, options, order);
    if (!made) return ADD_FAILURE() << "compiled: " << toString(made.takeError()), std::nullopt;
    std::vector<NamedArray> bindings;
    for (NodeId n : listInputs(made->graph).args) {
      const Array &array = start.bindings.at(made->graph.name(n).str());
      bindings.push_back({made->graph.name(n).str(), doubles({array.shape.begin(), array.shape.end()}, array.values)});
    }
    SessionOptions exec;
    exec.exec.backend = Backend::Reference;
    exec.exec.isTraining = sample.isTraining;
    exec.infer.floatAs = DType::Float64;
    Expected<Session> session = Session::create(context, made->graph, std::move(bindings), exec);
    if (!session) return ADD_FAILURE() << "compiled: " << toString(session.takeError()), std::nullopt;
    cantFail(session->run(0));
    std::vector<Doubles> compiled(xs.size());
    size_t next = made->graph.heads().size();
    for (size_t i = xs.size(); i-- > 0;)
      if (made->wrt[i].status != SlotStatus::None) compiled[i] = widened(session->head(--next));
    return compiled;
  }

  static Doubles widened(const TensorRef &tensor) {
    if (tensor.dtype == DType::Float64) return valuesOf<double>(tensor);
    const std::vector<float> values = valuesOf<float>(tensor);
    return Doubles(values.begin(), values.end());
  }

  const Sample &sample;
  TestContext context;
  const SampleGraph start;
  Imperative im;
  Inference inference;
  std::vector<Tensor> xs, ys;
  std::vector<size_t> positions;  // of the ys among the outputs
  Counts &counts;
};

TEST(ImperativeConformance, TA_05_TA_89_EverySampleIsItsCompiledGraphAtEveryOrder) {
  Counts counts;
  for (const Sample &sample : allSamples()) {
    SCOPED_TRACE((Twine(sample.op) + " " + sample.attrs).str());
    SampleOnTape(sample, counts).run();
  }
  const size_t recorded[] = {0, 1450, 800, 470}, compiled[] = {0, 1390, 770, 465}, constant[] = {0, 0, 590, 245};
  for (unsigned order = 1; order <= 3; ++order) {
    EXPECT_GE(counts.numRecorded[order], recorded[order]) << order;
    EXPECT_GE(counts.numCompiled[order], compiled[order]) << order;
    EXPECT_GE(counts.numConstant[order], constant[order]) << order;
    outs() << "order " << order << ": " << counts.numRecorded[order] << " recorded, " << counts.numCompiled[order]
           << " compiled, " << counts.numConstant[order] << " constant\n";
  }
}

}  // namespace
}  // namespace gradc::testing
