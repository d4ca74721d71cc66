// Parts of networks: shapes both ways, refusals, lengths and labels out of range, types of mixed precision. Values and
// gradients are those of the samples and goldens (tests/conformance_samples/networks.cc).
#include "tests/support/ops/mxnet_rows.h"
#include "tests/support/test_graph.h"

#include "passes/inference/infer.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// What an operator with these attributes makes of shapes, or says about them.
struct ShapeRow {
  StringRef op;
  std::vector<AttrText> attrs;
  StringRef shapes;
  StringRef expected;
};

void checkShapes(ArrayRef<ShapeRow> rows) {
  for (const ShapeRow &row : rows)
    EXPECT_EQ(inferShapes(row.op, row.attrs, row.shapes), row.expected.str()) << row.op.str();
}

TEST(NetworkOps, INF_04_Products) {
  checkShapes({
      {"_linalg_gemm2", {}, "(2,?,3) (?,?,4) -> (?,5,?)", "(2,5,3) (2,3,4) -> (2,5,4)"},
      {"_linalg_gemm2", {{"transpose_a", "True"}, {"axis", "0"}}, "(3,2,5) ? -> (?,?,4)", "(3,2,5) (3,2,4) -> (5,2,4)"},
      {"_linalg_gemm2",
       {{"axis", "1"}, {"transpose_b", "True"}},
       "(2,3,4,5) (2,6,4,5) -> ?",
       "(2,3,4,5) (2,6,4,5) -> (2,3,4,6)"},
      {"_linalg_gemm", {}, "(?,3) (3,?) (2,4) -> ?", "(2,3) (3,4) (2,4) -> (2,4)"},
      {"_linalg_gemm2", {}, "(2,3) (2,4) -> ?", "input 1 has shape (2,4), expected (3,4)"},
      {"_linalg_gemm2", {}, "(2,3,4) (3,4,3) -> ?", "input 0 has shape (2,3,4), expected (3,3,4)"},
      {"_linalg_gemm2", {}, "(2,3,4) (3,4) -> ?", "input 1 has shape (3,4), expected (?,?,?)"},
      {"_linalg_gemm2", {}, "(3,) (3,) -> ?", "operands have rank 1, expected at least 2"},
      {"_linalg_gemm2",
       {{"axis", "1"}},
       "(2,3) (3,4) -> ?",
       "axis 1 is out of range for the rows of 2-dimensional operands, whose last axis is that of the columns"},
      {"_linalg_gemm2",
       {{"axis", "-4"}},
       "(2,2,3) ? -> ?",
       "axis -4 is out of range for the rows of 3-dimensional operands, whose last axis is that of the columns"},
      {"_linalg_gemm", {}, "(2,3) (3,4) (2,5) -> ?", "input 1 has shape (3,4), expected (3,5)"},
      {"khatri_rao", {{"num_args", "2"}}, "(2,?) (3,4) -> ?", "(2,4) (3,4) -> (6,4)"},
      {"khatri_rao", {{"num_args", "2"}}, "(2,3) (3,4) -> ?", "input 0 has shape (2,3), expected (?,4)"},
      {"khatri_rao", {{"num_args", "1"}}, "(2,) -> ?", "input 0 has shape (2,), expected (?,?)"},
  });
}

