// `tensor_array_to_tensor`, by Paddle's definition: the elements of an array concatenated or stacked along an axis.
// Gradients are compared with central differences.
#include "tests/support/blocks/array_programs.h"
#include "tests/support/blocks/backward_programs.h"

#include "formats/blocks/arrays/array_lengths.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// all = the elements of `a`; sizes: their dimensions along the axis
void addTensor(ArrayProgram &p, int64_t axis, bool isStack, SmallVector<int64_t, 4> shape, uint32_t block = 0) {
  p.declare("all", std::move(shape), FluidType::Fp64, FluidType::LodTensor, block);
  p.declare("sizes", {-1}, FluidType::Int32, FluidType::LodTensor, block);
  addOp(p.program, block, "tensor_array_to_tensor", {{"X", {"a"}}}, {{"Out", {"all"}}, {"OutIndex", {"sizes"}}}).attrs =
      p.context.attrs({{"axis", intAttrText(AttrTag::Int, axis)}, {"use_stack", boolAttrText(isStack)}});
}

/// loss = Σ sin(all): each element has another gradient.
void addLoss(ArrayProgram &p) {
  p.declare("s", {-1, -1});
  p.op("sin", {{"X", {"all"}}}, "s");
  p.sum("s", "loss");
}

/// a[0] = p, a[1] = tanh(p), a[2] = p²
void addElements(ArrayProgram &p, SmallVector<int64_t, 4> shape) {
  p.array("a", shape);
  for (const char *name : {"t", "q"}) p.declare(name, shape);
  p.op("tanh", {{"X", {"p"}}}, "t");
  p.op("square", {{"X", {"p"}}}, "q");
  const char *values[] = {"p", "t", "q"};
  for (int i = 0; i < 3; ++i) {
    p.number("i" + std::to_string(i), i);
    p.op("write_to_array", {{"X", {values[i]}}, {"I", {"i" + std::to_string(i)}}}, "a");
  }
}

double elementOf(int i, double x) { return i == 0 ? x : i == 1 ? std::tanh(x) : x * x; }

TEST(ArrayTensor, IR_12_ConcatenatesAndStacksAlongEachAxis) {
  for (bool isStack : {false, true})
    for (int64_t axis = isStack ? -3 : -2; axis < (isStack ? 3 : 2); ++axis) {
      SCOPED_TRACE("axis " + std::to_string(axis) + (isStack ? ", stacked" : ""));
      ArrayProgram p({2, 3});
      addElements(p, {2, 3});
      addTensor(p, axis, isStack, {-1});
      addLoss(p);
      const std::vector<Array> heads = cantFail(p.run(p.program, {"p", "all", "sizes"}));
      const std::vector<double> given = doubles(heads[0]), all = doubles(heads[1]);
      const int64_t at = axis < 0 ? axis + 2 + isStack : axis;
      std::vector<int64_t> shape = {2, 3};
      if (isStack) shape.insert(shape.begin() + at, 3);
      else shape[static_cast<size_t>(at)] *= 3;
      EXPECT_EQ(std::vector<int64_t>(heads[1].shape.begin(), heads[1].shape.end()), shape);
      ASSERT_EQ(all.size(), 18u);
      // In row-major order: the axes before, the element, its axes from there on.
      const size_t inner = at == 0 ? 6 : at == 1 ? 3 : 1;
      for (size_t n = 0; n < 18; ++n) {
        const size_t outer = n / (3 * inner), i = n / inner % 3, rest = n % inner;
        EXPECT_EQ(all[n], elementOf(static_cast<int>(i), given[outer * inner + rest])) << n;
      }
      const auto *sizes = reinterpret_cast<const int32_t *>(heads[2].bytes.data());
      ASSERT_EQ(heads[2].bytes.size(), 12u);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(sizes[i], at == 2 ? 1 : at == 0 ? 2 : 3);
      EXPECT_FALSE(isAddedUp(p));
    }
}

