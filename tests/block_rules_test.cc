// Each operator type of Paddle's that has a gradient: what its gradient operator means as a graph is what our rules say, and what
// central differences say, for gradients and for gradients of gradients.
#include "tests/support/block_programs.h"
#include "tests/support/block_runs.h"
#include "tests/support/dice.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/block_attrs.h"
#include "formats/blocks/block_gradient.h"
#include "formats/blocks/gradient_forms.h"
#include "formats/blocks/ops/op_row.h"
#include "runtime/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// A program of one operator.
struct RuleSample {
  enum Kind { Parameter, Index, Flag };
  struct Operand {
    std::string slot;
    std::vector<int64_t> shape;
    Kind kind = Parameter;
  };

  std::string name;  // of the test
  std::string type;
  std::vector<Operand> inputs;                                  // several of one slot follow each other
  std::vector<Operand> outputs;                                 // Parameter: the loss reads it
  std::vector<std::pair<std::string, std::string>> attrs = {};  // as a file spells them
  bool isPositive = false;                                      // values are
};

using Operands = std::vector<RuleSample::Operand>;
using Attributes = std::vector<std::pair<std::string, std::string>>;

constexpr auto kIndex = RuleSample::Index;
constexpr auto kFlag = RuleSample::Flag;

std::string integer(int64_t value) { return intAttrText(AttrTag::Int, value); }
std::string number(double value) { return floatAttrText(AttrTag::Float, value); }
std::string integers(std::vector<int64_t> values) { return intsAttrText(AttrTag::Ints, values); }
std::string flag(bool value) { return boolAttrText(value); }
std::string string(StringRef value) { return stringAttrText(AttrTag::String, value); }

