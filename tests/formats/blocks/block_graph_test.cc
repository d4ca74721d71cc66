// What programs of blocks mean: names as values, loops and branches as bodies, rows, and what is refused.
#include "tests/support/blocks/block_programs.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/block_gradient.h"
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/json/reader.h"
#include "ir/rules/verify.h"
#include "runtime/arrays/elements.h"
#include "runtime/session/session.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

struct BlockGraphTest : ::testing::Test {

  BlockOp &add(uint32_t block, StringRef type, const SlotNames &inputs, const SlotNames &outputs,
               std::vector<std::pair<std::string, std::string>> attrs = {},
               std::optional<uint32_t> subBlock = std::nullopt) {
    BlockOp &op = addOp(program, block, type, inputs, outputs, subBlock);
    SmallVector<AttrText, 4> pairs;
    for (const auto &[key, value] : attrs) pairs.push_back({key, value});
    op.attrs = context.attrs(pairs);
    return op;
  }
  void constant(uint32_t block, const std::string &name, double value) {
    add(block, "fill_constant", {}, {{"Out", {name}}},
        {{"dtype", intAttrText(AttrTag::Int, 6)},
         {"shape", intsAttrText(AttrTag::Longs, {1})},
         {"value", floatAttrText(AttrTag::Float, value)}});
  }
  void declare(uint32_t block, const std::string &name, FluidType type, bool isData = false) {
    BlockVariable variable{program.intern(name)};
    variable.dtype = type;
    variable.shape = {1};
    variable.isData = isData;
    ASSERT_TRUE(program.addVariable(block, std::move(variable)));
  }
  /// Values of the heads; every variable is one number.
  std::vector<double> run(const Graph &graph, const std::map<std::string, double> &given) {
    std::vector<NamedArray> bindings;
    for (const auto &[name, value] : given) {
      gradc::Array array{DType::Float64, {1}, std::vector<char>(sizeof value)};
      *array.ref().as<double>() = value;
      bindings.push_back({name, std::move(array)});
    }
    Expected<Session> session = Session::create(context, graph, std::move(bindings), SessionOptions());
    if (!session) return ADD_FAILURE() << describeError(session.takeError()), std::vector<double>();
    cantFail(session->run(0));
    std::vector<double> values;
    for (size_t i = 0; i < graph.heads().size(); ++i) values.push_back(readElement(session->head(i), 0));
    return values;
  }
  Graph graph(std::vector<std::string> heads) {
    BlockGraphOptions options;
    options.heads = std::move(heads);
    return cantFail(graphOfBlocks(context, program, options)).graph;
  }
  std::string error() { return describeWithNotes(graphOfBlocks(context, program, BlockGraphOptions()).takeError()); }
  /// Gradients of `target`, then what the graph computes.
  std::vector<double> gradients(const std::string &target, std::vector<std::string> wrt,
                                const std::map<std::string, double> &given, std::vector<std::string> noGrad = {}) {
    BlockCall call;
    call.api = "gradients";
    call.targets = {target};
    call.inputs = std::move(wrt);
    call.noGradSet = std::move(noGrad);
    BlockGraphOptions options;
    options.maxIterations = 10;
    const BlockGradient asked = cantFail(gradientOfCall(context, program, call, options));
    GradientOptions zeros;
    zeros.unused = UnusedPolicy::Zeros;
    return run(cantFail(buildGradient(context, asked.forward.graph, asked.request, zeros)).graph, given);
  }

