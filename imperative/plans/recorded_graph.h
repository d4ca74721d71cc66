// What a tape recorded, as a graph.
// Tested by tests/imperative/imperative_order_test.cc
#pragma once

#include "imperative/tape/collect.h"
#include "passes/inference/infer.h"

namespace gradc {

struct RecordedGraph {
  Graph graph;
  std::vector<NodeId> calls;    // by position among the collected; invalid: no head needs it
  std::vector<Value> computed;  // by number; invalid likewise
  std::vector<Value> leaves, outside;
  Inference inference;  // with a separate shape table

  /// The value that a word of Collected means.
  Value operator()(uint32_t word) const {
    const std::vector<Value> &list = (word & 3) == Collected::kComputed ? computed
                                     : (word & 3) == Collected::kLeaf   ? leaves
                                                                        : outside;
    return list[word >> 2];
  }
  /// The value of an operand of a call, an input or an output.
  Value operand(const Signature &signature, uint32_t call, KeptOperand operand) const {
    if (signature.isInput(operand)) return graph.inputs(calls[call])[operand];
    return {calls[call], static_cast<uint16_t>(operand - signature.numInputs()), 0};
  }
};

enum class RecordedNames : uint8_t {
  Messages,  // calls have the names that messages use, and each untracked input is a separate variable
  Files,     // as in a file: equal untracked inputs are one variable, versions are those of the graph
};

/// The heads are words; for messages an entry that is listed twice is a head once. E-34 for two variables of one name
/// in files. Linear.
llvm::Expected<RecordedGraph> recordedGraph(Context &context, const TapeShapes &shapes, const Collected &collected,
                                            llvm::ArrayRef<uint32_t> heads, RecordedNames names);

/// E-13 if calls of both forms depend on their form: a graph is run in one of them. Linear.
llvm::Error checkForms(const Collected &collected);

}  // namespace gradc
