// Owns everything graphs share: interned text, attribute lists, shapes, node kinds with their bodies, and the operators known.
//
// Outlives every Graph made with it. Interning makes equality of attribute lists and shapes one comparison, and a
// million equal `relu`s cost one attribute list parsed once. Not thread-safe: one Context per thread of compilation.
#pragma once

#include "ir/op.h"
#include "ir/shape.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Allocator.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace gradc {

/// One attribute as text; both ids belong to one Context.
struct AttrPair {
  StrId key, value;
  friend bool operator==(const AttrPair &, const AttrPair &) = default;
};

/// Attribute text given by value, for `Context::attrs`.
struct AttrText {
  llvm::StringRef key, value;
};

class BodyTable;

class Context {
 public:
  Context();
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  OpRegistry ops;

  StrId intern(llvm::StringRef text);
  llvm::StringRef text(StrId id) const { return texts[id.value]; }

  /// Attribute lists are sorted by key text; of a repeated key the last value stands. AttrsId 0 is the empty list.
  AttrsId attrs(llvm::ArrayRef<AttrText> pairs);
  AttrsId attrs(llvm::MutableArrayRef<AttrPair> pairs);
  llvm::ArrayRef<AttrPair> attrs(AttrsId id) const { return attrLists[id.value]; }
  std::optional<llvm::StringRef> attr(AttrsId id, llvm::StringRef key) const;
  /// The list with `updates` put over `base`.
  AttrsId withAttrs(AttrsId base, llvm::ArrayRef<AttrText> updates);
  /// The list without the keys `drop` accepts.
  AttrsId withoutAttrs(AttrsId base, llvm::function_ref<bool(llvm::StringRef key)> drop);

  /// Interns dims; nothing for dims that no tensor can have (`isPossible`). `kUnknownShape` stands for unknown rank.
  std::optional<ShapeId> shape(Dims dims);
  ShapeRef shape(ShapeId id) const { return id == kUnknownShape ? ShapeRef() : ShapeRef(shapes[id.value].dims); }
  /// True when every dimension is known; one load, for the loops of inference.
  bool isFullyKnown(ShapeId id) const { return shapes[id.value].elements >= 0; }
  /// Elements of a fully known shape, at most kMaxElements; -1 for any other.
  int64_t elements(ShapeId id) const { return shapes[id.value].elements; }

  /// The kind of a node; parses and checks the attributes on first use (BadAttribute, REG-19). Bodies are graphs of this
  /// Context, nested at most kMaxBodyNesting deep (BadJson).
  llvm::Expected<KindId> kind(const OpDef &op, AttrsId attrs, llvm::ArrayRef<Graph> bodies = {}) {
    return kind(op, attrs, op.name, bodies);
  }
  /// The same under one of the operator's other names, which is kept.
  llvm::Expected<KindId> kind(const OpDef &op, AttrsId attrs, llvm::StringRef spelling, llvm::ArrayRef<Graph> bodies = {});
  KindId variableKind(AttrsId attrs);
  /// Kind of an unknown operator, created on demand, with `numOutputs` outputs and any number of inputs.
  KindId opaqueKind(llvm::StringRef opName, AttrsId attrs, uint32_t numOutputs);
  /// The same with bodies; BadJson where they are nested too deep.
  llvm::Expected<KindId> opaqueKind(llvm::StringRef opName, AttrsId attrs, uint32_t numOutputs, llvm::ArrayRef<Graph> bodies);
  const NodeKind &kind(KindId id) const { return kinds[id.value]; }

  /// Listed name of an input or output: "weight", "arg3", "output".
  std::string inputName(const NodeKind &kind, size_t index) const;
  std::string outputName(const NodeKind &kind, size_t index) const;

  /// Prints `(name="n", k="v", …)`, the end of every attribute error.
  std::string describe(llvm::StringRef opName, llvm::StringRef nodeName, AttrsId attrs) const;

 private:
  struct ShapeRow {
    Dims dims;
    int64_t elements;  // -1: not fully known
  };
  using KindKey = std::tuple<const OpDef *, uint32_t, uint32_t, uint32_t>;  // attrs; alias or forced output count; bodies

  AttrsId internSorted(llvm::ArrayRef<AttrPair> pairs);
  InputBits bitsOf(const InputSet &set, const NodeKind &kind);
  llvm::Error parseParams(const OpDef &op, AttrsId attrs, NodeKind &kind);
  llvm::Expected<uint32_t> internBodies(llvm::ArrayRef<Graph> bodies, NodeKind &kind);

  llvm::BumpPtrAllocator arena;
  llvm::StringMap<uint32_t> textIds;
  std::vector<llvm::StringRef> texts;
  llvm::StringMap<uint32_t> attrListIds;  // keyed by the bytes of the pairs
  std::vector<llvm::ArrayRef<AttrPair>> attrLists;
  llvm::StringMap<uint32_t> shapeIds;     // keyed by the bytes of the dims
  std::vector<ShapeRow> shapes;
  llvm::DenseMap<KindKey, uint32_t> kindIds;
  std::deque<NodeKind> kinds;
  std::unique_ptr<BodyTable> bodyLists;
  llvm::StringMap<std::unique_ptr<OpDef>> opaqueOps;
};

}  // namespace gradc
