// One program on its way through the harness. Tested by tests/networks/fuzz_programs_test.cc
#include "tests/fuzz/programs/programs.h"

#include "tests/fuzz/grammar.h"
#include "tests/fuzz/trial.h"

#include "formats/blocks/backward/minimize.h"
#include "formats/blocks/backward/resolve_request.h"
#include "formats/blocks/graph/block_gradient.h"
#include "ir/rules/verify.h"
#include "passes/order/order_mutation.h"
#include "runtime/arrays/elements.h"
#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/block_runs.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc::fuzz {
namespace {

constexpr int64_t kMaxSteps = 6;

/// What the root writes last and can have a gradient; empty: nothing.
std::string lastFloating(const BlockProgram &program) {
  for (const BlockOp &op : reverse(program.blocks[0].ops))
    for (const BlockSlot &slot : op.outputs)
      for (TextId name : slot.variables) {
        const BlockVariable *variable = program.find(0, name);
        if (variable && variable->dtype && isFloating(dtypeOf(*variable->dtype))) return program.text(name).str();
      }
  return "";
}

/// A graph with the gradients that it has, by variable: positions of heads.
struct GradientForm {
  Graph graph;
  bool runs = false;  // fully inferred and not too large
  StringMap<size_t> heads;
};

class ProgramTrial {
 public:
  ProgramTrial(Trial &trial, BlockFile given) : trial(trial), file(std::move(given)) {
    blocks.maxIterations = kMaxSteps;
    blocks.holdsLost = true;
  }

  void run() {
    rereadsFile(file, "input");
    chooseCall();
    const bool isAsSaid = checkWhole(file.program, "program");
    if (call.api.empty()) return;
    const std::optional<GradientForm> engine = asGraph();
    const std::optional<GradientForm> emitted = asProgram(engine, isAsSaid);
    if (isAsSaid && engine && emitted && engine->runs && emitted->runs) compare(*engine, *emitted);
  }

 private:
  void rereadsFile(const BlockFile &given, StringRef stage) {
    const std::string once = testing::text(given);
    Expected<BlockFile> again = readBlocks(trial.ctx, once);
    if (!again) return trial.report(stage + ", read back: " + textOf(again.takeError()));
    trial.mustHold(verifyBlocks(again->program), (stage + ", verified").str());
    if (testing::text(*again) != once) trial.report(stage + ": not a fixed point of writing and reading");
  }

  /// As tools/gradc does without flags.
  void chooseCall() {
    if (file.call) call = *file.call;
    else if (const std::string loss = lastFloating(file.program); !loss.empty())
      call.api = "append_backward", call.loss = loss;
    if (call.currentBlock == 0 && call.lossBlock.value_or(0) == 0)
      call.priorCalls = std::max<int64_t>(call.priorCalls, callsOn(file.program));
  }

  static bool isKnown(const Inference &inference) {
    return inference.numUnknownShapes == 0 && inference.numUnknownDTypes == 0;
  }

  /// Everything that is done with a graph. None: refused.
  std::optional<Inference> checkMade(const Graph &graph, StringRef stage, bool mustBeKnown) {
    if (Error error = verifyGraph(graph, 4)) {
      trial.report(stage + ", verified: " + textOf(std::move(error)));
      return std::nullopt;
    }
    Expected<OrderedGraph> ordered = orderMutations(trial.ctx, graph, OverwrittenPolicy::Save);
    if (!ordered) {
      trial.isFine(ordered.takeError(), (stage + ", order of mutations").str());
      return std::nullopt;
    }
    std::optional<Inference> inference = trial.inferred(ordered->graph, stage, mustBeKnown);
    if (!inference) return std::nullopt;
    trial.checkGraph(ordered->graph, *inference, stage);
    if (isKnown(*inference)) {
      trial.countNodes(ordered->graph, Reached::Inferred);
      if (trial.level == Level::Run) trial.checkRun(ordered->graph, *inference, stage);
    }
    return inference;
  }

  /// A branch's result needs a declared shape where it has no value before, as those of copies have none.
  static bool hasUnknownSizes(const BlockProgram &program) {
    return any_of(program.blocks, [](const Block &block) {
      return any_of(block.variables, [](const BlockVariable &variable) {
        return any_of(variable.shape, [](int64_t size) { return size < 0; });
      });
    });
  }

