// The programs of docs/embedding.md and docs/imperative.md, compiled as the page says: a compiler, one archive, no
// Bazel.
#include "tests/support/tool.h"

#include <gtest/gtest.h>

namespace gradc::testing {
namespace {

void expectOutput(const char *program, const char *output) {
  const ToolResult done = runShell(".", program);
  EXPECT_EQ(done.code, 0) << program << ": " << done.err;
  EXPECT_EQ(done.out, output) << program;
}

TEST(PlainFlagsHost, ComputesWhatThePagesShow) {
  expectOutput("tests/host/plain_embed", "y = 32, dy/dw = 1 2 3\n");
  expectOutput("tests/host/plain_zero_copy", "34 0 180\n4 0 8\n");
  expectOutput("tests/host/plain_tape",
               "loss 14, dw 2 -4 6\nloss 3.5, dw 1 -2 3\nloss 0.875, dw 0.5 -1 1.5\ncompiled: 1\n");
}

}  // namespace
}  // namespace gradc::testing
