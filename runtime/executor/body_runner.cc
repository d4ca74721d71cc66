// Tested by tests/ops/control_flow_test.cc
#include "runtime/executor/body_runner.h"

#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "runtime/executor/timing_log.h"

#include "llvm/ADT/DenseMap.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

constexpr uint64_t kMaxNodes = 1 << 20;  // of all bodies, counted once per use

using NodeCounts = DenseMap<const BodyPlan *, uint64_t>;

// Recurses as deep as bodies are nested.
uint64_t countNodes(const std::vector<FlowPlan> &flows, NodeCounts &known) {
  uint64_t sum = 0;
  for (const FlowPlan &flow : flows)
    for (const std::shared_ptr<const BodyPlan> &body : flow.bodies) {
      auto at = known.find(body.get());
      if (at == known.end()) {
        const uint64_t inside = countNodes(body->plan->flows, known);
        at = known.try_emplace(body.get(), body->graph.numNodes() + inside).first;
      }
      sum = std::min(sum + at->second, kMaxNodes + 1);
    }
  return sum;
}

class ListRunner final : public MovableRunner {
 public:
  /// `place`: text of `step`, which is in the enclosing graph. `hooks` may be null. `maxSteps`: runs of the body each
  /// time its node runs.
  ListRunner(InstructionList prepared, ArenaPlaces places, BodyStep step, std::string place, BodyHooks *hooks,
             bool isDecision, uint64_t maxSteps)
      : list(std::move(prepared)), places(std::move(places)), step(step), place(std::move(place)),
        inputs(bodyInputs(list.graph)), hooks(hooks), isDecision(isDecision), maxSteps(maxSteps) {
    list.resolve();
    sites.resize(list.graph.numEntries());
    for (uint32_t i = 0; i < list.operandEntry.size(); ++i) sites[list.operandEntry[i].value].push_back(i);
  }

  TensorRef input(size_t i) const override { return list.tensor(list.graph.firstEntry(inputs[i])); }
  TensorRef head(size_t h) const override { return list.heads[h]; }

  void bindInput(size_t i, void *data) override { bind(list.graph.firstEntry(inputs[i]), data); }

  void bindHead(size_t h, void *data) override {
    list.heads[h].data = data;
    if (list.headEntry[h].isValid()) bind(list.headEntry[h], data);
  }

  void moveArena(char *arena) override {
    places.move(list, arena);
    list.resolve();
  }

  void startNode() override { numSteps = 0; }

  void setFailure(Error *slot) override { list.setFailure(slot); }

  void recordTimes(TimingLog *to, uint32_t owner) override {
    log = to;
    site = {owner, step.body, -1};
    if (log) return;
    for (const std::unique_ptr<MovableRunner> &runner : list.runners) runner->recordTimes(nullptr, 0);
  }

  size_t heapBytes() const override {
    size_t bytes = sizeof(*this) + places.heapBytes() + list.ownedBytes +
                   list.instructions.capacity() * sizeof(Instruction) +
                   list.extras.capacity() * sizeof(InstructionExtras) + list.requests.capacity() +
                   list.operands.capacity() * sizeof(TensorRef) + list.operandEntry.capacity() * sizeof(EntryId) +
                   list.graph.numEntries() * sizeof(char *) + sites.capacity() * sizeof(sites[0]);
    for (const std::unique_ptr<MovableRunner> &runner : list.runners) bytes += runner->heapBytes();
    return bytes;
  }

  void run(const RandomKey &key) override {
    if (++numSteps > maxSteps) return refuseStep();
    NodeId node;
    list.setRandom(key.seed, key.step);
    ++site.step;
    try {
      for (const Instruction &instruction : list.instructions) {
        node = instruction.node;
        const uint32_t number = log ? log->begin(list, instruction, site) : 0;
        if (hooks) runHooked(instruction);
        else instruction.run(list.call(instruction));
        if (log) log->end(number, instruction);
        if (list.failure && *list.failure) return locate(*list.failure, instruction);
        copyHeads(instruction.firstStep, instruction.lastStep);
      }
    } catch (KernelError &error) {
      // A message from a body of the node already begins with the node.
      const bool isInside = StringRef(error.message).starts_with("node '" + list.graph.name(node).str() + "' > ");
      error.message = place + " > " + (isInside ? "" : list.graph.describe(node) + ": ") + error.message;
      throw;
    }
    copyHeads(list.firstFinalStep, static_cast<uint32_t>(list.steps.size()));
    if (hooks && isDecision) hooks->decide(list.heads[0]);
  }

