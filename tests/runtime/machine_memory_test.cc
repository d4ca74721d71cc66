// What a session may take: arrays that it frees, and sizes that the machine can never have.
#include "runtime/executor/machine_memory.h"

#include "tests/support/runs/linear_time.h"
#include "tests/support/runs/sessions.h"
#include "tests/support/sanitizers.h"
#include "tests/support/tensors.h"

#include <gtest/gtest.h>

#include <fstream>

#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;
using gradc::testing::nodeNamed;
using gradc::testing::open;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

using Floats = std::vector<float>;

/// Bytes of memory that the process has now.
size_t residentBytes() {
  std::ifstream in("/proc/self/statm");
  size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<size_t>(getpagesize());
}

TEST(SessionMemory, BoundArraysAreFreedWhenTheyAreCopied) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer keeps freed memory";
#endif
  constexpr size_t kArrays = 24, kLength = size_t{1} << 20;
  std::string text = "y = add_n(";
  std::vector<NamedArray> bindings;
  for (size_t i = 0; i < kArrays; ++i) {
    const std::string name = "x" + std::to_string(i);
    text += name + (i + 1 < kArrays ? ", " : "");
    bindings.push_back({name, floats({kLength}, Floats(kLength, 1))});
  }
  TestGraph g(text + ") {num_args=" + std::to_string(kArrays) + "}");
  const size_t before = residentBytes(), arrays = kArrays * kLength * sizeof(float);
  Session session = cantFail(open(g, {}, std::move(bindings)));
  EXPECT_LT(residentBytes(), before + arrays / 4) << "the arrays are " << arrays << " bytes";
  cantFail(session.run(0));
  EXPECT_EQ(valuesOf<float>(session.head(0))[kLength - 1], float{kArrays});
}

// The system promises each of the two, which are never touched; together they are more than there is.
TEST(SessionMemory, MoreThanTheMachineHasIsRefusedAtOnce) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer limits what can be allocated";
#endif
  const uint64_t limit = memoryLimit().bytes;
  const auto length = static_cast<int64_t>(limit / 10 * 6 / sizeof(float));
  TestGraph g("z = broadcast_to(x) {shape=(" + std::to_string(length) + ",)}; y = exp(z)");
  const NodeId x = nodeNamed(g, "x");
  float value = 1;
  const int64_t one[] = {1}, whole[] = {length};
  SessionOptions options;
  options.variableMemory = {{x, TensorRef(&value, DType::Float32, one)}};
  options.allowInplace = false;
  for (Backend backend : {Backend::Auto, Backend::Reference}) {
    options.exec.backend = backend;
    options.headMemory = {};
    const GradcError error = errorOf(open(g, options));
    EXPECT_EQ(error.kind, ErrorKind::TooLarge);
    EXPECT_TRUE(StringRef(error.message).starts_with("the session needs ")) << error.message;
    EXPECT_TRUE(StringRef(error.message).ends_with(std::to_string(limit))) << error.message;
    // What the host has allocated does not count.
    const size_t bytes = static_cast<size_t>(length) * sizeof(float);
    void *const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    options.headMemory = {{0, TensorRef(memory, DType::Float32, whole)}};
    EXPECT_EQ(errorOf(open(g, options)).message, "success");
    munmap(memory, bytes);
  }
}

TEST(SessionMemory, WhatControlGroupsSay) {
  EXPECT_EQ(bytesOfGroup("max"), std::nullopt);
  EXPECT_EQ(bytesOfGroup(""), std::nullopt);
  EXPECT_EQ(bytesOfGroup("-1"), std::nullopt);
  EXPECT_EQ(bytesOfGroup("0"), 0u);
  EXPECT_EQ(bytesOfGroup("9223372036854771712\n"), 9223372036854771712u);
}

// A kernel prepares nothing that is longer than what a session can have.
TEST(SessionMemory, HugePaddingIsRefusedAtOnce) {
  const std::string most = std::to_string(memoryLimit().bytes / sizeof(float) + 1);
  for (const std::string &width : {std::string("0,0,0,0,1000000000,1000000000,1000,1000"), "0,0,0,0,1,1," + most + ",1",
                                   "0,0,0,0," + most + ",1,1,1"})
    for (const char *mode : {"constant", "edge"}) {
      TestGraph g(std::string("y = Pad(x) {mode=") + mode + ", pad_width=(" + width + ")}");
      const double seconds = testing::secondsOf(
          [&] { EXPECT_EQ(errorOf(open(g, {}, {{"x", floats({1, 1, 1, 1}, {1})}})).kind, ErrorKind::TooLarge); });
      EXPECT_LT(seconds, 1) << width;
    }
}

}  // namespace
}  // namespace gradc