  /// Everything that the root writes. Whether it is fully inferred, and as declared.
  bool checkWhole(const BlockProgram &program, StringRef stage, bool mustBeKnown = false) {
    BlockGraphOptions all;
    all.maxIterations = kMaxSteps;
    Expected<BlockGraph> made = graphOfBlocks(trial.ctx, program, all);
    if (!made) {
      if (mustBeKnown && !hasUnknownSizes(program))
        trial.report(stage + " cannot be taken as a graph: " + textOf(made.takeError()));
      else trial.isFine(made.takeError(), (stage + " as graph").str());
      return false;
    }
    const std::optional<Inference> inference = checkMade(made->graph, stage, mustBeKnown);
    SmallVector<bool, 64> isRead(program.blocks[0].ops.size());
    for (uint32_t op : made->origins.ops[0])
      if (op < isRead.size()) isRead[op] = true;
    isWhole = !is_contained(isRead, false);
    return inference && isKnown(*inference) && isAsDeclared(program, *made, *inference);
  }

  /// Whether the root's variables have the shapes and types that it declares, on which its gradient relies.
  static bool isAsDeclared(const BlockProgram &program, const BlockGraph &made, const Inference &inference) {
    for (const Block &block : program.blocks)
      for (const BlockVariable &variable : block.variables)
        if (variable.dtype && variable.kind != FluidType::LodTensor && variable.kind != FluidType::LodTensorArray)
          return false;
    return all_of(made.names, [&](const BlockName &name) {
      const BlockVariable *variable = program.find(0, program.texts.find(name.name));
      return !variable || all_of(std::array{name.first, name.last}, [&](Value value) {
        if (!value.isValid() || variable->kind == FluidType::LodTensorArray) return true;
        if (!variable->dtype) return false;
        const EntryId entry = made.graph.entry(value);
        SmallVector<int64_t, 4> declared = variable->shape;
        if (declared.empty()) declared.push_back(1);
        const Dims dims = inference.shapeOf(entry).dims();
        if (inference.dtype[entry] != dtypeOf(*variable->dtype) || dims.size() != declared.size()) return false;
        return all_of(zip(dims, declared),
                      [](const auto &pair) { return std::get<1>(pair) < 0 || std::get<0>(pair) == std::get<1>(pair); });
      });
    });
  }

  /// Whether the root reads a name before it writes it: it has two values, even if the graph needs one.
  bool isReplaced(StringRef name) const {
    const TextId id = file.program.texts.find(name);
    bool isRead = false, isWritten = false;
    for (const BlockOp &op : file.program.blocks[0].ops) {
      if (!isWritten) isRead |= anyVariable(op.inputs, [&](TextId other) { return other == id; });
      isWritten |= anyVariable(op.outputs, [&](TextId other) { return other == id; });
    }
    return isRead && isWritten;
  }

  std::optional<GradientForm> asGraph() {
    BlockCall plain = call;
    plain.errorClips.clear();
    Expected<BlockGradient> asked = gradientOfCall(trial.ctx, file.program, plain, blocks);
    if (!asked) return trial.isFine(asked.takeError(), "call as graph"), std::nullopt;
    const Graph &forward = asked->forward.graph;
    trial.mustHold(verifyGraph(forward, 4), "forward graph, verified");
    std::optional<Inference> inference = trial.inferred(forward, "forward graph", false);
    if (!inference) return std::nullopt;
    GradientOptions options;
    options.unused = UnusedPolicy::Zeros;
    options.inference = &*inference;
    Expected<GradientResult> result = buildGradient(trial.ctx, forward, asked->request, options);
    if (!result) return trial.isFine(result.takeError(), "gradient as graph"), std::nullopt;
    trial.mustHold(checkMutationOrder(result->graph), "gradient as graph, order of mutations");
    isForwardKnown = isKnown(*inference);
    const bool isSeeded = any_of(asked->request.heads, [](const GradientHead &head) { return head.seed.has_value(); });
    const std::optional<Inference> shapes =
        checkMade(result->graph, "gradient as graph", isForwardKnown && !isSeeded && !takesShapesFromReaders(forward));
    if (!shapes) return std::nullopt;
    if (isKnown(*shapes)) trial.countDifferentiated(forward, asked->request, options);
    GradientForm form{result->graph, trial.isSmall(*shapes), {}};
    const ArrayRef<Value> heads = result->graph.heads();
    for (const auto &[name, slot] : zip(asked->wrt, result->wrt)) {
      const auto found = llvm::find(heads.drop_front(forward.heads().size()), slot.value);
      // Of a name with several values, the graph takes the last one, and a program may take that before a loop, be it
      // zeros.
      const BlockName *of = asked->forward.find(name);
      const bool isOne =
          of && of->first == of->last && forward.opName(of->first.node) != "_while_loop" && !isReplaced(name);
      if (found != heads.end() && slot.status == SlotStatus::Grad && isOne)
        form.heads[name] = static_cast<size_t>(found - heads.begin());
    }
    return form;
  }

