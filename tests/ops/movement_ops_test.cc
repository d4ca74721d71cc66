// Reshapes, slices, rearrangements, repetitions, casts and choices: values and gradients as MXNet 1.9.1 computes them.
#include "ops/shape/strided_view.h"
#include "tests/support/ops/mxnet_rows.h"
#include "tests/support/ops/op_table.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<OpRow> &rows() {
  // clang-format off
  static const std::vector<OpRow> list = {
    {"Reshape", {{"shape", "(3,-1)"}}, {{{2, 3}, {0.5, -1.25, 0, -2, 0.5, 0.75}}}, {3, 2}, {0.5, -1.25, 0, -2,
     0.5, 0.75}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}}},
    {"Reshape", {{"shape", "(-3,0)"}}, {{{2, 1, 3}, {0.25, 0.5, -0.5, -2, 1, -0.25}}}, {2, 3}, {0.25, 0.5, -0.5,
     -2, 1, -0.25}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}}},
    {"Reshape", {{"shape", "(-1,0)"}, {"reverse", "True"}}, {{{2, 2, 2}, {1.5, -1.5, -1.5, -1.75, -0.75, 0, 1.5,
     -1.75}}}, {4, 2}, {1.5, -1.5, -1.5, -1.75, -0.75, 0, 1.5, -1.75}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75,
     0.25, 1.25}}},
    {"Reshape", {{"shape", "(-4,-1,1,-2)"}}, {{{2, 3}, {0.5, -0.25, 0.75, -1.75, 1.75, 2}}}, {2, 1, 3}, {0.5,
     -0.25, 0.75, -1.75, 1.75, 2}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}}},
    {"Reshape", {{"target_shape", "(0,3)"}}, {{{3, 2}, {-0.75, 1.5, -2, -2, 0.25, -0.75}}}, {2, 3}, {-0.75, 1.5,
     -2, -2, 0.25, -0.75}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}}},
    {"expand_dims", {{"axis", "-1"}}, {{{2, 3}, {-0.25, -0.75, 1.5, -1.75, -1.75, 0.5}}}, {2, 3, 1}, {-0.25,
     -0.75, 1.5, -1.75, -1.75, 0.5}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}}},
    {"expand_dims", {{"axis", "0"}}, {{{3}, {0.75, -1, -1.25}}}, {1, 3}, {0.75, -1, -1.25}, {{-0.75, 0.25,
     1.25}}},
    {"squeeze", {}, {{{1, 2, 1}, {2, 2}}}, {2}, {2, 2}, {{-0.75, 0.25}}},
    {"squeeze", {{"axis", "(0,-1)"}}, {{{1, 1, 2, 1}, {-2, 2}}}, {1, 2}, {-2, 2}, {{-0.75, 0.25}}},
    {"squeeze", {}, {{{1, 1}, {0.75}}}, {1}, {0.75}, {{-0.75}}},
    {"transpose", {}, {{{2, 3}, {-2, 1.25, -0.75, 2, -1.75, -1.5}}}, {3, 2}, {-2, 2, 1.25, -1.75, -0.75, -1.5},
     {{-0.75, 1.25, 0.75, 0.25, -0.25, -0.75}}},
    {"transpose", {{"axes", "(2,0,1)"}}, {{{2, 1, 3}, {-1, 0, 1, 2, 0.5, 2}}}, {3, 2, 1}, {-1, 2, 0, 0.5, 1, 2},
     {{-0.75, 1.25, 0.75, 0.25, -0.25, -0.75}}},
    {"SwapAxis", {{"dim1", "0"}, {"dim2", "2"}}, {{{2, 1, 3}, {-1, 0, -0.25, -2, 2, 0.25}}}, {3, 1, 2}, {-1, -2,
     0, 2, -0.25, 0.25}, {{-0.75, 1.25, 0.75, 0.25, -0.25, -0.75}}},
    {"SwapAxis", {{"dim1", "-1"}, {"dim2", "-2"}}, {{{2, 3}, {-1.75, 1.75, 0.75, 0.5, 2, 2}}}, {3, 2}, {-1.75,
     0.5, 1.75, 2, 0.75, 2}, {{-0.75, 1.25, 0.75, 0.25, -0.25, -0.75}}},
    {"reverse", {{"axis", "(1,)"}}, {{{2, 3}, {1, -1, 1, 1, 2, -1.5}}}, {2, 3}, {1, -1, 1, -1.5, 2, 1}, {{1.25,
     0.25, -0.75, -0.75, 0.75, -0.25}}},
    {"reverse", {{"axis", "(0,1)"}}, {{{2, 3}, {-0.25, -1.75, -1.25, 1.25, -1.75, -1.5}}}, {2, 3}, {-1.5, -1.75,
     1.25, -1.25, -1.75, -0.25}, {{-0.75, 0.75, -0.25, 1.25, 0.25, -0.75}}},
    {"reverse", {{"axis", "(0,0)"}}, {{{2, 3}, {-1.25, 0.75, -0.25, -1.75, 0.75, -2}}}, {2, 3}, {-1.25, 0.75,
     -0.25, -1.75, 0.75, -2}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}}},
    {"repeat", {{"repeats", "2"}}, {{{2, 3}, {2, 0.75, 0, 0, 1.5, 1}}}, {12}, {2, 2, 0.75, 0.75, 0, 0, 0, 0, 1.5,
     1.5, 1, 1}, {{-0.5, 1, 0, 1.5, 0.5, -0.5}}},
    {"repeat", {{"repeats", "3"}, {"axis", "0"}}, {{{2, 2}, {-1, 0.25, -0.75, 0.25}}}, {6, 2}, {-1, 0.25, -1,
     0.25, -1, 0.25, -0.75, 0.25, -0.75, 0.25, -0.75, 0.25}, {{1.25, -0.75, -0.75, 2.25}}},
    {"repeat", {{"repeats", "2"}, {"axis", "-1"}}, {{{2, 3}, {0.5, 0.25, -2, 1.25, 1, -0.25}}}, {2, 6}, {0.5, 0.5,
     0.25, 0.25, -2, -2, 1.25, 1.25, 1, 1, -0.25, -0.25}, {{-0.5, 1, 0, 1.5, 0.5, -0.5}}},
    {"tile", {{"reps", "(2,)"}}, {{{2, 2}, {-1, 0.5, 0, 1}}}, {2, 4}, {-1, 0.5, -1, 0.5, 0, 1, 0, 1}, {{0.5, 0, 1,
     0.5}}},
    {"tile", {{"reps", "(2,1,2)"}}, {{{1, 3}, {-2, -0.25, -2}}}, {2, 1, 6}, {-2, -0.25, -2, -2, -0.25, -2, -2,
     -0.25, -2, -2, -0.25, -2}, {{0, 1.5, 0.5}}},
    {"tile", {{"reps", "(2,3)"}}, {{{2, 1}, {-1.75, 1.75}}}, {4, 3}, {-1.75, -1.75, -1.75, 1.75, 1.75, 1.75,
     -1.75, -1.75, -1.75, 1.75, 1.75, 1.75}, {{2, 0}}},
    {"slice", {{"begin", "(0,2)"}, {"end", "(None,0)"}, {"step", "(1,-1)"}}, {{{2, 3}, {0.75, 0.25, -0.25, 1.25,
     -1, 0.25}}}, {2, 2}, {-0.25, 0.25, 0.25, -1}, {{0, 0.25, -0.75, 0, -0.25, 1.25}}},
    {"slice", {{"begin", "(None,-2)"}, {"end", "(1,None)"}}, {{{2, 3}, {1.25, 1.25, -2, 1.75, -1, 0.5}}}, {1, 2},
     {1.25, -2}, {{0, -0.75, 0.25, 0, 0, 0}}},
    {"slice", {{"begin", "(None,None)"}, {"end", "(None,None)"}, {"step", "(-1,2)"}}, {{{2, 3}, {-0.5, 1, 1.75,
     1.5, 0.5, 0.75}}}, {2, 2}, {1.5, 0.75, -0.5, 1.75}, {{1.25, 0, -0.25, -0.75, 0, 0.25}}},
    {"slice_axis", {{"axis", "1"}, {"begin", "-2"}, {"end", "None"}}, {{{2, 3}, {-1.25, 0, -1.5, 0.75, -1, -2}}},
     {2, 2}, {0, -1.5, -1, -2}, {{0, -0.75, 0.25, 0, 1.25, -0.25}}},
    {"slice_axis", {{"axis", "0"}, {"begin", "0"}, {"end", "1"}}, {{{2, 3}, {1.25, -0.25, -1.75, -1.5, -1.5,
     1.5}}}, {1, 3}, {1.25, -0.25, -1.75}, {{-0.75, 0.25, 1.25, 0, 0, 0}}},
    {"slice_like", {}, {{{2, 3}, {0.5, -0.25, 1, 0.75, -0.25, -0.25}}, {{1, 2}, {1, 1}}}, {1, 2}, {0.5, -0.25},
     {{-0.75, 0.25, 0, 0, 0, 0}, {0, 0}}},
    {"slice_like", {{"axes", "(-1,)"}}, {{{2, 3}, {0.25, -0.25, -1.5, 1.75, 1.25, -1}}, {{5, 1}, {0, 0.25, 0,
     -0.75, 1}}}, {2, 1}, {0.25, 1.75}, {{-0.75, 0, 0, 0.25, 0, 0}, {0, 0, 0, 0, 0}}},
    {"SliceChannel", {{"num_outputs", "3"}}, {{{2, 3}, {-1.25, -1.5, 0.75, -2, -0.25, -2}}}, {2, 1}, {-1.25, -2},
     {{-0.75, 0, 0, 0.25, 0, 0}}},
    {"SliceChannel", {{"num_outputs", "2"}, {"axis", "0"}, {"squeeze_axis", "True"}}, {{{2, 3}, {1.5, -1.25,
     -0.75, 1.5, 1.25, 1}}}, {3}, {1.5, -1.25, -0.75}, {{-0.75, 0.25, 1.25, 0, 0, 0}}},
    {"stack", {{"num_args", "2"}, {"axis", "-1"}}, {{{3}, {-1.5, -0.5, -0.5}}, {{3}, {1.25, -0.25, 1.25}}}, {3,
     2}, {-1.5, 1.25, -0.5, -0.25, -0.5, 1.25}, {{-0.75, 1.25, 0.75}, {0.25, -0.25, -0.75}}},
    {"stack", {{"num_args", "2"}}, {{{2, 2}, {-0.25, -2, 1, 0}}, {{2, 2}, {-1, 0.5, -1, 1}}}, {2, 2, 2}, {-0.25,
     -2, 1, 0, -1, 0.5, -1, 1}, {{-0.75, 0.25, 1.25, -0.25}, {0.75, -0.75, 0.25, 1.25}}},
    {"broadcast_axis", {{"axis", "(0,)"}, {"size", "(2,)"}}, {{{1, 3}, {-2, -1.25, 1.25}}}, {2, 3}, {-2, -1.25,
     1.25, -2, -1.25, 1.25}, {{-1, 1, 0.5}}},
    {"broadcast_axis", {{"axis", "(0,2)"}, {"size", "(2,3)"}}, {{{1, 2, 1}, {-1, -1.5}}}, {2, 2, 3}, {-1, -1, -1,
     -1.5, -1.5, -1.5, -1, -1, -1, -1.5, -1.5, -1.5}, {{2, 0}}},
    {"broadcast_to", {{"shape", "(2,3)"}}, {{{2, 1}, {-0.75, -0.25}}}, {2, 3}, {-0.75, -0.75, -0.75, -0.25, -0.25,
     -0.25}, {{0.75, -0.25}}},
    {"broadcast_to", {{"shape", "(3,0)"}}, {{{1, 2}, {0.25, -0.5}}}, {3, 2}, {0.25, -0.5, 0.25, -0.5, 0.25, -0.5},
     {{1.25, -0.75}}},
    {"Crop", {{"num_args", "1"}, {"h_w", "(2,2)"}, {"offset", "(1,0)"}}, {{{1, 1, 3, 2}, {1.25, -2, -1.75, -0.25,
     -2, -1.25}}}, {1, 1, 2, 2}, {-1.75, -0.25, -2, -1.25}, {{0, 0, -0.75, 0.25, 1.25, -0.25}}},
    {"Crop", {{"num_args", "1"}, {"h_w", "(1,2)"}, {"center_crop", "True"}}, {{{1, 2, 2, 3}, {1.5, -0.75, 1, 0.75,
     -1.75, 1.75, -1.25, -0.5, 1.5, 1.75, 1.5, 0.75}}}, {1, 2, 1, 2}, {1.5, -0.75, -1.25, -0.5}, {{-0.75, 0.25, 0,
     0, 0, 0, 1.25, -0.25, 0, 0, 0, 0}}},
    {"Crop", {{"num_args", "2"}, {"offset", "(0,1)"}}, {{{1, 1, 2, 3}, {-0.75, 1.75, 2, -1.5, -1.75, -0.5}}, {{1,
     2, 1, 2}, {1, -1, -0.25, 0.5}}}, {1, 1, 1, 2}, {1.75, 2}, {{0, -0.75, 0.25, 0, 0, 0}, {0, 0, 0, 0}}},
    {"Pad", {{"mode", "constant"}, {"pad_width", "(0,0,0,0,1,0,0,1)"}, {"constant_value", "2"}}, {{{1, 1, 2, 2},
     {-1.25, 0.5, -1.5, -1.75}}}, {1, 1, 3, 3}, {2, 2, 2, -1.25, 0.5, 2, -1.5, -1.75, 2}, {{-0.25, 0.75, 0.25,
     1.25}}},
    {"Pad", {{"mode", "edge"}, {"pad_width", "(0,0,0,0,1,0,2,1)"}}, {{{1, 1, 2, 2}, {1.5, 1.5, 1, -1}}}, {1, 1, 3,
     5}, {1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1, 1, 1, -1, -1}, {{1.5, 1, 0.75, 0.5}}},
    {"Pad", {{"mode", "reflect"}, {"pad_width", "(0,0,0,0,1,0,1,2)"}}, {{{1, 1, 2, 3}, {-1.25, -1.5, 1, 0.5, -1,
     0}}}, {1, 1, 3, 6}, {-1, 0.5, -1, 0, -1, 0.5, -1.5, -1.25, -1.5, 1, -1.5, -1.25, -1, 0.5, -1, 0, -1, 0.5},
     {{1.5, -0.75, 0.75, 0.5, 3.5, -1}}},
    {"where", {}, {{{2, 3}, {1, 1, 0, -2, 0, -2}}, {{2, 3}, {2, -1.75, -2, -1, 1.5, -0.75}}, {{2, 3}, {-0.5, 0.5,
     -1, 1.25, -2, 0.5}}}, {2, 3}, {2, -1.75, -1, -1, -2, -0.75}, {{0, 0, 0, 0, 0, 0}, {-0.75, 0.25, 0, -0.25, 0,
     -0.75}, {0, 0, 1.25, 0, 0.75, 0}}},
    {"where", {}, {{{2}, {0, -2}}, {{2, 3}, {1.75, -1, -2, 0.5, 0.25, -0.75}}, {{2, 3}, {1.5, 0.25, -0.5, 1, -2,
     -1.75}}}, {2, 3}, {1.5, 0.25, -0.5, 0.5, 0.25, -0.75}, {{0, 0}, {0, 0, 0, -0.25, 0.75, -0.75}, {-0.75, 0.25,
     1.25, 0, 0, 0}}},
    {"Cast", {{"dtype", "float32"}}, {{{2, 3}, {-1, 0.75, 1.5, 1.5, 0, -1.25}}}, {2, 3}, {-1, 0.75, 1.5, 1.5, 0,
     -1.25}, {{-0.75, 0.25, 1.25, -0.25, 0.75, -0.75}}},
    {"Cast", {{"dtype", "float64"}}, {{{3}, {-2, 1, -1.75}}}, {3}, {-2, 1, -1.75}, {{-0.75, 0.25, 1.25}}},
  };
  // clang-format on
  return list;
}

