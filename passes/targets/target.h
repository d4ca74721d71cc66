// What a host of graphs offers: one table for each. A new host is a file beside mxnet.cc and a line in this one.
#pragma once

#include "ir/graph.h"
#include "ir/op.h"

namespace gradc {

/// How a target expresses an operator that it lacks, where it can do better than by the operator's own decomposition. A
/// rule that gives no output leaves the node to the decomposition.
struct TargetRow {
  llvm::StringRef op;
  void (*rule)(DecomposeRule &);
};

struct Target {
  llvm::StringRef name;         // of --dialect
  llvm::StringRef title;        // in messages: "MXNet 1.9.1"
  llvm::StringRef advice = {};  // a note below a refusal; may be empty
  /// Whether the target has the operator, with these attributes. Unknown operators are left alone and not asked about.
  bool (*has)(const NodeKind &);
  /// Whether an operator that the target has is also one of its bodies'. Null: every one.
  bool (*hasInBodies)(const NodeKind &) = nullptr;
  /// How many outputs the operator has there: a node of which others are read is expressed otherwise. Null: all.
  uint32_t (*numOutputs)(const NodeKind &) = nullptr;
  llvm::ArrayRef<TargetRow> rows = {};
  llvm::ArrayRef<TargetRow> rowsInBodies = {};  // before `rows`
  /// Makes the graph's table what the target expects; null: it stays.
  void (*adjustTable)(GraphTable &) = nullptr;
};

/// MXNet 1.9.1: all built-in operators but those of gradc's own. Graphs are stamped mxnet_version 10901.
extern const Target kMxnetTarget;
/// The operators that are declared primitive, which all others decompose to.
extern const Target kPrimitivesTarget;
/// Nothing at all: what a graph needs of a host that is to run it.
extern const Target kNoTarget;

}  // namespace gradc
