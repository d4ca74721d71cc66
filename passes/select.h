// Which entries can carry gradient: those on a data path from an asked x (§7, §8).
//
// An entry *carries* when it is asked for, or when its node reads a carrying entry at a position through which gradient
// flows. Nothing flows through stop inputs, operators without gradient by definition, integer values, and entries the
// request cuts. So nothing above the topmost needed x is ever differentiated (XS-10).
#pragma once

#include "passes/gradient.h"
#include "passes/infer.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

class Selection {
 public:
  Selection(const Graph &graph, const GradientRequest &request, const GradientOptions &options);

  bool carries(EntryId e) const { return carrying[e.value]; }
  /// No contribution may enter (no_grad).
  bool isCut(EntryId e) const { return hasCuts && cut[e.value]; }
  /// Receives contributions, but passes nothing to its producer (stop).
  bool isStopped(EntryId e) const { return hasStops && stopped[e.value]; }
  /// Whether a gradient can flow into input i of a node of this kind.
  static bool flows(const NodeKind &kind, size_t i) {
    return !kind.isStopped(i) && !kind.isMutated(i) && !kind.op->flags.hasNoGradient;
  }
  bool isInteger(EntryId e) const {
    return types && (*types)[e] != DType::Unknown && !isFloating((*types)[e]);
  }

 private:
  llvm::BitVector carrying, cut, stopped;
  bool hasCuts = false, hasStops = false;
  const EntryMap<DType> *types = nullptr;  // null: integers pass
};

/// Nodes from which some y is reached along data edges; with `withControl`, along control dependencies too.
llvm::BitVector ancestorsOf(const Graph &graph, llvm::ArrayRef<GradientHead> heads, bool withControl);

}  // namespace gradc
