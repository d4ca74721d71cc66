// Each operator type of Paddle's that has a gradient: its gradient operator, read as a graph, agrees with gradc's rules
// and with central differences, for first and second gradients.
#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/blocks/rule_samples.h"
#include "tests/support/drawn/dice.h"
#include "tests/support/ops/differences.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/block_gradient.h"
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/tables/gradient_forms.h"
#include "runtime/arrays/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// Values of the variables that nothing writes.
std::map<std::string, Array> valuesOfSample(const BlockProgram &program, const RuleSample &sample) {
  Dice dice(7);
  std::map<std::string, Array> values;
  for (const BlockVariable &variable : program.blocks[0].variables) {
    const char first = program.text(variable.name).front();
    if (!StringRef("pxh").contains(first)) continue;
    Array array{dtypeOf(*variable.dtype), {variable.shape.begin(), variable.shape.end()}, {}};
    if (array.shape.empty()) array.shape.push_back(1);
    int64_t size = 1;
    for (int64_t dim : array.shape) size *= dim;
    array.bytes.resize(static_cast<size_t>(size) * dtypeBytes(array.dtype));
    for (int64_t i = 0; i < size; ++i) {
      const double real = sample.range == RuleSample::Positive   ? dice.uniform(0.5, 1.5)
                          : sample.range == RuleSample::Fraction ? dice.uniform(0.2, 0.8)
                          : sample.range == RuleSample::Large    ? dice.uniform(1.2, 2)
                                                                 : dice.uniform(-1, 1);
      const bool isCount = !isFloating(array.dtype);
      writeElement(array.ref(), i, isCount ? static_cast<double>(i % 2) : first == 'x' ? std::abs(real) : real);
    }
    values[program.text(variable.name).str()] = std::move(array);
  }
  return values;
}

/// Gradients of the loss as values of a graph that computes them, by parameter.
struct Gradients {
  Graph graph;
  std::vector<std::string> names;
  std::vector<Value> values;
};

Gradients engineGradients(Context &context, const BlockFile &file) {
  const BlockGradient asked = cantFail(gradientOfCall(context, file.program, *file.call, BlockGraphOptions()));
  GradientOptions options;
  options.unused = UnusedPolicy::Zeros;
  const GradientResult made = cantFail(buildGradient(context, asked.forward.graph, asked.request, options));
  Gradients gradients{made.graph, asked.wrt, {}};
  for (const GradientSlot &slot : made.wrt) gradients.values.push_back(slot.value);
  return gradients;
}

Gradients emittedGradients(Context &context, const BlockFile &file) {
  const FluidResult emitted = cantFail(appendBackward(context, BlockProgram(file.program), requestOf(*file.call)));
  BlockGraphOptions options;
  Gradients gradients;
  for (const FluidPair &pair : emitted.pairs) {
    gradients.names.push_back(emitted.program.text(pair.variable).str());
    options.heads.push_back(emitted.program.text(pair.gradient).str());
  }
  const BlockGraph graph = cantFail(graphOfBlocks(context, emitted.program, options));
  gradients.graph = graph.graph;
  gradients.values.assign(graph.graph.heads().begin(), graph.graph.heads().end());
  return gradients;
}

/// The gradient of Σ seed · gradient toward the same parameters; the seeds are variables `seed<k>`.
Gradients gradientsOf(Context &context, const Gradients &of) {
  GradientRequest request;
  for (auto [k, value] : enumerate(of.values))
    request.heads.push_back({value, std::nullopt, "seed" + std::to_string(k)});
  std::vector<std::string> names;
  for (const std::string &name : of.names)
    for (uint32_t n = 0; n < of.graph.numNodes(); ++n)
      if (of.graph.isVariable(NodeId(n)) && of.graph.name(NodeId(n)) == name) {
        request.wrt.push_back({Value{NodeId(n), 0, 0}});
        names.push_back(name);
      }
  GradientOptions options;
  options.unused = UnusedPolicy::Zeros;
  const GradientResult made = cantFail(buildGradient(context, of.graph, request, options));
  Gradients gradients{made.graph, names, {}};
  for (const GradientSlot &slot : made.wrt) gradients.values.push_back(slot.value);
  return gradients;
}

/// What the parameters, the head and the seeds are.
using Bound = std::map<std::string, Array>;

std::vector<Array> run(Context &context, const Gradients &gradients, const Bound &bound) {
  GraphBuilder builder(context, gradients.graph);
  const Graph graph = cantFail(std::move(builder).freeze(gradients.values, {})).graph;
  std::vector<NamedArray> bindings;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)))
      bindings.push_back({graph.name(NodeId(n)).str(), bound.at(graph.name(NodeId(n)).str())});
  return cantFail(runHeads(context, graph, std::move(bindings)));
}