std::vector<RuleSample> makeSamples() {
  std::vector<RuleSample> samples;
  auto add = [&](std::string type, Operands inputs, Operands outputs, Attributes attrs = {}, bool isPositive = false) {
    size_t before = 0;
    for (const RuleSample &sample : samples) before += sample.type == type;
    const std::string name = before ? type + "_" + std::to_string(before) : type;
    samples.push_back({name, type, std::move(inputs), std::move(outputs), std::move(attrs), isPositive});
  };
  for (const char *type : {"abs", "cos", "exp", "relu", "sigmoid", "sin", "square", "tanh", "assign", "cosh", "sinh",
                           "tan", "softsign", "erf", "ceil", "floor", "sign", "rnn_memory_helper"})
    add(type, {{"X", {2, 3}}}, {{"Out", {2, 3}}});
  for (const char *type : {"log", "rsqrt", "sqrt", "reciprocal"})
    add(type, {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {}, true);
  add("leaky_relu", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"alpha", number(0.1)}});
  add("pow", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"factor", number(2.5)}}, true);
  add("log_softmax", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"axis", integer(-1)}});
  add("expand_v2", {{"X", {1, 3}}}, {{"Out", {2, 3}}}, {{"shape", integers({2, 3})}});
  add("clip", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"min", number(-0.5)}, {"max", number(0.5)}});
  for (bool isLast : {true, false})
    add("scale", {{"X", {2, 3}}}, {{"Out", {2, 3}}},
        {{"scale", number(1.5)}, {"bias", number(0.5)}, {"bias_after_scale", flag(isLast)}});
  add("cast", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"in_dtype", integer(6)}, {"out_dtype", integer(6)}});
  for (const char *type : {"elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div",
                           "elementwise_max", "elementwise_min", "elementwise_pow"}) {
    add(type, {{"X", {2, 3}}, {"Y", {2, 3}}}, {{"Out", {2, 3}}}, {{"axis", integer(-1)}}, true);
    add(type, {{"X", {2, 3, 2}}, {"Y", {3}}}, {{"Out", {2, 3, 2}}}, {{"axis", integer(1)}}, true);
  }
  add("where", {{"Condition", {2, 3}, kFlag}, {"X", {2, 3}}, {"Y", {2, 3}}}, {{"Out", {2, 3}}});
  add("sum", {{"X", {2, 3}}, {"X", {2, 3}}, {"X", {2, 3}}}, {{"Out", {2, 3}}});
  add("mean", {{"X", {2, 3}}}, {{"Out", {}}});
  add("squared_l2_norm", {{"X", {2, 3}}}, {{"Out", {1}}});
  for (const char *type : {"reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod"}) {
    add(type, {{"X", {2, 3}}}, {{"Out", {}}}, {{"reduce_all", flag(true)}});
    add(type, {{"X", {2, 3, 2}}}, {{"Out", {2, 1, 2}}}, {{"dim", integers({1})}, {"keep_dim", flag(true)}});
    add(type, {{"X", {2, 3}}}, {{"Out", {2}}}, {{"dim", integers({-1})}});
  }
  add("logsumexp", {{"X", {2, 3}}}, {{"Out", {2}}}, {{"axis", integers({-1})}});
  add("mul", {{"X", {2, 3}}, {"Y", {3, 2}}}, {{"Out", {2, 2}}});
  add("mul", {{"X", {2, 2, 3}}, {"Y", {3, 2}}}, {{"Out", {2, 2, 2}}}, {{"x_num_col_dims", integer(2)}});
  for (bool x : {false, true})
    for (bool y : {false, true})
      add("matmul_v2",
          {{"X", x ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2, 3}},
           {"Y", y ? std::vector<int64_t>{4, 3} : std::vector<int64_t>{3, 4}}},
          {{"Out", {2, 4}}}, {{"trans_x", flag(x)}, {"trans_y", flag(y)}});
  add("matmul_v2", {{"X", {2, 2, 3}}, {"Y", {2, 3, 2}}}, {{"Out", {2, 2, 2}}});
  const Attributes convolution = {{"strides", integers({1, 1})},
                                  {"paddings", integers({1, 1})},
                                  {"dilations", integers({1, 1})},
                                  {"groups", integer(1)}};
  add("conv2d", {{"Filter", {2, 1, 2, 2}}, {"Input", {1, 1, 3, 3}}}, {{"Output", {1, 2, 4, 4}}}, convolution);
  add("depthwise_conv2d", {{"Filter", {2, 1, 2, 2}}, {"Input", {1, 2, 3, 3}}}, {{"Output", {1, 2, 4, 4}}},
      {{"strides", integers({1, 1})},
       {"paddings", integers({1, 1})},
       {"dilations", integers({1, 1})},
       {"groups", integer(2)}});
  for (const char *kind : {"max", "avg"})
    add("pool2d", {{"X", {1, 1, 4, 4}}}, {{"Out", {1, 1, 2, 2}}},
        {{"pooling_type", string(kind)},
         {"ksize", integers({2, 2})},
         {"strides", integers({2, 2})},
         {"paddings", integers({0, 0})}});
  add("batch_norm",
      {{"Bias", {2}}, {"Mean", {2}, kIndex}, {"Scale", {2}}, {"Variance", {2}, kIndex}, {"X", {3, 2, 1, 2}}},
      {{"MeanOut", {2}, kIndex},
       {"SavedMean", {2}, kIndex},
       {"SavedVariance", {2}, kIndex},
       {"VarianceOut", {2}, kIndex},
       {"Y", {3, 2, 1, 2}}});
  add("layer_norm", {{"Bias", {3}}, {"Scale", {3}}, {"X", {2, 3}}},
      {{"Mean", {2}, kIndex}, {"Variance", {2}, kIndex}, {"Y", {2, 3}}}, {{"begin_norm_axis", integer(1)}});
  add("dropout", {{"X", {2, 3}}}, {{"Mask", {2, 3}, kIndex}, {"Out", {2, 3}}},
      {{"dropout_prob", number(0)}, {"dropout_implementation", string("upscale_in_train")}});
  add("softmax", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"axis", integer(-1)}});
  add("softmax_with_cross_entropy", {{"Label", {2, 1}, kIndex}, {"Logits", {2, 3}}},
      {{"Loss", {2, 1}}, {"Softmax", {2, 3}, kIndex}});
  add("lookup_table_v2", {{"Ids", {3}, kIndex}, {"W", {2, 3}}}, {{"Out", {3, 3}}});
  const RuleSample::Operand shape = {"XShape", {0, 2, 3}, kIndex};
  add("reshape2", {{"X", {2, 3}}}, {{"Out", {3, 2}}, shape}, {{"shape", integers({3, 2})}});
  add("transpose2", {{"X", {2, 3}}}, {{"Out", {3, 2}}, shape}, {{"axis", integers({1, 0})}});
  add("squeeze2", {{"X", {2, 1}}}, {{"Out", {2}}, {"XShape", {0, 2, 1}, kIndex}}, {{"axes", integers({1})}});
  add("unsqueeze2", {{"X", {2, 3}}}, {{"Out", {2, 1, 3}}, shape}, {{"axes", integers({1})}});
  add("flatten_contiguous_range", {{"X", {2, 3}}}, {{"Out", {6}}, shape},
      {{"start_axis", integer(0)}, {"stop_axis", integer(1)}});
  add("concat", {{"X", {2, 3}}, {"X", {2, 2}}}, {{"Out", {2, 5}}}, {{"axis", integer(1)}});
  add("split", {{"X", {2, 4}}}, {{"Out", {2, 2}}, {"Out", {2, 2}}}, {{"axis", integer(1)}, {"num", integer(2)}});
  add("split", {{"X", {2, 4}}}, {{"Out", {2, 1}}, {"Out", {2, 3}}},
      {{"axis", integer(1)}, {"sections", integers({1, 3})}});
  add("stack", {{"X", {2, 3}}, {"X", {2, 3}}}, {{"Y", {2, 2, 3}}}, {{"axis", integer(1)}});
  add("unstack", {{"X", {2, 3}}}, {{"Y", {3}}, {"Y", {3}}}, {{"axis", integer(0)}, {"num", integer(2)}});
  add("slice", {{"Input", {3, 3}}}, {{"Out", {2, 3}}},
      {{"axes", integers({0})}, {"starts", integers({1})}, {"ends", integers({3})}});
  add("slice", {{"Input", {3, 3}}}, {{"Out", {3}}},
      {{"axes", integers({0})}, {"starts", integers({1})}, {"ends", integers({2})}, {"decrease_axis", integers({0})}});
  add("strided_slice", {{"Input", {3, 3}}}, {{"Out", {2, 3}}},
      {{"axes", integers({0})}, {"starts", integers({0})}, {"ends", integers({3})}, {"strides", integers({2})}});
  add("gather", {{"Index", {3}, kIndex}, {"X", {2, 3}}}, {{"Out", {3, 3}}}, {{"axis", integer(0)}});
  add("scatter", {{"Ids", {1}, kIndex}, {"Updates", {1, 3}}, {"X", {2, 3}}}, {{"Out", {2, 3}}});
  add("top_k_v2", {{"X", {2, 3}}}, {{"Indices", {2, 2}, kIndex}, {"Out", {2, 2}}}, {{"k", integer(2)}});
  return samples;
}