  /// while (i < n) { x = x · w; i = i + 1 }, over names of the root.
  void addLoop() {
    addBlock(program, std::nullopt, {});
    for (const char *name : {"x", "w", "n"}) declare(0, name, FluidType::Fp64, true);
    for (const char *name : {"i", "y"}) declare(0, name, FluidType::Fp64);
    declare(0, "go", FluidType::Bool);
    addBlock(program, 0, {});
    declare(1, "next", FluidType::Fp64);
    constant(0, "i", 0);
    add(0, "assign", {{"X", {"x"}}}, {{"Out", {"y"}}});
    add(0, "less_than", {{"X", {"i"}}, {"Y", {"n"}}}, {{"Out", {"go"}}});
    add(1, "elementwise_mul", {{"X", {"y"}}, {"Y", {"w"}}}, {{"Out", {"next"}}});
    add(1, "assign", {{"X", {"next"}}}, {{"Out", {"y"}}});
    add(1, "increment", {{"X", {"i"}}}, {{"Out", {"i"}}}, {{"step", floatAttrText(AttrTag::Float, 1)}});
    add(1, "less_than", {{"X", {"i"}}, {"Y", {"n"}}}, {{"Out", {"go"}}});
    add(0, "while", {{"Condition", {"go"}}, {"X", {"y", "w", "n", "i"}}}, {{"Out", {"y", "i", "go"}}}, {}, 1);
  }

  TestContext context;
  BlockProgram program;
};

TEST_F(BlockGraphTest, IR_12_EveryWriteIsAValueOfItsOwn) {
  // a is written three times, once in place; each reader sees the write before it.
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "a", "b", "c"}) declare(0, name, FluidType::Fp64, name[0] == 'x');
  add(0, "square", {{"X", {"x"}}}, {{"Out", {"a"}}});
  add(0, "elementwise_mul", {{"X", {"a"}}, {"Y", {"x"}}}, {{"Out", {"b"}}});
  add(0, "elementwise_add", {{"X", {"a"}}, {"Y", {"b"}}}, {{"Out", {"a"}}});
  add(0, "elementwise_mul", {{"X", {"a"}}, {"Y", {"b"}}}, {{"Out", {"c"}}});
  add(0, "scale", {{"X", {"x"}}}, {{"Out", {"a"}}}, {{"scale", floatAttrText(AttrTag::Float, -1)}});
  EXPECT_EQ(run(graph({}), {{"x", 2}}), (std::vector<double>{-2, 8, 96})) << "a holds its last write";
  // And the gradient goes to the write that was read: c = (x² + x³)·x³.
  EXPECT_EQ(gradients("c", {"x"}, {{"x", 2}}), (std::vector<double>{96, 5 * 16 + 6 * 32}));
}

TEST_F(BlockGraphTest, CF_07_AWhileIsALoopOverWhatItsBlockWritesOutside) {
  addLoop();
  const Graph made = graph({"y"});
  EXPECT_EQ(describeError(verifyGraph(made, 10)), "success");
  EXPECT_EQ(run(made, {{"x", 2}, {"w", 3}, {"n", 3}}), std::vector<double>{54});
  EXPECT_EQ(gradients("y", {"x", "w"}, {{"x", 2}, {"w", 3}, {"n", 3}}), (std::vector<double>{54, 27, 54}));
  EXPECT_EQ(gradients("y", {"x", "w"}, {{"x", 2}, {"w", 3}, {"n", 0}}), (std::vector<double>{2, 1, 0})) << "no step";
  EXPECT_EQ(gradients("y", {"x", "w"}, {{"x", 2}, {"w", 3}, {"n", 3}}, {"w"}), (std::vector<double>{54, 27}));
  EXPECT_EQ(gradients("y", {"x", "w"}, {{"x", 2}, {"w", 3}, {"n", 3}}, {"next"}), (std::vector<double>{54, 0, 0}))
      << "a name of the inner block";
}

TEST_F(BlockGraphTest, CF_22_LoopsOfProgramsRoundTripAsGraphs) {
  addLoop();
  const std::string text = written(graph({"y"}));
  EXPECT_EQ(written(cantFail(readJson(context, text, ReadOptions())).graph), text);
  EXPECT_NE(text.find("subgraphs"), std::string::npos);
}

