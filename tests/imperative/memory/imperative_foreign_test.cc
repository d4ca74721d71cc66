// Tensors over the host's memory that overlap: each sees the writes of the others, and none loses what it holds.
#include "imperative/imperative.h"
#include "tests/support/drawn/dice.h"
#include "tests/support/runs/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::scalar;
using testing::Tape;

/// Numbers of the host, and tensors over parts of them.
struct HostTape : Tape {
  explicit HostTape(InplacePolicy inplace = InplacePolicy::Error) : Tape(optionsWith(inplace)) {}

  static ImperativeOptions optionsWith(InplacePolicy inplace) {
    ImperativeOptions options = referenceOptions();
    options.inplace = inplace;
    return options;
  }
  Tensor over(size_t first, int64_t size) {
    const int64_t dims[] = {size};
    return cantFail(im.makeForeign(TensorRef(&memory[first], DType::Float64, dims), nullptr, nullptr));
  }

  Doubles memory = Doubles(64, 1);
};

TEST(ImperativeForeign, TA_45_E_31_AWriteThroughOneIsSeenThroughTheOthers) {
  HostTape t;
  const Tensor a = t.over(0, 8), b = t.over(4, 8), beside = t.over(8, 4), elsewhere = t.over(32, 8);
  const Tensor w = t.leaf({8}, Doubles(8, 2));
  auto product = [&](const Tensor &x) { return t.sum(t.mul(w, x)); };
  Tensor y = product(a);
  cantFail(t.im.willWrite(elsewhere));
  cantFail(t.im.willWrite(beside));
  t.backward({y});
  y = product(a);
  cantFail(t.into("square", {b}, {b}));
  const GradcError error = errorOf(t.im.backward({y}, {}));
  EXPECT_EQ(error.kind, ErrorKind::StaleVersion);
  EXPECT_NE(error.message.find("of operator 'square'"), std::string::npos) << error.message;
  y = product(a);
  cantFail(t.im.willWrite(b));
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-31");
  // What an optimizer overwrites, what is cleared, and what a backward fills.
  y = product(a);
  cantFail(t.into("_scheduled_sgd_update", {b, elsewhere, t.value(0.5)}, {b}));
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-31");
  const Tensor x = t.leaf({8}, Doubles(8, 3));
  cantFail(t.im.mark(x, Request::Write, b));
  y = product(a);
  cantFail(t.im.clearGrad(x));
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-31");
  y = product(a);
  t.backward({t.sum(x)});
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-31");
}

TEST(ImperativeForeign, AnAliasThatIsGoneIsForgotten) {
  HostTape t;
  const Tensor a = t.over(0, 8);
  for (int i = 0; i < 3; ++i) {
    const Tensor b = t.over(i, 8), kept = t.im.detach(b);
    cantFail(t.im.willWrite(a));
    EXPECT_EQ(b.version(), 1u);
  }
  EXPECT_EQ(a.version(), 3u);
}

// Any intervals, added and removed in any order, against a search of all of them.
TEST(ImperativeForeign, OverlapsOfAnyIntervals) {
  testing::Dice dice(1);
  HostTape t;
  struct Part {
    size_t first, last;
    Tensor tensor;
    uint32_t version = 0;
  };
  std::vector<Part> parts;
  for (int round = 0; round < 3000; ++round) {
    if (parts.size() < 2 || (parts.size() < 60 && dice.below(2))) {
      const size_t first = dice.below(60), size = 1 + dice.below(dice.below(4) ? 4 : 64 - first);
      const size_t last = std::min<size_t>(64, first + size);
      parts.push_back({first, last, t.over(first, static_cast<int64_t>(last - first))});
    } else if (dice.below(3) == 0) {
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(dice.below(parts.size())));
    }
    const Part &written = parts[dice.below(parts.size())];
    cantFail(t.im.willWrite(written.tensor));
    for (Part &part : parts) {
      part.version += part.first < written.last && written.first < part.last;
      ASSERT_EQ(part.tensor.version(), part.version) << round;
    }
  }
}

