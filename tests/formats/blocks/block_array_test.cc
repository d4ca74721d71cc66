// Arrays of tensors: stacked values with an index (IR-12). What a program with arrays computes is compared with the
// same one without, its gradient operators with the gradient engine.
#include "tests/support/blocks/array_programs.h"
#include "tests/support/ops/differences.h"

#include "formats/blocks/backward/append_backward.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// a[0] = p, a[2] = c, a[2] = tanh(p); y = a[0] · a[2] + a[1], which nobody has written.
void addStraight(ArrayProgram &p) {
  for (const char *name : {"t", "r0", "r1", "r2", "m", "y"}) p.declare(name);
  p.array("a");
  for (int i = 0; i < 3; ++i) p.number("i" + std::to_string(i), i);
  p.op("tanh", {{"X", {"p"}}}, "t");
  p.op("write_to_array", {{"X", {"p"}}, {"I", {"i0"}}}, "a");
  p.declare("c").stopsGradient = true;
  p.op("fill_zeros_like", {{"X", {"p"}}}, "c");
  p.op("write_to_array", {{"X", {"c"}}, {"I", {"i2"}}}, "a");
  p.op("write_to_array", {{"X", {"t"}}, {"I", {"i2"}}}, "a");
  for (int i = 0; i < 3; ++i)
    p.op("read_from_array", {{"X", {"a"}}, {"I", {"i" + std::to_string(i)}}}, "r" + std::to_string(i));
  p.op("elementwise_mul", {{"X", {"r0"}}, {"Y", {"r2"}}}, "m");
  p.op("elementwise_add", {{"X", {"m"}}, {"Y", {"r1"}}}, "y");
}

TEST(BlockArray, IR_12_ElementsAreReadWhereTheyWereWritten) {
  ArrayProgram p;
  addStraight(p);
  const std::vector<Array> heads = cantFail(p.run(p.program, {"p", "y", "a"}));
  const std::vector<double> given = doubles(heads[0]), made = doubles(heads[1]), all = doubles(heads[2]);
  for (size_t i = 0; i < 2; ++i) EXPECT_DOUBLE_EQ(made[i], given[i] * std::tanh(given[i]));
  ASSERT_EQ(all.size(), 6u) << "as many elements as are written";
  EXPECT_EQ(all[2], 0) << "zeros where nothing is written";
}

TEST(BlockArray, IR_12_TheLengthIsThatOfTheLastElement) {
  ArrayProgram p;
  addStraight(p);
  p.op("write_to_array", {{"X", {"p"}}, {"I", {"i0"}}}, "a");  // the last write is of an earlier element
  p.declare("n", {1}, FluidType::Int64);
  p.op("lod_array_length", {{"X", {"a"}}}, "n");
  const std::vector<Array> heads = cantFail(p.run(p.program, {"n"}));
  EXPECT_EQ(*reinterpret_cast<const int64_t *>(heads[0].bytes.data()), 3);
}

TEST(BlockArray, AGG_08_TheGradientsOfTwoReadsAreSummed) {
  ArrayProgram p;
  addStraight(p);
  p.declare("loss", {});
  p.op("reduce_sum", {{"X", {"m"}}}, "loss", {{"reduce_all", boolAttrText(true)}});
  FluidRequest request;
  request.targets = {"loss"};
  const FluidResult made = cantFail(appendBackward(p.context, BlockProgram(p.program), request));
  const std::vector<Array> heads = cantFail(p.run(made.program, {"p", "p@GRAD"}));
  std::vector<double> x = doubles(heads[0]);
  auto loss = [&] { return x[0] * std::tanh(x[0]) + x[1] * std::tanh(x[1]); };
  EXPECT_LT(relativeDistance(doubles(heads[1]), differences(x, 1e-6, loss)), 1e-9);
}

TEST(BlockArray, AnIndexBeyondTheArrayIsAnError) {
  ArrayProgram p;
  p.array("a");
  p.number("far", 7);
  p.op("write_to_array", {{"X", {"p"}}, {"I", {"far"}}}, "a");
  EXPECT_NE(failureOf(p, {"a"}).find("index 7 is out of range for axis 0 of size 1"), std::string::npos)
      << failureOf(p, {"a"});
}