BlockVariable &declare(BlockProgram &program, const std::string &name, const std::vector<int64_t> &shape,
                       FluidType type) {
  program.addVariable(
      0, {program.intern(name), FluidType::LodTensor, type, SmallVector<int64_t, 4>(shape.begin(), shape.end()), 0});
  return *program.find(0, program.texts.find(name));
}

void addTo(SlotNames &slots, const std::string &slot, const std::string &name) {
  if (slots.empty() || slots.back().first != slot) slots.push_back({slot, {}});
  slots.back().second.push_back(name);
}

bool isReal(const RuleSample &sample, const RuleSample::Operand &operand) {
  return operand.kind == RuleSample::Parameter || sample.type == "batch_norm";
}

const std::vector<RuleSample> &ruleSamples() {
  static const std::vector<RuleSample> samples = makeSamples();
  return samples;
}

/// The operator, each of its outputs times a variable, and the sum of all, `loss`, whose gradient toward the parameters the call
/// requests. Parameters are `p<k>`, float64.
BlockFile programOfSample(Context &context, const RuleSample &sample) {
  BlockFile file;
  BlockProgram &program = file.program;
  addBlock(program, std::nullopt, {});
  SlotNames inputs, outputs;
  std::vector<std::string> terms;
  for (const RuleSample::Operand &operand : sample.inputs) {
    const bool isParameter = operand.kind == RuleSample::Parameter;
    const std::string name = (isParameter ? "p" : "x") + std::to_string(program.blocks[0].variables.size());
    const FluidType type = operand.kind == kFlag     ? FluidType::Bool
                           : isReal(sample, operand) ? FluidType::Fp64
                                                     : FluidType::Int64;
    BlockVariable &variable = declare(program, name, operand.shape, type);
    variable.isParameter = isParameter;
    variable.stopsGradient = !isParameter;
    if (isParameter) program.parameters.push_back({program.intern(name), true});
    addTo(inputs, operand.slot, name);
  }
  struct Result {
    std::string name;
    std::vector<int64_t> shape;
  };
  std::vector<Result> results;
  for (const RuleSample::Operand &operand : sample.outputs) {
    const std::string name = "y" + std::to_string(program.blocks[0].variables.size());
    declare(program, name, operand.shape, FluidType::Fp64).stopsGradient = operand.kind != RuleSample::Parameter;
    if (operand.kind == RuleSample::Parameter) results.push_back({name, operand.shape});
    addTo(outputs, operand.slot, name);
  }
  SmallVector<AttrText, 8> attrs;
  for (const auto &[key, value] : sample.attrs) attrs.push_back({key, value});
  addOp(program, 0, sample.type, inputs, outputs).attrs = context.attrs(attrs);
  for (const auto &[name, shape] : results) {
    declare(program, "h" + name, shape, FluidType::Fp64).stopsGradient = true;
    declare(program, "m" + name, shape, FluidType::Fp64);
    declare(program, "s" + name, {}, FluidType::Fp64);
    addOp(program, 0, "elementwise_mul", {{"X", {name}}, {"Y", {"h" + name}}}, {{"Out", {"m" + name}}});
    addOp(program, 0, "reduce_sum", {{"X", {"m" + name}}}, {{"Out", {"s" + name}}}).attrs =
        context.attrs({{"reduce_all", boolAttrText(true)}});
    terms.push_back("s" + name);
  }
  declare(program, "loss", {}, FluidType::Fp64);
  addOp(program, 0, "sum", {{"X", terms}}, {{"Out", {"loss"}}});
  file.call.emplace();
  file.call->api = "append_backward";
  file.call->loss = "loss";
  return file;
}

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
      const double real = sample.isPositive ? dice.uniform(0.5, 1.5) : dice.uniform(-1, 1);
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

