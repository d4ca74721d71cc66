#include "tests/host/network.h"

#include "formats/json/reader.h"
#include "ops/registry.h"
#include "passes/gradient/gradient.h"
#include "runtime/session/session.h"

#include <cstdio>

using namespace gradc;

namespace {

constexpr const char *kNetwork = R"json({"nodes": [
  {"op": "null", "name": "data", "inputs": []},
  {"op": "null", "name": "c_weight", "inputs": []},
  {"op": "Convolution", "name": "c", "attrs": {"kernel": "(3, 3)", "num_filter": "32", "no_bias": "True"},
   "inputs": [[0, 0], [1, 0]]},
  {"op": "Activation", "name": "a", "attrs": {"act_type": "relu"}, "inputs": [[2, 0]]},
  {"op": "null", "name": "f_weight", "inputs": []},
  {"op": "null", "name": "f_bias", "inputs": []},
  {"op": "FullyConnected", "name": "f", "attrs": {"num_hidden": "33"}, "inputs": [[3, 0], [4, 0], [5, 0]]},
  {"op": "square", "name": "s", "inputs": [[6, 0]]},
  {"op": "sum", "name": "loss", "inputs": [[7, 0]]}],
 "arg_nodes": [0, 1, 4, 5], "heads": [[8, 0]]})json";

template <class T> void append(const TensorRef &tensor, std::vector<double> &to) {
  const T *values = tensor.as<T>();
  to.insert(to.end(), values, values + tensor.size());
}

llvm::Expected<std::vector<double>> run(bool isDouble, unsigned threads, int steps) {
  Context context;
  registerBuiltinOps(context.ops);
  llvm::Expected<LoadedGraph> network = readJson(context, kNetwork, ReadOptions());
  if (!network) return network.takeError();
  GradientRequest request;
  request.wrt = {{Value{NodeId(1)}}};
  llvm::Expected<GradientResult> result = buildGradient(context, network->graph, request, GradientOptions());
  if (!result) return result.takeError();
  SessionOptions options;
  options.hints.shapes.push_back({NodeId(0), DimsBuffer{8, 16, 14, 14}});
  options.initSeed = 1;
  options.exec.threads = threads;
  if (isDouble) options.infer.floatAs = DType::Float64;
  llvm::Expected<Session> session = Session::create(context, result->graph, {}, options);
  if (!session) return session.takeError();
  for (int step = 0; step < steps; ++step)
    if (llvm::Error error = session->run(static_cast<uint64_t>(step))) return error;
  std::vector<double> values;
  for (size_t head : {0, 1})
    if (isDouble) append<double>(session->head(head), values);
    else append<float>(session->head(head), values);
  return values;
}

}  // namespace

std::vector<double> runNetwork(bool isDouble, unsigned threads, int steps) {
  llvm::Expected<std::vector<double>> values = run(isDouble, threads, steps);
  if (values) return *values;
  std::fprintf(stderr, "%s\n", llvm::toString(values.takeError()).c_str());
  return {};
}
