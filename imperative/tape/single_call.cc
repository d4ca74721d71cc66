// Tested by tests/imperative/imperative_loops_test.cc
#include "imperative/tape/single_call.h"

#include "ir/graph/bodies.h"
#include "ir/graph/graph_builder.h"
#include "runtime/executor/body_runner.h"
#include "runtime/executor/failures.h"
#include "runtime/executor/unwritten_rows.h"

using namespace llvm;

namespace gradc {

Expected<SingleCall> SingleCall::create(Context &context, const TapeShapes &shapes, const KindRef &kind,
                                        ArrayRef<OperandType> inputs) {
  GraphBuilder builder(context);
  SmallVector<Value, 8> values, heads;
  for (uint32_t i = 0; i < inputs.size(); ++i) values.push_back(builder.addVariable(inputName(*kind, i), Attrs()));
  const NodeId node = builder.addKind(kind, values, NodeId());
  builder.setName(node, kind->op->name, "");
  for (uint32_t o = 0; o < kind->numOutputs; ++o) heads.push_back({node, static_cast<uint16_t>(o), 0});
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  SingleCall call;
  call.node.graph = frozen->graph;
  call.node.node = frozen->newId[node.value];
  InferRequest hints;
  for (auto [value, type] : zip_equal(values, inputs)) {
    const NodeId variable = (*frozen)(value).node;
    call.node.variables.push_back(variable);
    const Dims dims = shapes[type.shape].dims();
    hints.shapes.push_back({variable, DimsBuffer(dims.begin(), dims.end())});
    hints.dtypes.push_back({variable, type.dtype});
  }
  Expected<Inference> found = infer(context, call.node.graph, hints, InferOptions());
  if (!found) return found.takeError();
  call.inference = std::move(*found);
  return call;
}

Expected<PreparedBodies> PreparedBodies::create(Context &context, const SingleCall &call, ArrayRef<Request> requests,
                                                const ExecOptions &options) {
  const Graph &graph = call.node.graph;
  const NodeId n = call.node.node;
  PlanOptions planOptions;
  Expected<MemoryPlan> plan = planMemory(context, graph, call.inference, countRequests(graph, requests), planOptions);
  if (!plan) return plan.takeError();
  PreparedBodies made;
  const FlowPlan *const flow = findFlowPlan(plan->flows, n);
  if (!flow) return made;  // no output is requested
  if (Error error = checkUses(plan->flows)) return error;
  made.bytes = static_cast<size_t>(flow->bytes);
  made.ownBytes = static_cast<size_t>(flow->ownBytes);
  // Not the address of anything: each call has another workspace.
  char *const nowhere = reinterpret_cast<char *>(kPlanAlignment);
  made.arena = nowhere;
  auto prepare = [&]() -> Error {
    for (uint32_t b = 0; b < flow->bodies.size(); ++b) {
      Expected<PreparedBody> body =
          prepareBody(graph, n, b, *flow->bodies[b], options, {nowhere, partlyReadHeads(graph.kind(n), b)});
      if (!body) return withinBody(body.takeError(), graph, n, b);
      made.list.push_back(body->runner.get());
      made.runners.push_back(std::move(body->runner));
    }
    return Error::success();
  };
  if (Error error = catching("to prepare the bodies of an operator", prepare)) return error;
  return made;
}

ArrayRef<BodyRunner *> PreparedBodies::at(char *workspace, Error *failure) {
  for (const std::unique_ptr<MovableRunner> &runner : runners) runner->setFailure(failure);
  if (char *const now = workspace + ownBytes; now != arena) {
    for (const std::unique_ptr<MovableRunner> &runner : runners) runner->moveArena(now);
    arena = now;
  }
  return list;
}

}  // namespace gradc
