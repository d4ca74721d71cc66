// Graphs with loops: files of testdata/loops and nodes made by hand, their gradients, and runs.
#pragma once

#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/verify.h"
#include "passes/gradient/gradient.h"
#include "runtime/gradcheck/gradcheck.h"
#include "runtime/session/session.h"
#include "tests/support/small_ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

namespace gradc::testing {

using Doubles = std::vector<double>;

inline Graph loopFile(llvm::StringRef name) {
  return llvm::cantFail(
             readJson(testContext(), readTestFile(("testdata/loops/" + name + ".json").str()), ReadOptions()))
      .graph;
}

struct Binding {
  llvm::StringRef name;
  std::vector<int64_t> shape;
  Doubles values;
};

inline std::vector<NamedArray> arraysOf(llvm::ArrayRef<Binding> bindings) {
  std::vector<NamedArray> arrays;
  for (const Binding &binding : bindings)
    arrays.push_back({binding.name.str(), doubles(binding.shape, binding.values)});
  return arrays;
}

inline GradientResult gradientOf(const Graph &graph, llvm::ArrayRef<llvm::StringRef> wrt, uint32_t order = 1) {
  GradientRequest request;
  for (llvm::StringRef name : wrt) request.wrt.push_back({Value{nodeNamed(graph, name)}});
  GradientOptions options;
  options.headPolicy = HeadPolicy::Ones;
  GradientResult result = llvm::cantFail(buildGradientOfOrder(testContext(), graph, request, options, order));
  EXPECT_EQ(describeError(verifyGraph(result.graph, 5)), "success");
  return result;
}

/// The heads, then the variable's value, run with the reference backend. Bindings that the graph does not read are left
/// out.
inline std::vector<Doubles> runReading(const Graph &graph, llvm::ArrayRef<Binding> bindings, llvm::StringRef variable) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  std::vector<NamedArray> arrays = arraysOf(bindings);
  llvm::erase_if(arrays, [&](const NamedArray &array) {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (graph.name(NodeId(n)) == array.name) return false;
    return true;
  });
  Session session = llvm::cantFail(Session::create(testContext(), graph, std::move(arrays), options));
  llvm::cantFail(session.run(0));
  std::vector<Doubles> values;
  for (size_t h = 0; h < graph.heads().size(); ++h) values.push_back(valuesOf<double>(session.head(h)));
  values.push_back(valuesOf<double>(session.variable(nodeNamed(graph, variable))));
  return values;
}

/// The gradients, in the order of the request, run with the reference backend.
inline std::vector<Doubles> run(const GradientResult &result, llvm::ArrayRef<Binding> bindings) {
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.infer.floatAs = DType::Float64;
  Session session = llvm::cantFail(Session::create(testContext(), result.graph, arraysOf(bindings), options));
  llvm::cantFail(session.run(0));
  std::vector<Doubles> values;
  for (const GradientSlot &slot : result.wrt)
    for (size_t h = result.graph.heads().size(); h-- > 0;)
      if (result.graph.heads()[h] == slot.value) {
        values.push_back(valuesOf<double>(session.head(h)));
        break;
      }
  return values;
}

/// The graph with only this head, so that the others get no gradient.
inline Graph onlyHead(const Graph &graph, size_t head) {
  return llvm::cantFail(GraphBuilder(testContext(), graph).freeze({graph.heads()[head]}, {})).graph;
}

inline void expectDerivative(const Graph &graph, llvm::ArrayRef<Binding> bindings, uint32_t order) {
  GradcheckOptions options;
  options.session.infer.floatAs = DType::Float64;
  options.session.initSeed = 1;  // of head gradients
  options.order = order;
  options.samples = 60;
  if (order > 1) options.rtol = 1e-5, options.atol = 1e-7;
  llvm::Expected<GradcheckReport> report = gradcheck(testContext(), graph, arraysOf(bindings), options);
  ASSERT_TRUE(static_cast<bool>(report)) << describeError(report.takeError());
  EXPECT_TRUE(report->passed()) << "order " << order;
  for (const GradcheckRow &row : report->rows)
    EXPECT_EQ(row.failures, 0u) << row.variable << ", order " << order << ": " << row.worstError;
}

using Floats = std::vector<float>;
using Tensors = std::vector<Floats>;

inline llvm::Expected<Tensors> tryRun(const Graph &graph, std::vector<NamedArray> arrays,
                                      Backend backend = Backend::Reference) {
  SessionOptions options;
  options.exec.backend = backend;
  llvm::Expected<Session> session = Session::create(testContext(), graph, std::move(arrays), options);
  if (!session) return session.takeError();
  if (llvm::Error error = session->run(0)) return error;
  Tensors heads;
  for (size_t i = 0; i < graph.heads().size(); ++i) heads.push_back(valuesOf<float>(session->head(i)));
  return heads;
}
inline Tensors run(const Graph &graph, std::vector<NamedArray> arrays, Backend backend = Backend::Reference) {
  return llvm::cantFail(tryRun(graph, std::move(arrays), backend));
}

/// A node with bodies between variables of these names, written in the text of TestGraph.
inline Graph around(llvm::StringRef op, llvm::ArrayRef<llvm::StringRef> inputs, llvm::ArrayRef<AttrText> attrs,
                    llvm::ArrayRef<Graph> bodies, size_t numHeads) {
  Context &context = testContext();
  GraphBuilder builder(context);
  llvm::SmallVector<Value, 8> operands;
  for (llvm::StringRef name : inputs) operands.push_back(builder.addVariable(name, Attrs()));
  const NodeId n =
      llvm::cantFail(builder.add(*context.ops.find(op), operands, {"loop", context.attrs(attrs), NodeId(), bodies}));
  llvm::SmallVector<Value, 8> heads;
  for (size_t i = 0; i < numHeads; ++i) heads.push_back(Value{n, static_cast<uint16_t>(i), 0});
  return llvm::cantFail(std::move(builder).freeze(heads, {})).graph;
}
inline Graph body(llvm::StringRef text) { return llvm::cantFail(parseGraph(testContext(), text)); }

inline std::string refusal(llvm::StringRef op, llvm::ArrayRef<AttrText> attrs, llvm::ArrayRef<Graph> bodies) {
  Context &context = testContext();
  return describeError(context.kind(*context.ops.find(op), context.attrs(attrs), bodies));
}

inline std::vector<AttrText> scanAttrs(bool isReverse, bool hasSteps) {
  return {{"num_args", hasSteps ? "3" : "2"},
          {"num_data", "1"},
          {"num_states", "1"},
          {"num_out_data", "1"},
          {"reverse", isReverse ? "True" : "False"},
          {"has_steps", hasSteps ? "True" : "False"}};
}

/// y(s, x) = inner(inner(s, x), x), of that the same, and so on: inner is in 2^levels places.
inline Graph callsTwice(Graph inner, size_t levels) {
  Context &context = testContext();
  const Attrs attrs = context.attrs({{"num_args", "2"}, {"num_outputs", "1"}});
  for (size_t level = 0; level < levels; ++level) {
    GraphBuilder builder(context);
    const Value s = builder.addVariable("s", Attrs()), x = builder.addVariable("x", Attrs());
    auto call = [&](Value first, llvm::StringRef name) {
      const std::array<Value, 2> operands = {first, x};
      return Value{
          llvm::cantFail(builder.add(*context.ops.find("_call"), operands, {name.str(), attrs, NodeId(), inner}))};
    };
    inner = llvm::cantFail(std::move(builder).freeze({call(call(s, "a"), "b")}, {})).graph;
  }
  return inner;
}

}  // namespace gradc::testing