TEST_F(BlockGraphTest, CF_08_AStateThatTheBodyOnlyWrites) {
  addLoop();
  declare(0, "last", FluidType::Fp64);
  declare(1, "dead", FluidType::Fp64);
  add(1, "square", {{"X", {"y"}}}, {{"Out", {"last"}}});
  add(1, "exp", {{"X", {"last"}}}, {{"Out", {"dead"}}});
  EXPECT_EQ(gradients("last", {"x", "w"}, {{"x", 2}, {"w", 3}, {"n", 2}}),
            (std::vector<double>{18 * 18, 2 * 18 * 9, 2 * 18 * 12}));
  EXPECT_EQ(run(graph({"last"}), {{"x", 2}, {"w", 3}, {"n", 0}}), std::vector<double>{0}) << "never written: zeros";
}

TEST_F(BlockGraphTest, CF_08_AStateThatTheBodyReadsForNothing) {
  addLoop();
  declare(0, "last", FluidType::Fp64, true);
  declare(1, "dead", FluidType::Fp64);
  add(1, "exp", {{"X", {"last"}}}, {{"Out", {"dead"}}});
  add(1, "square", {{"X", {"y"}}}, {{"Out", {"last"}}});
  EXPECT_EQ(gradients("last", {"x", "w"}, {{"x", 2}, {"w", 3}, {"n", 2}, {"last", 5}}),
            (std::vector<double>{18 * 18, 2 * 18 * 9, 2 * 18 * 12}));
}

TEST_F(BlockGraphTest, CF_09_AConditionalBlockLeavesWhatItDoesNotRun) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "p"}) declare(0, name, FluidType::Fp64, true);
  for (const char *name : {"y", "z"}) declare(0, name, FluidType::Fp64);
  declare(0, "taken", FluidType::Bool);
  declare(0, "mask", FluidType::Int32);
  addBlock(program, 0, {});
  for (const auto &[name, dtype] : {std::pair("taken", 0), {"mask", 2}})
    add(0, "cast", {{"X", {"p"}}}, {{"Out", {name}}}, {{"out_dtype", intAttrText(AttrTag::Int, dtype)}});
  add(0, "scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {{"scale", floatAttrText(AttrTag::Float, 3)}});
  add(1, "square", {{"X", {"x"}}}, {{"Out", {"y"}}});
  add(0, "conditional_block", {{"Cond", {"taken"}}, {"Input", {"x"}}}, {{"Out", {"y"}}}, {}, 1);
  EXPECT_EQ(gradients("y", {"x"}, {{"x", 5}, {"p", 1}}), (std::vector<double>{25, 10}));
  EXPECT_EQ(gradients("y", {"x"}, {{"x", 5}, {"p", 0}}), (std::vector<double>{15, 3}));
  add(0, "select_input", {{"Mask", {"mask"}}, {"X", {"x", "y"}}}, {{"Out", {"z"}}});
  EXPECT_EQ(gradients("z", {"x"}, {{"x", 5}, {"p", 1}}), (std::vector<double>{25, 10}));
  EXPECT_EQ(gradients("z", {"x"}, {{"x", 5}, {"p", 0}}), (std::vector<double>{5, 1}));
}

TEST_F(BlockGraphTest, NG_01_StopGradientFlagsCut) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "a", "b"}) declare(0, name, FluidType::Fp64, name[0] == 'x');
  program.find(0, program.intern("a"))->stopsGradient = true;
  add(0, "square", {{"X", {"x"}}}, {{"Out", {"a"}}});
  add(0, "elementwise_mul", {{"X", {"a"}}, {"Y", {"x"}}}, {{"Out", {"b"}}});
  EXPECT_EQ(gradients("b", {"x"}, {{"x", 2}}), (std::vector<double>{8, 4}));
  EXPECT_EQ(gradients("a", {"x"}, {{"x", 2}}), (std::vector<double>{4, 4})) << "a target's own flag does not count";
}

TEST_F(BlockGraphTest, E_32_AnUnknownTypeIsKeptAndWhoNeedsItSaysSo) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "a"}) declare(0, name, FluidType::Fp64, name[0] == 'x');
  add(0, "my_op", {{"X", {"x"}}}, {{"Out", {"a"}}});
  EXPECT_EQ(dump(graph({})), "a = my_op(x)\nheads a\n");
  const Graph made = graph({});
  GradientRequest request = wrt(made, {"x"});
  EXPECT_EQ(describeError(buildGradient(context, made, request, GradientOptions())),
            "[unknown_op] the gradient pass cannot handle node 'a': the operator 'my_op' is unknown");
}

