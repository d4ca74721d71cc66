// Names of generated nodes (§18). Tested by tests/passes/gradient/gradient_names_test.cc and gradient_styles_test.cc
//
// In the unique style (NAME-09) a name that is taken gets a counter. Most generated names need no look-up: a *regular*
// name is the name of a base node followed by a marker that no base name contains. As long as the base's names are
// distinct and free of markers, regular names are distinct from each other and from all others, and for the rest a hash
// shows whether a name may have been given before. When uniqueness is not certain (a gradient graph differentiated
// again, equal names, equal hashes) all names go into one set of strings, and every further one is looked up in it.
#pragma once

#include "ir/base/dense_map.h"
#include "passes/gradient/gradient.h"

#include "ir/graph/free_names.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace gradc {

class Namer {
 public:
  /// Takes the names of `base` as given.
  Namer(GraphBuilder &builder, const Graph &base, NamingStyle style);

  /// Names `n` part1 + part2; in the unique style followed by "_1", "_2", … when the name is taken.
  void name(NodeId n, llvm::StringRef part1, llvm::StringRef part2);
  /// Gives `n` a regular name: that of a node of the base, and a suffix that starts with a marker and was not used with
  /// this node before.
  void nameRegularly(NodeId n, NodeId ofBase, llvm::StringRef suffix);
  /// Names the nodes [first, last) after their forward node, one of the base: `<base>_backward`, or
  /// `<base>_backward_<k>` for several (NAME-01). Nodes that have a name keep it.
  void nameBackward(uint32_t first, uint32_t last, NodeId forward);

  NamingStyle style() const { return namingStyle; }

 private:
  bool isNewHash(llvm::StringRef name);
  void lookUpEverything();

  GraphBuilder &builder;
  NamingStyle namingStyle;
  bool isRegular;             // regular names are given without a look-up
  DenseSet<uint64_t> hashes;  // while isRegular: of the base's names and of irregular ones
  FreeNames names;            // afterwards: every name
  llvm::SmallString<64> scratch;
};

/// Names in the style of Paddle Fluid's backward (NAME-06, NAME-07), for straight-line graphs.
///
/// Fluid names variables, not operators, so a generated node is named after its output: `x@GRAD`, the gradient of x;
/// `x@GRAD@RENAME@block0@<k>`, the k-th of several summands; `x@GRAD@ADD@<k>` within a chain; `x@ZERO`. Whether a
/// gradient is one of several is known only after the walk, so most names are given at its end. In the n-th gradient of
/// a graph, a name that is taken gets the prefix `grad/` n times, or more often where that is taken too. After sixteen
/// prefixes names are numbered (`@<k>`), or many equal names would take cubic time.
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
