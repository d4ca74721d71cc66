// Shapes and dtypes of the neural network operators, both ways.
#include "tests/support/ops/op_table.h"
#include "tests/support/test_graph.h"

#include "ir/rules/inference.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(NnInfer, INF_04_ConvolutionDataFromOutput) {
  const std::vector<AttrText> attrs = {
      {"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"dilate", "(1,1)"}, {"num_filter", "21"}};
  EXPECT_EQ(inferShapes("Convolution", attrs, "(?,10,?,?) ? ? -> (5,21,32,32)"),
            "(5,10,32,32) (21,10,3,3) (21,) -> (5,21,32,32)");
}

TEST(NnInfer, INF_04_ConvolutionForward) {
  const std::vector<AttrText> attrs = {{"kernel", "(3,2)"}, {"stride", "(2,1)"}, {"dilate", "(1,3)"},
                                       {"num_filter", "6"}, {"num_group", "3"},  {"no_bias", "True"}};
  EXPECT_EQ(inferShapes("Convolution", attrs, "(?,9,8,8) ? -> ?"), "(?,9,8,8) (6,3,3,2) -> (?,6,3,5)");
  EXPECT_EQ(inferShapes("Convolution", attrs, "? (?,3,?,?) -> ?"), "(?,9,?,?) (6,3,3,2) -> (?,6,?,?)");
  EXPECT_EQ(inferShapes("Convolution", attrs, "? ? -> (4,6,3,5)"), "(4,?,?,8) (6,?,3,2) -> (4,6,3,5)");
}

TEST(NnInfer, ConvolutionChannelsLast) {
  const std::vector<AttrText> attrs = {{"kernel", "(3,3)"}, {"num_filter", "4"}, {"layout", "NHWC"}};
  EXPECT_EQ(inferShapes("Convolution", attrs, "(2,8,8,6) ? ? -> ?"), "(2,8,8,6) (4,3,3,6) (4,) -> (2,6,6,4)");
}

TEST(NnInfer, INF_07_ConvolutionConflicts) {
  const std::vector<AttrText> attrs = {{"kernel", "(3,)"}, {"num_filter", "4"}, {"num_group", "2"}, {"no_bias", "1"}};
  EXPECT_EQ(inferShapes("Convolution", attrs, "(1,3,8) ? -> ?"),
            "input has 3 channels, expected a multiple of num_group 2");
  EXPECT_EQ(inferShapes("Convolution", attrs, "(1,2,2) ? -> ?"),
            "kernel of reach 3 exceeds the padded input of 2 on spatial axis 0");
  EXPECT_EQ(inferShapes("Convolution", attrs, "(1,2) ? -> ?"), "input 0 has shape (1,2), expected (?,?,?)");
}

TEST(NnInfer, INF_08_ConvolutionGradients) {
  const std::vector<AttrText> attrs = {{"kernel", "(3,)"}, {"num_filter", "4"}};
  EXPECT_EQ(inferShapes("_backward_Convolution", attrs, "(2,4,6) ? (4,5,3) ? -> ? ? ?"),
            "(2,4,6) (2,5,8) (4,5,3) (4,) -> (2,5,8) (4,5,3) (4,)");
}

TEST(NnInfer, INF_04_FullyConnected) {
  const std::vector<AttrText> attrs = {{"num_hidden", "21"}, {"no_bias", "True"}};
  EXPECT_EQ(inferShapes("FullyConnected", attrs, "(?,10) ? -> (5,21)"), "(5,10) (21,10) -> (5,21)");
  EXPECT_EQ(inferShapes("FullyConnected", attrs, "(2,3,4) ? -> ?"), "(2,3,4) (21,12) -> (2,21)");
  EXPECT_EQ(inferShapes("FullyConnected", attrs, "(2,?,4) (21,12) -> ?"), "(2,3,4) (21,12) -> (2,21)");
  EXPECT_EQ(inferShapes("FullyConnected", attrs, "(2,?,?) (?,12) -> ?"), "(2,?,?) (21,12) -> (2,21)");
  EXPECT_EQ(inferShapes("FullyConnected", attrs, "(2,?,5) (21,12) -> ?"),
            "weight has 12 columns, but data of shape (2,?,5) cannot have 12 features");
}

TEST(NnInfer, INF_04_FullyConnectedLastAxis) {
  const std::vector<AttrText> attrs = {{"num_hidden", "5"}, {"flatten", "False"}};
  EXPECT_EQ(inferShapes("FullyConnected", attrs, "(2,?,4) ? ? -> (?,3,?)"), "(2,3,4) (5,4) (5,) -> (2,3,5)");
  EXPECT_EQ(inferShapes("FullyConnected", attrs, "? (?,4) ? -> (2,3,?)"), "(2,3,4) (5,4) (5,) -> (2,3,5)");
}

TEST(NnInfer, INF_04_BatchNorm) {
  EXPECT_EQ(inferShapes("BatchNorm", {}, "(2,3,4) ? ? ? ? -> ? ? ?"),
            "(2,3,4) (3,) (3,) (3,) (3,) -> (2,3,4) (3,) (3,)");
  EXPECT_EQ(inferShapes("BatchNorm", {{"axis", "-1"}}, "(2,3,?) ? ? (4,) ? -> (?,?,?) ? ?"),
            "(2,3,4) (4,) (4,) (4,) (4,) -> (2,3,4) (4,) (4,)");
  EXPECT_EQ(inferShapes("BatchNorm", {{"axis", "3"}}, "(2,3,4) ? ? ? ? -> ? ? ?"),
            "axis 3 is outside data of shape (2,3,4)");
}

TEST(NnInfer, REG_22_BatchNormKeepsSinglePrecisionStatistics) {
  TestContext context;
  const KindRef handle = cantFail(context.kind(*context.ops.find("BatchNorm"), Attrs()));
  const NodeKind &kind = *handle;
  SmallVector<DType, 5> in(5, DType::Unknown), out(3, DType::Unknown);
  out[0] = DType::Float16;
  DTypeInference inference(kind, in, out);
  kind.op->dtype(inference);
  EXPECT_EQ(in[0], DType::Float16);
  EXPECT_EQ(in[4], DType::Float32);
  EXPECT_EQ(out[2], DType::Float32);
}

TEST(NnInfer, INF_04_Pooling) {
  const std::vector<AttrText> avg = {{"kernel", "(3,2)"}, {"stride", "(2,1)"}, {"pad", "(1,0)"}, {"pool_type", "avg"}};
  EXPECT_EQ(inferShapes("Pooling", avg, "(2,3,8,8) -> ?"), "(2,3,8,8) -> (2,3,4,7)");
  EXPECT_EQ(inferShapes("Pooling", avg, "? -> (2,?,4,7)"), "(2,?,?,8) -> (2,?,4,7)");
  const std::vector<AttrText> full = {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pooling_convention", "full"}};
  EXPECT_EQ(inferShapes("Pooling", full, "(2,3,8) -> ? ?"), "(2,3,8) -> (2,3,4) (2,3,4)");
  const std::vector<AttrText> global = {{"global_pool", "True"}, {"pool_type", "sum"}, {"layout", "NWC"}};
  EXPECT_EQ(inferShapes("Pooling", global, "(2,7,3) -> ?"), "(2,7,3) -> (2,1,3)");
  EXPECT_EQ(inferShapes("Pooling", global, "(2,7,5,3) -> ?"),
            "data has shape (2,7,5,3), expected 3 axes, as attribute 'layout' names");
  EXPECT_EQ(inferShapes("Pooling", avg, "(2,3,0,8) -> ?"),
            "kernel of 3 exceeds the padded input of 2 on spatial axis 0");
}

TEST(NnInfer, PoolingWorkspaceIsAFunctionOfTheAttributes) {
  TestContext context;
  auto outputs = [&](ArrayRef<AttrText> attrs) {
    return cantFail(context.kind(*context.ops.find("Pooling"), context.attrs(attrs)))->numOutputs;
  };
  EXPECT_EQ(outputs({{"kernel", "(2,2)"}}), 2u);
  EXPECT_EQ(outputs({{"kernel", "(2,2)"}, {"layout", "NHWC"}}), 1u);
  EXPECT_EQ(outputs({{"global_pool", "True"}}), 1u);
  EXPECT_EQ(outputs({{"kernel", "(2,2)"}, {"pool_type", "avg"}}), 1u);
}

TEST(NnInfer, INF_04_DropoutMask) {
  EXPECT_EQ(inferShapes("Dropout", {{"axes", "(1,)"}}, "(4,3,5) -> ? ?"), "(4,3,5) -> (4,3,5) (4,1,5)");
  EXPECT_EQ(inferShapes("Dropout", {{"axes", "(3,)"}}, "(4,3,5) -> ? ?"),
            "axis 3 of 'axes' is outside data of shape (4,3,5)");
}

TEST(NnInfer, REG_19_AttributesAreChecked) {
  TestContext context;
  auto error = [&](StringRef op, ArrayRef<AttrText> attrs) {
    return describeError(context.kind(*context.ops.find(op), context.attrs(attrs)));
  };
  EXPECT_EQ(error("Convolution", {{"kernel", "(3,3)"}, {"num_filter", "4"}, {"stride", "(2,)"}}),
            "[bad_attribute] attribute 'stride' has 1 element, expected 2 as 'kernel' has");
  EXPECT_EQ(error("Convolution", {{"kernel", "()"}, {"num_filter", "4"}}),
            "[bad_attribute] attribute 'kernel' has 0 elements, expected 1 to 3");
  EXPECT_EQ(error("Convolution", {{"kernel", "(3,)"}, {"num_filter", "4"}, {"num_group", "3"}}),
            "[bad_attribute] attribute 'num_filter' is 4, expected a multiple of 'num_group' = 3");
  for (const char *op : {"Convolution", "Deconvolution", "Pooling"}) {
    const bool isPooling = op == StringRef("Pooling");
    EXPECT_EQ(error(op, {{"kernel", "(3,3)"},
                         {"layout", "NCDHW"},
                         {isPooling ? "pool_type" : "num_filter", isPooling ? "max" : "4"}}),
              "[bad_attribute] attribute 'layout' is NCDHW, expected one of 4 axes, as 'kernel' has 2 elements");
  }
  EXPECT_EQ(error("Pooling", {{"kernel", "(2,)"}, {"pool_type", "lp"}}),
            "[bad_attribute] attribute 'p_value' is missing, pool_type 'lp' needs it");
  EXPECT_EQ(error("Pooling", {{"kernel", "(2,)"}, {"pooling_convention", "same"}, {"pad", "(1,)"}}),
            "[bad_attribute] pooling convention 'same' chooses the padding, but attribute 'pad' is given");
}

constexpr char kPossibleShape[] = ", expected dimensions from 0 and at most 2^48 elements";

TEST(NnInfer, E_50_ExtentsThatNoTensorCanHave) {
  const std::vector<AttrText> grouped = {
      {"kernel", "(1,)"}, {"num_filter", "4"}, {"num_group", "4"}, {"no_bias", "True"}};
  EXPECT_EQ(inferShapes("Convolution", grouped, "? (?,281474976710656,1) -> ?"),
            StringRef("input 0 would have the shape (?,out of range,?)").str() + kPossibleShape);
  const std::vector<AttrText> wide = {
      {"kernel", "(1,)"}, {"num_filter", "1"}, {"pad", "(2147483647,)"}, {"no_bias", "True"}};
  EXPECT_EQ(inferShapes("Convolution", wide, "? ? -> (1,1,2)"),
            StringRef("input 0 would have the shape (1,?,out of range)").str() + kPossibleShape);
  EXPECT_EQ(inferShapes("Convolution", {{"kernel", "(1,)"}, {"num_filter", "9223372036854775807"}, {"no_bias", "True"}},
                        "? ? -> ?"),
            StringRef("input 1 would have the shape (9223372036854775807,?,1)").str() + kPossibleShape);
  const std::vector<AttrText> far = {{"kernel", "(1,)"}, {"num_filter", "1"}, {"stride", "(2147483647,)"}};
  EXPECT_EQ(inferShapes("Deconvolution", far, "(1,1,17179869185) ? -> ?"),
            StringRef("output 0 would have the shape (1,1,out of range)").str() + kPossibleShape);
  const std::vector<AttrText> target = {
      {"kernel", "(1,)"}, {"num_filter", "1"}, {"stride", "(2147483647,)"}, {"target_shape", "(1,)"}};
  EXPECT_EQ(inferShapes("Deconvolution", target, "(1,1,1048577) ? -> ?"),
            "target_shape 1 is cut out of 2251799812636673 pixels on spatial axis 0, expected at most 2^48");
}

// A product that is refused tells nothing about the data.
TEST(NnInfer, E_50_FullyConnectedOfTooManyRows) {
  const std::vector<AttrText> attrs = {{"num_hidden", "1048576"}, {"flatten", "False"}, {"no_bias", "True"}};
  EXPECT_EQ(inferShapes("FullyConnected", attrs, "(1099511627776,3) ? -> ?"),
            StringRef("output 0 would have the shape (1099511627776,1048576)").str() + kPossibleShape);
  EXPECT_EQ(inferShapes("_backward_FullyConnected", {{"num_hidden", "2"}, {"flatten", "False"}, {"no_bias", "True"}},
                        "() (4,3) ? -> ? ?"),
            "input 0 has shape (), expected (4,2)");
}

TEST(NnInfer, INF_04_DropoutGradientReadsTheMask) {
  EXPECT_EQ(inferShapes("_backward_Dropout", {{"axes", "(1,)"}}, "(4,3,5) ? -> ?"), "(4,3,5) (4,1,5) -> (4,3,5)");
  EXPECT_EQ(inferShapes("_backward_Dropout", {}, "(4,3) (4,1) -> ?"), "input 1 has shape (4,1), expected (4,3)");
}

// An output that no input has: less than the window, not an unknown one.
TEST(NnInfer, E_50_PoolingOfNegativeImages) {
  EXPECT_EQ(inferShapes("Pooling", {{"kernel", "(1,)"}, {"pad", "(1,)"}, {"pool_type", "sum"}}, "? -> (2,3,1)"),
            "input 0 would have the shape (2,3,out of range), expected dimensions from 0 and at most 2^48 elements");
}

}  // namespace
}  // namespace gradc