TEST(MovementOps, RUN_02_ValuesAndGradients) {
  for (const OpRow &row : rows()) checkRow(row);
}

TEST(MovementOps, INF_04_ReshapeCodes) {
  const std::pair<StringRef, StringRef> rows[] = {
      {"(4,0,2)", "(2,3,4) -> (4,3,2)"},         {"(-1,0)", "(2,3,4) -> (8,3)"},
      {"(-2,1,1)", "(2,3,4) -> (2,3,4,1,1)"},    {"(-3,-2)", "(2,3,4) -> (6,4)"},
      {"(-4,1,2,-2)", "(2,3,4) -> (1,2,3,4)"},   {"(2,-4,-1,3,-2)", "(2,3,4) -> (2,1,3,4)"},
      {"(0,-4,1,3,-1)", "(2,3,4) -> (2,1,3,4)"}, {"(0,0,-1,1)", "(2,3,4) -> (2,3,4,1)"},
  };
  for (auto [shape, expected] : rows) EXPECT_EQ(inferShapes("Reshape", {{"shape", shape}}, "(2,3,4) -> ?"), expected);
  const std::pair<StringRef, StringRef> reversed[] = {
      {"(-1,0)", "(2,3,4) -> (6,4)"},
      {"(0,-3)", "(2,3,4) -> (2,12)"},
      {"(-2,4)", "(2,3,4) -> (2,3,4)"},
      {"(0,1,3,-4,0)", "(2,3,4) -> (2,1,3,4)"},
  };
  for (auto [shape, expected] : reversed)
    EXPECT_EQ(inferShapes("Reshape", {{"shape", shape}, {"reverse", "True"}}, "(2,3,4) -> ?"), expected);
  const std::pair<StringRef, StringRef> legacy[] = {{"(4,0)", "(2,3,4) -> (4,6)"}, {"(0,0)", "(2,3,4) -> (?,?)"}};
  for (auto [shape, expected] : legacy)
    EXPECT_EQ(inferShapes("Reshape", {{"target_shape", shape}}, "(2,3,4) -> ?"), expected);
  EXPECT_EQ(inferShapes("Reshape", {{"target_shape", "(7,0)"}, {"keep_highest", "True"}}, "(2,3,4) -> ?"),
            "(2,3,4) -> (2,12)");
}

