// Tested by tests/ops/conformance_test.cc
#include "tests/support/ops/derivative.h"

#include "ir/base/error.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {

double drawNumber(uint64_t stream, uint64_t index) {
  RandomKey key{77, stream, 0};
  double number = 0.1 + 1.1 * key.uniform(2 * index);
  return key.uniform(2 * index + 1) < 0.5 ? -number : number;
}

namespace {

bool hasVariable(const Graph &graph, StringRef name) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)) && graph.name(NodeId(n)) == name) return true;
  return false;
}

std::string projectionName(uint32_t order, size_t head) {
  return "p" + std::to_string(order) + "_" + std::to_string(head);
}

// The scalar of one order.
class Scalar {
 public:
  Scalar(const Graph &graph, const DerivativeOptions &options, uint32_t order)
      : graph(graph), options(options), order(order) {}

  Expected<double> at(const Bindings &bindings) const {
    Expected<NaiveRun> run = NaiveRun::run(graph, bindings, options.run);
    if (!run) return run.takeError();
    double total = 0;
    for (size_t i = 0; i < graph.heads().size(); ++i) total += ofHead(*run, bindings, i);
    return total;
  }

 private:
  double ofHead(NaiveRun &run, const Bindings &bindings, size_t i) const {
    Value head = graph.heads()[i];
    const OpDef *op = graph.op(head.node);
    if (op && op->impliedLoss) {
      NaiveRun::Call call;
      run.prepare(head.node, call);
      return op->impliedLoss(call.call);
    }
    if (op && op->flags.isConstantInGradcheck) return 0;
    std::vector<double> values = run.value(head).values, weights = bindings.at(projectionName(order, i)).values;
    double total = 0;
    for (size_t k = 0; k < values.size(); ++k) total += values[k] * weights[k];
    return total;
  }

  const Graph &graph;
  const DerivativeOptions &options;
  uint32_t order;
};

class Checker {
 public:
  Checker(Context &ctx, std::vector<std::string> variables, Bindings bindings, const DerivativeOptions &options)
      : ctx(ctx), variables(std::move(variables)), bindings(std::move(bindings)), options(options) {}

  Findings run(Graph graph) {
    for (uint32_t order = 1; order <= options.orders && !variables.empty() && found.problems.empty(); ++order) {
      if (Error error = bindProjections(graph, order)) return failed(order, std::move(error));
      std::vector<std::string> xs = variables;
      Expected<Graph> next = derivativeGraph(ctx, graph, variables, order, &bindings);
      if (!next) return failed(order, next.takeError());
      if (Error error = compare(graph, *next, xs, order)) return failed(order, std::move(error));
      graph = *next;
      llvm::erase_if(variables, [&](const std::string &name) { return !hasVariable(graph, name); });
    }
    return found;
  }

 private:
  Findings failed(uint32_t order, Error error) {
    return {{"order " + std::to_string(order) + ": " + describeError(std::move(error))}};
  }

  Error bindProjections(const Graph &graph, uint32_t order) {
    Expected<NaiveRun> run = NaiveRun::run(graph, bindings, options.run);
    if (!run) return run.takeError();
    for (size_t i = 0; i < graph.heads().size(); ++i) {
      Array weights = run->value(graph.heads()[i]);
      for (size_t k = 0; k < weights.values.size(); ++k) weights.values[k] = drawNumber(100 * order + i, k);
      bindings[projectionName(order, i)] = weights;
    }
    return Error::success();
  }

  Error compare(const Graph &graph, const Graph &gradients, ArrayRef<std::string> xs, uint32_t order) {
    Expected<NaiveRun> run = NaiveRun::run(gradients, bindings, options.run);
    if (!run) return run.takeError();
    Scalar scalar(graph, options, order);
    for (size_t i = 0; i < xs.size(); ++i) {
      Array analytic = run->value(gradients.heads()[i]);
      const size_t size = analytic.values.size();
      if (size != bindings[xs[i]].values.size())
        return Failure(ErrorKind::GradShape, "gradient of '" + xs[i] + "' has " + Twine(size) + " values");
      for (size_t k = 0; k <= options.coordinates && size; ++k) {
        // Spread over the elements; the last check goes along all of them at once.
        std::vector<double> direction(size, 0);
        if (k < options.coordinates) direction[(k * 2654435761u) % size] = 1;
        else
          for (size_t e = 0; e < size; ++e) direction[e] = drawNumber(7, e);
        if (Error error = compareAlong(scalar, xs[i], direction, analytic.values, order)) return error;
      }
    }
    return Error::success();
  }

  Error compareAlong(const Scalar &scalar, const std::string &x, ArrayRef<double> direction, ArrayRef<double> gradient,
                     uint32_t order) {
    double expected = 0, length = 1;
    const std::vector<double> base = bindings[x].values;
    for (size_t e = 0; e < base.size(); ++e) {
      expected += direction[e] * gradient[e];
      if (direction[e] != 0) length = std::max(length, std::abs(base[e]));
    }
    const double step = options.step * length;
    Expected<double> numeric =
        differenceAlong(bindings[x].values, direction, step, [&] { return scalar.at(bindings); });
    if (!numeric) return numeric.takeError();
    ++found.numChecked;
    double allowed = options.atol + options.rtol * std::max(std::abs(*numeric), std::abs(expected));
    if (!(std::abs(*numeric - expected) <= allowed))
      found.problems.push_back(
          formatv("order {0}, '{1}': gradient {2:f9}, difference {3:f9}", order, x, expected, *numeric).str());
    return Error::success();
  }

  Context &ctx;
  std::vector<std::string> variables;
  Bindings bindings;
  const DerivativeOptions &options;
  Findings found;
};

}  // namespace

Expected<Graph> derivativeGraph(Context &context, const Graph &graph, std::vector<std::string> &variables,
                                uint32_t order, const Bindings *bindings, const InferOptions &types) {
  GradientRequest request;
  for (const std::string &name : variables) request.wrt.push_back({Value{nodeNamed(graph, name)}, Request::Write});
  for (size_t i = 0; i < graph.heads().size(); ++i)
    request.heads.push_back({graph.heads()[i], std::nullopt, projectionName(order, i)});
  GradientOptions options;
  options.gradientOnly = true;
  options.unused = UnusedPolicy::Zeros;
  options.integers = IntegerPolicy::Permissive;
  std::optional<Inference> known;
  if (bindings) {
    Expected<Inference> inferred = infer(context, graph, hintsOf(graph, *bindings), types);
    if (!inferred) return inferred.takeError();
    options.inference = &known.emplace(std::move(*inferred));
  }
  Expected<GradientResult> result = buildGradient(context, graph, request, options);
  if (!result) return result.takeError();
  for (size_t i = 0; i < graph.heads().size(); ++i)
    if (hasVariable(result->graph, projectionName(order, i))) variables.push_back(projectionName(order, i));
  return result->graph;
}

Findings checkDerivatives(Context &context, const Graph &graph, std::vector<std::string> variables, Bindings bindings,
                          const DerivativeOptions &options) {
  return Checker(context, std::move(variables), std::move(bindings), options).run(graph);
}

}  // namespace gradc::testing