TEST_F(BlockGraphTest, E_48_MistakesNameBlockOperatorSlotAndCallSite) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "a"}) declare(0, name, FluidType::Fp64, name[0] == 'x');
  BlockOp &op = add(0, "elementwise_add", {{"X", {"x"}}}, {{"Out", {"a"}}});
  op.callstack = program.intern(R"json(["  File \"train.py\", line 12, in main","    y = add(x)"])json");
  EXPECT_EQ(error(), "[bad_entry] block 0, operator 0 (elementwise_add): slot 'Y' has no operand 0; created at File "
                     "\"train.py\", line 12, in main: y = add(x)");
  program.blocks[0].ops.clear();
  add(0, "scale", {{"X", {"x"}}}, {{"Out", {"a"}}}, {{"scale", stringAttrText(AttrTag::String, "two")}});
  EXPECT_EQ(
      error(),
      "[bad_attribute] block 0, operator 0 (scale): attribute 'scale' is [\"STRING\",\"two\"], expected a number");
  program.blocks[0].ops.clear();
  add(0, "scale", {{"X", {"x"}}, {"ScaleTensor", {"x"}}}, {{"Out", {"a"}}});
  EXPECT_EQ(error(),
            "[unsupported_option] block 0, operator 0 (scale): an operand in slot 'ScaleTensor' is not supported, "
            "expected it as an attribute");
  program.blocks[0].ops.clear();
  add(0, "cast", {{"X", {"x"}}}, {{"Out", {"a"}}}, {{"out_dtype", intAttrText(AttrTag::Int, 7)}});
  EXPECT_EQ(error(), "[bad_type] block 0, operator 0 (cast): attribute 'out_dtype' is 7, which is not an element type");
  program.blocks[0].ops.clear();
  add(0, "exp", {{"X", {"@EMPTY@"}}}, {{"Out", {"a"}}});
  EXPECT_EQ(error(), "[bad_entry] block 0, operator 0 (exp): slot 'X' names no variable");
  program.blocks[0].ops.clear();
  addBlock(program, 0, {"t"});
  add(1, "exp", {{"X", {"t"}}}, {{"Out", {"a"}}});
  declare(0, "go", FluidType::Bool, true);
  add(0, "conditional_block", {{"Cond", {"go"}}}, {{"Out", {"a"}}}, {}, 1);
  EXPECT_EQ(error(),
            "[unknown_name] block 1, operator 0 (exp): slot 'X' reads 't' before any operator of its block writes it");
  BlockGraphOptions options;
  options.heads = {"nowhere"};
  EXPECT_EQ(describeError(graphOfBlocks(context, BlockProgram(program), options)).substr(0, 15), "[unknown_name] ");
}

TEST_F(BlockGraphTest, E_48_NodesKnowTheirOperators) {
  addLoop();
  BlockGraphOptions options;
  options.heads = {"y"};
  const BlockGraph made = cantFail(graphOfBlocks(context, program, options));
  auto nameOf = [&](const Place &place) {
    const std::optional<BlockOrigins::Op> op = made.origins.find(program, place);
    return op ? describe(program, op->block, op->op) : "none";
  };
  NodeId loop;
  for (uint32_t n = 0; n < made.graph.numNodes(); ++n) {
    if (made.graph.isVariable(NodeId(n))) {
      EXPECT_EQ(nameOf({NodeId(n)}), "none");
    }
    if (made.graph.opName(NodeId(n)) == "_while_loop") loop = NodeId(n);
  }
  EXPECT_EQ(nameOf({loop}), "block 0, operator 3 (while)");
  EXPECT_EQ(nameOf({NodeId(0), -1, {{loop, 0}}}), "block 0, operator 3 (while)")
      << "its condition does not come from a block";
  const Graph body(made.graph.bodies(loop)[1]);
  std::string found;
  for (uint32_t n = 0; n < body.numNodes(); ++n)
    if (!body.isVariable(NodeId(n)))
      found += (body.opName(NodeId(n)) + ": " + nameOf({NodeId(n), -1, {{loop, 1}}}) + "\n").str();
  EXPECT_EQ(found, "elemwise_mul: block 1, operator 0 (elementwise_mul)\n"
                   "_copy: block 1, operator 1 (assign)\n"
                   "_plus_scalar: block 1, operator 2 (increment)\n"
                   "broadcast_lesser: block 1, operator 3 (less_than)\n"
                   "Cast: block 1, operator 3 (less_than)\n"
                   "_identity_with_attr_like_rhs: none\n");
}