TEST(MovementOps, INF_04_ReshapesBothWays) {
  EXPECT_EQ(inferShapes("Reshape", {{"shape", "(0,-1)"}}, "(?,3,4) -> (2,?)"), "(2,3,4) -> (2,12)");
  EXPECT_EQ(inferShapes("Reshape", {{"shape", "(-3,0)"}}, "(2,?,4) -> (6,4)"), "(2,3,4) -> (6,4)");
  EXPECT_EQ(inferShapes("Reshape", {{"shape", "(-1,4)"}}, "(?,4) -> ?"), "(?,4) -> (?,4)");
  EXPECT_EQ(inferShapes("Reshape", {{"shape", "(5,-1)"}}, "(2,3) -> ?"),
            "shape (2,3) cannot be reshaped to (5,?): the numbers of elements differ");
  EXPECT_EQ(inferShapes("Reshape", {{"shape", "(0,0,0)"}}, "(2,3) -> ?"),
            "shape (0, 0, 0) does not fit the input's shape (2,3)");
  EXPECT_EQ(inferShapes("Reshape", {{"shape", "(-1,-1)"}}, "(2,3) -> ?"),
            "shape (-1, -1) does not fit the input's shape (2,3)");
  EXPECT_EQ(inferShapes("expand_dims", {{"axis", "-1"}}, "(2,?) -> (?,3,?)"), "(2,3) -> (2,3,1)");
  EXPECT_EQ(inferShapes("expand_dims", {{"axis", "1"}}, "? -> (2,1,3)"), "(2,3) -> (2,1,3)");
  EXPECT_EQ(inferShapes("expand_dims", {{"axis", "3"}}, "(2,3) -> ?"),
            "axis 3 is outside the 3 dimensions of the output");
  EXPECT_EQ(inferShapes("squeeze", {{"axis", "(0,2)"}}, "(?,?,?) -> (5,)"), "(1,5,1) -> (5,)");
  EXPECT_EQ(inferShapes("squeeze", {}, "(1,?) -> ?"), "(1,?) -> ?");
  EXPECT_EQ(inferShapes("squeeze", {{"axis", "()"}}, "(1,2) -> ?"), "(1,2) -> (1,2)");
  EXPECT_EQ(inferShapes("squeeze", {{"axis", "1"}}, "(1,2) -> ?"), "axis 1 of shape (1,2) has 2 elements, expected 1");
}

