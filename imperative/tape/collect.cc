// Tested by tests/imperative/memory/imperative_cache_test.cc
#include "imperative/tape/collect.h"

#include "imperative/tape/tape_shapes.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

Error Collected::collect(ArrayRef<TapeValue> ys, uint32_t newEpoch, bool isLenient, bool hasDerived) {
  epoch = newEpoch;
  entries = 0;
  list.clear();
  leafList.clear();
  outsideList.clear();
  outsideOf.clear();
  const TapeNode *cleared = nullptr;
  // A lenient backward can go on behind another one, but not where a strict one has released the edges.
  auto isGone = [&](TapeNode &node) { return node.isCleared && !(isLenient && node.edges().front().bits != 0); };
  auto reach = [&](TapeNode *node) {
    if (node->epoch == epoch) return;
    node->epoch = epoch;
    if (isGone(*node) && (!cleared || node->call > cleared->call)) cleared = node;
    list.push_back(node);
    stack.push_back(node);
  };
  for (const TapeValue &y : ys) {
    if (y.node) reach(y.node);
    while (!stack.empty()) {
      TapeNode *const node = stack.back();
      stack.pop_back();
      for (const Edge &edge : node->edges())
        if ((edge.kind() == Edge::Kind::Node && edge.node()) || (hasDerived && edge.kind() == Edge::Kind::Derived))
          reach(edge.node());
      if (node->forward) reach(node->forward);
    }
  }
  if (cleared)
    return Failure(ErrorKind::HistoryCleared, "the history of " + describe(*cleared) +
                                                  " is gone: an earlier backward ran through it without `retain`")
        .note("retain on the first call to run another one over the same history");
  const auto isLater = [](const TapeNode *a, const TapeNode *b) { return a->call > b->call; };
  if (!std::is_sorted(list.begin(), list.end(), isLater)) std::sort(list.begin(), list.end(), isLater);
  std::reverse(list.begin(), list.end());
  for (TapeNode *node : list) {
    node->index = entries;
    entries += static_cast<uint32_t>(node->signature->outputs.size());
    for (const Edge &edge : node->edges())
      if (edge.kind() == Edge::Kind::Leaf && edge.mark()->epoch != epoch) {
        edge.mark()->epoch = epoch;
        edge.mark()->index = static_cast<uint32_t>(leafList.size());
        leafList.push_back(edge.mark());
      }
  }
  for (const TapeValue &y : ys)
    if (y.mark && y.mark->epoch != epoch) {
      y.mark->epoch = epoch;
      y.mark->index = static_cast<uint32_t>(leafList.size());
      leafList.push_back(y.mark);
    }
  return Error::success();
}

size_t Collected::heapBytes() const {
  return heapBytesOf(list, stack, leafList, outsideList) + heapBlock(outsideOf.getMemorySize());
}

bool Collected::contains(const TapeValue &value) const {
  return value.node ? value.node->epoch == epoch : value.mark && value.mark->epoch == epoch;
}

uint32_t Collected::word(const TapeValue &value) {
  if (contains(value))
    return value.node ? word(kComputed, value.node->index + value.output) : word(kLeaf, value.mark->index);
  const uint32_t number = static_cast<uint32_t>(outsideList.size());
  if (value.isTracked()) {
    const void *const of = value.node ? static_cast<const void *>(value.node) : value.mark;
    const auto [at, isNew] = outsideOf.try_emplace({of, value.output}, number);
    if (!isNew) return word(kOutside, at->second);
  }
  outsideList.push_back(value);
  return word(kOutside, number);
}

void Collected::encode(std::vector<uint32_t> &words) const {
  // Calls give the types of their operands, but a y or an x may be no operand.
  auto encodeType = [&](OperandType type) {
    words.push_back(type.shape.value);
    words.push_back(static_cast<uint32_t>(type.dtype));
  };
  words.push_back(static_cast<uint32_t>(leafList.size()));
  for (const Mark *mark : leafList) encodeType({mark->shape, mark->dtype});
  words.push_back(static_cast<uint32_t>(outsideList.size()));
  for (const TapeValue &value : outsideList) encodeType(value.type);
  for (const TapeNode *node : list) {
    words.push_back(node->signature->id);
    for (const Edge &edge : const_cast<TapeNode *>(node)->edges()) {
      switch (edge.kind()) {
        case Edge::Kind::Node:
          words.push_back(edge.node() ? word(kComputed, edge.node()->index + edge.output) : word(kUntracked, 0));
          break;
        case Edge::Kind::Leaf: words.push_back(word(kLeaf, edge.mark()->index)); break;
        default: words.push_back(word(kUntracked, 0));
      }
    }
    if (node->signature->handle->op->flags.isBackward)
      words.push_back(node->forward ? word(kComputed, node->forward->index) : word(kUntracked, 0));
  }
}

}  // namespace gradc