TEST(BlockArray, AnArrayNeedsADeclaredShape) {
  ArrayProgram p;
  p.array("a", {-1});
  p.number("i", 0);
  p.op("write_to_array", {{"X", {"p"}}, {"I", {"i"}}}, "a");
  EXPECT_EQ(failureOf(p, {"a"}),
            "[infer_missing] block 0, operator 1 (write_to_array): array 'a' is declared without a shape of "
            "known dimensions and a type");
  for (const auto &[size, type] : {std::pair(-2, FluidType::Fp64), std::pair(2, FluidType::String)}) {
    ArrayProgram other;
    other.declare("a", {size}, type, FluidType::LodTensorArray);
    other.number("i", 0);
    other.op("write_to_array", {{"X", {"p"}}, {"I", {"i"}}}, "a");
    EXPECT_NE(failureOf(other, {"a"}).find("[infer_missing]"), std::string::npos) << size;
  }
  ArrayProgram huge;
  huge.array("a", {int64_t(1) << 62});
  huge.number("i", 0);
  huge.op("write_to_array", {{"X", {"p"}}, {"I", {"i"}}}, "a");
  EXPECT_NE(failureOf(huge, {"a"}), "success");
  ArrayProgram q;
  q.declare("a");
  q.number("i", 0);
  q.op("read_from_array", {{"X", {"a"}}, {"I", {"i"}}}, "p");
  EXPECT_EQ(failureOf(q, {"p"}), "[bad_entry] block 0, operator 1 (read_from_array): variable 'a' is not an array");
}

TEST(BlockArray, CF_14_AGradientCountsBackThroughTheElements) {
  ArrayProgram p;
  addLoop(p);
  FluidRequest request;
  request.targets = {"loss"};
  const FluidResult made = cantFail(appendBackward(p.context, BlockProgram(p.program), request));
  const std::vector<Array> heads = cantFail(p.run(made.program, {"p", "loss", "p@GRAD"}));
  std::vector<double> given = doubles(heads[0]);
  auto loss = [&] {
    double sum = 0;
    for (double x : given) {
      double h = x;
      for (int i = 0; i < 3; ++i) h = std::tanh(h * x);
      sum += h / 2;
    }
    return sum;
  };
  EXPECT_NEAR(doubles(heads[1])[0], loss(), 1e-15);
  EXPECT_LT(relativeDistance(doubles(heads[2]), differences(given, 1e-6, loss)), 1e-9);
}

/// s = p[0]; for (i = 0; i < 3;) { s = tanh(s · p[i]); i = i + 1 }, or with the counter first.
void addCounted(ArrayProgram &p, bool isFirst) {
  p.number("i", 0);
  p.number("n", 3);
  p.declare("go", {1}, FluidType::Bool);
  p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  p.declare("s", {1});
  p.op("gather", {{"X", {"p"}}, {"Index", {"i"}}}, "s");
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go");
  const uint32_t body = addBlock(p.program, 0u, {});
  for (const char *name : {"r", "m", "h"}) p.declare(name, {1}, FluidType::Fp64, FluidType::LodTensor, body);
  auto count = [&] { p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, 1)}}, body); };
  if (isFirst) count();
  p.op("gather", {{"X", {"p"}}, {"Index", {"i"}}}, "r", {}, body);
  p.op("elementwise_mul", {{"X", {"r"}}, {"Y", {"s"}}}, "m", {}, body);
  p.op("tanh", {{"X", {"m"}}}, "h", {}, body);
  p.op("assign", {{"X", {"h"}}}, "s", {}, body);
  if (!isFirst) count();
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go", {}, body);
  addOp(p.program, 0, "while", {{"Condition", {"go"}}, {"X", {"i", "n", "s", "p"}}},
        {{"Out", {"i", "s", "go"}}, {"StepScopes", {"scopes"}}}, body);
  p.declare("loss", {});
  p.op("reduce_sum", {{"X", {"s"}}}, "loss", {{"reduce_all", boolAttrText(true)}});
}

TEST(BlockArray, CF_14_AGradientReadsWhatTheCounterWas) {
  for (bool isFirst : {false, true}) {
    ArrayProgram p({4});
    addCounted(p, isFirst);
    FluidRequest request;
    request.targets = {"loss"};
    const FluidResult made = cantFail(appendBackward(p.context, BlockProgram(p.program), request));
    const std::vector<Array> heads = cantFail(p.run(made.program, {"p", "loss", "p@GRAD"}));
    std::vector<double> x = doubles(heads[0]);
    auto loss = [&] {
      double s = x[0];
      for (size_t i = 0; i < 3; ++i) s = std::tanh(s * x[i + isFirst]);
      return s;
    };
    EXPECT_NEAR(doubles(heads[1])[0], loss(), 1e-15);
    EXPECT_LT(relativeDistance(doubles(heads[2]), differences(x, 1e-6, loss)), 1e-9);
  }
}

TEST(BlockArray, ALoopMayWriteAsManyElementsAsItHasSteps) {
  ArrayProgram p;
  addLoop(p);
  p.declare("length", {1}, FluidType::Int64);
  p.op("lod_array_length", {{"X", {"a"}}}, "length");
  const std::vector<Array> heads = cantFail(p.run(p.program, {"a", "length"}, 3));
  EXPECT_EQ(doubles(heads[0]).size(), 2u * 4u);
  EXPECT_EQ(*reinterpret_cast<const int64_t *>(heads[1].bytes.data()), 4);
}

}  // namespace
}  // namespace gradc