TEST(ImperativeForeign, REQ_09_E_18_BuffersThatOverlapInPart) {
  for (Request request : {Request::Write, Request::Add}) {
    HostTape t;
    const Tensor x = t.leaf({4}, {1, 2, 3, 4}), z = t.leaf({4}, {1, 2, 3, 4}), two = t.leaf({2}, {1, 2});
    cantFail(t.im.mark(x, request, t.over(0, 4)));
    const GradcError error = errorOf(t.im.mark(z, request, t.over(2, 4)));
    EXPECT_EQ(error.kind, ErrorKind::BufferAlias);
    EXPECT_NE(error.message.find("overlap"), std::string::npos) << error.message;
    EXPECT_EQ(t.rowOf(t.im.mark(two, request, t.over(0, 2))), "E-18") << "the same address";
    EXPECT_EQ(t.rowOf(t.im.mark(two, request, t.over(4, 2))), "success") << "beside it";
    cantFail(t.im.mark(x, request, t.over(0, 4)));  // again
    cantFail(t.im.dropGrad(x));
    EXPECT_EQ(t.rowOf(t.im.mark(z, request, t.over(0, 4))), "success");
  }
  // A recorded sum has one type.
  Tape t;
  const Tensor buffer = t.value({4}, {0, 0, 0, 0}), x = t.leaf({4}, {1, 2, 3, 4}), z = t.leaf({2, 2}, {1, 2, 3, 4});
  const Tensor square = t("Reshape", {buffer}, {{"shape", "(2, 2)"}});
  ASSERT_TRUE(square.sharesMemoryWith(buffer));
  cantFail(t.im.mark(x, Request::Add, buffer));
  EXPECT_EQ(t.rowOf(t.im.mark(z, Request::Add, square)), "E-18");
}

TEST(ImperativeForeign, REQ_09_TwoLeavesAddToTheSameMemory) {
  for (bool createGraph : {false, true}) {
    HostTape t;
    const Tensor x = t.leaf({2}, {3, 4}), z = t.leaf({2}, {5, 6});
    for (const Tensor &leaf : {x, z}) cantFail(t.im.mark(leaf, Request::Add, t.over(0, 2)));
    t.backward({t.sum(t.mul(x, z))}, {.createGraph = createGraph});
    EXPECT_EQ(t.memory[0], 1 + 3 + 5) << createGraph;
    EXPECT_EQ(t.memory[1], 1 + 4 + 6) << createGraph;
  }
}

// A gradient that the host sees through another tensor gets new memory, as one that shares its storage does.
TEST(ImperativeForeign, AGG_13_AGradientThatIsSeenElsewhereIsNotAddedTo) {
  for (bool isSeen : {false, true}) {
    HostTape t;
    const Tensor x = t.leaf({2}, {3, 4}), alias = isSeen ? t.over(1, 2) : Tensor();
    cantFail(t.im.setGrad(x, t.over(0, 2)));
    t.backward({t.sum(x)});
    EXPECT_EQ(doublesOf(x.grad()), (Doubles{2, 2}));
    EXPECT_EQ(t.memory[1], isSeen ? 1 : 2);
  }
}

TEST(ImperativeForeign, E_19_RebaseOverMemoryThatIsSeenElsewhere) {
  for (bool isSeen : {false, true}) {
    HostTape t(InplacePolicy::Rebase);
    const Tensor x = t.leaf({2}, {3, 4}), y = t.over(0, 2), alias = isSeen ? t.over(1, 1) : Tensor();
    cantFail(t.into("square", {x}, {y}));
    EXPECT_EQ(t.rowOf(t.into("square", {y}, {y})), isSeen ? "E-19" : "success");
  }
}

}  // namespace
}  // namespace gradc
