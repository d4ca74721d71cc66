// Which entries can carry gradient: those on a data path from a requested x (§7, §8).
//
// An entry *carries* when it is requested, or when its node reads a carrying entry at a position through which gradient
// flows. Nothing flows through stop inputs, operators without gradient by definition, integer values, and entries the
// request cuts. So nothing above the topmost needed x is ever differentiated (XS-10).
#pragma once

#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

class Selection {
 public:
  /// Nothing is requested, cut or stopped.
  Selection() = default;
  Selection(const Graph &graph, const GradientRequest &request, const GradientOptions &options);

  bool carries(EntryId e) const { return carrying[e.value]; }
  /// No contribution may enter: an entry of noGrad, or of a node that is marked (NG-01).
  bool isCut(EntryId e) const { return hasCuts && cut[e.value]; }
  /// Receives contributions, but passes nothing to its producer (stop).
  bool isStopped(EntryId e) const { return hasStops && stopped[e.value]; }
  /// Whether a gradient can flow into input i of a node of this kind.
  static bool flows(const NodeKind &kind, size_t i) {
    return !kind.isStopped(i) && !kind.isMutated(i) && !kind.op->flags.hasNoGradient;
  }
  /// Whether some node overwrites a variable, so that versions matter.
  bool hasMutations() const { return mutates; }
  bool isInteger(EntryId e) const { return types && (*types)[e] != DType::Unknown && !isFloating((*types)[e]); }

  /// Nodes from which some y is reached along data edges, none of them into a cut entry (NG-06, NG-07): any other node
  /// counts as unused (P-04). With `withControl`, along control dependencies too.
  llvm::BitVector connectedTo(const Graph &graph, llvm::ArrayRef<GradientHead> heads, bool withControl) const;

 private:
  void cutOutputs(const Graph &graph, NodeId n);

  llvm::BitVector carrying, cut, stopped;
  bool hasCuts = false, hasStops = false, mutates = false;
  const EntryMap<DType> *types = nullptr;  // null: integers pass
};

/// Whether a node of the file is marked as one whose outputs never get a gradient: `__stop_gradient__` (NG-01).
bool isMarkedStopped(const Graph &graph, NodeId n);
bool isMarkedStopped(const NodeKind &kind);
/// The outputs of nodes with kTapMark or kRetainMark.
std::vector<Value> tappedEntries(const Graph &graph);

/// Nodes from which some y is reached along data edges.
llvm::BitVector ancestorsOf(const Graph &graph, llvm::ArrayRef<GradientHead> heads);

}  // namespace gradc