TEST(NetworkOps, INF_04_Attention) {
  const AttrText two{"heads", "2"}, one{"heads", "1"};
  checkShapes({
      {"_contrib_interleaved_matmul_selfatt_qk", {two}, "(3,?,12) -> (8,?,?)", "(3,4,12) -> (8,3,3)"},
      {"_contrib_interleaved_matmul_selfatt_valatt", {two}, "(?,?,?) (4,3,?) -> (?,?,2)", "(3,2,6) (4,3,3) -> (3,2,2)"},
      {"_contrib_interleaved_matmul_encdec_qk", {two}, "(3,2,4) (5,?,?) -> ?", "(3,2,4) (5,2,8) -> (4,3,5)"},
      {"_contrib_interleaved_matmul_encdec_valatt", {two}, "(3,?,8) (4,5,?) -> ?", "(3,2,8) (4,5,3) -> (5,2,4)"},
      {"_contrib_interleaved_matmul_selfatt_qk",
       {two},
       "(2,1,9) -> ?",
       "projection has shape (2,1,9), expected a multiple of 6 on the last axis"},
      {"_contrib_interleaved_matmul_selfatt_qk", {two}, "(2,7) -> ?", "input 0 has shape (2,7), expected (?,?,?)"},
      {"_contrib_interleaved_matmul_encdec_qk",
       {one},
       "(2,1,6) (3,1,10) -> ?",
       "input 1 has shape (3,1,10), expected (3,1,12)"},
      {"_contrib_interleaved_matmul_encdec_qk",
       {one},
       "(2,1,6) (3,2,12) -> ?",
       "input 0 has shape (2,1,6), expected (2,2,6)"},
      {"_contrib_interleaved_matmul_encdec_valatt",
       {two},
       "(3,2,8) (4,5,2) -> ?",
       "input 1 has shape (4,5,2), expected (4,5,3)"},
      {"_contrib_interleaved_matmul_encdec_valatt",
       {two},
       "(3,2,8) (3,5,3) -> ?",
       "scores has shape (3,5,3), expected a multiple of 2 on the first axis"},
      {"_contrib_interleaved_matmul_selfatt_valatt",
       {one},
       "(3,2,6) (2,3,4) -> ?",
       "input 0 has shape (3,2,6), expected (4,2,6)"},
  });
}

TEST(NetworkOps, INF_04_SequencesAndGroups) {
  const AttrText lengths{"use_sequence_length", "True"};
  checkShapes({
      {"SequenceLast", {lengths}, "(4,?,3) (2,) -> ?", "(4,2,3) (2,) -> (2,3)"},
      {"SequenceLast", {{"axis", "1"}}, "(2,4,?) -> (?,3)", "(2,4,3) -> (2,3)"},
      {"SequenceLast", {}, "(4,) -> ?", "data has shape (4,), expected at least a time axis and a batch axis"},
      {"SequenceLast", {}, "? -> ()", "the result has no axes, expected one of the batch"},
      {"SequenceLast", {}, "(0,2) -> ?", "data has shape (0,2), expected at least one step"},
      {"SequenceReverse", {lengths}, "(4,?,3) (2,) -> ?", "(4,2,3) (2,) -> (4,2,3)"},
      {"SequenceReverse", {}, "(4,) -> ?", "data has shape (4,), expected at least a time axis and a batch axis"},
      {"GroupNorm", {{"num_groups", "2"}}, "(?,4,3) ? ? -> ? (5,?) ?", "(5,4,3) (2,) (2,) -> (5,4,3) (5,2) (5,2)"},
      {"GroupNorm",
       {{"num_groups", "3"}},
       "(2,4,3) ? ? -> ? ? ?",
       "data has shape (2,4,3), expected a multiple of num_groups 3 channels"},
      {"GroupNorm",
       {{"num_groups", "2"}},
       "(2,4) ? ? -> ? ? ?",
       "data has shape (2,4), expected axes of images, of channels and of pixels"},
      {"GroupNorm", {{"num_groups", "2"}}, "(2,4,3) (4,) ? -> ? ? ?", "input 1 has shape (4,), expected (2,)"},
  });
}

