// The gradients of arrays whose elements are written or read more than once, and of those where Paddle's form is right:
// what the emitted operators compute, against central differences.
#include "tests/support/blocks/array_programs.h"
#include "tests/support/blocks/backward_programs.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::string emissionError(ArrayProgram &p) { return describeWithNotes(emit(p).takeError()); }

void write(ArrayProgram &p, const std::string &value, const std::string &index, uint32_t block = 0) {
  p.op("write_to_array", {{"X", {value}}, {"I", {index}}}, "a", {}, block);
}
void read(ArrayProgram &p, const std::string &index, const std::string &to, uint32_t block = 0) {
  p.declare(to, {2}, FluidType::Fp64, FluidType::LodTensor, block);
  p.op("read_from_array", {{"X", {"a"}}, {"I", {index}}}, to, {}, block);
}
void compute(ArrayProgram &p, const std::string &type, const std::string &x, const std::string &to,
             const std::string &y = "", uint32_t block = 0) {
  p.declare(to, {2}, FluidType::Fp64, FluidType::LodTensor, block);
  SlotNames in = {{"X", {x}}};
  if (!y.empty()) in.push_back({"Y", {y}});
  p.op(type, in, to, {}, block);
}

/// a[i] = tanh(p); b = a[i]; a[j] = sin(b); loss = Σ a[i] · a[j]
void addTwoWrites(ArrayProgram &p, const std::string &i, const std::string &j) {
  compute(p, "tanh", "p", "t");
  write(p, "t", i);
  read(p, i, "b");
  compute(p, "sin", "b", "s");
  write(p, "s", j);
  read(p, i, "c");
  read(p, j, "d");
  compute(p, "elementwise_mul", "c", "m", "d");
  p.sum("m", "loss");
}

TEST(ArrayGradient, AGG_08_AnElementWrittenTwice) {
  for (bool isTwice : {false, true}) {
    ArrayProgram p;
    p.array("a");
    p.number("i", 0);
    p.number("j", isTwice ? 0 : 1);
    addTwoWrites(p, "i", "j");
    EXPECT_EQ(isAddedUp(p), isTwice);
  }
}

// a[i] = p; a[i] = sin(p); loss = Σ a[i]: nothing reads the first value.
TEST(ArrayGradient, AGG_08_AnElementWrittenOverByTheSameIndex) {
  ArrayProgram p;
  p.array("a");
  p.number("i", 0);
  write(p, "p", "i");
  compute(p, "sin", "p", "s");
  write(p, "s", "i");
  read(p, "i", "b");
  p.sum("b", "loss");
  EXPECT_TRUE(isAddedUp(p));
}

TEST(ArrayGradient, AGG_08_WhatAnIndexIsKnownToBe) {
  // j = i + 1, counted on in place or of another name; or something that is not understood.
  const std::string one = floatAttrText(AttrTag::Float, 1);
  for (const auto &[type, isUnderstood] : {std::pair("increment", true), std::pair("scale", false)}) {
    ArrayProgram p;
    p.array("a");
    p.number("i", 0);
    p.declare("j", {1}, FluidType::Int64);
    p.op(type, {{"X", {"i"}}}, "j", {{"step", one}, {"scale", one}, {"bias", one}});
    addTwoWrites(p, "i", "j");
    EXPECT_EQ(isAddedUp(p), !isUnderstood) << type;
  }
  for (double step : {1.0, 0.0, -1.0}) {
    ArrayProgram p;
    p.array("a");
    p.number("zero", 0);
    write(p, "p", "zero");
    p.number("i", 1);
    write(p, "p", "i");
    p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, step)}});
    compute(p, "sin", "p", "s");
    write(p, "s", "i");
    p.number("last", 1);
    read(p, "last", "b");
    read(p, "i", "c");
    compute(p, "elementwise_mul", "b", "m", "c");
    p.sum("m", "loss");
    EXPECT_EQ(isAddedUp(p), step <= 0) << step << ": elements are shown to be others in ascending order alone";
  }
}

