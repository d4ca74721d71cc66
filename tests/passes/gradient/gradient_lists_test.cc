// Lists of gradient operators of a block program: sums of what arrives several times, cuts, zeros, what hangs on
// nothing.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/backward/gradients/prune_gradients.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// Operators `w <inputs> -> <outputs>` of names, with the sums that these need.
std::string summed(StringRef text, SumStyle style = SumStyle::Block, ArrayRef<StringRef> handed = {}) {
  TestContext context;
  BlockProgram program = programOf(text);
  GradientNames names(program.texts);
  SumOptions options;
  options.style = style;
  NameSet given;
  for (StringRef name : handed) given.insert(program.intern(name));
  sumGradients(context, program.blocks[0].ops, names, 7, given, NameSet(), options);
  return dump(program, 0);
}

TEST(GradientLists, AGG_09_AReaderGetsWhatHasArrivedAndLaterArrivalsJoinIt) {
  EXPECT_EQ(summed("w -> O=x@GRAD\nw -> O=x@GRAD\nr I=x@GRAD -> O=y\nw -> O=x@GRAD"),
            "w -> O=x@GRAD@RENAME@block7@0\nw -> O=x@GRAD@RENAME@block7@1\n"
            "sum X=x@GRAD@RENAME@block7@0,x@GRAD@RENAME@block7@1 -> Out=x@GRAD@RENAME@block7@2\n"
            "r I=x@GRAD@RENAME@block7@2 -> O=y\nw -> O=x@GRAD@RENAME@block7@3\n"
            "sum X=x@GRAD@RENAME@block7@2,x@GRAD@RENAME@block7@3 -> Out=x@GRAD\n");
}

TEST(GradientLists, AGG_10_WhatIsMadeInPlaceOfAGradientFromOutsideIsItsFirstArrival) {
  EXPECT_EQ(summed("scale X=x@GRAD -> Out=x@GRAD\nw -> O=x@GRAD", SumStyle::Block, {"x@GRAD"}),
            "scale X=x@GRAD -> Out=x@GRAD@RENAME@block7@0\nw -> O=x@GRAD@RENAME@block7@1\n"
            "sum X=x@GRAD@RENAME@block7@0,x@GRAD@RENAME@block7@1 -> Out=x@GRAD\n");
  EXPECT_EQ(summed("scale X=x@GRAD -> Out=x@GRAD", SumStyle::Block, {"x@GRAD"}), "scale X=x@GRAD -> Out=x@GRAD\n");
}

TEST(GradientLists, AGG_10_TwoOutputsOfOneOperatorInPlaceAndEmpty) {
  EXPECT_EQ(summed("w -> O=x@GRAD,x@GRAD P=x@GRAD"),
            "w -> O=x@GRAD@RENAME@block7@0,x@GRAD@RENAME@block7@1 P=x@GRAD@RENAME@block7@2\n"
            "sum X=x@GRAD@RENAME@block7@0,x@GRAD@RENAME@block7@1,x@GRAD@RENAME@block7@2 -> Out=x@GRAD\n");
  EXPECT_EQ(summed("w -> O=x@GRAD\nclip X=x@GRAD -> Out=x@GRAD"), "w -> O=x@GRAD\nclip X=x@GRAD -> Out=x@GRAD\n");
  EXPECT_EQ(summed("w -> O=@EMPTY@\nw -> O=@EMPTY@"), "w -> O=@EMPTY@\nw -> O=@EMPTY@\n");
  // An in-place operator between two arrivals uses the name of the first.
  EXPECT_EQ(summed("w -> O=x@GRAD\nclip X=x@GRAD -> Out=x@GRAD\nw -> O=x@GRAD"),
            "w -> O=x@GRAD@RENAME@block7@0\nclip X=x@GRAD@RENAME@block7@0 -> Out=x@GRAD@RENAME@block7@0\n"
            "w -> O=x@GRAD@RENAME@block7@1\nsum X=x@GRAD@RENAME@block7@0,x@GRAD@RENAME@block7@1 -> Out=x@GRAD\n");
}

TEST(GradientLists, AGG_11_OperatorStyleSumsBehindTheLastArrival) {
  EXPECT_EQ(summed("w -> O=x@GRAD\nw -> O=x@GRAD\nw -> O=y@GRAD\nr I=x@GRAD -> O=z", SumStyle::Operator),
            "w -> O=x@GRAD@RENAME@7@0\nw -> O=x@GRAD@RENAME@7@1\n"
            "sum X=x@GRAD@RENAME@7@0,x@GRAD@RENAME@7@1 -> Out=x@GRAD\nw -> O=y@GRAD\nr I=x@GRAD -> O=z\n");
}

std::string pruned(StringRef text, const std::vector<std::string> &cut) {
  TestContext context;
  BlockProgram program = programOf(text);
  GradientNames names(program.texts);
  NameSet noGrad, targets;
  for (const std::string &name : cut) noGrad.insert(program.intern(name));
  removeCutOps(context, program.blocks[0].ops, noGrad, targets, names,
               [&](TextId gradient) { return names.stripped(gradient); });
  return dump(program, 0);
}

TEST(GradientLists, NG_02_RulesAAndB) {
  EXPECT_EQ(pruned("g I=a@GRAD -> O=x@GRAD,y@GRAD\ng I=a@GRAD -> O=z@GRAD", {"x@GRAD", "y@GRAD"}),
            "g I=a@GRAD -> O=z@GRAD\n")
      << "A: all outputs are cut";
  EXPECT_EQ(pruned("g I=x@GRAD X=x -> O=y@GRAD\ng I=y@GRAD -> O=z@GRAD\ng X=x -> O=u@GRAD", {"x@GRAD"}),
            "g X=x -> O=u@GRAD\n")
      << "B: all gradients that are read are cut, and what is written joins them; who reads none is not hit";
}

TEST(GradientLists, D_18_TheFillerWritesTheNameThatIsRead) {
  EXPECT_EQ(pruned("g I=b@GRAD@RENAME@block0@1,a@GRAD -> O=x@GRAD", {"b@GRAD@RENAME@block0@1"}),
            "fill_any_like X=b -> Out=b@GRAD@RENAME@block0@1\ng I=b@GRAD@RENAME@block0@1,a@GRAD -> O=x@GRAD\n");
}

TEST(GradientLists, NG_08_WhatHangsOnNothingGoesButNeverEverything) {
  auto connected = [](StringRef text) {
    BlockProgram program = programOf(text);
    NameSet known;
    known.insert(program.intern("x"));
    removeUnconnectedOps(program.blocks[0].ops, known);
    return dump(program, 0);
  };
  EXPECT_EQ(connected("g I=a@GRAD -> O=b@GRAD\ng I=b@GRAD -> O=d@GRAD\ng I=e@GRAD X=x -> O=f@GRAD"),
            "g I=e@GRAD X=x -> O=f@GRAD\n");
  EXPECT_EQ(connected("g I=a@GRAD -> O=b@GRAD\ng I=b@GRAD X=x -> O=d@GRAD"),
            "g I=a@GRAD -> O=b@GRAD\ng I=b@GRAD X=x -> O=d@GRAD\n");
  EXPECT_EQ(connected("g I=a@GRAD -> O=b@GRAD"), "g I=a@GRAD -> O=b@GRAD\n");
}

}  // namespace
}  // namespace gradc
