// What operators end in, determined by trying: a node of each, with default attributes, is lowered and differentiated.
// Tested by tests/tools/golden_test.cc
#pragma once

#include "ir/graph/context.h"
#include "ir/graph/graph.h"
#include "passes/lowering/lower_to.h"

#include <map>
#include <set>
#include <string>

namespace gradc {

using OperatorSet = std::set<const OpDef *>;
using Needs = std::map<const OpDef *, OperatorNeeds>;

struct OperatorTrials {
  /// Tries all operators of the context; gradient operators that occur in no gradient are tried alone.
  explicit OperatorTrials(Context &context);
  /// Tries only one operator.
  OperatorTrials(Context &context, const OpDef &op) { tryOperator(context, op); }

  Needs needs;  // by operator: the primitives it ends in
  OperatorSet tried;
  std::map<const OpDef *, OperatorSet> gradient;       // by operator: the primitives its gradient ends in
  std::map<const OpDef *, OperatorSet> gradientNodes;  // by operator: what its gradient rule emits

  /// "`Concat`, `slice`, and `topk`, not reducible": what trials of the operator ended in. Names between `quote`s.
  std::string endsIn(const OpDef &op, llvm::StringRef quote = "`") const;

 private:
  void tryOperator(Context &context, const OpDef &op);
  Needs add(Context &context, const Graph &graph);
  void addGradient(Context &context, const OpDef &op, const Graph &graph);
};

/// "`dot`, `exp`", sorted.
std::string namesOf(const OperatorSet &operators, llvm::StringRef quote = "`");
/// The text in a cell of a Markdown table.
std::string markdownCell(llvm::StringRef text);

}  // namespace gradc
