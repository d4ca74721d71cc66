// Loops that are refused when they run, operands that no step reads, bodies that are nested too deep.
#include "tests/support/loops.h"

using namespace llvm;

namespace gradc::testing {
namespace {

TEST(LoopRun, E_27_MoreStepsThanRowsAreRefused) {
  std::vector<AttrText> attrs = scanAttrs(false, true);
  const Graph loop = around("_scan", {"k", "x", "s"}, attrs, body("n = elemwise_add(x, s); heads n, n"), 2);
  for (int64_t k : {4, -1}) {
    const GradcError error = errorOf(tryRun(
        loop,
        {{"k", arrayOf<int64_t>(DType::Int64, {1}, {k})}, {"x", floats({3}, {1, 2, 3})}, {"s", floats({1}, {0})}}));
    EXPECT_EQ(error.kind, ErrorKind::LengthMismatch);
    ASSERT_EQ(error.notes.size(), 1u);
    EXPECT_EQ(error.notes[0].text, "while running node 'loop' (_scan)");
    EXPECT_NE(error.message.find("is to run " + std::to_string(k) + " steps, expected 0 to 3"), std::string::npos)
        << error.message;
  }
}

// Inside a body, the path is in the message.
TEST(LoopRun, E_27_MoreStepsInABody) {
  std::vector<AttrText> attrs = scanAttrs(false, true);
  const Graph loop = around("_scan", {"k", "x", "s"}, attrs, body("n = elemwise_add(x, s); heads n, n"), 2);
  const Graph call = around("_call", {"k", "x", "s"}, {{"num_args", "3"}, {"num_outputs", "2"}}, loop, 2);
  const GradcError error = errorOf(tryRun(
      call, {{"k", arrayOf<int64_t>(DType::Int64, {1}, {4})}, {"x", floats({3}, {1, 2, 3})}, {"s", floats({1}, {0})}}));
  EXPECT_EQ(error.message, "node 'loop' > body > node 'loop' (_scan): is to run 4 steps, expected 0 to 3, the number "
                           "of its rows");
}

// What a body takes the shape of alone is not read, so that it need not be kept.
TEST(LoopRun, RC_03_OperandsThatNoStepReadsAreIgnored) {
  const Graph loop =
      around("_scan", {"x", "s", "c"},
             {{"num_args", "3"},
              {"num_data", "1"},
              {"num_states", "1"},
              {"num_out_data", "1"},
              {"input_locs", "(2, 1, 0)"}},  // c is read first
             body("e = exp(x); z = zeros_like(e); n = elemwise_add(s, z); o = ones_like(c); heads o, n"), 2);
  const NodeKind &kind = loop.kind(loop.heads()[0].node);
  EXPECT_TRUE(kind.isIgnored(2));
  EXPECT_FALSE(kind.isIgnored(1)) << "a state is read as its own first value";
  const Tensors heads = run(loop, {{"x", floats({3}, {1, 2, 3})}, {"s", floats({1}, {7})}, {"c", floats({2}, {1, 2})}});
  EXPECT_EQ(heads, (Tensors{{1, 1, 1, 1, 1, 1}, {7}}));
}

TEST(LoopRun, E_33_BodiesNestedTooDeep) {
  const std::vector<AttrText> attrs = {{"num_args", "1"}, {"num_outputs", "1"}};
  Graph deep = body("y = exp(x)");
  for (size_t level = 0; level < kMaxBodyNesting; ++level) deep = around("_call", {"x"}, attrs, deep, 1);
  EXPECT_NE(refusal("_call", attrs, {deep}).find("would have bodies nested more than 64 levels deep"),
            std::string::npos);
}

}  // namespace
}  // namespace gradc::testing
