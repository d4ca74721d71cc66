// The gradient of what an emitted gradient computes, through loops and branches: Paddle has no gradient of `while_grad`
// and `conditional_block_grad`, and an emitted program has none; as a graph it has.
#include "tests/support/blocks/array_programs.h"
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/blocks/draw_blocks.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/block_gradient.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<std::string> kParameters = {"p0", "p1", "p2"};

/// A graph with first gradients, and those among its values.
struct FirstGradients {
  Graph graph;
  std::vector<Value> values;  // by parameter that has one
  std::vector<std::string> parameters;
};

BlockGraphOptions fewSteps() {
  BlockGraphOptions options;
  options.maxIterations = 20;
  return options;
}

/// Of the forward program, by the gradient engine.
FirstGradients fromEngine(Context &context, const BlockProgram &program) {
  BlockCall call;
  call.api = "append_backward";
  call.loss = "loss";
  const BlockGradient asked = cantFail(gradientOfCall(context, program, call, fewSteps()));
  if (asked.request.wrt.empty()) return {asked.forward.graph, {}, {}};  // the program has no parameter
  GradientOptions none;
  none.unused = UnusedPolicy::None;
  const GradientResult made = cantFail(buildGradient(context, asked.forward.graph, asked.request, none));
  FirstGradients first{made.graph, {}, {}};
  for (auto [slot, name] : zip(made.wrt, asked.wrt))
    if (slot.status != SlotStatus::None) first.values.push_back(slot.value), first.parameters.push_back(name);
  return first;
}

/// Of the program with its gradient, as a graph.
FirstGradients fromProgram(Context &context, const FluidResult &emitted) {
  BlockGraphOptions options = fewSteps();
  FirstGradients first;
  for (const FluidPair &pair : emitted.pairs) {
    options.heads.push_back(emitted.program.text(pair.gradient).str());
    first.parameters.push_back(emitted.program.text(pair.variable).str());
  }
  const BlockGraph made = cantFail(graphOfBlocks(context, emitted.program, options));
  first.graph = made.graph;
  for (const std::string &name : options.heads) first.values.push_back(made.find(name)->last);
  return first;
}

Value variableNamed(const Graph &graph, StringRef name) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)) && graph.name(NodeId(n)) == name) return {NodeId(n), 0, 0};
  return Value();
}

/// The gradient of the sum of all first gradients with respect to the parameters; empty for those that it does not
/// depend on.
Expected<std::vector<std::vector<double>>> secondGradients(Context &context, const FirstGradients &first,
                                                           ArrayRef<NamedArray> bindings) {
  GradientRequest request;
  for (Value v : first.values) request.heads.push_back({v, std::nullopt, ""});
  std::vector<size_t> places;
  for (auto [i, name] : enumerate(kParameters))
    if (const Value x = variableNamed(first.graph, name); x.isValid()) {
      request.wrt.push_back({x});
      places.push_back(i);
    }
  GradientOptions zeros;
  zeros.unused = UnusedPolicy::Zeros;
  Expected<GradientResult> made = buildGradient(context, first.graph, request, zeros);
  if (!made) return made.takeError();
  std::vector<NamedArray> given;
  for (const NamedArray &binding : bindings)
    if (variableNamed(made->graph, binding.name).isValid()) given.push_back(binding);
  Expected<std::vector<Array>> heads = runHeads(context, made->graph, given);
  if (!heads) return heads.takeError();
  std::vector<std::vector<double>> gradients(kParameters.size());
  for (auto [place, head] : zip(places, ArrayRef(*heads).take_back(places.size()))) gradients[place] = doubles(head);
  return gradients;
}

double sumOfFirst(Context &context, const FirstGradients &first, ArrayRef<NamedArray> bindings) {
  std::vector<NamedArray> given;
  for (const NamedArray &binding : bindings)
    if (variableNamed(first.graph, binding.name).isValid()) given.push_back(binding);
  double sum = 0;
  const std::vector<Array> heads = cantFail(runHeads(context, first.graph, given));
  for (const Array &head : ArrayRef(heads).take_back(first.values.size()))
    for (double v : doubles(head)) sum += v;
  return sum;
}