TEST(MovementOps, INF_04_SlicesBothWays) {
  EXPECT_EQ(inferShapes("slice", {{"begin", "(0,)"}, {"end", "(1,)"}}, "(2,?) -> (?,5)"), "(2,5) -> (1,5)");
  EXPECT_EQ(inferShapes("slice", {{"begin", "(9,1)"}, {"end", "(-9,None)"}, {"step", "(-2,2)"}}, "(5,4) -> ?"),
            "(5,4) -> (3,2)");
  EXPECT_EQ(inferShapes("slice", {{"begin", "(0,0)"}, {"end", "(1,1)"}}, "(2,) -> ?"),
            "begin has 2 elements, but the input has shape (2,)");
  const AttrText axis[] = {{"axis", "-1"}, {"begin", "-3"}, {"end", "None"}};
  EXPECT_EQ(inferShapes("slice_axis", axis, "(?,4) -> (2,?)"), "(2,4) -> (2,3)");
  EXPECT_EQ(inferShapes("slice_axis", axis, "(5,2) -> ?"),
            "the range from -3 to None is empty or not inside axis -1 of the shape (5,2)");
  EXPECT_EQ(inferShapes("slice_like", {}, "(2,3) (1,?) -> (?,2)"), "(2,3) (1,2) -> (1,2)");
  EXPECT_EQ(inferShapes("slice_like", {{"axes", "(0,)"}}, "(2,?) (1,7,9) -> (?,2)"), "(2,2) (1,7,9) -> (1,2)");
  EXPECT_EQ(inferShapes("slice_like", {}, "(2,3) (3,3) -> ?"),
            "axis 0 of the shape (2,3) cannot be cut to the 3 elements of (3,3)");
  EXPECT_EQ(inferShapes("SliceChannel", {{"num_outputs", "2"}}, "? -> (3,2) ?"), "(3,4) -> (3,2) (3,2)");
  EXPECT_EQ(inferShapes("SliceChannel", {{"num_outputs", "2"}, {"squeeze_axis", "True"}}, "? -> (3,) (?,)"),
            "(3,2) -> (3,) (3,)");
  EXPECT_EQ(inferShapes("SliceChannel", {{"num_outputs", "3"}}, "(2,4) -> ? ? ?"),
            "axis 1 of the shape (2,4) does not divide into 3 parts");
  EXPECT_EQ(inferShapes("stack", {{"num_args", "2"}, {"axis", "-1"}}, "(?,3) (2,?) -> ?"), "(2,3) (2,3) -> (2,3,2)");
  EXPECT_EQ(inferShapes("stack", {{"num_args", "2"}}, "(2,) (3,) -> ?"), "input 1 has shape (3,), expected (2,)");
  EXPECT_EQ(inferShapes("Crop", {{"num_args", "2"}}, "(?,2,5,5) (9,9,2,?) -> (4,?,?,3)"),
            "(4,2,5,5) (9,9,2,3) -> (4,2,2,3)");
  EXPECT_EQ(inferShapes("Crop", {{"num_args", "1"}, {"h_w", "(2,3)"}, {"offset", "(3,0)"}}, "(1,1,4,5) -> ?"),
            "the window of 2 from 3 on exceeds axis 2 of the input's shape (1,1,4,5)");
}

