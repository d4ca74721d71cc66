// The tape: one reference-counted node per recorded call, owned by the tensors it made and by the nodes that read them.
//
// A node refers to the nodes that made its inputs, and saves those inputs and outputs whose contents its gradient
// reads. Its outputs are saved as storage, not as tensors, so there are no cycles, and a node is destroyed with the
// last tensor computed from it. Tested by tests/imperative/imperative_test.cc
#pragma once

#include "imperative/tape/kind.h"
#include "imperative/tape/tensor.h"
#include "ir/base/ids.h"

#include "llvm/ADT/PointerIntPair.h"

namespace gradc {

struct Signature;

/// Where an input of a call came from.
struct Edge {
  enum class Kind : uint8_t {
    Node,       // output `output` of another call
    Leaf,       // a marked tensor
    Untracked,  // another tensor, which has a mark so that it is recognized and may get a name later
    Derived,    // output `output` of a call that a backward made of untracked values
    Shape,      // only a shape and type
  };
  uint64_t bits = 0;     // pointer, the kind in the lowest three bits
  uint32_t output = 0;   // Node, Derived
  uint32_t version = 0;  // of the storage when it was read

  static Edge node(TapeNode *node, Kind kind, uint32_t output, uint32_t version) {
    return {reinterpret_cast<uint64_t>(node) | static_cast<uint64_t>(kind), output, version};
  }
  static Edge mark(Mark *mark, Kind kind, uint32_t version) {
    return {reinterpret_cast<uint64_t>(mark) | static_cast<uint64_t>(kind), 0, version};
  }
  static Edge shape() { return {static_cast<uint64_t>(Kind::Shape), 0, 0}; }
  Kind kind() const { return static_cast<Kind>(bits & 7); }
  /// Null for one that a backward has cut off.
  TapeNode *node() const { return reinterpret_cast<TapeNode *>(bits & ~uint64_t{7}); }
  Mark *mark() const { return reinterpret_cast<Mark *>(bits & ~uint64_t{7}); }
  bool isTracked() const { return kind() <= Kind::Leaf; }
  bool isOfNode() const { return kind() == Kind::Node || kind() == Kind::Derived; }
  bool isOfMark() const { return kind() == Kind::Leaf || kind() == Kind::Untracked; }
};

struct Kept {
  Storage *storage;  // null: released
  uint32_t version;  // when it was kept
};

/// A computed tensor whose gradient is kept (§9).
struct RetainedMark {
  Mark *mark;
  uint32_t output;
  RetainedMark *next;
};

/// A call as messages describe it, which may be gone: the one whose gradient a call recorded by a backward computes.
struct Origin {
  std::atomic<uint32_t> refs{1};
  KindRow *kind;  // with a reference
  uint64_t call;
  CallSite site;
  Origin *parent;  // if a backward recorded this call, too
  Store *store;
};

struct TapeNode {
  std::atomic<uint32_t> refs{1};
  uint32_t numEdges;  // the arrays behind the node
  uint32_t numKept : 28;
  uint32_t isInto : 1 = 0;           // outputs were written into existing tensors
  uint32_t isFunction : 1 = 0;       // `state` is a FunctionCall's
  uint32_t isCleared : 1 = 0;        // a backward without `retain` ran through it
  uint32_t isTrackedByLeaf : 1 = 0;  // a leaf of requiresGrad is in its history
  uint32_t epoch = 0, index = 0;     // place among what a backward collects
  uint32_t line;                     // CallSite
  const char *file;
  Signature *signature;  // with a reference
  uint64_t call;         // number of the call
  uint64_t draw = 0;     // of a random operator: the step of its key; during destruction: the next node in the list
  Store *store;
  TapeNode *forward = nullptr;       // of a fused backward operator: the call it belongs to
  RetainedMark *retained = nullptr;  // marks of outputs
  Storage *state = nullptr;          // without bytes; it releases a FunctionCall or an object of the host
  Origin *origin = nullptr;          // of a call that a backward recorded

  CallSite site() const { return {file, line}; }
  llvm::MutableArrayRef<Edge> edges() { return {reinterpret_cast<Edge *>(this + 1), numEdges}; }
  /// Parallel to Signature::kept.
  llvm::MutableArrayRef<Kept> kept() { return {reinterpret_cast<Kept *>(edges().end()), numKept}; }
  static size_t bytes(size_t numEdges, size_t numKept) {
    return sizeof(TapeNode) + numEdges * sizeof(Edge) + numKept * sizeof(Kept);
  }
};
static_assert(sizeof(TapeNode) <= 96, "a call of one input and one kept value, or of two inputs, takes 128 bytes");

/// Frees a node without owners and, one after the other, those that only it owned: any chain in constant stack.
void destroy(TapeNode *node);
inline void retain(TapeNode *node) { node->refs.fetch_add(1, std::memory_order_relaxed); }
inline void release(TapeNode *node) {
  if (node->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(node);
}

void destroy(Origin *origin);
inline void retain(Origin *origin) { origin->refs.fetch_add(1, std::memory_order_relaxed); }
inline void release(Origin *origin) {
  if (origin->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(origin);
}

inline void retain(const Edge &edge) {
  if (edge.isOfMark()) retain(edge.mark());
  else if (edge.isOfNode() && edge.node()) retain(edge.node());
}
inline void release(const Edge &edge) {
  if (edge.isOfMark()) release(edge.mark());
  else if (edge.isOfNode() && edge.node()) release(edge.node());
}

/// "call 12 of operator 'square'"
std::string describeCall(uint64_t call, const NodeKind &kind);
std::string describe(const TapeNode &node);
/// The same with the call site, and the calls whose gradient it computes.
std::string describeFully(const TapeNode &node);
/// The origin of the calls that a backward records for a node; null without memory. With the lock held.
Origin *makeOrigin(const TapeNode &node);

/// Releases the values that a node keeps.
void releaseKept(TapeNode &node);
/// RET-01: releases everything that a node refers to, or with `keepsEdges` only its values.
void clear(TapeNode &node, bool keepsEdges);

}  // namespace gradc
