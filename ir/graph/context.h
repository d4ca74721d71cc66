// What graphs share: the known operators, and interned attribute lists, node kinds and bodies.
//
// Interning makes equality one comparison, and a million equal `relu`s cost one attribute list parsed once. A
// Context keeps nothing alive but its operators: attribute lists, kinds and bodies belong to the graphs, builders and
// handles that refer to them, may outlive the Context, and are freed with the last reference. Any number of
// threads may use one Context at once, once its operators are registered.
#pragma once

#include "ir/op/attrs.h"
#include "ir/op/intern_table.h"
#include "ir/op/op.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

namespace gradc {

/// A node kind, shared; within one Context equal kinds are one object.
using KindRef = std::shared_ptr<const NodeKind>;

class Context {
 public:
  Context() = default;
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  OpRegistry ops;

  /// Sorted by key; of a repeated key the last value is kept.
  Attrs attrs(llvm::ArrayRef<AttrText> pairs);
  /// `base` with `updates`, which take precedence.
  Attrs withAttrs(const Attrs &base, llvm::ArrayRef<AttrText> updates);
  /// The list without the keys `drop` accepts.
  Attrs withoutAttrs(const Attrs &base, llvm::function_ref<bool(llvm::StringRef key)> drop);

  /// The kind of a node; parses and checks the attributes on first use (BadAttribute, REG-19). Bodies are nested at
  /// most kMaxBodyNesting deep (BadJson).
  llvm::Expected<KindRef> kind(const OpDef &op, const Attrs &attrs, llvm::ArrayRef<Graph> bodies = {}) {
    return kind(op, attrs, op.name, bodies);
  }
  /// The same under one of the operator's other names, which is kept.
  llvm::Expected<KindRef> kind(const OpDef &op, const Attrs &attrs, llvm::StringRef spelling,
                               llvm::ArrayRef<Graph> bodies = {});
  /// A kind that differs from `like` in attributes and bodies: the same operator under the same name, known or not, or
  /// a variable, which has no bodies. Errors as above.
  llvm::Expected<KindRef> kindLike(const NodeKind &like, const Attrs &attrs, llvm::ArrayRef<Graph> bodies);
  KindRef variableKind(const Attrs &attrs);
  /// KindRef of an unknown operator with `numOutputs` outputs and any number of inputs. BadJson where bodies are
  /// nested too deep.
  llvm::Expected<KindRef> opaqueKind(llvm::StringRef opName, const Attrs &attrs, uint32_t numOutputs,
                                     llvm::ArrayRef<Graph> bodies = {});

  /// Numbers of interned objects that are referenced.
  struct Usage {
    size_t attrLists = 0, kinds = 0, bodies = 0, opaqueOps = 0;
    friend bool operator==(const Usage &, const Usage &) = default;
  };
  Usage usage() const { return {attrLists.size(), kinds.size(), bodies.size(), opaqueOps.size()}; }

 private:
  struct KindRow;
  struct OpaqueOp;

  KindRef add(std::unique_ptr<KindRow> row);

  InternTable<Attrs::List> attrLists;
  InternTable<KindRow> kinds;
  InternTable<Graph> bodies;
  InternTable<OpaqueOp> opaqueOps;
};

}  // namespace gradc