/// The largest difference between gradients and central differences of a sum.
template <typename Sum>
double centralDifference(const std::vector<std::string> &names, const std::vector<Array> &gradients, const Bound &bound,
                         Sum sum) {
  double worst = 0;
  constexpr double kStep = 1e-5;
  for (auto [name, gradient] : zip(names, gradients))
    for (int64_t i = 0; i < gradient.view().size(); ++i) {
      double values[2];
      for (int side : {0, 1}) {
        Bound moved = bound;
        moved.at(name).ref().template as<double>()[i] += side ? kStep : -kStep;
        values[side] = sum(moved);
      }
      const double expected = (values[1] - values[0]) / (2 * kStep), found = readElement(gradient.view(), i);
      worst = std::fmax(worst, std::abs(found - expected) / std::fmax(1, std::abs(expected)));
    }
  return worst;
}

std::string differences(const std::vector<Array> &ours, const std::vector<Array> &engine) {
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
  EXPECT_EQ(differences(run(context, emitted, bound), first), "");
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
  EXPECT_EQ(differences(run(context, gradientsOf(context, emitted), bound), values), "");
  auto projected = [&](const Bound &moved) {
    double sum = 0;
    for (auto [k, gradient] : enumerate(run(context, engine, moved)))
      sum += dot(gradient, moved.at("seed" + std::to_string(k)));
    return sum;
  };
  EXPECT_LT(centralDifference(engine.names, values, bound, projected), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Rows, BlockRules, ::testing::ValuesIn(ruleSamples()),
                         [](const auto &test) { return test.param.name; });

TEST(BlockRules, A_19_EachTypeWithAGradientHasASample) {
  for (const BlockOpRow *row : allBlockOps()) {
    const std::optional<StringRef> form = gradientForm(row->type);
    if (!form || form->empty() || *form == "none") continue;
    if (row->type == "increment") continue;       // its gradient operator counts back: no gradient is in it
    if (row->type.ends_with("_array")) continue;  // tests/block_array_test.cc
    EXPECT_TRUE(llvm::any_of(ruleSamples(), [&](const RuleSample &sample) { return sample.type == row->type; }))
        << row->type.str();
  }
}

}  // namespace
}  // namespace gradc