TEST_F(BlockGraphTest, A_19_BoundsOfClipMayBeOperands) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "least", "most", "y"}) declare(0, name, FluidType::Fp64, name[0] != 'y');
  const auto number = [](double v) { return floatAttrText(AttrTag::Float, v); };
  auto clipped = [&](const SlotNames &bounds, double x) {
    program.blocks[0].ops.clear();
    SlotNames inputs = {{"X", {"x"}}};
    append_range(inputs, bounds);
    add(0, "clip", inputs, {{"Out", {"y"}}}, {{"min", number(-8)}, {"max", number(8)}});
    std::map<std::string, double> given = {{"x", x}};
    for (const auto &[slot, names] : bounds) given[names[0]] = slot == "Min" ? -1 : 2;
    return gradients("y", {"x"}, given);
  };
  using Values = std::vector<double>;
  for (const SlotNames &bounds : {SlotNames{{"Min", {"least"}}, {"Max", {"most"}}}, {{"Min", {"least"}}}}) {
    EXPECT_EQ(clipped(bounds, -3), (Values{-1, 0}));
    EXPECT_EQ(clipped(bounds, -1), (Values{-1, 1})) << "at the bound";
    EXPECT_EQ(clipped(bounds, 1), (Values{1, 1}));
  }
  EXPECT_EQ(clipped({{"Min", {"least"}}, {"Max", {"most"}}}, 5), (Values{2, 0}));
  EXPECT_EQ(clipped({{"Min", {"least"}}}, 9), (Values{8, 0})) << "without an operand the attribute applies";
  EXPECT_EQ(clipped({{"Max", {"most"}}}, -9), (Values{-8, 0}));
  EXPECT_EQ(clipped({{"Max", {"most"}}}, 2), (Values{2, 1})) << "at the bound";
}

TEST_F(BlockGraphTest, E_48_SelectionsNameTheirVariables) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"m", "x", "y", "a", "b"}) declare(0, name, FluidType::Fp64);
  const std::string none = "@EMPTY@";
  for (auto [mask, x] : {std::pair(none, std::string("x")), {"m", none}}) {
    const std::string slot = mask == none ? "Mask" : "X";
    program.blocks[0].ops.clear();
    add(0, "select_input", {{"Mask", {mask}}, {"X", {x, "y"}}}, {{"Out", {"a"}}});
    EXPECT_EQ(error(), "[bad_entry] block 0, operator 0 (select_input): slot '" + slot + "' names no variable");
    program.blocks[0].ops.clear();
    add(0, "select_output", {{"Mask", {mask}}, {"X", {x}}}, {{"Out", {"a", "b"}}});
    EXPECT_EQ(error(), "[bad_entry] block 0, operator 0 (select_output): slot '" + slot + "' names no variable");
  }
}

TEST_F(BlockGraphTest, E_48_AMatrixHasRowsAndColumns) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "y", "a"}) {
    declare(0, name, FluidType::Fp64);
    program.find(0, program.texts.find(name))->shape = {2, 2};
  }
  for (const auto &[key, slot] : {std::pair("x_num_col_dims", "X"), {"y_num_col_dims", "Y"}})
    for (int64_t number : {int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{200'000'000}}) {
      program.blocks[0].ops.clear();
      add(0, "mul", {{"X", {"x"}}, {"Y", {"y"}}}, {{"Out", {"a"}}}, {{key, intAttrText(AttrTag::Int, number)}});
      EXPECT_EQ(error(), "[bad_attribute] block 0, operator 0 (mul): attribute '" + std::string(key) + "' is " +
                             std::to_string(number) + ", expected at least 1 and less than the rank of slot '" + slot +
                             "', which is 2");
    }
}