double dot(const Array &a, const Array &b) {
  double sum = 0;
  for (int64_t i = 0; i < a.view().size(); ++i) sum += readElement(a.view(), i) * readElement(b.view(), i);
  return sum;
}

/// The largest distance of gradients from central differences of a sum.
template <typename Sum>
double centralDifference(const std::vector<std::string> &names, std::vector<Array> gradients, Bound bound, Sum sum) {
  double worst = 0;
  for (auto [name, gradient] : zip(names, gradients))
    worst = std::fmax(worst, relativeDistance(elements(gradient),
                                              differences(elements(bound.at(name)), 1e-5, [&] { return sum(bound); })));
  return worst;
}

std::string disagreements(const std::vector<Array> &ours, const std::vector<Array> &engine) {
  std::string text;
  for (size_t i = 0; i < engine.size(); ++i) {
    const double worst = largestDifference(ours[i].view(), engine[i].view());
    if (!(worst <= 1e-12)) text += std::to_string(i) + " differs by " + std::to_string(worst) + "; ";
  }
  return text;
}

class BlockRules : public ::testing::TestWithParam<RuleSample> {};

TEST_P(BlockRules, A_19_TranslationAndRuleAgreeInBothOrders) {
  const RuleSample &sample = GetParam();
  TestContext context;
  const BlockFile file = programOfSample(context, sample);
  Bound bound = valuesOfSample(file.program, sample);
  const Gradients engine = engineGradients(context, file), emitted = emittedGradients(context, file);
  ASSERT_EQ(emitted.names, engine.names);
  ASSERT_FALSE(engine.names.empty());
  const std::vector<Array> first = run(context, engine, bound);
  EXPECT_EQ(disagreements(run(context, emitted, bound), first), "");
  BlockGraphOptions options;
  options.heads = {"loss"};
  const Gradients loss{cantFail(graphOfBlocks(context, file.program, options)).graph, {}, {}};
  const Gradients forward{loss.graph, {}, {loss.graph.heads().begin(), loss.graph.heads().end()}};
  EXPECT_LT(
      centralDifference(engine.names, first, bound,
                        [&](const Bound &moved) { return readElement(run(context, forward, moved)[0].view(), 0); }),
      1e-7);
  for (size_t k = 0; k < first.size(); ++k) {
    Array seed = first[k];
    for (int64_t i = 0; i < seed.view().size(); ++i)
      seed.ref().as<double>()[i] = 0.5 + 0.25 * static_cast<double>((i * 7 + static_cast<int64_t>(k)) % 5);
    bound["seed" + std::to_string(k)] = seed;
  }
  const Gradients second = gradientsOf(context, engine);
  const std::vector<Array> values = run(context, second, bound);
  EXPECT_EQ(disagreements(run(context, gradientsOf(context, emitted), bound), values), "");
  auto projected = [&](const Bound &moved) {
    double sum = 0;
    for (auto [k, gradient] : enumerate(run(context, engine, moved)))
      sum += dot(gradient, moved.at("seed" + std::to_string(k)));
    return sum;
  };
  EXPECT_LT(centralDifference(engine.names, values, bound, projected), 1e-6);
}

/// Makes parameters of the constants of a sample, and returns their names.
std::vector<std::string> trackConstants(BlockProgram &program) {
  std::vector<std::string> names;
  for (BlockVariable &variable : program.blocks[0].variables) {
    const std::string name = program.text(variable.name).str();
    if (name[0] != 'x' || variable.dtype != FluidType::Fp64) continue;
    variable.stopsGradient = false;
    variable.isParameter = true;
    program.parameters.push_back({variable.name, true});
    names.push_back(name);
  }
  return names;
}