  FluidRequest request() const {
    FluidRequest request = testing::requestOf(call);
    request.block = static_cast<uint32_t>(call.lossBlock.value_or(call.currentBlock));
    for (const auto &[variable, bounds] : call.errorClips) {
      ErrorClip &clip = request.errorClips.emplace_back(ErrorClip{variable, 0, 0});
      to_float(bounds[0], clip.min);
      to_float(bounds[1], clip.max);
    }
    return request;
  }

  Expected<FluidResult> emit(BlockProgram program) {
    if (call.api != "minimize") return appendBackward(trial.ctx, std::move(program), request());
    FluidOptimizer optimizer;
    if (call.optimizer) optimizer.name = *call.optimizer;
    return minimize(trial.ctx, std::move(program), request(), optimizer);
  }

  std::optional<GradientForm> asProgram(const std::optional<GradientForm> &engine, bool isAsSaid) {
    Expected<FluidResult> made = emit(BlockProgram(file.program));
    if (!made) return trial.isFine(made.takeError(), "append_backward"), std::nullopt;
    trial.mustHold(verifyBlocks(made->program), "emitted, verified");
    BlockFile emitted{std::move(made->program), call, BlockResult(), file.others, {}};
    BlockGraphOptions options = blocks;
    options.heads = testing::targetsOf(call);
    const size_t numTargets = options.heads.size();
    std::vector<std::pair<std::string, std::string>> wanted;  // variable and gradient
    for (const FluidPair &pair : made->pairs) {
      BlockResult::Row &row = emitted.result->rows.emplace_back();
      const std::string variable = emitted.program.text(pair.variable).str();
      if (call.api != "gradients") row.parameter = variable;
      if (!pair.gradient.isValid()) continue;
      row.gradient = emitted.program.text(pair.gradient).str();
      wanted.push_back({variable, *row.gradient});
      if (!is_contained(options.heads, *row.gradient)) options.heads.push_back(*row.gradient);
    }
    options.numSeeds = static_cast<uint32_t>(options.heads.size() - numTargets);
    rereadsFile(emitted, "emitted");
    if (call.currentBlock != 0 || call.lossBlock.value_or(0) != 0) return std::nullopt;
    checkWhole(emitted.program, "emitted program", isAsSaid && isWhole && engine && engine->runs);
    if (trial.dice.chance(15)) differentiateAgain(emitted.program);
    Expected<BlockGraph> graph = graphOfBlocks(trial.ctx, emitted.program, options);
    if (!graph) {
      if (engine && isAsSaid && !hasUnknownSizes(emitted.program))
        trial.report("emitted program cannot be taken as a graph: " + textOf(graph.takeError()));
      else trial.isFine(graph.takeError(), "emitted program as graph");
      return std::nullopt;
    }
    const std::optional<Inference> shapes =
        checkMade(graph->graph, "emitted gradients", isAsSaid && engine && engine->runs);
    if (!shapes) return std::nullopt;
    GradientForm form{graph->graph, trial.isSmall(*shapes), {}};
    for (const auto &[variable, gradient] : wanted)
      if (const auto found = llvm::find(graph->headNames, gradient); found != graph->headNames.end())
        form.heads[variable] = static_cast<size_t>(found - graph->headNames.begin());
    return form;
  }

