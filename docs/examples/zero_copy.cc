// y = sum((x · w)²) and its gradient with respect to w, over batches in the program's own memory.
#include "ir/graph/graph_builder.h"
#include "ops/registry.h"
#include "passes/gradient/gradient.h"
#include "runtime/session/session.h"

#include <cstdio>

using namespace gradc;

static llvm::Error run(Context &context, const Graph &graph, NodeId x, NodeId w) {
  std::vector<float> batch(2 * 3), weight(3), gradient(3);
  const int64_t rows[] = {2, 3}, row[] = {1, 3};
  SessionOptions options;
  options.variableMemory = {{x, TensorRef(batch.data(), DType::Float32, rows)},
                            {w, TensorRef(weight.data(), DType::Float32, row)}};
  options.headMemory = {{1, TensorRef(gradient.data(), DType::Float32, row)}};
  llvm::Expected<Session> session = Session::create(context, graph, {}, options);
  if (!session) return session.takeError();

  batch = {1, 2, 3, 4, 5, 6};
  weight = {1, 0, 2};
  if (llvm::Error error = session->run(0)) return error;
  std::printf("%g %g %g\n", gradient[0], gradient[1], gradient[2]);

  std::vector<float> next = {1, 1, 1, 1, 1, 1};
  if (llvm::Error error = session->bindVariable(x, TensorRef(next.data(), DType::Float32, rows))) return error;
  if (llvm::Error error = session->run(1)) return error;
  std::printf("%g %g %g\n", gradient[0], gradient[1], gradient[2]);
  return llvm::Error::success();
}

static llvm::Error work() {
  Context context;
  registerBuiltinOps(context.ops);
  GraphBuilder builder(context);
  auto apply = [&](llvm::StringRef op, llvm::ArrayRef<Value> inputs, llvm::StringRef name) {
    return Value{llvm::cantFail(builder.add(*context.ops.find(op), inputs, NodeSpec{name, Attrs(), NodeId()}))};
  };
  const Value x = builder.addVariable("x", Attrs()), w = builder.addVariable("w", Attrs());
  const Value product = apply("broadcast_mul", {x, w}, "product"), square = apply("square", {product}, "square");
  const Value y = apply("sum", {square}, "y");
  llvm::Expected<Frozen> forward = std::move(builder).freeze({y}, {});
  if (!forward) return forward.takeError();

  GradientRequest request;
  request.wrt = {{(*forward)(w)}};
  llvm::Expected<GradientResult> result = buildGradient(context, forward->graph, request, GradientOptions());
  if (!result) return result.takeError();
  return run(context, result->graph, (*forward)(x).node, (*forward)(w).node);  // forward nodes come first, as they were
}

int main() {
  llvm::Error error = work();
  if (!error) return 0;
  std::fprintf(stderr, "%s\n", llvm::toString(std::move(error)).c_str());
  return 1;
}
