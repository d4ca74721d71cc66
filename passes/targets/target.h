// What a host of graphs offers: one table per host. A new host is a file next to mxnet.cc and a line in this
// one.
#pragma once

#include "ir/graph/graph.h"
#include "ir/op/op.h"

namespace gradc {

/// How a target expresses an operator that it lacks, where it can do better than the operator's decomposition. A rule
/// that gives no output leaves the node to the decomposition.
struct TargetRow {
  llvm::StringRef op;
  void (*rule)(DecomposeRule &);
};

struct Target {
  llvm::StringRef name;         // "mxnet"
  llvm::StringRef title;        // in messages: "MXNet 1.9.1"
  llvm::StringRef advice = {};  // a note below a refusal; may be empty
  /// Whether the target has the operator, with these attributes. Not called for unknown operators, which are kept.
  bool (*has)(const NodeKind &);
  /// Whether an operator that the target has is also available in bodies. Null: all are.
  bool (*hasInBodies)(const NodeKind &) = nullptr;
  /// How many outputs the target's operator has: a node is lowered if others are read. Null: all.
  uint32_t (*numOutputs)(const NodeKind &) = nullptr;
  llvm::ArrayRef<TargetRow> rows = {};
  llvm::ArrayRef<TargetRow> rowsInBodies = {};  // before `rows`
  /// Adapts the graph's table to what the target expects; null: it stays.
  void (*adjustTable)(GraphTable &) = nullptr;
};

/// MXNet 1.9.1: all built-in operators except gradc's own. Graphs are stamped mxnet_version 10901.
extern const Target kMxnetTarget;
/// The operators that are declared primitive, which all others decompose to.
extern const Target kPrimitivesTarget;
/// Has no operators: shows which ones a graph needs of a host that is to run it.
extern const Target kNoTarget;

}  // namespace gradc