TEST(ArrayTensor, IR_12_StacksScalars) {
  ArrayProgram p{SmallVector<int64_t, 4>()};
  addElements(p, {});
  addTensor(p, 0, true, {-1});
  addLoss(p);
  const std::vector<Array> heads = cantFail(p.run(p.program, {"p", "all"}));
  EXPECT_EQ(heads[1].shape.size(), 1u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(doubles(heads[1])[i], elementOf(i, doubles(heads[0])[0]));
  EXPECT_FALSE(isAddedUp(p));
}

// The loop reads elements that the tensor has too: two gradients arrive.
TEST(ArrayTensor, AGG_08_OfALoopThatReadsItsElements) {
  ArrayProgram p;
  addLoop(p);
  p.program.blocks[0].ops.resize(p.program.blocks[0].ops.size() - 2);  // nothing else reads one
  addTensor(p, 0, false, {-1});
  addLoss(p);
  EXPECT_EQ(doubles(cantFail(p.run(p.program, {"all"}))[0]).size(), 8u) << "one element before the loop, three in it";
  EXPECT_TRUE(isAddedUp(p));
}

/// for (i = 0; i < n; ++i) a[i] = tanh(p + a number)
void addWrites(ArrayProgram &p, bool isKnown) {
  p.array("a");
  p.number("i", 0);
  if (isKnown) p.number("n", 3);
  else p.declare("n", {1}, FluidType::Int64).isData = true;
  p.declare("go", {1}, FluidType::Bool);
  p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go");
  const uint32_t body = addBlock(p.program, 0u, {});
  p.declare("number", {1}, FluidType::Fp64, FluidType::LodTensor, body);
  for (const char *name : {"m", "h"}) p.declare(name, {2}, FluidType::Fp64, FluidType::LodTensor, body);
  p.op("cast", {{"X", {"i"}}}, "number",
       {{"in_dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64))},
        {"out_dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Fp64))}},
       body);
  p.op("elementwise_add", {{"X", {"p"}}, {"Y", {"number"}}}, "m", {}, body);
  p.op("tanh", {{"X", {"m"}}}, "h", {}, body);
  p.op("write_to_array", {{"X", {"h"}}, {"I", {"i"}}}, "a", {}, body);
  p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, 1)}}, body);
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go", {}, body);
  addOp(p.program, 0, "while", {{"Condition", {"go"}}, {"X", {"i", "n", "a", "p"}}},
        {{"Out", {"i", "a", "go"}}, {"StepScopes", {"scopes"}}}, body);
}

TEST(ArrayTensor, CF_14_OfALoopWhoseStepsAreCounted) {
  ArrayProgram p;
  addWrites(p, true);
  addTensor(p, 1, true, {-1, -1});
  addLoss(p);
  Expected<std::vector<Array>> heads = p.run(p.program, {"all"});
  ASSERT_TRUE(bool(heads)) << describeWithNotes(heads.takeError());
  EXPECT_EQ(heads->front().shape[1], 3);
  EXPECT_FALSE(isAddedUp(p)) << "each element has one reader";
}

/// How a loop's counter gets its next number.
enum class Count { Increment, Assign, Sum, Cast };