TEST(NetworkOps, INF_04_LossesAndImages) {
  const AttrText two{"block_size", "2"}, window{"kernel", "(2,2)"};
  checkShapes({
      {"softmax_cross_entropy", {}, "(?,3) (4,) -> ?", "(4,3) (4,) -> (1,)"},
      {"softmax_cross_entropy", {}, "(4,3,2) ? -> ?", "input 0 has shape (4,3,2), expected (?,?)"},
      {"SVMOutput", {}, "? (4,2) -> (?,?,3)", "(4,2,3) (4,2) -> (4,2,3)"},
      {"SVMOutput", {}, "(4,) ? -> ?", "data has shape (4,), expected at least an axis of samples and one of classes"},
      {"SVMOutput", {}, "? () -> ?", "label has no dimensions, expected at least an axis of samples"},
      {"SVMOutput", {}, "(2,3) (3,) -> ?", "input 1 has shape (3,), expected (2,)"},
      {"depth_to_space", {two}, "(1,8,2,3) -> ?", "(1,8,2,3) -> (1,2,4,6)"},
      {"space_to_depth", {two}, "? -> (1,8,2,3)", "(1,2,4,6) -> (1,8,2,3)"},
      {"depth_to_space",
       {two},
       "(1,6,2,3) -> ?",
       "data has shape (1,6,2,3), expected its channels to be a multiple of 4"},
      {"space_to_depth",
       {two},
       "(1,2,3,4) -> ?",
       "data has shape (1,2,3,4), expected its height to be a multiple of 2"},
      {"space_to_depth", {two}, "(1,2,4,5) -> ?", "data has shape (1,2,4,5), expected its width to be a multiple of 2"},
      {"depth_to_space", {two}, "(8,2,3) -> ?", "input 0 has shape (8,2,3), expected (?,?,?,?)"},
      {"depth_to_space",
       {{"block_size", "2147483647"}},
       "(1,8,2,3) -> ?",
       "data has shape (1,8,2,3), expected its channels to be a multiple of 4611686014132420609"},
      {"im2col", {window}, "(1,2,4,6) -> ?", "(1,2,4,6) -> (1,8,15)"},
      {"im2col", {window}, "(?,?,4,6) -> (3,8,?)", "(3,2,4,6) -> (3,8,15)"},
      {"im2col",
       {{"kernel", "(5,2)"}},
       "(1,2,4,6) -> ?",
       "kernel of reach 5 exceeds the padded image of 4 on spatial axis 0"},
      {"im2col", {window}, "(1,2,4) -> ?", "input 0 has shape (1,2,4), expected (?,?,?,?)"},
      {"im2col",
       {window},
       "(1,?,4,6) -> (1,7,?)",
       "columns have 7 rows, expected a multiple of the 4 elements of a window"},
      {"col2im", {window, {"output_size", "(4,6)"}}, "(1,8,?) -> ?", "(1,8,15) -> (1,2,4,6)"},
      {"col2im", {window, {"output_size", "(4,5)"}}, "(1,8,15) -> ?", "input 0 has shape (1,8,15), expected (1,8,12)"},
      {"col2im",
       {window, {"output_size", "(1,6)"}},
       "(1,8,15) -> ?",
       "kernel of reach 2 exceeds the padded image of 1 on spatial axis 0"},
  });
}

TEST(NetworkOps, RefusedAttributes) {
  struct Row {
    StringRef op;
    std::initializer_list<AttrText> attrs;
    StringRef part;
  };
  const Row rows[] = {
      {"_contrib_interleaved_matmul_selfatt_qk", {{"heads", "0"}}, "'heads'"},
      {"SequenceLast", {{"axis", "2"}}, "'axis'"},
      {"SequenceReverse", {{"axis", "1"}}, "'axis'"},
      {"GroupNorm", {{"num_groups", "0"}}, "'num_groups'"},
      {"GroupNorm", {{"eps", "-1"}}, "'eps'"},
      {"depth_to_space", {{"block_size", "0"}}, "'block_size'"},
      {"space_to_depth", {{"block_size", "-2"}}, "'block_size'"},
      {"im2col", {{"kernel", "()"}}, "attribute 'kernel' has 0 elements, expected 1 to 3"},
      {"im2col", {{"kernel", "(0,1)"}}, "'kernel'"},
      {"im2col",
       {{"kernel", "(2,2)"}, {"stride", "(1,)"}},
       "attribute 'stride' has 1 element, expected 2 as 'kernel' has"},
      {"im2col", {{"kernel", "(2,2)"}, {"stride", "(0,1)"}}, "'stride'"},
      {"im2col", {{"kernel", "(2,2)"}, {"pad", "(0,-1)"}}, "'pad'"},
      {"col2im",
       {{"kernel", "(2,2)"}, {"output_size", "(4,)"}},
       "attribute 'output_size' has 1 element, expected 2 as 'kernel' has"},
      {"amp_cast", {{"dtype", "float7"}}, "'dtype'"},
      {"amp_multicast", {{"num_outputs", "0"}}, "'num_outputs'"},
      {"khatri_rao", {{"num_args", "0"}}, "'num_args'"},
  };
  for (const Row &row : rows) {
    const std::string refusal = refusalOf(row.op, row.attrs);
    EXPECT_NE(refusal.find(row.part.str()), std::string::npos) << row.op.str() << ": " << refusal;
  }
}

