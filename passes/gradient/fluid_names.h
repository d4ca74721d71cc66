// Names in the style of Paddle Fluid's backward (NAME-06, NAME-07), for straight-line graphs.
//
// Fluid names variables, not operators, so a generated node is named after its output: `x@GRAD`, the gradient of x;
// `x@GRAD@RENAME@block0@<k>`, the k-th of several summands; `x@GRAD@ADD@<k>` within a chain; `x@ZERO`. Whether a
// gradient is one of several is known only after the walk, so most names are given at its end. In the n-th gradient of
// a graph, a name that is taken gets the prefix `grad/` n times, or more often where that is taken too. After sixteen
// prefixes names are numbered (`@<k>`), or many equal names would take cubic time.
#pragma once

#include "ir/graph/free_names.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace gradc {

class FluidNames {
 public:
  /// Takes the names of `base` as given; `order` is that of the differentiation.
  FluidNames(GraphBuilder &builder, const Graph &base, uint32_t order);

  void take(llvm::StringRef name) { names.add(name); }
  /// Names `gradient`, the whole gradient of `entry`. Nodes that have a name keep it, here and below. If several nodes
  /// are the gradient of one entry (copies), the first gets the name.
  void nameGradient(Value entry, Value gradient);
  /// The operands of a sum at `entry`.
  void nameSummands(Value entry, llvm::ArrayRef<Value> summands);
  /// Addition number k of a chain at `entry`.
  void nameAddition(Value entry, NodeId n, size_t k);
  void nameZero(Value entry, NodeId n);
  /// The tap `n` of the gradient of `entry`: `x@GRAD@TAP`, after x@GRAD.
  void nameTap(Value entry, Value gradient, NodeId n);
  /// The remaining nodes, inner nodes of rules: `<user's node>_backward_<k>`.
  void nameRest();

 private:
  /// The name that Fluid would give the entry: "x", "s:1"; empty for a value without a name.
  std::string variable(Value entry) const;
  bool isOpen(NodeId n) const { return n.value >= numBase && builder.name(n).empty(); }
  void name(NodeId n, const std::string &wanted);
  /// What a name that is taken becomes at the given attempt, from 0.
  std::string again(llvm::StringRef wanted, uint32_t attempt) const;

  GraphBuilder &builder;
  uint32_t numBase, order;
  FreeNames names;
  llvm::StringSet<> gradients;         // variables whose gradients nameGradient has named
  llvm::StringMap<uint32_t> attempts;  // by wanted name: the next one
};

/// The variable a name was made for (NAME-08): "x" of "x@GRAD", "x@GRAD@GRAD" and "grad/grad/x@GRAD@RENAME@block0@1";
/// "z@GRAD_slice_0" of "z@GRAD_slice_0@GRAD".
llvm::StringRef stripGradSuffix(llvm::StringRef name);

}  // namespace gradc