TEST(MovementOps, INF_04_RearrangementsBothWays) {
  EXPECT_EQ(inferShapes("transpose", {}, "? -> (2,3)"), "(3,2) -> (2,3)");
  EXPECT_EQ(inferShapes("transpose", {{"axes", "(2,0,1)"}}, "(2,?,4) -> (?,?,3)"), "(2,3,4) -> (4,2,3)");
  EXPECT_EQ(inferShapes("transpose", {{"axes", "(0,0)"}}, "(2,3) -> ?"),
            "axes (0, 0) are not a permutation of 2 dimensions");
  EXPECT_EQ(inferShapes("SwapAxis", {{"dim1", "0"}, {"dim2", "-1"}}, "(2,?,4) -> (?,3,?)"), "(2,3,4) -> (4,3,2)");
  EXPECT_EQ(inferShapes("reverse", {{"axis", "2"}}, "(2,3) -> ?"), "axis 2 is outside the shape (2,3)");
  EXPECT_EQ(inferShapes("repeat", {{"repeats", "2"}, {"axis", "1"}}, "(2,?) -> (?,6)"), "(2,3) -> (2,6)");
  EXPECT_EQ(inferShapes("repeat", {{"repeats", "2"}}, "(2,3) -> ?"), "(2,3) -> (12,)");
  EXPECT_EQ(inferShapes("repeat", {{"repeats", "2"}, {"axis", "0"}}, "(?,) -> (5,)"),
            "output 0 has shape (5,), expected a multiple of 2");
  EXPECT_EQ(inferShapes("tile", {{"reps", "(2,1,3)"}}, "(?,4) -> (2,5,?)"), "(5,4) -> (2,5,12)");
  EXPECT_EQ(inferShapes("broadcast_axis", {{"axis", "0"}, {"size", "4"}}, "(1,?) -> (?,3)"), "(1,3) -> (4,3)");
  EXPECT_EQ(inferShapes("broadcast_axis", {{"axis", "0"}, {"size", "4"}}, "(2,3) -> ?"),
            "axis 0 of the shape (2,3) has 2 elements, expected 1");
  EXPECT_EQ(inferShapes("broadcast_to", {{"shape", "(4,0)"}}, "(1,?) -> (?,3)"), "(1,3) -> (4,3)");
  EXPECT_EQ(inferShapes("broadcast_to", {{"shape", "(4,2)"}}, "(1,3) -> ?"),
            "axis 1 of the shape (1,3) cannot be broadcast to 2 elements");
  const AttrText pad[] = {{"mode", "reflect"}, {"pad_width", "(0,0,0,0,1,1,0,2)"}};
  EXPECT_EQ(inferShapes("Pad", pad, "(1,2,3,?) -> (?,?,?,5)"), "(1,2,3,3) -> (1,2,5,5)");
  EXPECT_EQ(inferShapes("Pad", pad, "(1,2,3,2) -> ?"),
            "axis 3 of the shape (1,2,3,2) has too few elements for padding by 2");
}