 private:
  /// An error of the node, so without a place in the body.
  void refuseStep() const {
    const std::string text = ("the loop goes on after " + Twine(maxSteps) + " steps, which is the limit").str();
    if (!list.failure) throw KernelError{text, ErrorKind::LengthMismatch};
    *list.failure = Failure(ErrorKind::LengthMismatch, text)
                        .remedy(Remedy::AllowMoreSteps, "a larger limit, ExecOptions::maxSteps, allows more");
  }

  void runHooked(const Instruction &instruction) const {
    hooks->run(list.graph, instruction.node, list.call(instruction),
               [&](const KernelCall &call) { instruction.run(call); });
  }

  /// Adds to an error that a kernel left where it happened. The innermost body names the node, which has bodies itself
  /// if the kernel of this node left the error.
  void locate(Error &failure, const Instruction &at) const {
    failure = amend(std::move(failure), [&](GradcError &error) {
      if (!at.kind->flow || error.place.path.empty()) {
        error.place = {.node = at.node};
        error.message = list.graph.describe(at.node) + ": " + error.message;
      }
      error.message = place + " > " + error.message;
      error.place.path.insert(error.place.path.begin(), step);
    });
  }

  void bind(EntryId e, void *data) {
    if (list.address[e] == data) return;
    list.address[e] = static_cast<char *>(data);
    for (uint32_t site : sites[e.value]) list.operands[site].data = data;
  }

  // Heads of bodies never have the request Add.
  void copyHeads(uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; ++i) {
      const TensorRef &to = list.heads[list.steps[i].head];
      if (size_t bytes = to.bytes()) std::memcpy(to.data, list.operands[list.steps[i].from].data, bytes);
    }
  }

  InstructionList list;
  ArenaPlaces places;
  TimingLog *log = nullptr;
  TimingLog::Site site;
  const BodyStep step;
  const std::string place;
  const std::vector<NodeId> inputs;
  BodyHooks *const hooks;
  const bool isDecision;
  const uint64_t maxSteps;
  uint64_t numSteps = 0;                        // since the node started
  std::vector<SmallVector<uint32_t, 2>> sites;  // by entry: the operands that are views of it
};

}  // namespace

Error checkUses(const std::vector<FlowPlan> &flows) {
  NodeCounts known;
  if (countNodes(flows, known) <= kMaxNodes) return Error::success();
  return Failure(ErrorKind::TooLarge, "the bodies of the graph have more than " + Twine(kMaxNodes) +
                                          " nodes, counted once for each place they are used in");
}

namespace {

ExecOptions optionsInside(const ExecOptions &options, const BodyPlan &plan, NodeId n) {
  ExecOptions inside = options;
  inside.schedule = {};
  inside.headRequests = plan.headRequests;
  inside.headMemory = {};
  inside.kernels = nullptr;
  inside.monitor = nullptr;
  inside.forms = {};
  if (!options.forms.empty()) inside.isTraining = options.forms[n.value].isTraining;
  return inside;
}

/// The most runs of body `b` that the options allow.
uint64_t maxStepsOf(const BodyFlow &flow, uint32_t b, const ExecOptions &options) {
  const bool isStep = flow.form == BodyFlow::Form::Loop && !flow.isDecision(b);
  return isStep && options.maxSteps ? *options.maxSteps : UINT64_MAX;
}

LLVM_ATTRIBUTE_NOINLINE PreparedBody runnerOf(InstructionList list, const BodyPlan &plan, const BodySite &site,
                                              BodyStep step, std::string place, const ExecOptions &options,
                                              const BodyFlow &flow) {
  PreparedBody made;
  made.ownedBytes = list.ownedBytes;
  ArenaPlaces places(list, *plan.plan, site.arena);
  made.runner = std::make_unique<ListRunner>(std::move(list), std::move(places), step, std::move(place),
                                             options.overrides ? options.overrides->bodies : nullptr,
                                             flow.isDecision(step.body), maxStepsOf(flow, step.body, options));
  return made;
}

}  // namespace

// Recursion is as deep as bodies are nested, so large objects are not on the stack.
Expected<PreparedBody> prepareBody(const Graph &graph, NodeId n, uint32_t b, const BodyPlan &plan,
                                   const ExecOptions &options, const BodySite &site) {
  const std::unique_ptr<ExecOptions> inside(new ExecOptions(optionsInside(options, plan, n)));
  const std::unique_ptr<Expected<InstructionList>> list(new Expected<InstructionList>(
      prepareInstructions(plan.graph, *plan.inference, plan.requests, *plan.plan, *inside, &site)));
  if (!*list) return list->takeError();
  return runnerOf(std::move(**list), plan, site, {n, b}, bodyStep(graph, n, b), options, *graph.kind(n).flow);
}

}  // namespace gradc
