// Names of tensors outside the graph: keys of bindings and of `--outputs` files.
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// `<name>`; `<name>#<k>` for the k-th of several variables with that name, k from 2 (duplicate names are legal);
/// `#<id>` for a nameless one, and where that key is the name of another variable. No two are equal. Parallel to node
/// ids, empty for operators.
std::vector<std::string> variableKeys(const Graph &graph);

/// Key of a gradient head: `<x>_grad`, `<x>_grad2` at order 2; x is a variable's key or the listed name of an entry.
std::string gradientKey(const Graph &graph, llvm::ArrayRef<std::string> variableKeys, const GradientTable::Head &head,
                        llvm::StringRef separator);

/// One tensor to write, by where it comes from.
struct OutputKey {
  enum class From : uint8_t { Head, Aux };
  From from = From::Head;
  size_t head = 0;  // From::Head
  NodeId aux;       // From::Aux
  std::string key;
};

/// Keys of all heads (IR-16 for forward ones, gradientKey for the others), then of `aux`, less the aux states that are
/// heads themselves. The same entry twice gets `#2`; different sources under one key are E-34 with both named.
llvm::Expected<std::vector<OutputKey>> outputKeys(const Graph &graph, const std::optional<GradientTable> &table,
                                                  llvm::ArrayRef<NodeId> aux);

}  // namespace gradc