  void differentiateAgain(const BlockProgram &program) {
    const int64_t prior = call.priorCalls++;
    Expected<FluidResult> made = emit(BlockProgram(program));
    call.priorCalls = prior;
    if (!made) return void(trial.isFine(made.takeError(), "append_backward again"));
    trial.mustHold(verifyBlocks(made->program), "emitted again, verified");
    rereadsFile(BlockFile{std::move(made->program)}, "emitted again");
  }

  /// The same inputs for both. Nothing where the graph does not run.
  std::optional<Session> runForm(const GradientForm &form, std::vector<NamedArray> inputs, SessionOptions options,
                                 std::vector<NamedArray> *used) {
    Expected<Session> session = Session::create(trial.ctx, form.graph, std::move(inputs), options);
    if (!session) return trial.isFine(session.takeError(), "gradients, run"), std::nullopt;
    for (uint32_t n = 0; used && n < form.graph.numNodes(); ++n) {
      if (!form.graph.isVariable(NodeId(n))) continue;
      const TensorRef tensor = session->variable(NodeId(n));
      used->push_back({form.graph.name(NodeId(n)).str(),
                       {tensor.dtype, tensor.shape.vec(), {tensor.as<char>(), tensor.as<char>() + tensor.bytes()}}});
    }
    if (!trial.isFine(session->run(1), "gradients, run")) return std::nullopt;
    return std::move(*session);
  }

  void compare(const GradientForm &engine, const GradientForm &emitted) {
    if (trial.level != Level::Run || !call.errorClips.empty()) return;
    if (drawsNumbers(engine.graph) || drawsNumbers(emitted.graph)) return;
    SessionOptions options;
    options.initSeed = 1 + trial.dice.below(4);
    options.infer.floatAs = DType::Float64;
    options.exec.isTraining = trial.isUsual || trial.dice.chance(60);
    options.exec.backend = Backend::Reference;
    std::vector<NamedArray> used;
    std::optional<Session> ours = runForm(engine, {}, options, &used);
    if (!ours) return;
    StringMap<bool> known;
    for (uint32_t n = 0; n < emitted.graph.numNodes(); ++n)
      if (emitted.graph.isVariable(NodeId(n))) known[emitted.graph.name(NodeId(n))] = true;
    erase_if(used, [&](const NamedArray &array) { return !known.contains(array.name); });
    std::optional<Session> theirs = runForm(emitted, std::move(used), options, nullptr);
    if (!theirs) return;
    for (const auto &head : engine.heads) {
      const auto found = emitted.heads.find(head.first());
      const TensorRef a = ours->head(head.second);
      if (found == emitted.heads.end()) {
        if (size(a) && !isZero(a))
          trial.report("the program has no gradient of '" + head.first() + "', the graph has one");
        continue;
      }
      const std::string difference = differenceOf(a, theirs->head(found->second));
      if (!difference.empty())
        trial.report("the gradient of '" + head.first() + "' in the graph and in the program: " + difference);
    }
  }

  static size_t size(const TensorRef &tensor) { return tensor.data ? static_cast<size_t>(tensor.size()) : 0; }
  static bool isZero(const TensorRef &tensor) {
    for (int64_t i = 0; i < tensor.size(); ++i)
      if (readElement(tensor, i) != 0) return false;
    return true;
  }

  Trial &trial;
  BlockFile file;
  BlockCall call;
  BlockGraphOptions blocks;
  bool isForwardKnown = false;
  bool isWhole = false;  // each operator of the root is in the graph of all that the root writes
};

}  // namespace

std::string exerciseProgram(const OpRegistry &ops, StringRef text, const ExerciseOptions &options, Tally &tally) {
  Context ctx;
  ctx.ops = ops;
  Trial trial{ctx, options.level, options.maxRunBytes, tally};
  Expected<BlockFile> file = readBlocks(ctx, text);
  if (!file) {
    trial.isFine(file.takeError(), "read");
    return trial.finding;
  }
  uint64_t choice = 0;
  if (const auto found = file->others.find(kChoiceKey.str()); found != file->others.end())
    StringRef(found->second).getAsInteger(10, choice);
  trial.seed(choice);
  trial.wantsDiff = true;
  ProgramTrial(trial, std::move(*file)).run();
  return trial.finding;
}

}  // namespace gradc::fuzz