// A condition of unknown shape leaves the result unknown.
TEST(MovementOps, INF_05_Where) {
  EXPECT_EQ(inferShapes("where", {}, "(2,?) (2,3) ? -> ?"), "(2,?) (2,3) ? -> ?");
  EXPECT_EQ(inferShapes("where", {}, "(2,3) (2,?) ? -> (?,3)"), "(2,3) (2,3) (2,3) -> (2,3)");
  EXPECT_EQ(inferShapes("where", {}, "(2,) (2,3) ? -> ?"), "(2,) (2,3) (2,3) -> (2,3)");
  EXPECT_EQ(inferShapes("where", {}, "(3,) (2,3) ? -> ?"),
            "the condition has shape (3,), expected that of x, (2,3), or one element for each of its rows");
}

// Values between other types: towards 0, and whether it is not 0.
TEST(MovementOps, RUN_02_CastsOfValues) {
  checkRow({"Cast", {{"dtype", "int32"}}, {{{4}, {-1.75, 2.9, 0.5, -0.5}}}, {4}, {-1, 2, 0, 0}, {}});
  checkRow({"Cast", {{"dtype", "bool"}}, {{{3}, {0, 0.5, -3}}}, {3}, {0, 1, 1}, {}});
  checkRow({"Cast", {{"dtype", "uint8"}}, {{{2}, {2.9, 200}}}, {2}, {2, 200}, {}});
}

// What an integer type does not hold is the nearest number it does; NaN is 0, and true.
TEST(MovementOps, RUN_02_CastsBeyondTheRange) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> x = {infinity, -infinity, nan, 300, -1e300, 1e18};
  auto row = [&](const char *type, std::vector<double> expected) {
    checkRow({"Cast", {{"dtype", type}}, {{{6}, x}}, {6}, std::move(expected), {}});
  };
  row("int8", {127, -128, 0, 127, -128, 127});
  row("uint8", {255, 0, 0, 255, 0, 255});
  row("int32", {2147483647, -2147483648.0, 0, 300, -2147483648.0, 2147483647});
  row("int64", {9223372036854775808.0, -9223372036854775808.0, 0, 300, -9223372036854775808.0, 1e18});
  row("bool", {1, 1, 1, 1, 1, 1});
}