/// Empty where the second gradients of both forms agree, and the first element of each with a central difference of the
/// first gradients of the emitted program.
std::string disagreement(uint64_t seed, const BlockDraw &draw) {
  TestContext context;
  const BlockProgram program = drawBlocks(context, seed, draw);
  const FirstGradients engine = fromEngine(context, program);
  const FluidResult emitted = cantFail(appendBackward(context, BlockProgram(program), lossOf()));
  if (emitted.pairs.empty()) return engine.values.empty() ? "" : "no pairs";
  const FirstGradients ours = fromProgram(context, emitted);
  std::vector<NamedArray> bindings = drawnBindings(engine.graph, seed);
  for (NamedArray &other : drawnBindings(ours.graph, seed + 1))  // the emitted program may read more
    if (none_of(bindings, [&](const NamedArray &known) { return known.name == other.name; })) bindings.push_back(other);
  Expected<std::vector<std::vector<double>>> expected = secondGradients(context, engine, bindings),
                                             found = secondGradients(context, ours, bindings);
  if (!expected) return "engine: " + describeError(expected.takeError());
  if (!found) return "program: " + describeError(found.takeError());
  for (size_t i = 0; i < kParameters.size(); ++i) {
    const std::vector<double> &a = (*expected)[i], &b = (*found)[i];
    for (size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
      const double x = a.empty() ? 0 : a[k], y = b.empty() ? 0 : b[k];
      if (!(std::abs(x - y) <= 1e-11 * std::max(1., std::abs(x))))
        return kParameters[i] + ": " + std::to_string(x) + " and " + std::to_string(y);
    }
    const auto given = find_if(bindings, [&](const NamedArray &binding) { return binding.name == kParameters[i]; });
    if (b.empty() || given == bindings.end()) continue;
    double &x = given->array.ref().as<double>()[0];
    const double middle = x, step = 1e-5;
    double sums[2];
    for (int side : {0, 1}) {
      x = middle + (side ? step : -step);
      sums[side] = sumOfFirst(context, ours, bindings);
    }
    x = middle;
    const double difference = (sums[1] - sums[0]) / (2 * step);
    if (!(std::abs(difference - b[0]) <= 1e-5 * std::max(1., std::abs(b[0]))))
      return kParameters[i] + ": " + std::to_string(b[0]) + ", central difference " + std::to_string(difference);
  }
  return "";
}

TEST(BlockSecondGradient, HO_09_ThroughLoopsAndBranchesOfEmittedPrograms) {
  for (uint64_t seed = 0; seed < 60; ++seed)
    EXPECT_EQ(disagreement(seed, {.numOps = 6, .depth = 2}), "") << "seed " << seed;
}

TEST(BlockSecondGradient, HO_09_ThroughStraightLines) {
  for (uint64_t seed = 0; seed < 30; ++seed)
    EXPECT_EQ(disagreement(seed, {.numOps = 12, .depth = 0, .inPlacePercent = 20}), "") << "seed " << seed;
}

/// Its names show that it has been differentiated. A call that began anew would read stale gradients.
TEST(BlockSecondGradient, NAME_07_AProgramWithItsGradientCountsAsCalled) {
  std::string found[3];
  for (uint32_t priorCalls : {0u, 1u, 2u}) {
    TestContext context;
    BlockProgram program = cantFail(appendBackward(context,
                                                   programOf("tanh X=p -> Out=a\nelementwise_mul X=a Y=p -> Out=b\n"
                                                             "reduce_sum X=b -> Out=loss"),
                                                   lossOf()))
                               .program;
    program.addVariable(0, {program.intern("again"), FluidType::LodTensor, FluidType::Fp64, {}, 0});
    addOp(program, 0, "reduce_sum", {{"X", {"p@GRAD"}}}, {{"Out", {"again"}}});
    FluidRequest request = lossOf("again");
    request.priorCalls = priorCalls;
    const FluidResult made = cantFail(appendBackward(context, std::move(program), request));
    found[priorCalls] = dump(made.program, 0) + pairsOf(made);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NE(found[1], found[2]);
  EXPECT_TRUE(StringRef(found[0]).ends_with("p=grad/grad/p@GRAD ")) << found[0];
}

/// Emitted programs refuse it by name, and no gradient is lost in silence.
TEST(BlockSecondGradient, HO_09_E_02_AnEmittedProgramRefusesIt) {
  struct Case {
    const char *type, *text;
  };
  const Case cases[] = {
      {"while_grad", "assign X=x -> Out=s\n"
                     "while:1 Condition=cond X=s,p,n -> Out=s,cond StepScopes=scopes\nreduce_sum X=s -> Out=loss\n"
                     "block 1 in 0\nmatmul_v2 X=s Y=p -> Out=a\nassign X=a -> Out=s\nless_than X=s Y=n -> Out=cond"},
      {"conditional_block_grad",
       "conditional_block:1 Cond=cond Input=p -> Out=y Scope=scope\nreduce_sum X=y -> Out=loss\n"
       "block 1 in 0\nsquare X=p -> Out=y"}};
  for (const auto &[type, text] : cases)
    for (uint32_t priorCalls : {0u, 1u}) {
      TestContext context;
      BlockProgram program = cantFail(appendBackward(context, programOf(text), lossOf())).program;
      program.addVariable(0, {program.intern("again"), FluidType::LodTensor, FluidType::Fp64, {}, 0});
      addOp(program, 0, "reduce_sum", {{"X", {"p@GRAD"}}}, {{"Out", {"again"}}});
      FluidRequest request = lossOf("again");
      request.priorCalls = priorCalls;
      const std::string error = describeWithNotes(appendBackward(context, std::move(program), request).takeError());
      EXPECT_TRUE(StringRef(error).starts_with("[not_differentiable] block 0, operator ")) << error;
      EXPECT_TRUE(StringRef(error).contains("(" + std::string(type) + "): '" + type +
                                            "' has no gradient operator and is between a loss and a parameter"))
          << error;
      EXPECT_TRUE(StringRef(error).ends_with("; the gradient as a graph goes through it")) << error;
    }
}

}  // namespace
}  // namespace gradc
