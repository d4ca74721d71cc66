// y = sum(w · x) and its gradient with respect to w, run once.
#include "ir/graph/graph_builder.h"
#include "ops/registry.h"
#include "passes/gradient/gradient.h"
#include "runtime/session/session.h"

#include <cstdio>

using namespace gradc;

static llvm::Error work() {
  Context context;
  registerBuiltinOps(context.ops);

  GraphBuilder builder(context);
  Value x = builder.addVariable("x", Attrs());
  Value w = builder.addVariable("w", Attrs());
  llvm::Expected<NodeId> product =
      builder.add(*context.ops.find("elemwise_mul"), {w, x}, NodeSpec{"product", Attrs(), NodeId()});
  if (!product) return product.takeError();
  llvm::Expected<NodeId> y = builder.add(*context.ops.find("sum"), {Value{*product}}, NodeSpec{"y", Attrs(), NodeId()});
  if (!y) return y.takeError();
  llvm::Expected<Frozen> forward = std::move(builder).freeze({Value{*y}}, {});
  if (!forward) return forward.takeError();

  GradientRequest request;          // no heads named: every head of the graph
  request.wrt = {{(*forward)(w)}};  // freeze renumbers; this is w's new id
  llvm::Expected<GradientResult> result = buildGradient(context, forward->graph, request, GradientOptions());
  if (!result) return result.takeError();

  float xs[] = {1, 2, 3}, ws[] = {4, 5, 6};
  auto array = [](const float(&values)[3]) {
    const char *bytes = reinterpret_cast<const char *>(values);
    return Array{DType::Float32, {3}, std::vector<char>(bytes, bytes + sizeof values)};
  };
  std::vector<NamedArray> bindings = {{"x", array(xs)}, {"w", array(ws)}};
  llvm::Expected<Session> session = Session::create(context, result->graph, std::move(bindings), SessionOptions());
  if (!session) return session.takeError();
  if (llvm::Error error = session->run(0)) return error;

  const float *y0 = session->head(0).as<float>(), *dw = session->head(1).as<float>();
  std::printf("y = %g, dy/dw = %g %g %g\n", y0[0], dw[0], dw[1], dw[2]);
  return llvm::Error::success();
}

int main() {
  llvm::Error error = work();
  if (!error) return 0;
  std::fprintf(stderr, "%s\n", llvm::toString(std::move(error)).c_str());
  return 1;
}