TEST(MovementOps, E_50_CropBeyondTheImage) {
  const std::vector<AttrText> attrs = {{"num_args", "1"}, {"offset", "(9223372036854774808,0)"}, {"h_w", "(2000,4)"}};
  EXPECT_EQ(inferShapes("Crop", attrs, "(1,1,4000,4) -> ?"),
            "the window of 2000 from 9223372036854774808 on exceeds axis 2 of the input's shape (1,1,4000,4)");
  EXPECT_EQ(inferShapes("Crop", {{"num_args", "1"}, {"offset", "(1,0)"}, {"h_w", "(3,4)"}}, "(1,1,4,4) -> ?"),
            "(1,1,4,4) -> (1,1,3,4)");
}

TEST(MovementOps, E_50_BroadcastToWhatNoTensorCanBe) {
  EXPECT_EQ(
      inferShapes("broadcast_to", {{"shape", "(4611686018427387905,4)"}}, "(1,4) -> ?"),
      "output 0 would have the shape (4611686018427387905,4), expected dimensions from 0 and at most 2^48 elements");
  EXPECT_EQ(
      inferShapes("broadcast_axis", {{"axis", "(0,)"}, {"size", "(9223372036854775807,)"}}, "(1,4) -> ?"),
      "output 0 would have the shape (9223372036854775807,4), expected dimensions from 0 and at most 2^48 elements");
}

constexpr const char *k62 = "4611686018427387904";  // 2^62

// What is computed from attributes neither wraps around nor becomes -1, which would mean unknown.
TEST(MovementOps, E_50_SizesThatNoTensorCanHave) {
  const std::string out = "output 0 would have the shape ", in = "input 0 would have the shape ";
  const std::string end = ", expected dimensions from 0 and at most 2^48 elements";
  EXPECT_EQ(inferShapes("tile", {{"reps", "(4611686018427387904,4)"}}, "(2,3) -> ?"), out + "(out of range,12)" + end);
  EXPECT_EQ(inferShapes("repeat", {{"repeats", k62}, {"axis", "0"}}, "(4,3) -> ?"), out + "(out of range,3)" + end);
  EXPECT_EQ(inferShapes("repeat", {{"repeats", k62}}, "(2,) -> ?"), out + "(out of range,)" + end);
  const AttrText wide[] = {{"mode", "constant"},
                           {"pad_width", "(0,0,0,0,9223372036854775807,9223372036854775807,0,0)"}};
  EXPECT_EQ(inferShapes("Pad", wide, "(1,1,4,4) -> ?"), out + "(1,1,out of range,4)" + end);
  const AttrText pad[] = {{"mode", "constant"}, {"pad_width", "(0,0,0,0,2,1,0,0)"}};
  EXPECT_EQ(inferShapes("Pad", pad, "? -> (1,1,2,4)"), in + "(1,1,out of range,4)" + end);
  EXPECT_EQ(inferShapes("_split_v2", {{"indices", "(0,1,3)"}}, "(2,6) -> ? ? ?"), "(2,6) -> (2,1) (2,2) (2,3)");
  EXPECT_EQ(inferShapes("_split_v2", {{"indices", "(0,1,3)"}}, "? -> ? ? (2,3)"), "(2,6) -> (2,1) (2,2) (2,3)");
  EXPECT_EQ(inferShapes("_split_v2", {{"indices", "(0,1,3)"}}, "(2,?) -> ? ? ?"), "(2,?) -> (2,1) (2,2) (2,?)");
  EXPECT_EQ(inferShapes("_split_v2", {{"indices", "()"}, {"sections", "3"}}, "(2,8) -> ? ? ?"),
            "(2,8) -> (2,3) (2,3) (2,2)");
  EXPECT_EQ(inferShapes("_split_v2", {{"indices", "()"}, {"sections", "3"}}, "? -> (2,3) (2,3) (2,2)"),
            "(2,8) -> (2,3) (2,3) (2,2)");
  EXPECT_EQ(
      inferShapes("_split_v2", {{"indices", "()"}, {"sections", "2"}, {"squeeze_axis", "True"}}, "? -> (3,) (?,)"),
      "(3,2) -> (3,) (3,)");
  EXPECT_EQ(inferShapes("_split_v2", {{"indices", "(0,1,3)"}}, "(2,2) -> ? ? ?"),
            "axis 1 of the shape (2,2) does not divide into 3 parts");
  EXPECT_EQ(inferShapes("_split_v2", {{"indices", "(0,1)"}, {"squeeze_axis", "True"}}, "(2,3) -> ? ?"),
            "input 0 has shape (2,3), expected (?,2)");
  EXPECT_EQ(
      refusalOf("_split_v2", {{"indices", "(0,3,1)"}}),
      "attribute 'indices' is (0,3,1), expected 0 first and no number smaller than the one before [bad_attribute]");
  EXPECT_EQ(refusalOf("_split_v2", {{"indices", "(1,3)"}}),
            "attribute 'indices' is (1,3), expected 0 first and no number smaller than the one before [bad_attribute]");
  EXPECT_EQ(refusalOf("_split_v2", {{"indices", "()"}}),
            "attributes 'indices' and 'sections' name no part [bad_attribute]");
  EXPECT_EQ(inferShapes("SliceChannel", {{"num_outputs", "2"}, {"axis", "0"}}, "? -> (281474976710656,) ?"),
            in + "(out of range,)" + end);
  EXPECT_EQ(inferShapes("Reshape", {{"shape", "(4611686018427387904,-1)"}}, "(0,) -> ?"),
            out + "(4611686018427387904,?)" + end);
  EXPECT_EQ(inferShapes("Reshape", {{"shape", "(-4,4611686018427387904,4)"}}, "(0,) -> ?"),
            "shape (-4, 4611686018427387904, 4) does not fit the input's shape (0,)");
}