// NaN and what is below 1 are the first step; what is beyond the end is the last one, and all steps are turned around.
TEST(NetworkOps, RUN_02_LengthsOutOfRange) {
  const OpTensor x{{2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, lengths{{5}, {NAN, HUGE_VAL, -HUGE_VAL, 1e300, 1.9}};
  const std::pair<std::string, std::string> use = {"use_sequence_length", "True"};
  checkRow({"SequenceLast", {use}, {x, lengths}, {5}, {1, 7, 3, 9, 5}, {}});
  checkRow({"SequenceReverse", {use}, {x, lengths}, {2, 5}, {1, 7, 3, 9, 5, 6, 2, 8, 4, 10}, {}});
  TestGraph g("n = _full {shape=(5,), value=18446744073709549568, dtype=uint64};"
              "y = SequenceLast(x, n) {use_sequence_length=True}");
  EXPECT_EQ(evaluate(g, {{"x", Array({2, 5}, x.values)}})[0].values, (std::vector<double>{6, 7, 8, 9, 10}))
      << "2^64 - 2048";
}

// Such rows count nothing and learn nothing. A probability below the guard counts as 10⁻⁸.
TEST(NetworkOps, RUN_02_LabelsOutOfRange) {
  const OpTensor x{{5, 2}, {0, 0, 1, 2, 3, 4, 5, 6, 7, 8}}, labels{{5}, {1.7, 2, -1, NAN, 1e300}};
  checkRow({"softmax_cross_entropy", {}, {x, labels}, {1}, {std::log(2.0)}, {}});
  TestGraph g("y = softmax_cross_entropy(x, l)");
  Bindings bindings = {{"x", Array({1, 2}, {0.0, 30.0})}, {"l", Array(std::vector<double>{0})}};
  EXPECT_NEAR(evaluate(g, bindings)[0].values[0], 18.420680750043, 1e-9);
  const std::vector<Array> all = evaluate(gradientOf(g.context, g, {"x"}, 1).graph, bindings);
  expectClose(all.back().values, {std::exp(-30.0) / (1 + std::exp(-30.0)) - 1, 1 / (1 + std::exp(-30.0))}, 1e-14);
}

// Types as MXNet 1.9.1 gives them: float64 and integers stay.
TEST(NetworkOps, INF_08_TypesOfMixedPrecision) {
  auto typesOf = [](const std::string &text) {
    TestGraph g(text);
    Expected<Inference> inference = infer(g.context, g, {}, {});
    if (!inference) return describeError(inference.takeError());
    std::string types;
    const NodeId y = g.at("y").node;
    for (uint32_t o = 0; o < g.graph.numOutputs(y); ++o)
      types += (o ? " " : "") + dtypeName(inference->dtype[EntryId(g.graph.firstEntry(y).value + o)]).str();
    return types;
  };
  auto full = [](const std::string &name, const std::string &type) {
    return name + " = _full {shape=(2,), value=1, dtype=" + type + "}; ";
  };
  auto cast = [&](const std::string &from, const std::string &to) {
    return typesOf(full("x", from) + "y = amp_cast(x) {dtype=" + to + "}");
  };
  EXPECT_EQ(cast("float32", "float16"), "float16");
  EXPECT_EQ(cast("float16", "float32"), "float32");
  EXPECT_EQ(cast("float32", "int32"), "int32");
  EXPECT_EQ(cast("float64", "float16"), "float64");
  EXPECT_EQ(cast("int32", "float32"), "int32");
  auto multicast = [&](const std::string &a, const std::string &b, const std::string &narrow) {
    return typesOf(full("a", a) + full("b", b) + "y = amp_multicast(a, b) {num_outputs=2, cast_narrow=" + narrow + "}");
  };
  EXPECT_EQ(multicast("float16", "float32", "False"), "float32 float32");
  EXPECT_EQ(multicast("float16", "float32", "True"), "float16 float16");
  EXPECT_EQ(multicast("float32", "float64", "False"), "float32 float64");
  EXPECT_EQ(multicast("float16", "int32", "False"), "float16 int32");
  EXPECT_EQ(multicast("int32", "int64", "True"), "int32 int64");
}

}  // namespace
}  // namespace gradc
