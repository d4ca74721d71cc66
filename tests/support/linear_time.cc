#include "tests/support/linear_time.h"

#include "ir/process_memory.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <memory>
#include <unistd.h>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace gradc::testing {

double secondsOf(llvm::function_ref<void()> work) {
  double best = HUGE_VAL;
  for (int round = 0; round < 3; ++round) {
    const std::clock_t start = std::clock();
    work();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

namespace {

size_t residentBytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

// The heap keeps what is freed until it is trimmed.
size_t bytesOf(llvm::function_ref<void()> work) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  const size_t before = residentBytes();
  work();
  const size_t after = residentBytes();
  return after > before ? after - before : 0;
}

namespace {

/// As the passes of a compiler see it.
struct Node {
  uint32_t inputs[2];
  uint64_t sum;
  char rest[112];
};

uint64_t mixed(uint64_t x) {
  for (int i = 0; i < 8; ++i) x = (x ^ x >> 31) * 0x9e3779b97f4a7c15;
  return x;
}

/// Allocates nodes, each of which reads two of those shortly before it, and walks over them forwards and backwards.
uint64_t passOver(size_t count) {
  constexpr size_t kReach = 64;
  std::vector<std::unique_ptr<Node>> nodes;
  for (size_t i = 0; i < count; ++i) {
    nodes.push_back(std::make_unique<Node>());
    nodes[i]->sum = mixed(i);
    for (uint32_t &input : nodes[i]->inputs) input = static_cast<uint32_t>(i - nodes[i]->sum % std::min(i + 1, kReach));
  }
  for (const auto &node : nodes)
    for (uint32_t input : node->inputs) node->sum += mixed(nodes[input]->sum);
  for (const auto &node : llvm::reverse(nodes))
    for (uint32_t input : node->inputs) nodes[input]->sum += mixed(node->sum);
  return nodes.front()->sum;
}

/// Per byte.
double secondsOfPasses(size_t bytes) {
  constexpr size_t kLeast = size_t{1} << 20;  // bytes passed over, so that the clock can tell
  const size_t count = std::max<size_t>(bytes / sizeof(Node), 1), rounds = kLeast / (count * sizeof(Node)) + 1;
  uint64_t sum = 0;
  const double seconds = secondsOf([&] {
    for (size_t round = 0; round < rounds; ++round) sum += passOver(count);
  });
  EXPECT_NE(sum, 0u);
  return seconds / static_cast<double>(rounds * count);
}

}  // namespace

double cacheLoss(size_t small, size_t large) {
  constexpr size_t kLeast = size_t{1} << 16, kMost = size_t{1} << 28;  // beyond, all caches are small
  const double before = secondsOfPasses(std::clamp(small, kLeast, kMost));
  return std::max(secondsOfPasses(std::clamp(large, kLeast, kMost)) / before, 1.0);
}

LinearTime linearTimeOf(uint32_t n, llvm::function_ref<double(uint32_t)> secondsFor) {
  constexpr int kAttempts = 8, kSmallRounds = 3;  // before and after each large one
  keepFreedMemory();
  LinearTime least{HUGE_VAL, HUGE_VAL};
  auto measureSmall = [&] {
    for (int round = 0; round < kSmallRounds; ++round) least.small = std::min(least.small, secondsFor(n));
  };
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const size_t small = bytesOf(measureSmall);
    const size_t large = bytesOf([&] { least.large = std::min(least.large, secondsFor(16 * n)); });
    measureSmall();
    if (attempt == 0 && !least.isLinear()) least.loss = cacheLoss(small, large);
    if (least.isLinear()) break;
  }
  return least;
}

void expectLinear(uint32_t n, llvm::function_ref<double(uint32_t)> secondsFor) {
  const LinearTime time = linearTimeOf(n, secondsFor);
  EXPECT_TRUE(time.isLinear()) << time.small << " s for " << n << ", " << time.large
                               << " s for sixteen times as many: " << time.times() << " times, besides the "
                               << time.loss << " that caches cost";
}

}  // namespace gradc::testing