// Of neither attribute nothing follows but the number of elements.
TEST(MovementOps, E_50_ReshapeWithoutAttributes) {
  EXPECT_EQ(inferShapes("Reshape", {}, "(2,3) -> (3,2)"), "(2,3) -> (3,2)");
  EXPECT_EQ(inferShapes("Reshape", {}, "(2,) -> (3000000,)"),
            "shape (2,) cannot be reshaped to (3000000,): the numbers of elements differ");
}

TEST(MovementOps, INF_04_RepeatedNeverIsEmpty) {
  EXPECT_EQ(inferShapes("repeat", {{"repeats", "0"}, {"axis", "0"}}, "(?,3) -> ?"), "(?,3) -> (0,3)");
}

// A step of any size ends at the first element that is outside.
TEST(MovementOps, RUN_02_StepsBeyondTheAxis) {
  const OpTensor x{{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
  for (const char *step : {"(1,9223372036854775807)", "(1,9)"})
    checkRow({"slice",
              {{"begin", "(0,1)"}, {"end", "(2,4)"}, {"step", step}},
              {x},
              {2, 1},
              {2, 6},
              {{0, -0.75, 0, 0, 0, 0.25, 0, 0}}});
  for (const char *step : {"(1,-9223372036854775808)", "(1,-9223372036854775807)"})
    checkRow({"slice",
              {{"begin", "(None,None)"}, {"end", "(None,None)"}, {"step", step}},
              {x},
              {2, 1},
              {4, 8},
              {{0, 0, 0, -0.75, 0, 0, 0, 0.25}}});
}

// Every order of the axes of matrices beyond the tiles they are moved in, forwards and with reversed axes.
TEST(MovementOps, RUN_02_EveryOrderOfAxes) {
  const DimsBuffer whole{3, 37, 2, 41};
  const DimsBuffer own = contiguousStrides(whole);
  std::vector<float> from(3 * 37 * 2 * 41), to(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  size_t order[] = {0, 1, 2, 3};
  do {
    for (const size_t reversed : {size_t{4}, order[3]}) {
      StridedView view;
      for (size_t axis : order) {
        view.dims.push_back(whole[axis]);
        view.strides.push_back(axis == reversed ? -own[axis] : own[axis]);
        if (axis == reversed) view.offset = own[axis] * (whole[axis] - 1);
      }
      std::fill(to.begin(), to.end(), -1.0f);
      gatherView({to.data(), DType::Float32, view.dims}, {from.data(), DType::Float32, whole}, view);
      size_t at = 0, numWrong = 0;
      for (int64_t i = 0; i < view.dims[0]; ++i)
        for (int64_t j = 0; j < view.dims[1]; ++j)
          for (int64_t k = 0; k < view.dims[2]; ++k)
            for (int64_t l = 0; l < view.dims[3]; ++l) {
              int64_t index[4] = {};
              index[order[0]] = i, index[order[1]] = j, index[order[2]] = k, index[order[3]] = l;
              if (reversed < 4) index[reversed] = whole[reversed] - 1 - index[reversed];
              const int64_t expected = ((index[0] * 37 + index[1]) * 2 + index[2]) * 41 + index[3];
              numWrong += to[at++] != static_cast<float>(expected);
            }
      EXPECT_EQ(numWrong, 0u) << order[0] << order[1] << order[2] << order[3] << " reversed " << reversed;
    }
  } while (std::next_permutation(order, order + 4));
}

}  // namespace
}  // namespace gradc
