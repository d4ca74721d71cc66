#include "tests/support/blocks/block_runs.h"

#include "tests/support/drawn/dice.h"
#include "tests/support/ops/differences.h"

#include "ir/tensor/shape.h"
#include "runtime/arrays/elements.h"
#include "runtime/session/session.h"

using namespace llvm;

namespace gradc::testing {

FluidRequest requestOf(const BlockCall &call) {
  FluidRequest request;
  request.block = static_cast<uint32_t>(call.currentBlock);
  request.priorCalls = static_cast<uint32_t>(call.priorCalls);
  if (call.noGradSet) request.noGrad = *call.noGradSet;
  request.targets = targetsOf(call);
  if (call.api != "gradients") {
    request.parameters = call.parameterList;
    return request;
  }
  request.api = FluidRequest::Api::Gradients;
  request.inputs = call.inputs;
  if (call.targetGradients)
    for (const std::optional<std::string> &head : *call.targetGradients)
      request.targetGradients.push_back(head.value_or(""));
  return request;
}

std::vector<std::string> targetsOf(const BlockCall &call) {
  return call.api == "gradients" ? call.targets : std::vector<std::string>{call.loss};
}

std::vector<NamedArray> bindingsFor(const Graph &graph, const ArrayNames &values) {
  std::vector<NamedArray> bindings;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    const std::string name = graph.name(NodeId(n)).str();
    for (const char *prefix : {"feed:", "param:"})
      if (const NamedArray *given = values.lookup(prefix + name)) {
        bindings.push_back({name, given->array});
        if (bindings.back().array.shape.empty()) bindings.back().array.shape.push_back(1);
      }
  }
  return bindings;
}

std::vector<NamedArray> drawnBindings(const Graph &graph, uint64_t seed) {
  Dice dice(seed);
  std::vector<NamedArray> bindings;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    const Attrs &attrs = graph.attrs(NodeId(n));
    gradc::Array array{parseDType(attrs.get("__dtype__").value_or("float64")).value_or(DType::Float64), {}, {}};
    SmallVector<StringRef, 4> sizes;
    attrs.get("__shape__").value_or("(2, 3)").trim("()").split(sizes, ',', -1, false);
    int64_t number = 1;
    for (StringRef text : sizes) {
      int64_t size = 2;
      if (text.trim().getAsInteger(10, size) || size < 0) size = 2;
      array.shape.push_back(size);
      number *= size;
    }
    array.bytes.resize(static_cast<size_t>(number) * dtypeBytes(array.dtype));
    for (int64_t i = 0; i < number; ++i)
      writeElement(array.ref(), i,
                   isFloating(array.dtype)      ? (number == 1 ? 3.0 : dice.uniform(-1, 1))
                   : array.dtype == DType::Bool ? 1.0
                                                : static_cast<double>(dice.below(2)));
    bindings.push_back({graph.name(NodeId(n)).str(), std::move(array)});
  }
  return bindings;
}

Expected<std::vector<Array>> runHeads(Context &context, const Graph &graph, std::vector<NamedArray> bindings) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.exec.isTraining = true;
  Expected<Session> session = Session::create(context, graph, std::move(bindings), options);
  if (!session) return session.takeError();
  if (Error error = session->run(0)) return error;
  std::vector<Array> heads;
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    const TensorRef head = session->head(i);
    heads.push_back({head.dtype, head.shape.vec(), {head.as<char>(), head.as<char>() + head.bytes()}});
  }
  return heads;
}

MutableArrayRef<double> elements(Array &array) {
  const TensorRef tensor = array.ref();
  return {tensor.as<double>(), static_cast<size_t>(tensor.size())};
}

double largestDifference(const TensorRef &ours, const TensorRef &theirs) {
  auto numbers = [](const TensorRef &tensor) {
    std::vector<double> list;
    for (int64_t i = 0; i < tensor.size(); ++i) list.push_back(readElement(tensor, i));
    return list;
  };
  return relativeDistance(numbers(ours), numbers(theirs));
}

}  // namespace gradc::testing
