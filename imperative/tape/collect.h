// The history of some tensors: the nodes of the tape in the order of their calls, and an encoding as words that is
// equal for equal structures. Tested by tests/imperative/memory/imperative_cache_test.cc
#pragma once

#include "imperative/tape/signature.h"
#include "imperative/tape/tape.h"

#include "ir/base/dense_map.h"

namespace gradc {

/// A tensor as the tape knows it.
struct TapeValue {
  TapeNode *node = nullptr;  // of a computed tensor, with the output
  uint32_t output = 0;
  Mark *mark = nullptr;  // of a leaf
  OperandType type;

  static TapeValue of(const TensorImpl &impl) {
    const bool isTracked = impl.tracked != 0;
    return {isTracked ? impl.producer : nullptr,
            impl.output,
            isTracked && !impl.producer ? impl.mark : nullptr,
            {impl.shape, impl.dtype}};
  }
  bool isTracked() const { return node || mark; }
  friend bool operator==(const TapeValue &a, const TapeValue &b) {
    return a.node == b.node && a.output == b.output && a.mark == b.mark;
  }
};

/// Reused from one backward to the next, so that a steady step allocates nothing.
class Collected {
 public:
  /// Numbers everything in the history of the ys, with `hasDerived` also the calls that a backward made of untracked
  /// values; `epoch` is one that no node has. E-20 if a node is cleared, unless `isLenient` and its edges are still
  /// there. Linear, but sorts the nodes if they are not found in the order of their calls.
  llvm::Error collect(llvm::ArrayRef<TapeValue> ys, uint32_t epoch, bool isLenient, bool hasDerived = false);
  /// The word of a value. Values that were not collected are numbered in the order of their first requests.
  uint32_t word(const TapeValue &value);
  bool contains(const TapeValue &value) const;
  bool isLeaf(const Mark &mark) const { return mark.epoch == epoch; }

  llvm::ArrayRef<TapeNode *> nodes() const { return list; }
  llvm::ArrayRef<Mark *> leaves() const { return leafList; }
  llvm::ArrayRef<TapeValue> outside() const { return outsideList; }
  /// Encodes only the structure: types of variables, then per node its signature and where its inputs come from.
  void encode(std::vector<uint32_t> &words) const;
  uint32_t numEntries() const { return entries; }
  size_t heapBytes() const;

  // A word is a number with its kind in the lowest two bits.
  enum Tag : uint32_t { kComputed = 0, kLeaf = 1, kUntracked = 2, kOutside = 3 };
  static uint32_t word(Tag tag, uint32_t number) { return number << 2 | tag; }

 private:
  uint32_t epoch = 0, entries = 0;
  std::vector<TapeNode *> list, stack;
  std::vector<Mark *> leafList;
  std::vector<TapeValue> outsideList;
  DenseMap<std::pair<const void *, uint32_t>, uint32_t> outsideOf;  // tracked ones, by node or mark, and output
};

}  // namespace gradc