/// for (i = 0; i < the rows of p; ++i) a[i] = tanh(p[i]), as Paddle writes `p[i]` for a counter without dimensions
void addRows(ArrayProgram &p, Count how) {
  const std::string whole = intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64)),
                    half = intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int32)),
                    zero = intsAttrText(AttrTag::Ints, {0}), one = intsAttrText(AttrTag::Ints, {1}),
                    open = intsAttrText(AttrTag::Ints, {-1}), next = floatAttrText(AttrTag::Float, 1);
  p.array("a", {2});
  p.declare("sizes_of_p", {2}, FluidType::Int32);
  p.declare("rows", {}, FluidType::Int32);
  p.declare("n", {}, FluidType::Int64);
  p.declare("i", {}, FluidType::Int64);
  p.declare("go", {}, FluidType::Bool);
  p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  addOp(p.program, 0, "shape", {{"Input", {"p"}}}, {{"Out", {"sizes_of_p"}}});
  addOp(p.program, 0, "slice", {{"Input", {"sizes_of_p"}}}, {{"Out", {"rows"}}}).attrs =
      p.context.attrs({{"axes", zero}, {"starts", zero}, {"ends", one}, {"decrease_axis", zero}, {"infer_flags", one}});
  p.op("cast", {{"X", {"rows"}}}, "n", {{"in_dtype", half}, {"out_dtype", whole}});
  p.op("fill_constant", {}, "i",
       {{"dtype", whole}, {"shape", intsAttrText(AttrTag::Longs, {})}, {"value", floatAttrText(AttrTag::Float, 0)}});
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go");
  const uint32_t body = addBlock(p.program, 0u, {});
  for (const char *name : {"end", "one"}) p.declare(name, {}, FluidType::Int64, FluidType::LodTensor, body);
  p.declare("short", {}, FluidType::Int32, FluidType::LodTensor, body);
  for (const char *name : {"row", "h"}) p.declare(name, {2}, FluidType::Fp64, FluidType::LodTensor, body);
  p.op("scale", {{"X", {"i"}}}, "end", {{"bias", next}}, body);
  addOp(p.program, body, "slice", {{"Input", {"p"}}, {"StartsTensorList", {"i"}}, {"EndsTensorList", {"end"}}},
        {{"Out", {"row"}}})
      .attrs = p.context.attrs(
      {{"axes", zero}, {"starts", open}, {"ends", open}, {"decrease_axis", zero}, {"infer_flags", open}});
  p.op("tanh", {{"X", {"row"}}}, "h", {}, body);
  p.op("write_to_array", {{"X", {"h"}}, {"I", {"i"}}}, "a", {}, body);
  if (how == Count::Increment) p.op("increment", {{"X", {"i"}}}, "i", {{"step", next}}, body);
  if (how == Count::Assign) p.op("assign", {{"X", {"end"}}}, "i", {}, body);
  if (how == Count::Sum) {
    p.op("fill_constant", {}, "one", {{"dtype", whole}, {"shape", intsAttrText(AttrTag::Longs, {})}, {"value", next}},
         body);
    p.op("elementwise_add", {{"X", {"i"}}, {"Y", {"one"}}}, "i", {}, body);
  }
  if (how == Count::Cast) {
    p.op("cast", {{"X", {"end"}}}, "short", {{"in_dtype", whole}, {"out_dtype", half}}, body);
    p.op("cast", {{"X", {"short"}}}, "i", {{"in_dtype", half}, {"out_dtype", whole}}, body);
  }
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go", {}, body);
  addOp(p.program, 0, "while", {{"Condition", {"go"}}, {"X", {"i", "n", "a", "p"}}},
        {{"Out", {"i", "a", "go"}}, {"StepScopes", {"scopes"}}}, body);
}

