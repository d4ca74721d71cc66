// The names of gradients: `x@GRAD` is the gradient of x (NAME-06). Tested by
// tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/base/dense_map.h"

#include "llvm/ADT/STLExtras.h"

namespace gradc {

/// Answers questions about the names of one table, each computed once.
class GradientNames {
 public:
  explicit GradientNames(NameTable &texts) : texts(texts) {}

  NameTable &texts;

  /// `<name>@GRAD`.
  TextId gradient(TextId name);
  /// Whether the name contains `@GRAD`.
  bool isGradient(TextId name);
  /// The name of which it is the gradient (NAME-08).
  TextId stripped(TextId name);

 private:
  enum class Answer : uint8_t { Unknown, No, Yes };

  std::vector<TextId> gradients;  // invalid until requested
  std::vector<TextId> variables;  // by gradient: what `stripped` returns; invalid: not known yet
  std::vector<Answer> isGradientName;
};

/// A set of names in the order of insertion. A few names are searched one by one; of more, every 64 consecutive ids
/// share a word of bits, so that the set of all names of a program stays in the cache.
class NameSet {
 public:
  NameSet() = default;
  explicit NameSet(llvm::ArrayRef<TextId> names) { insert(names); }
  NameSet(const NameSet &other) : NameSet(other.names()) {}
  NameSet(NameSet &&) = default;
  NameSet &operator=(NameSet &&) = default;

  llvm::ArrayRef<TextId> names() const { return inOrder; }
  bool contains(TextId name) const {
    if (inOrder.size() <= kFew) return llvm::is_contained(inOrder, name);
    return words.lookup(name.value / 64) & bitOf(name);
  }
  /// True if the name is new.
  bool insert(TextId name) {
    if (inOrder.size() <= kFew ? llvm::is_contained(inOrder, name) : !addBit(name)) return false;
    inOrder.push_back(name);
    if (inOrder.size() == kFew + 1)
      for (TextId known : inOrder) addBit(known);
    return true;
  }
  void insert(llvm::ArrayRef<TextId> names) {
    for (TextId name : names) insert(name);
  }

 private:
  static constexpr size_t kFew = 8;

  static uint64_t bitOf(TextId name) { return uint64_t{1} << name.value % 64; }
  /// True if the bit is new.
  bool addBit(TextId name) {
    uint64_t &word = words[name.value / 64];
    const bool isNew = !(word & bitOf(name));
    word |= bitOf(name);
    return isNew;
  }

  IdMap<uint64_t> words;  // by id / 64; empty while there are few
  std::vector<TextId> inOrder;
};

/// Calls `visit` with the variables of the slots, in order.
template <typename Slots, typename Visit> void forEachVariable(Slots &&slots, Visit visit) {
  for (auto &slot : slots)
    for (auto &name : slot.variables) visit(name);
}

/// The same for an operator: its inputs, then its outputs.
template <typename Visit> void forEachOperand(const BlockOp &op, Visit visit) {
  forEachVariable(op.inputs, visit);
  forEachVariable(op.outputs, visit);
}

/// Whether `accepts` a variable of the slots.
template <typename Predicate> bool anyVariable(llvm::ArrayRef<BlockSlot> slots, Predicate accepts) {
  return llvm::any_of(slots, [&](const BlockSlot &slot) { return llvm::any_of(slot.variables, accepts); });
}
inline bool anyIn(llvm::ArrayRef<BlockSlot> slots, const NameSet &names) {
  return anyVariable(slots, [&](TextId name) { return names.contains(name); });
}

/// The variables of slots, for frequent lookups: an operator may have thousands.
class OperandNames {
 public:
  explicit OperandNames(llvm::ArrayRef<BlockSlot> slots) : slots(slots) {
    size_t number = 0;
    for (const BlockSlot &slot : slots) number += slot.variables.size();
    if (number > 16) forEachVariable(slots, [&](TextId name) { many.insert(name); });
  }
  bool contains(TextId name) const {
    if (!many.names().empty()) return many.contains(name);
    return anyVariable(slots, [&](TextId other) { return other == name; });
  }

 private:
  llvm::ArrayRef<BlockSlot> slots;
  NameSet many;  // empty if there are few
};

}  // namespace gradc