TEST_P(BlockRules, A_19_WhatPaddleLeavesOutIsNamed) {
  const RuleSample &sample = GetParam();
  TestContext context;
  BlockFile file = programOfSample(context, sample);
  const std::vector<std::string> constants = trackConstants(file.program);
  if (constants.empty() || sample.type == "batch_norm") GTEST_SKIP() << "no operand without a gradient";
  const Bound bound = valuesOfSample(file.program, sample);
  const Gradients engine = engineGradients(context, file);
  const std::vector<Array> values = run(context, engine, bound);
  BlockGraphOptions options;
  options.heads = {"loss"};
  const Graph loss = cantFail(graphOfBlocks(context, file.program, options)).graph;
  const Gradients forward{loss, {}, {loss.heads().begin(), loss.heads().end()}};
  auto sum = [&](const Bound &moved) { return readElement(run(context, forward, moved)[0].view(), 0); };
  EXPECT_LT(centralDifference(engine.names, values, bound, sum), 1e-7);
  const FluidResult emitted = cantFail(appendBackward(context, BlockProgram(file.program), requestOf(*file.call)));
  for (auto [name, value] : zip(engine.names, values)) {
    const bool isGiven =
        any_of(emitted.pairs, [&](const FluidPair &pair) { return emitted.program.text(pair.variable) == name; });
    const bool isNamed = any_of(emitted.lost, [&](const LostGradient &lost) { return lost.variable == name; });
    EXPECT_NE(isGiven, isNamed) << name;
    EXPECT_EQ(isGiven, !is_contained(constants, name) || sample.type == "einsum") << name;
    EXPECT_NE(dot(value, value), 0) << name;
  }
}

/// Declares a variable like another one.
void declareLike(BlockProgram &program, const std::string &name, TextId like) {
  BlockVariable variable = *program.find(0, like);
  variable.name = program.intern(name);
  variable.isParameter = false;
  variable.stopsGradient = true;
  ASSERT_TRUE(program.addVariable(0, std::move(variable)));
}

TEST_P(BlockRules, A_19_ASecondCallEmitsTheSecondGradient) {
  const RuleSample &sample = GetParam();
  const GradientForm form = parseGradientForm("", gradientForm(sample.type).value());
  const std::optional<StringRef> again = gradientForm(form.type);
  if (!again || again->empty() || *again == "none") GTEST_SKIP() << form.type.str() << " has no gradient operator";
  TestContext context;
  const BlockFile file = programOfSample(context, sample);
  Bound bound = valuesOfSample(file.program, sample);
  const Gradients engine = engineGradients(context, file);
  FluidResult first = cantFail(appendBackward(context, BlockProgram(file.program), requestOf(*file.call)));
  FluidRequest request;
  request.api = FluidRequest::Api::Gradients;
  request.priorCalls = 1;
  const std::vector<Array> values = run(context, engine, bound);
  for (auto [k, pair] : enumerate(first.pairs)) {
    const std::string seed = "seed" + std::to_string(k);
    declareLike(first.program, seed, pair.variable);
    request.targets.push_back(first.program.text(pair.gradient).str());
    request.targetGradients.push_back(seed);
    request.inputs.push_back(first.program.text(pair.variable).str());
    bound[seed] = values[k];
    for (int64_t i = 0; i < values[k].view().size(); ++i)
      bound[seed].ref().as<double>()[i] = 0.5 + 0.25 * static_cast<double>(i % 3);
  }
  ASSERT_EQ(request.inputs, engine.names);
  const FluidResult second = cantFail(appendBackward(context, std::move(first.program), request));
  const std::vector<Array> expected = run(context, gradientsOf(context, engine), bound);
  for (auto [k, pair] : enumerate(second.pairs)) {
    if (!pair.gradient.isValid()) {  // zeros
      EXPECT_EQ(dot(expected[k], expected[k]), 0) << request.inputs[k];
      continue;
    }
    BlockGraphOptions options;
    options.heads = {second.program.text(pair.gradient).str()};
    const BlockGraph graph = cantFail(graphOfBlocks(context, second.program, options));
    const Gradients made{graph.graph, {}, {graph.graph.heads().begin(), graph.graph.heads().end()}};
    EXPECT_LE(largestDifference(run(context, made, bound)[0].view(), expected[k].view()), 1e-12) << request.inputs[k];
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, BlockRules, ::testing::ValuesIn(ruleSamples()),
                         [](const auto &test) { return test.param.name; });

TEST(BlockRules, A_19_EachTypeWithAGradientHasASample) {
  for (const BlockOpRow *row : allBlockOps()) {
    const std::optional<StringRef> form = gradientForm(row->type);
    if (!form || form->empty() || *form == "none") continue;
    if (row->type == "masked_select") continue;  // refused: the shape of its result depends on values
    if (row->type == "increment") continue;      // its gradient operator counts back: no gradient is in it
    if (row->type == "rnn" || row->type == "warpctc") continue;  // tests/formats/blocks/paddle_values_test.cc
    if (row->type.contains("_array"))
      continue;  // tests/formats/blocks/block_array_test.cc, tests/formats/blocks/array_tensor_test.cc
    EXPECT_TRUE(llvm::any_of(ruleSamples(), [&](const RuleSample &sample) { return sample.type == row->type; }))
        << row->type.str();
  }
}

}  // namespace
}  // namespace gradc
