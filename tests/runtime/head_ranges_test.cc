// Which heads share memory, against all pairs of them: drawn sizes and places, moves, heads that may share.
#include "runtime/executor/head_ranges.h"

#include "tests/support/drawn/dice.h"

#include <gtest/gtest.h>

#include <vector>

using namespace llvm;

namespace gradc {
namespace {

using testing::Dice;

struct Heads {
  std::vector<char> memory = std::vector<char>(4096);
  std::vector<std::vector<int64_t>> shapes;
  std::vector<TensorRef> at;
  BitVector isAdded;

  TensorRef place(size_t head, size_t offset) { return TensorRef(memory.data() + offset, DType::UInt8, shapes[head]); }
  /// As REQ-09 defines it.
  std::optional<size_t> conflict(size_t head, const TensorRef &wanted) const {
    for (size_t k = 0; k < at.size(); ++k) {
      if (k == head || !at[k].data || (isAdded[static_cast<unsigned>(k)] && isAdded[static_cast<unsigned>(head)]))
        continue;
      const char *a = at[k].as<char>(), *b = wanted.as<char>();
      if (std::max(a, b) < std::min(a + at[k].bytes(), b + wanted.bytes())) return k;
    }
    return std::nullopt;
  }
};

TEST(HeadRanges, REQ_09_AsAllPairsSay) {
  size_t numConflicts = 0, numMoves = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    Heads heads;
    const size_t count = 1 + dice.below(12);
    heads.isAdded.resize(static_cast<unsigned>(count));
    for (size_t i = 0; i < count; ++i) {
      heads.shapes.push_back({static_cast<int64_t>(dice.below(5) == 0 ? dice.below(1500) : dice.below(40))});
      if (dice.below(2)) heads.isAdded.set(static_cast<unsigned>(i));
    }
    size_t offset = 0;  // apart, as an executor allocates them
    for (size_t i = 0; i < count; ++i) {
      const bool isNull = dice.below(8) == 0;
      heads.memory.resize(1 << 16);
      heads.at.push_back(isNull ? TensorRef() : heads.place(i, offset));
      offset += static_cast<size_t>(heads.shapes[i][0]);
    }
    HeadRanges ranges(heads.at, heads.isAdded);
    for (int step = 0; step < 60; ++step) {
      const size_t head = dice.below(count);
      if (!heads.at[head].data) continue;
      const TensorRef wanted = heads.place(head, dice.below(dice.below(2) ? 200 : 4000));
      const std::optional<size_t> expected = heads.conflict(head, wanted), found = ranges.conflict(head, wanted);
      ASSERT_EQ(found, expected) << "seed " << seed << ", step " << step;
      numConflicts += expected.has_value();
      if (expected) continue;
      ranges.move(head, heads.at[head], wanted);
      heads.at[head] = wanted;
      ++numMoves;
    }
  }
  EXPECT_GT(numConflicts, 1000u);
  EXPECT_GT(numMoves, 1000u);
}

}  // namespace
}  // namespace gradc
