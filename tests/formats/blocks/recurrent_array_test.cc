// Arrays of tensors in the steps of `recurrent`, and their gradients both ways.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/recurrent_programs.h"
#include "tests/support/ops/differences.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// a[0] = tanh(h · w); a[1] = a[0] + p; the output and the next state are a[1] · a[0], or · a[1].
void addStepWithArray(RecurrentProgram &p, bool readsOthers, bool hasLength) {
  p.locals({"p", "h", "m", "t", "u", "r0", "r1", "s", "y", "n"});
  p.declare("a", {2}, FluidType::Fp64, FluidType::LodTensorArray, p.steps);
  for (int i : {0, 1}) {
    const std::string name = "i" + std::to_string(i);
    p.declare(name, {1}, FluidType::Int64, FluidType::LodTensor, p.steps);
    p.step("fill_constant", {}, name,
           {{"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64))},
            {"shape", intsAttrText(AttrTag::Longs, {1})},
            {"value", floatAttrText(AttrTag::Float, i)}});
  }
  p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"w"}}}, "m");
  p.step("tanh", {{"X", {"m"}}}, "t");
  p.step("write_to_array", {{"X", {"t"}}, {"I", {"i0"}}}, "a");
  if (hasLength) {
    p.declare("length", {1}, FluidType::Int64, FluidType::LodTensor, p.steps);
    p.step("lod_array_length", {{"X", {"a"}}}, "length");
  }
  p.step("read_from_array", {{"X", {"a"}}, {"I", {"i0"}}}, "r0");
  p.step("elementwise_add", {{"X", {"r0"}}, {"Y", {"p"}}}, "u");
  p.step("write_to_array", {{"X", {"u"}}, {"I", {hasLength ? "length" : "i1"}}}, "a");
  p.step("read_from_array", {{"X", {"a"}}, {"I", {"i1"}}}, "r1");
  if (readsOthers) p.step("read_from_array", {{"X", {"a"}}, {"I", {"i0"}}}, "n");
  p.step("elementwise_mul", {{"X", {"r1"}}, {"Y", {readsOthers ? "n" : "r1"}}}, "y");
  p.step("assign", {{"X", {"y"}}}, "s");
  p.declare("y", {3, 2});
  p.close();
  p.addLoss("y");
}

TEST(RecurrentArray, CF_18_ArraysOfAStep) {
  for (bool readsOthers : {false, true})
    for (bool hasLength : {false, true}) {
      RecurrentProgram p;
      addStepWithArray(p, readsOthers, hasLength);
      expectBothWays(p, std::to_string(readsOthers) + std::to_string(hasLength), !readsOthers);
    }
}

/// The elements w and tanh(w) of an array of the root; each step reads both, the first one twice.
void addArrayAround(RecurrentProgram &p, SmallVector<int64_t, 4> shape = {2}) {
  p.array("a", std::move(shape));
  p.declare("t");
  p.op("tanh", {{"X", {"w"}}}, "t");
  for (int i : {0, 1}) {
    const std::string index = "i" + std::to_string(i);
    p.number(index, i);
    p.op("write_to_array", {{"X", {i ? "t" : "w"}}, {"I", {index}}}, "a");
  }
  p.locals({"p", "h", "r0", "r1", "r2", "m", "n", "s", "y"});
  p.step("read_from_array", {{"X", {"a"}}, {"I", {"i0"}}}, "r0");
  p.step("read_from_array", {{"X", {"a"}}, {"I", {"i1"}}}, "r1");
  p.step("read_from_array", {{"X", {"a"}}, {"I", {"i0"}}}, "r2");
  p.step("elementwise_mul", {{"X", {"r0"}}, {"Y", {"h"}}}, "m");
  p.step("elementwise_mul", {{"X", {"r1"}}, {"Y", {"p"}}}, "n");
  p.step("elementwise_add", {{"X", {"m"}}, {"Y", {"n"}}}, "s");
  p.step("elementwise_mul", {{"X", {"s"}}, {"Y", {"r2"}}}, "y");
  p.declare("y", {3, 2});
}

TEST(RecurrentArray, CF_18_AnArrayAroundTheStepsIsReadAsATensor) {
  RecurrentProgram p;
  addArrayAround(p);
  p.close();
  p.addLoss("y");
  BlockProgram made;
  cantFail(emittedGradients(p, &made));
  EXPECT_NE(StringRef(dump(made, 0)).find("tensor_array_to_tensor X=a -> Out=a@TENSOR@"), StringRef::npos)
      << dump(made, 0);
  EXPECT_EQ(StringRef(dump(made, 0)).count("tensor_array_to_tensor "), 1u) << "one for all reads";
  expectBothWays(p, "around", false);
}

