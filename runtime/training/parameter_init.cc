// Initial values by role. Tested by tests/runtime/training_start_test.cc
#include "runtime/training/parameter_init.h"

#include "ir/rules/kernel.h"
#include "runtime/arrays/elements.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

/// Distinguishes these draws from those of Initializer and of random operators.
constexpr uint64_t kParameterStep = ~uint64_t{2};

/// The constant a role starts from; NaN for one that is drawn.
double constantOf(StringRef op, StringRef role) {
  if (role == "gamma") return op == "LeakyReLU" ? 0.25 : 1;
  if (role == "moving_var") return 1;
  return role == "bias" || role == "beta" || role == "moving_mean" ? 0 : std::nan("");
}

double glorotBound(Dims shape) {
  double receptive = 1;
  for (int64_t dim : shape.drop_front(2)) receptive *= static_cast<double>(dim);
  return std::sqrt(6 / (static_cast<double>(shape[0] + shape[1]) * receptive));
}

}  // namespace

ParameterInitializer::ParameterInitializer(const Graph &graph, const Inference &inference, uint64_t seed)
    : graph(graph), fallback(graph, inference, seed), seed(seed), roles(graph, Role()), ordinals(graph, 0) {
  uint32_t numVariables = 0;
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    if (graph.isVariable(NodeId(id))) {
      ordinals[NodeId(id)] = numVariables++;
      continue;
    }
    ArrayRef<Value> inputs = graph.inputs(NodeId(id));
    for (uint32_t i = 0; i < inputs.size(); ++i)
      if (!roles[inputs[i].node].reader) roles[inputs[i].node] = {&graph.kind(NodeId(id)), i};
  }
}

void ParameterInitializer::fill(NodeId variable, TensorRef tensor) const {
  const Role &role = roles[variable];
  const bool isDeclared = graph.attrs(variable).get("__init__").has_value();
  if (isDeclared || !role.reader || !isFloating(tensor.dtype)) return fallback.fill(variable, tensor);
  const double constant = constantOf(role.reader->op->name, inputName(*role.reader, role.input));
  if (std::isnan(constant) && (tensor.shape.size() < 2 || tensor.size() == 0)) return fallback.fill(variable, tensor);
  const RandomKey key{seed, kParameterStep, ordinals[variable]};
  const double bound = std::isnan(constant) ? glorotBound(tensor.shape) : 0;
  for (int64_t i = 0, size = tensor.size(); i < size; ++i)
    writeElement(tensor, i, std::isnan(constant) ? bound * (2 * key.uniform(static_cast<uint64_t>(i)) - 1) : constant);
}

}  // namespace gradc
