// Programs of blocks: the cost, per operator of the program, of appendBackward and of reading its result as a graph.
#include "formats/blocks/backward/append_backward.h"
#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/blocks/program/block_attrs.h"
#include "ops/registry.h"
#include "tests/support/blocks/block_programs.h"

#include <benchmark/benchmark.h>

using namespace llvm;

namespace gradc {
namespace {

using testing::addOp;

class Program {
 public:
  explicit Program(Context &context) : context(context) { testing::addBlock(program, std::nullopt, {}); }

  void declare(uint32_t block, const std::string &name, SmallVector<int64_t, 4> shape,
               FluidType type = FluidType::Fp64) {
    program.addVariable(block, {program.intern(name), FluidType::LodTensor, type, std::move(shape), 0});
  }
  void parameter(const std::string &name, SmallVector<int64_t, 4> shape) {
    declare(0, name, std::move(shape));
    program.find(0, program.texts.find(name))->isParameter = true;
    program.parameters.push_back({program.texts.find(name), true});
  }
  /// A fully connected layer: three operators.
  std::string layer(uint32_t block, const std::string &x, size_t k) {
    const std::string number = std::to_string(k), w = "w" + number, b = "b" + number;
    parameter(w, {8, 8});
    parameter(b, {8});
    for (const char *name : {"m", "s", "y"}) declare(block, name + number, {4, 8});
    addOp(program, block, "matmul_v2", {{"X", {x}}, {"Y", {w}}}, {{"Out", {"m" + number}}});
    addOp(program, block, "elementwise_add", {{"X", {"m" + number}}, {"Y", {b}}}, {{"Out", {"s" + number}}});
    addOp(program, block, "tanh", {{"X", {"s" + number}}}, {{"Out", {"y" + number}}});
    return "y" + number;
  }
  void loss(const std::string &x) {
    declare(0, "loss", {});
    addOp(program, 0, "reduce_mean", {{"X", {x}}}, {{"Out", {"loss"}}}).attrs =
        context.attrs({{"reduce_all", boolAttrText(true)}});
  }
  /// A loop in `block` whose body `inner` overwrites `x`, while `go` holds.
  void loop(uint32_t block, uint32_t inner, ArrayRef<std::string> whole) {
    const std::string scopes = "scopes" + std::to_string(inner);
    program.addVariable(block, {program.intern(scopes), FluidType::StepScopes});
    std::vector<std::string> inputs(whole.begin(), whole.end());
    inputs.push_back("x");
    addOp(program, block, "while", {{"Condition", {"go"}}, {"X", inputs}}, {{"Out", {"x"}}, {"StepScopes", {scopes}}},
          inner);
  }