/// for (i = 0; i < 3;) { h = tanh(p · a[i] · a[0]); i = i + 1; a[i] = h }, and other readers.
void addReadingLoop(ArrayProgram &p, bool readsFirst, bool isReadBehind) {
  p.array("a");
  p.number("i", 0);
  p.number("first", 0);
  p.number("n", 3);
  p.declare("go", {1}, FluidType::Bool);
  p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  write(p, "p", "i");
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go");
  const uint32_t body = addBlock(p.program, 0u, {});
  read(p, "i", "r", body);
  compute(p, "elementwise_mul", "r", "m", "p", body);
  if (readsFirst) {
    read(p, "first", "f", body);
    compute(p, "elementwise_mul", "m", "g", "f", body);
  }
  compute(p, "tanh", readsFirst ? "g" : "m", "h", "", body);
  p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, 1)}}, body);
  write(p, "h", "i", body);
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go", {}, body);
  addOp(p.program, 0, "while", {{"Condition", {"go"}}, {"X", {"i", "first", "n", "a", "p"}}},
        {{"Out", {"i", "a", "go"}}, {"StepScopes", {"scopes"}}}, body);
  read(p, "i", "last");
  if (isReadBehind) {
    read(p, "first", "again");
    compute(p, "elementwise_mul", "last", "both", "again");
  }
  p.sum(isReadBehind ? "both" : "last", "loss");
}

TEST(ArrayGradient, CF_14_AnElementThatEveryStepReads) {
  ArrayProgram p;
  addReadingLoop(p, true, false);
  EXPECT_TRUE(isAddedUp(p));
}

TEST(ArrayGradient, CF_14_TwoReadersBehindALoopThatWrites) {
  ArrayProgram p;
  addReadingLoop(p, false, true);
  EXPECT_TRUE(isAddedUp(p));
}

TEST(ArrayGradient, CF_14_TwoReadersInAStep) {
  // for (i = 0; i < 3;) { r = a[i]; i = i + 1; q = a[i]; i = i + 1; a[i] = tanh(r + q) }
  ArrayProgram p;
  p.array("a");
  p.number("i", 0);
  p.number("n", 3);
  p.declare("go", {1}, FluidType::Bool);
  p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  write(p, "p", "i");
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go");
  const uint32_t body = addBlock(p.program, 0u, {});
  const std::string step = floatAttrText(AttrTag::Float, 1);
  read(p, "i", "r", body);
  p.op("increment", {{"X", {"i"}}}, "i", {{"step", step}}, body);
  read(p, "i", "q", body);
  p.op("increment", {{"X", {"i"}}}, "i", {{"step", step}}, body);
  compute(p, "elementwise_add", "r", "m", "q", body);
  compute(p, "tanh", "m", "h", "", body);
  write(p, "h", "i", body);
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go", {}, body);
  addOp(p.program, 0, "while", {{"Condition", {"go"}}, {"X", {"i", "n", "a"}}},
        {{"Out", {"i", "a", "go"}}, {"StepScopes", {"scopes"}}}, body);
  read(p, "i", "last");
  p.sum("last", "loss");
  EXPECT_TRUE(isAddedUp(p));
}

TEST(ArrayGradient, AGG_08_AnIndexThatStartsAgain) {
  ArrayProgram p;
  p.array("a");
  p.number("i", 0);
  p.number("zero", 0);
  compute(p, "sin", "p", "s");
  write(p, "p", "i");
  read(p, "i", "b");
  p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, 1)}});
  p.op("assign", {{"X", {"zero"}}}, "i");
  write(p, "s", "i");
  read(p, "i", "c");
  compute(p, "elementwise_mul", "b", "m", "c");
  p.sum("m", "loss");
  EXPECT_TRUE(isAddedUp(p));
}

TEST(ArrayGradient, CF_14_PaddlesFormWhereEachElementIsWrittenAndReadOnce) {
  ArrayProgram p;
  addReadingLoop(p, false, false);
  EXPECT_FALSE(isAddedUp(p));
}

/// a = [p, sin(p), 0]; s = p; for (i = 0; i < 2;) { s = s · a[i]; i = i + 1 }, in `depth` loops of which the outer ones
/// run once.
void addCaptured(ArrayProgram &p, uint32_t depth, const std::vector<std::string> &states) {
  p.array("a");
  for (int i = 0; i < 2; ++i) p.number("i" + std::to_string(i), i);
  compute(p, "sin", "p", "q");
  write(p, "p", "i0");
  write(p, "q", "i1");
  compute(p, "assign", "p", "s");
  p.number("i", 0);
  p.number("n", 2);
  p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  p.declare("go", {1}, FluidType::Bool);
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go");
  std::vector<uint32_t> bodies = {0};
  for (uint32_t level = 0; level < depth; ++level) bodies.push_back(addBlock(p.program, bodies.back(), {}));
  const uint32_t body = bodies.back();
  read(p, "i", "r", body);
  compute(p, "elementwise_mul", "s", "m", "r", body);
  p.op("assign", {{"X", {"m"}}}, "s", {}, body);
  p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, 1)}}, body);
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go", {}, body);
  std::vector<std::string> outs = {"i", "s", "go"};
  outs.insert(outs.end(), states.begin(), states.end());
  for (uint32_t level = depth; level > 0; --level)
    addOp(p.program, bodies[level - 1], "while", {{"Condition", {"go"}}, {"X", {"i", "n", "s", "a"}}},
          {{"Out", outs}, {"StepScopes", {"scopes"}}}, bodies[level]);
  p.sum("s", "loss");
}

