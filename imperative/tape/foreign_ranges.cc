// Recursion is as deep as the treap, which is logarithmic in the mean for any addresses: priorities are hashes of them.
// Tested by tests/imperative/memory/imperative_foreign_test.cc
#include "imperative/tape/foreign_ranges.h"

#include "imperative/tape/storage.h"

#include "llvm/ADT/Hashing.h"

#include <algorithm>
#include <utility>

using namespace llvm;

namespace gradc {
namespace {

using Node = ForeignRanges::Node;

Node &nodeOf(Storage *storage) { return *reinterpret_cast<Node *>(storage + 1); }
uintptr_t beginOf(const Storage &storage) { return reinterpret_cast<uintptr_t>(storage.data); }
uintptr_t endOf(const Storage &storage) { return beginOf(storage) + storage.bytes; }
bool isBefore(const Storage *a, const Storage *b) {
  return std::pair(beginOf(*a), reinterpret_cast<uintptr_t>(a)) <
         std::pair(beginOf(*b), reinterpret_cast<uintptr_t>(b));
}

Storage *updated(Storage *storage) {
  Node &node = nodeOf(storage);
  node.highest = endOf(*storage);
  for (Storage *child : {node.left, node.right})
    if (child) node.highest = std::max(node.highest, nodeOf(child).highest);
  return storage;
}

Storage *merged(Storage *low, Storage *high) {
  if (!low || !high) return low ? low : high;
  const bool isLow = nodeOf(low).priority > nodeOf(high).priority;
  Storage *const top = isLow ? low : high;
  if (isLow) nodeOf(top).right = merged(nodeOf(top).right, high);
  else nodeOf(top).left = merged(low, nodeOf(top).left);
  return updated(top);
}

/// Those before `at`, and the others.
std::pair<Storage *, Storage *> split(Storage *root, const Storage *at) {
  if (!root) return {nullptr, nullptr};
  Node &node = nodeOf(root);
  if (isBefore(root, at)) {
    const auto [low, high] = split(node.right, at);
    node.right = low;
    return {updated(root), high};
  }
  const auto [low, high] = split(node.left, at);
  node.left = high;
  return {low, updated(root)};
}

Storage *without(Storage *root, const Storage *gone) {
  Node &node = nodeOf(root);
  if (root == gone) return merged(node.left, node.right);
  Storage *&child = isBefore(gone, root) ? node.left : node.right;
  child = without(child, gone);
  return updated(root);
}

void visitFrom(Storage *root, const Storage &storage, function_ref<void(Storage &)> visit) {
  if (!root || nodeOf(root).highest <= beginOf(storage)) return;
  visitFrom(nodeOf(root).left, storage, visit);
  if (beginOf(*root) >= endOf(storage)) return;
  if (root != &storage && endOf(*root) > beginOf(storage)) visit(*root);
  visitFrom(nodeOf(root).right, storage, visit);
}

}  // namespace

void ForeignRanges::add(Storage &storage) {
  new (&nodeOf(&storage)) Node{nullptr, nullptr, 0, static_cast<size_t>(hash_value(&storage))};
  const auto [low, high] = split(root, &storage);
  root = merged(merged(low, updated(&storage)), high);
}

void ForeignRanges::remove(Storage &storage) { root = without(root, &storage); }

void ForeignRanges::visitOverlapping(const Storage &storage, function_ref<void(Storage &)> visit) const {
  visitFrom(root, storage, visit);
}

}  // namespace gradc