  Context &context;
  BlockProgram program;
};

BlockProgram mlp(Context &context, size_t numOps) {
  Program made(context);
  made.declare(0, "x", {4, 8});
  std::string x = "x";
  for (size_t k = 0; k < numOps / 3; ++k) x = made.layer(0, x, k);
  made.loss(x);
  return std::move(made.program);
}

/// The layers are the body of a loop in a loop.
BlockProgram nestedLoop(Context &context, size_t numOps) {
  Program made(context);
  made.declare(0, "x", {4, 8});
  made.declare(0, "go", {1}, FluidType::Bool);
  testing::addBlock(made.program, 0, {});
  testing::addBlock(made.program, 1, {});
  std::string x = "x";
  for (size_t k = 0; k < numOps / 3; ++k) x = made.layer(2, x, k);
  addOp(made.program, 2, "assign", {{"X", {x}}}, {{"Out", {"x"}}});
  std::vector<std::string> parameters;
  for (const BlockParameter &each : made.program.parameters) parameters.push_back(made.program.text(each.name).str());
  made.loop(1, 2, parameters);
  made.loop(0, 1, parameters);
  made.loss("x");
  return std::move(made.program);
}

/// A branch for each layer.
BlockProgram manyBlocks(Context &context, size_t numBlocks) {
  Program made(context);
  made.declare(0, "x", {4, 8});
  made.declare(0, "go", {1}, FluidType::Bool);
  std::string x = "x";
  for (size_t k = 0; k < numBlocks; ++k) {
    const std::string number = std::to_string(k), w = "w" + number, y = "y" + number, scope = "scope" + number;
    const uint32_t inner = testing::addBlock(made.program, 0, {});
    made.parameter(w, {8, 8});
    made.declare(0, y, {4, 8});
    made.declare(inner, "m" + number, {4, 8});
    addOp(made.program, inner, "matmul_v2", {{"X", {x}}, {"Y", {w}}}, {{"Out", {"m" + number}}});
    addOp(made.program, inner, "tanh", {{"X", {"m" + number}}}, {{"Out", {y}}});
    made.program.addVariable(0, {made.program.intern(scope), FluidType::StepScopes});
    addOp(made.program, 0, "conditional_block", {{"Cond", {"go"}}, {"Input", {x, w}}},
          {{"Out", {y}}, {"Scope", {scope}}}, inner);
    x = y;
  }
  made.loss(x);
  return std::move(made.program);
}

/// A state for each layer, flagged `stop_gradient`; each step computes it from the next layer's state.
BlockProgram flaggedStates(Context &context, size_t numStates) {
  Program made(context);
  made.declare(0, "go", {1}, FluidType::Bool);
  testing::addBlock(made.program, 0, {});
  made.parameter("w", {4, 8});
  std::vector<std::string> states;
  for (size_t k = 0; k < numStates; ++k) {
    states.push_back("x" + std::to_string(k));
    made.declare(0, states.back(), {4, 8});
    made.program.find(0, made.program.texts.find(states.back()))->stopsGradient = true;
    made.declare(1, "y" + std::to_string(k), {4, 8});
    addOp(made.program, 0, "tanh", {{"X", {"w"}}}, {{"Out", {states.back()}}});
  }
  for (size_t k = 0; k < numStates; ++k) {
    const std::string next = k + 1 < numStates ? states[k + 1] : "w", y = "y" + std::to_string(k);
    addOp(made.program, 1, "tanh", {{"X", {next}}}, {{"Out", {y}}});
    addOp(made.program, 1, "assign", {{"X", {y}}}, {{"Out", {states[k]}}});
  }
  made.program.addVariable(0, {made.program.intern("scopes"), FluidType::StepScopes});
  std::vector<std::string> inputs = states;
  inputs.push_back("w");
  addOp(made.program, 0, "while", {{"Condition", {"go"}}, {"X", inputs}}, {{"Out", states}, {"StepScopes", {"scopes"}}},
        1);
  made.loss("x0");
  return std::move(made.program);
}

using Maker = BlockProgram (*)(Context &, size_t);

FluidRequest lossRequest() {
  FluidRequest request;
  request.targets = {"loss"};
  return request;
}

void perOperator(benchmark::State &state) {
  state.counters["per operator"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void emission(benchmark::State &state, Maker make) {
  Context context;
  registerBuiltinOps(context.ops);
  const BlockProgram program = make(context, static_cast<size_t>(state.range(0)));
  std::optional<FluidResult> result;
  for (auto _ : state) {
    state.PauseTiming();
    result.reset();
    BlockProgram copy = program;
    state.ResumeTiming();
    result = cantFail(appendBackward(context, std::move(copy), lossRequest()));
    benchmark::DoNotOptimize(result->pairs.data());
  }
  perOperator(state);
}

void reading(benchmark::State &state, Maker make) {
  Context context;
  registerBuiltinOps(context.ops);
  const FluidResult result =
      cantFail(appendBackward(context, make(context, static_cast<size_t>(state.range(0))), lossRequest()));
  for (auto _ : state)
    benchmark::DoNotOptimize(cantFail(graphOfBlocks(context, result.program, BlockGraphOptions())).graph);
  perOperator(state);
}

BENCHMARK_CAPTURE(emission, mlp, mlp)
    ->Name("blocks/append_backward of an mlp")
    ->RangeMultiplier(10)
    ->Range(1000, 1'000'000);
BENCHMARK_CAPTURE(emission, loop, nestedLoop)
    ->Name("blocks/append_backward of a loop in a loop")
    ->RangeMultiplier(10)
    ->Range(1000, 100'000);
BENCHMARK_CAPTURE(emission, blocks, manyBlocks)
    ->Name("blocks/append_backward of many blocks")
    ->RangeMultiplier(10)
    ->Range(1000, 100'000);
BENCHMARK_CAPTURE(emission, flagged, flaggedStates)
    ->Name("blocks/append_backward of flagged states")
    ->RangeMultiplier(10)
    ->Range(1000, 100'000);
BENCHMARK_CAPTURE(reading, mlp, mlp)->Name("blocks/as a graph, mlp")->RangeMultiplier(10)->Range(1000, 10'000);
BENCHMARK_CAPTURE(reading, loop, nestedLoop)
    ->Name("blocks/as a graph, loop in a loop")
    ->RangeMultiplier(10)
    ->Range(1000, 10'000);

}  // namespace
}  // namespace gradc
