// The computed entries that a gradient took as constants: what `--stop` and `--no-grad` named.
//
// They change no value, so nothing else in an emitted graph tells of them. Who checks its gradients has to hold them still.
// They travel as the attribute `grad_constants`, two numbers each: node and output. Tested by tests/gradcheck_test.cc
#pragma once

#include "ir/graph.h"

namespace gradc {

/// Numbers that name no entry are passed over.
std::vector<Value> readConstantEntries(const Graph &graph);

/// `graph` with these after those it has. An entry that is gone (an invalid Value) or a variable is left out, and of equal
/// ones all but the first.
Graph withConstantEntries(const Graph &graph, llvm::ArrayRef<Value> entries);

}  // namespace gradc