TEST(ArrayTensor, CF_14_CountersOfEachForm) {
  for (Count how : {Count::Increment, Count::Assign, Count::Sum, Count::Cast}) {
    SCOPED_TRACE(static_cast<int>(how));
    ArrayProgram p({3, 2});
    addRows(p, how);
    addTensor(p, 0, true, {-1, 2});
    addLoss(p);
    Expected<std::vector<Array>> heads = p.run(p.program, {"p", "all"});
    ASSERT_TRUE(bool(heads)) << describeWithNotes(heads.takeError());
    const std::vector<double> given = doubles(heads->front()), all = doubles(heads->back());
    ASSERT_EQ(all.size(), given.size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_DOUBLE_EQ(all[i], std::tanh(given[i]));
    isAddedUp(p);  // compares with central differences
  }
}

TEST(ArrayTensor, AGG_08_AnElementWrittenTwice) {
  ArrayProgram p;
  addElements(p, {2});
  p.op("write_to_array", {{"X", {"t"}}, {"I", {"i0"}}}, "a");
  addTensor(p, 0, false, {-1});
  addLoss(p);
  p.declare("r");
  p.op("read_from_array", {{"X", {"a"}}, {"I", {"i0"}}}, "r");
  p.sum("r", "more");
  p.op("elementwise_add", {{"X", {"more"}}, {"Y", {"loss"}}}, "loss");
  EXPECT_TRUE(isAddedUp(p));
}

TEST(ArrayTensor, TwoTensorsOfOneArray) {
  ArrayProgram p;
  addElements(p, {2});
  addTensor(p, 0, false, {-1});
  addLoss(p);
  p.declare("more", {-1});
  p.op("tensor_array_to_tensor", {{"X", {"a"}}}, "more");
  p.op("square", {{"X", {"more"}}}, "more");
  p.sum("more", "second");
  p.op("elementwise_add", {{"X", {"second"}}, {"Y", {"loss"}}}, "loss");
  EXPECT_FALSE(isAddedUp(p));
}

TEST(ArrayTensor, E_02_AnArrayThatIsWrittenAfterwards) {
  ArrayProgram p;
  addElements(p, {2});
  addTensor(p, 0, false, {-1});
  p.op("write_to_array", {{"X", {"t"}}, {"I", {"i0"}}}, "a");
  addLoss(p);
  p.declare("r");
  p.op("read_from_array", {{"X", {"a"}}, {"I", {"i1"}}}, "r");
  p.sum("r", "more");
  p.op("elementwise_add", {{"X", {"more"}}, {"Y", {"loss"}}}, "loss");
  Expected<FluidResult> made = emit(p);
  const std::string what = made ? dump(made->program, 0) : describeWithNotes(made.takeError());
  EXPECT_NE(what.find("[not_differentiable]"), std::string::npos) << what;
}

// Where only the declaration has the length, it is compared with that of the array.
TEST(ArrayTensor, ALengthThatOnlyTheDeclarationGives) {
  for (int64_t length : {-1, 0, 1, 2, 3}) {
    ArrayProgram p;
    addWrites(p, false);
    addTensor(p, 0, true, {length, 2});
    BlockGraphOptions options;
    options.heads = {"all"};
    options.maxIterations = 4;
    Expected<BlockGraph> graph = graphOfBlocks(p.context, p.program, options);
    if (length < 1) {
      const std::string what = describeWithNotes(graph.takeError());
      EXPECT_NE(what.find(length ? "[infer_missing]" : "[bad_entry]"), std::string::npos) << what;
      continue;
    }
    ASSERT_TRUE(bool(graph)) << describeWithNotes(graph.takeError());
    std::vector<NamedArray> given = drawnBindings(graph->graph, 1);
    for (NamedArray &binding : given)
      if (binding.name == "n") binding.array.ref().as<int64_t>()[0] = 2;
    Expected<std::vector<Array>> heads = runHeads(p.context, graph->graph, std::move(given));
    EXPECT_EQ(bool(heads), length == 2) << length;
    if (heads) EXPECT_EQ(heads->front().shape[0], 2);
    else EXPECT_NE(describeWithNotes(heads.takeError()).find("out of range"), std::string::npos);
  }
}

TEST(ArrayTensor, LengthsThatDifferFromStepToStepAreNotKnown) {
  ArrayProgram p;
  addWrites(p, true);
  const size_t at = p.program.blocks[1].ops.size();
  addTensor(p, 0, true, {-1, 2}, 1);
  EXPECT_TRUE(findArrayLengths(p.program).empty());
  p.number("once", 1);
  addTensor(p, 0, true, {-1, 2});
  const auto known = findArrayLengths(p.program);
  EXPECT_EQ(known.size(), 1u);
  EXPECT_FALSE(known.contains({1, at}));
  EXPECT_EQ(known.begin()->second, 3);
}

TEST(ArrayTensor, ProgramsThatDoNotEndAreGivenUp) {
  ArrayProgram p;
  addWrites(p, true);
  p.program.blocks[1].ops.pop_back();  // the condition stays true
  addTensor(p, 0, true, {-1, 2});
  EXPECT_TRUE(findArrayLengths(p.program).empty());
}

TEST(ArrayTensor, BadOperandsAndAttributes) {
  ArrayProgram p;
  addElements(p, {2});
  addTensor(p, 1, false, {-1});
  EXPECT_EQ(failureOf(p, {"all"}),
            "[bad_attribute] block 0, operator 8 (tensor_array_to_tensor): attribute 'axis' is 1, "
            "which is out of range for elements of rank 1");
  ArrayProgram q;
  q.declare("a");
  addTensor(q, 0, false, {-1});
  EXPECT_EQ(failureOf(q, {"all"}),
            "[bad_entry] block 0, operator 0 (tensor_array_to_tensor): variable 'a' is not an array");
  ArrayProgram empty;
  empty.array("a");
  addTensor(empty, 0, false, {-1});
  EXPECT_EQ(failureOf(empty, {"all"}), "[bad_entry] block 0, operator 0 (tensor_array_to_tensor): array 'a' has no "
                                       "elements, expected at least one");
  ArrayProgram two;
  addElements(two, {2});
  addTensor(two, 0, false, {-1});
  addLoss(two);
  two.program.blocks[0].ops[8].inputs[0].variables.push_back(two.program.texts.find("a"));
  EXPECT_EQ(describeWithNotes(emit(two).takeError()),
            "[bad_entry] block 0, operator 8 (tensor_array_to_tensor): slot 'X' holds 2 variables, from 'a' to 'a', "
            "expected one");
  ArrayProgram none;
  none.declare("all");
  none.op("tensor_array_to_tensor", {}, "all");
  EXPECT_EQ(failureOf(none, {"all"}),
            "[bad_entry] block 0, operator 0 (tensor_array_to_tensor): slot 'X' has no operand 0");
}

}  // namespace
}  // namespace gradc