TEST_F(BlockGraphTest, E_48_AScalarIsNoMatrix) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "y", "a"}) declare(0, name, FluidType::Fp64);
  program.find(0, program.texts.find("x"))->shape = {2, 2, 2};
  program.find(0, program.texts.find("y"))->shape.clear();
  add(0, "matmul_v2", {{"X", {"x"}}, {"Y", {"y"}}}, {{"Out", {"a"}}});
  EXPECT_EQ(error(), "[bad_entry] block 0, operator 0 (matmul_v2): slot 'Y' has rank 0, expected at least 1");
}

TEST_F(BlockGraphTest, E_48_SectionsArePartsOfTheAxis) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "a", "b"}) declare(0, name, FluidType::Fp64);
  program.find(0, program.texts.find("x"))->shape = {5};
  auto errorOf = [&](std::vector<int64_t> sections) {
    program.blocks[0].ops.clear();
    add(0, "split", {{"X", {"x"}}}, {{"Out", {"a", "b"}}},
        {{"axis", intAttrText(AttrTag::Int, 0)}, {"sections", intsAttrText(AttrTag::Longs, sections)}});
    return error();
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(errorOf({2, -1}), "success");
  EXPECT_EQ(errorOf({kMost, kMost}),
            "[bad_attribute] block 0, operator 0 (split): attribute 'sections' is (9223372036854775807, "
            "9223372036854775807), expected the parts of axis 0, of which one may be negative: the rest");
  EXPECT_EQ(StringRef(errorOf({kMost, -1})).substr(0, 15), "[bad_attribute]");
  EXPECT_EQ(StringRef(errorOf({-1, -1})).substr(0, 15), "[bad_attribute]");
  EXPECT_EQ(StringRef(errorOf({6, -1})).substr(0, 15), "[bad_attribute]");
}

TEST_F(BlockGraphTest, E_48_ASplitHasAsManyPartsAsOutputs) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "a", "b"}) declare(0, name, FluidType::Fp64);
  program.find(0, program.texts.find("x"))->shape = {6};
  auto errorOf = [&](int64_t number) {
    program.blocks[0].ops.clear();
    add(0, "split", {{"X", {"x"}}}, {{"Out", {"a", "b"}}},
        {{"axis", intAttrText(AttrTag::Int, 0)}, {"num", intAttrText(AttrTag::Int, number)}});
    return error();
  };
  EXPECT_EQ(errorOf(2), "success");
  EXPECT_EQ(errorOf(0), "success") << "not given";
  for (int64_t number : {1, 3, -1, 2147483647})
    EXPECT_EQ(errorOf(number), "[bad_attribute] block 0, operator 0 (split): attribute 'num' is " +
                                   std::to_string(number) + ", expected 2, the number of outputs");
}

TEST_F(BlockGraphTest, E_48_AtLeastOneElementIsSelected) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "a", "b"}) declare(0, name, FluidType::Fp64);
  program.find(0, program.texts.find("x"))->shape = {2, 3};
  auto errorOf = [&](StringRef type, int64_t k) {
    program.blocks[0].ops.clear();
    add(0, type, {{"X", {"x"}}}, {{"Out", {"a"}}, {"Indices", {"b"}}}, {{"k", intAttrText(AttrTag::Long, k)}});
    return error();
  };
  for (const char *type : {"kthvalue", "top_k_v2"}) {
    EXPECT_EQ(errorOf(type, 1), "success");
    for (int64_t k : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()})
      EXPECT_EQ(errorOf(type, k), "[bad_attribute] block 0, operator 0 (" + std::string(type) + "): attribute 'k' is " +
                                      std::to_string(k) + ", expected at least 1");
  }
}

