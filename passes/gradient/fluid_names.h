// Names in the manner of Paddle Fluid's backward (NAME-06, NAME-07), as far as straight-line graphs go.
//
// Fluid names variables, not operators, so a generated node is called after what its output is: `x@GRAD`, the gradient of
// x; `x@GRAD@RENAME@block0@<k>`, the k-th of several summands; `x@GRAD@ADD@<k>` within a chain; `x@ZERO`. Whether a
// gradient is one of several is known only after the walk, so most names are given at its end. A name that is taken gets
// `grad/` in front, as often as this is the n-th gradient of the graph.
#pragma once

#include "ir/dense_map.h"
#include "ir/graph_builder.h"

#include "llvm/ADT/StringSet.h"

namespace gradc {

class FluidNames {
 public:
  /// Takes the names of `base` as given; `order` is that of the differentiation.
  FluidNames(GraphBuilder &builder, const Graph &base, uint32_t order);

  void take(llvm::StringRef name) { taken.insert(name); }
  /// `gradient` is what arrives at `entry`, alone or summed up. Nodes that have a name keep it; so it is below. Of several
  /// nodes for one entry (copies) the first is called so.
  void nameGradient(Value entry, Value gradient);
  /// The operands of a sum at `entry`.
  void nameSummands(Value entry, llvm::ArrayRef<Value> summands);
  /// Addition number k of a chain at `entry`.
  void nameAddition(Value entry, NodeId n, size_t k);
  void nameZero(Value entry, NodeId n);
  /// A node that what arrives at `entry` passes: `x@GRAD@TAP`, after x@GRAD.
  void nameTap(Value entry, Value gradient, NodeId n);
  /// What is left: inner nodes of rules, `<user's node>_backward_<k>`.
  void nameRest();

 private:
  /// The variable Fluid would have for the entry: "x", "s:1"; empty for a value without a name.
  std::string variable(Value entry) const;
  bool isOpen(NodeId n) const { return n.value >= numBase && builder.name(n).empty(); }
  void name(NodeId n, const std::string &wanted);

  GraphBuilder &builder;
  uint32_t numBase, order;
  llvm::StringSet<> taken;
  llvm::StringSet<> gradients;            // what nameGradient requested
  DenseMap<uint32_t, uint32_t> counters;  // of nameRest, by the user's node
};

/// The variable a name was made for (NAME-08): "x" of "x@GRAD", "x@GRAD@GRAD" and "grad/grad/x@GRAD@RENAME@block0@1";
/// "z@GRAD_slice_0" of "z@GRAD_slice_0@GRAD".
llvm::StringRef stripGradSuffix(llvm::StringRef name);

}  // namespace gradc
