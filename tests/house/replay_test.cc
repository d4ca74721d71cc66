// tests/house/replay.py, which says whether two builds of gradc do the same: it finds what differs, and nothing where
// nothing does.
#include "tests/support/sanitizers.h"
#include "tests/support/tool.h"

#include "llvm/ADT/StringRef.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

bool contains(StringRef text, StringRef part) { return text.contains(part); }

/// Replays against a program that does what gradc does, through a shell with this in front of or behind "$REAL" "$@".
ToolResult replayAgainst(StringRef before, StringRef after, StringRef kinds) {
  const std::string wrapper = "printf '%s\\n' '#!/bin/sh' \"" + before.str() + "\\\"$GRADC\\\" \\\"\\$@\\\"" +
                              after.str() + "\" > \"$TEST_TMPDIR/gradc\" && chmod +x \"$TEST_TMPDIR/gradc\" && ";
  return runShell(".", wrapper +
                           "python3 tests/house/replay.py \"$GRADC\" \"$TEST_TMPDIR/gradc\" --quick --shared nowhere " +
                           kinds.str());
}

class Replay : public ::testing::Test {
  void SetUp() override {
#ifdef GRADC_HEAP_OF_SANITIZER
    GTEST_SKIP() << "the script gives gradc less address space than a sanitizer takes";
#endif
  }
};

TEST_F(Replay, AProgramAgreesWithItself) {
  const ToolResult done = replayAgainst("", "", "--only golden --only loops --only pages");
  EXPECT_EQ(done.code, 0) << done.out << done.err;
  EXPECT_TRUE(contains(done.out, "all agree\n")) << done.out;
  EXPECT_TRUE(contains(done.out, " 0 crashed, 0 out of time")) << done.out;
}

TEST_F(Replay, OneOtherByteIsSeen) {
  const ToolResult text = replayAgainst("", " | sed s/usage:/Usage:/", "--only pages");
  EXPECT_EQ(text.code, 1) << text.out << text.err;
  EXPECT_TRUE(contains(text.out, "DIFFERS pages help: 3.out: gradc help grad\n    -usage: gradc grad")) << text.out;
  EXPECT_TRUE(contains(text.out, "1 cases differ\n")) << text.out;
  const ToolResult message = replayAgainst("", " 2>/dev/null", "--only pages");
  EXPECT_EQ(message.code, 1) << message.out << message.err;
  EXPECT_TRUE(contains(message.out, ".err: gradc help me\n")) << message.out;
  const ToolResult code = replayAgainst("", " || exit 3", "--only pages");
  EXPECT_EQ(code.code, 1) << code.out << code.err;
  EXPECT_TRUE(contains(code.out, ".code: gradc help me\n    -2\n    +3\n")) << code.out;
}

TEST_F(Replay, AnotherFileIsSeen) {
  const ToolResult done =
      replayAgainst("", "; code=\\$?; test -f canonical.json && echo >> canonical.json; exit \\$code", "--only loops");
  EXPECT_EQ(done.code, 1) << done.out << done.err;
  EXPECT_TRUE(contains(done.out, ": canonical.json: gradc convert in.json -o canonical.json")) << done.out;
}

TEST_F(Replay, NothingComparedIsNoAgreement) {
  const ToolResult done = replayAgainst("", "", "--only graphs");
  EXPECT_EQ(done.code, 2) << done.out << done.err;
}

}  // namespace
}  // namespace gradc::testing