// An array that a loop has among other states, and that is written afterwards, stays one array.
TEST(ArrayGradient, CF_14_AnArrayWrittenAfterALoop) {
  ArrayProgram p;
  addLoop(p);
  p.declare("state");
  p.op("assign", {{"X", {"h"}}}, "state", {}, 1);
  BlockOp &loop = *find_if(p.program.blocks[0].ops, [](const BlockOp &op) { return op.subBlock.has_value(); });
  loop.outputs[0].variables.push_back(p.program.texts.find("state"));
  p.number("far", 4);
  compute(p, "sin", "p", "t");
  write(p, "t", "far");
  read(p, "far", "b");
  read(p, "i", "c");
  compute(p, "elementwise_mul", "b", "d", "c");
  p.sum("d", "more");
  p.op("elementwise_add", {{"X", {"more"}}, {"Y", {"loss"}}}, "loss");
  EXPECT_TRUE(isAddedUp(p));
}

// Of a loop's step and of a branch: s = a[0] · a[0], where a[0] = tanh(s · p)
TEST(ArrayGradient, CF_15_AnArrayOfAnInnerBlock) {
  for (bool isLoop : {false, true}) {
    ArrayProgram p;
    p.number("i", 0);
    p.number("n", 3);
    p.declare("go", {1}, FluidType::Bool);
    p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
    compute(p, "assign", "p", "s");
    p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go");
    const uint32_t body = addBlock(p.program, 0u, {});
    p.declare("a", {2}, FluidType::Fp64, FluidType::LodTensorArray, body);
    p.declare("zero", {1}, FluidType::Int64, FluidType::LodTensor, body);
    p.op("fill_zeros_like", {{"X", {"n"}}}, "zero", {}, body);
    compute(p, "elementwise_mul", "s", "m", "p", body);
    compute(p, "tanh", "m", "t", "", body);
    write(p, "t", "zero", body);
    read(p, "zero", "x", body);
    read(p, "zero", "y", body);
    compute(p, "elementwise_mul", "x", "q", "y", body);
    p.op("assign", {{"X", {"q"}}}, "s", {}, body);
    if (isLoop) {
      p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, 1)}}, body);
      p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go", {}, body);
      addOp(p.program, 0, "while", {{"Condition", {"go"}}, {"X", {"i", "n", "s", "p"}}},
            {{"Out", {"i", "s", "go"}}, {"StepScopes", {"scopes"}}}, body);
    } else {
      addOp(p.program, 0, "conditional_block", {{"Cond", {"go"}}, {"Input", {"s", "p", "n"}}},
            {{"Out", {"s"}}, {"Scope", {"scopes"}}}, body)
          .attrs = p.context.attrs({{"is_scalar_condition", boolAttrText(true)}});
    }
    p.sum("s", "loss");
    isAddedUp(p);
  }
}

TEST(ArrayGradient, CF_15_AnArrayThatALoopOnlyReads) {
  for (uint32_t depth : {1, 2, 5}) {
    ArrayProgram p;
    addCaptured(p, depth, {});
    EXPECT_TRUE(isAddedUp(p)) << depth;
    ArrayProgram q;
    addCaptured(q, depth, {"a"});
    EXPECT_TRUE(isAddedUp(q)) << depth << ", whatever its slots say";
  }
}