TEST(RecurrentArray, E_02_AnArrayAroundThatIsWrittenLater) {
  RecurrentProgram p;
  addArrayAround(p);
  p.close();
  p.addLoss("y");
  p.op("write_to_array", {{"X", {"w"}}, {"I", {"i1"}}}, "a");
  Expected<NamedGradients> emitted = emittedGradients(p);
  const std::string what = emitted ? "success" : describeWithNotes(emitted.takeError());
  EXPECT_NE(what.find("[not_differentiable]"), std::string::npos) << what;
  EXPECT_TRUE(bool(engineGradients(p))) << "as a graph it has one";
}

/// Each step writes h · p to element i of an array of the root, where i is that of the step; elements 0 and 1 are w, or
/// there is no other write. The loss has elements 0, 1 and 2. With `isRead`, the step adds element 0 to its output.
void addWritesAround(RecurrentProgram &p, bool isReverse, bool isFirst, bool isRead) {
  p.array("a");
  for (int i : {0, 1, 2}) p.number("i" + std::to_string(i), i);
  for (const char *index : {"i0", "i1"})
    if (!isFirst) p.op("write_to_array", {{"X", {"w"}}, {"I", {index}}}, "a");
  p.declare("i", {3, 1}, FluidType::Int64);
  p.op("assign_value", {}, "i",
       {{"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64))},
        {"shape", intsAttrText(AttrTag::Ints, {3, 1})},
        {"int64_values",
         intsAttrText(AttrTag::Longs, isFirst ? ArrayRef<int64_t>({0, 1, 2}) : ArrayRef<int64_t>({2, 1, 1}))}});
  p.locals({"p", "h", "m", "n", "s", "y", "r"});
  p.declare("i", {1}, FluidType::Int64, FluidType::LodTensor, p.steps);
  p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"p"}}}, "m");
  p.step("write_to_array", {{"X", {"m"}}, {"I", {"i"}}}, "a");
  if (isRead) p.step("read_from_array", {{"X", {"a"}}, {"I", {"i0"}}}, "r");
  p.step("elementwise_add", {{"X", {"m"}}, {"Y", {isRead ? "r" : "w"}}}, "n");
  p.step("tanh", {{"X", {"n"}}}, "s");
  p.step("assign", {{"X", {"s"}}}, "y");
  p.declare("y", {3, 2});
  RecurrentProgram::Ports ports;
  ports.inputs = {"p", "i"};
  ports.isReverse = isReverse;
  p.close(ports);
  for (const char *name : {"t0", "t1", "t2", "u", "z"}) p.declare(name);
  for (int i : {0, 1, 2})
    p.op("read_from_array", {{"X", {"a"}}, {"I", {"i" + std::to_string(i)}}}, "t" + std::to_string(i));
  p.op("elementwise_mul", {{"X", {"t0"}}, {"Y", {"t1"}}}, "u");
  p.op("elementwise_add", {{"X", {"u"}}, {"Y", {"t2"}}}, "z");
  p.addLoss("z");
}

TEST(RecurrentArray, CF_18_AnArrayAroundThatTheStepsWrite) {
  for (bool isReverse : {false, true})
    for (bool isFirst : {false, true}) {
      RecurrentProgram p;
      addWritesAround(p, isReverse, isFirst, false);
      BlockProgram made;
      cantFail(emittedGradients(p, &made));
      EXPECT_EQ(StringRef(dump(made, 0)).count("slice Input=m@ROW@0"), 3u) << dump(made, 0);
      expectBothWays(p, std::to_string(isReverse) + std::to_string(isFirst), false);
    }
}

TEST(RecurrentArray, E_02_AnArrayAroundThatTheStepsReadAndWrite) {
  RecurrentProgram p;
  addWritesAround(p, false, false, true);
  Expected<NamedGradients> emitted = emittedGradients(p);
  const std::string what = emitted ? "success" : describeWithNotes(emitted.takeError());
  EXPECT_NE(
      what.find("[not_differentiable] block 0, operator 6 (recurrent): the gradient of 'a', which block 1 writes"),
      std::string::npos)
      << what;
  NamedGradients at = drawnParameters(p), made = cantFail(engineGradients(p));
  for (auto &[name, values] : at)
    EXPECT_LT(relativeDistance(made[name], differences(values, 1e-6, [&] { return lossAt(p, at); })), 1e-8) << name;
}

// With two unknown sizes, an element cannot be taken out of a tensor.
TEST(RecurrentArray, E_02_AnArrayAroundOfUnknownShape) {
  RecurrentProgram p;
  addArrayAround(p, {-1, -1});
  p.close();
  p.addLoss("y");
  Expected<NamedGradients> emitted = emittedGradients(p);
  const std::string what = emitted ? "success" : describeWithNotes(emitted.takeError());
  EXPECT_NE(what.find("array 'a', of a block around that of 'recurrent', is not available"), std::string::npos) << what;
}

}  // namespace
}  // namespace gradc