TEST_F(BlockGraphTest, E_48_LayersHaveTheirWeights) {
  addBlock(program, std::nullopt, {});
  const std::vector<std::string> weights = {"w", "u", "b", "c"};
  for (const char *name : {"x", "h", "w", "u", "b", "c", "y", "s"}) declare(0, name, FluidType::Fp64);
  auto errorOf = [&](int64_t layers) {
    program.blocks[0].ops.clear();
    add(0, "rnn", {{"Input", {"x"}}, {"PreState", {"h"}}, {"WeightList", weights}}, {{"Out", {"y"}}, {"State", {"s"}}},
        {{"mode", stringAttrText(AttrTag::String, "GRU")}, {"num_layers", intAttrText(AttrTag::Long, layers)}});
    return error();
  };
  EXPECT_EQ(errorOf(1), "success");
  for (int64_t layers : {int64_t{0}, int64_t{2}, (int64_t{1} << 62) + 1})
    EXPECT_EQ(errorOf(layers), "[bad_entry] block 0, operator 0 (rnn): slot 'WeightList' has 4 operands, expected two "
                               "matrices and two biases for each cell");
}

TEST_F(BlockGraphTest, E_48_AnyNegativeAxisAlignsTheLastAxes) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "y", "a"}) declare(0, name, FluidType::Fp64);
  program.find(0, program.texts.find("x"))->shape = {3, 3};
  program.find(0, program.texts.find("y"))->shape = {3};
  auto graphOf = [&](int64_t axis) {
    program.blocks[0].ops.clear();
    add(0, "elementwise_add", {{"X", {"x"}}, {"Y", {"y"}}}, {{"Out", {"a"}}},
        {{"axis", intAttrText(AttrTag::Long, axis)}});
    return dump(graph({}));
  };
  EXPECT_EQ(graphOf(std::numeric_limits<int64_t>::min()), graphOf(-1));
  EXPECT_EQ(graphOf(std::numeric_limits<int64_t>::max()), graphOf(-1)) << "y has no axes behind that one";
  EXPECT_NE(graphOf(0), graphOf(-1));
}

TEST_F(BlockGraphTest, A_19_ALabelToIgnoreMayBeNegative) {
  addBlock(program, std::nullopt, {});
  for (const char *name : {"x", "label"}) declare(0, name, FluidType::Fp64, true);
  program.find(0, program.texts.find("x"))->shape = {1, 1};
  for (const char *name : {"row", "y"}) declare(0, name, FluidType::Fp64);
  program.find(0, program.texts.find("row"))->shape = {1, 1};
  add(0, "reshape2", {{"X", {"x"}}}, {{"Out", {"row"}}}, {{"shape", intsAttrText(AttrTag::Ints, {1, 1})}});
  add(0, "cross_entropy", {{"Label", {"label"}}, {"X", {"row"}}}, {{"Y", {"y"}}});
  program.find(0, program.texts.find("x"))->shape = {1};
  EXPECT_NEAR(run(graph({"y"}), {{"x", 0.5}, {"label", 0}})[0], std::log(2), 1e-15);
  EXPECT_EQ(run(graph({"y"}), {{"x", 0.5}, {"label", -100}})[0], 0) << "the default";
}

TEST_F(BlockGraphTest, RowsAreSortedAndFound) {
  for (ArrayRef<BlockOpRow> family : {elementwiseBlockOps(), shapeBlockOps(), linearBlockOps(), reductionBlockOps(),
                                      indexBlockOps(), layerBlockOps(), optimizerBlockOps()})
    for (size_t i = 1; i < family.size(); ++i) EXPECT_LT(family[i - 1].type.str(), family[i].type.str());
  for (const BlockOpRow *row : allBlockOps()) EXPECT_EQ(findBlockOp(row->type), row);
  EXPECT_EQ(findBlockOp("while"), nullptr);
  EXPECT_EQ(findBlockOp(""), nullptr);
}

}  // namespace
}  // namespace gradc