// for (i = 0; i < 2;) { s = s · a[i]; a = b; i = i + 1 }
TEST(ArrayGradient, E_02_CF_15_AnArrayThatALoopReadsAndReplaces) {
  ArrayProgram p;
  p.array("b");
  p.number("zero", 0);
  p.number("one", 1);
  p.op("write_to_array", {{"X", {"p"}}, {"I", {"zero"}}}, "b");
  p.op("write_to_array", {{"X", {"p"}}, {"I", {"one"}}}, "b");
  addCaptured(p, 1, {"a"});
  std::vector<BlockOp> &body = p.program.blocks[1].ops;
  p.op("assign", {{"X", {"b"}}}, "a", {}, 1);
  std::rotate(body.begin() + 1, body.end() - 1, body.end());
  for (BlockOp &op : p.program.blocks[0].ops)
    if (op.subBlock) op.inputs[1].variables.push_back(p.program.intern("b"));
  EXPECT_EQ(
      emissionError(p),
      "[not_differentiable] block 1, operator 1 (assign): the gradient of array 'a' cannot be written as operators: an "
      "element may be written or read again, and an operator takes the whole array; as a graph it is supported")
      << "Paddle's operators would leave the gradient of the element in what the gradient of b is taken from";
}

TEST(ArrayGradient, E_02_ABranchThatReadsAnElementIsRefused) {
  ArrayProgram p;
  p.array("a");
  p.number("i", 0);
  write(p, "p", "i");
  p.declare("go", {1}, FluidType::Bool);
  p.op("less_than", {{"X", {"i"}}, {"Y", {"i"}}}, "go");
  p.declare("scope", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  p.declare("s");
  const uint32_t body = addBlock(p.program, 0u, {});
  p.op("read_from_array", {{"X", {"a"}}, {"I", {"i"}}}, "s", {}, body);
  addOp(p.program, 0, "conditional_block", {{"Cond", {"go"}}, {"Input", {"a", "i"}}},
        {{"Out", {"s"}}, {"Scope", {"scope"}}}, body);
  p.sum("s", "loss");
  EXPECT_EQ(
      emissionError(p),
      "[not_differentiable] block 1, operator 0 (read_from_array): the gradient of array 'a' cannot be written as "
      "operators: a branch reads it, or may write an element again; as a graph it is supported");
}

TEST(ArrayGradient, E_02_AnOperatorThatTakesTheWholeArray) {
  ArrayProgram p;
  p.array("a");
  p.array("b");
  p.number("i", 0);
  write(p, "p", "i");
  write(p, "p", "i");
  p.op("assign", {{"X", {"a"}}}, "b");
  p.declare("r");
  p.op("read_from_array", {{"X", {"b"}}, {"I", {"i"}}}, "r");
  p.sum("r", "loss");
  EXPECT_EQ(
      emissionError(p),
      "[not_differentiable] block 0, operator 3 (assign): the gradient of array 'a' cannot be written as operators: "
      "an element may be written or read again, and an operator takes the whole array; as a graph it is supported");
}

TEST(ArrayGradient, NG_01_AFlaggedValueThatIsReadPassesNothingOn) {
  ArrayProgram p;
  p.array("a");
  p.number("i", 0);
  compute(p, "sin", "p", "q");
  write(p, "q", "i");
  read(p, "i", "b");
  p.program.find(0, p.program.texts.find("b"))->stopsGradient = true;
  read(p, "i", "c");
  compute(p, "elementwise_add", "c", "d", "b");
  p.sum("d", "loss");
  const FluidResult made = cantFail(emit(p));
  EXPECT_EQ(dump(made.program, 0, 7), "fill_constant -> Out=loss@GRAD\n"
                                      "reduce_sum_grad Out@GRAD=loss@GRAD X=d -> X@GRAD=d@GRAD\n"
                                      "elementwise_add_grad Out@GRAD=d@GRAD X=c Y=b -> X@GRAD=c@GRAD Y@GRAD=\n"
                                      "write_to_array I=i X=c@GRAD -> Out=a@GRAD\n"
                                      "read_from_array I=i X=a@GRAD X_W=q -> Out=q@GRAD\n"
                                      "sin_grad Out@GRAD=q@GRAD X=p -> X@GRAD=p@GRAD\n");
}

TEST(ArrayGradient, D_28_AnIndexThatIsOverwrittenBehindAWrite) {
  for (const char *reading : {"i", "first"}) {
    ArrayProgram p;
    p.array("a");
    p.number("i", 0);
    p.number("first", 0);
    p.number("j", 1);
    write(p, "p", "i");
    read(p, reading, "b");
    p.op("assign", {{"X", {"j"}}}, "i");
    compute(p, "sin", "b", "s");
    write(p, "s", "i");
    read(p, "j", "c");
    p.sum("c", "loss");
    EXPECT_LE(worstDifference(p, cantFail(emit(p)).program), 1e-8) << reading;
  }
}

}  // namespace
}  // namespace gradc
