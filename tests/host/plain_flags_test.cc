// The program of docs/embedding.md, compiled as the page says: a compiler, the archives, no Bazel.
#include "tests/support/tool.h"

#include <gtest/gtest.h>

namespace gradc::testing {
namespace {

TEST(PlainFlagsHost, ComputesWhatThePageShows) {
  const ToolResult done = runShell(".", "tests/host/plain_embed");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "y = 32, dy/dw = 1 2 3\n");
}

}  // namespace
}  // namespace gradc::testing
