// One call as a graph: the node of an operator on variables of its operands' types. And the bodies of an operator with
// control flow, ready to run. Tested by tests/imperative/imperative_loops_test.cc
#pragma once

#include "imperative/tape/tape_shapes.h"
#include "passes/gradient/higher_order/keep_lists.h"
#include "runtime/executor/instruction_list.h"

namespace gradc {

struct OperandType {
  ShapeId shape;  // fully known
  DType dtype = DType::Unknown;
  friend bool operator==(const OperandType &, const OperandType &) = default;
};

struct SingleCall {
  SingleNode node;  // every output is a head
  Inference inference;

  /// `shapes` has the shapes of the inputs. Errors of inference.
  static llvm::Expected<SingleCall> create(Context &context, const TapeShapes &shapes, const KindRef &kind,
                                           llvm::ArrayRef<OperandType> inputs);
  EntryId output(uint32_t o) const { return EntryId(node.graph.firstEntry(node.node).value + o); }
};

/// The bodies of a call, planned and prepared. Their memory is workspace of the call.
class PreparedBodies {
 public:
  /// `requests` by output of the call.
  static llvm::Expected<PreparedBodies> create(Context &context, const SingleCall &call,
                                               llvm::ArrayRef<Request> requests, const ExecOptions &options);
  bool isEmpty() const { return list.empty(); }
  size_t workspaceBytes() const { return bytes; }
  /// The bodies for a call with this workspace, whose kernels leave errors in `failure`.
  llvm::ArrayRef<BodyRunner *> at(char *workspace, llvm::Error *failure);

 private:
  std::vector<std::unique_ptr<MovableRunner>> runners;
  std::vector<BodyRunner *> list;
  size_t bytes = 0, ownBytes = 0;  // of the workspace, and of its part before the bodies' memory
  char *arena = nullptr;
};

}  // namespace gradc
