// Rows of operator tables. Tested by tests/ops/elementwise_ops_test.cc
#include "tests/support/ops/op_table.h"

#include "ir/graph/graph_builder.h"
#include "ir/rules/inference.h"
#include "passes/gradient/gradient.h"
#include "tests/support/ops/derivative.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

std::vector<double> headGradients(size_t size) {
  std::vector<double> seeds;
  for (size_t i = 0; i < size; ++i) seeds.push_back((static_cast<double>(i * 7 % 5) - 1.5) / 2);
  return seeds;
}

Graph graphOf(Context &context, const OpRow &row, bool isProjected) {
  GraphBuilder builder(context);
  std::vector<Value> inputs;
  for (size_t i = 0; i < row.inputs.size(); ++i)
    inputs.push_back(builder.addVariable("x" + std::to_string(i), Attrs()));
  std::vector<AttrText> attrs;
  for (const auto &[key, value] : row.attrs) attrs.push_back({key, value});
  const OpDef *op = context.ops.find(row.op);
  EXPECT_NE(op, nullptr) << row.op;
  Value y{cantFail(builder.add(*op, inputs, {"y", context.attrs(attrs), NodeId()}))};
  if (isProjected) {
    Value c = builder.addVariable("c", Attrs());
    y = Value{cantFail(builder.add(*context.ops.find("elemwise_mul"), {y, c}, {"z", Attrs(), NodeId()}))};
  }
  return cantFail(std::move(builder).freeze(y, {})).graph;
}

Bindings bindingsOf(const OpRow &row) {
  Bindings bindings;
  for (size_t i = 0; i < row.inputs.size(); ++i)
    bindings["x" + std::to_string(i)] = Array(row.inputs[i].shape, row.inputs[i].values);
  return bindings;
}

double total(ArrayRef<Array> arrays) {
  double sum = 0;
  for (const Array &array : arrays)
    for (double value : array.values) sum += value;
  return sum;
}

ShapeId parseShape(ShapeTable &shapes, StringRef text) {
  if (text == "?") return kUnknownShape;
  SmallVector<StringRef, 4> parts;
  text.trim("()").split(parts, ',', -1, false);
  DimsBuffer dims;
  for (StringRef part : parts) {
    int64_t dim = kUnknownDim;
    const bool isKnown = part != "?" && !part.getAsInteger(10, dim);
    EXPECT_TRUE(isKnown || part == "?") << part.str();
    dims.push_back(dim);
  }
  return *shapes.intern(dims);
}

std::string printShapes(const ShapeTable &shapes, ArrayRef<ShapeId> ids) {
  std::string text;
  for (ShapeId id : ids) text += (text.empty() ? "" : " ") + toString(shapes[id]);
  return text;
}

}  // namespace

OpCase::OpCase(const OpRow &row) : graph(graphOf(context, row, false)), bindings(bindingsOf(row)) {
  for (size_t i = 0; i < row.inputs.size(); ++i) names.push_back("x" + std::to_string(i));
}

void expectClose(ArrayRef<double> found, ArrayRef<double> expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double scale = 0;
  for (double value : expected)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) EXPECT_TRUE(std::isnan(found[i])) << "element " << i;
    else if (std::isinf(expected[i])) EXPECT_EQ(found[i], expected[i]) << "element " << i;
    else EXPECT_NEAR(found[i], expected[i], tolerance * scale) << "element " << i;
  }
}

void checkRow(const OpRow &row) {
  SCOPED_TRACE(row.op);
  OpCase c(row);
  std::vector<Array> heads = evaluate(c.graph, c.bindings);
  ASSERT_EQ(heads[0].shape, DimsBuffer(row.shape.begin(), row.shape.end()));
  expectClose(heads[0].values, row.values, 1e-14);
  if (row.gradients.empty()) return;
  std::vector<StringRef> names(c.names.begin(), c.names.end());
  GradientRequest request = wrt(c.graph, names);
  request.heads.push_back({c.graph.heads()[0], std::nullopt, "seed"});
  GradientOptions options;
  options.gradientOnly = true;
  Expected<GradientResult> result = buildGradient(c.context, c.graph, request, options);
  ASSERT_TRUE(bool(result)) << describeError(result.takeError());
  c.bindings["seed"] = Array(row.shape, headGradients(row.values.size()));
  std::vector<Array> found = evaluate(result->graph, c.bindings);
  ASSERT_EQ(found.size(), row.gradients.size());
  for (size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("gradient of x" + std::to_string(i));
    expectClose(found[i].values, row.gradients[i], 1e-14);
  }
}

void checkDerivatives(const OpRow &row, ArrayRef<StringRef> names, uint32_t order) {
  constexpr double kStep = 1e-5;
  SCOPED_TRACE(row.op);
  TestContext context;
  Graph graph = graphOf(context, row, true);
  Bindings bindings = bindingsOf(row);
  std::vector<Array> y = evaluate(OpCase(row).graph, bindings);
  bindings["c"] = Array(y[0].shape, headGradients(y[0].values.size()));
  Graph lower = graph;
  size_t first = 0;  // head of `lower` that is summed
  for (uint32_t k = 1; k <= order; ++k) {
    SCOPED_TRACE("order " + std::to_string(k));
    GradientResult result = gradientOf(context, graph, names, k);
    std::vector<Array> all = evaluate(result.graph, bindings);
    for (size_t i = 0; i < names.size(); ++i) {
      const std::vector<double> numeric = differences(bindings[names[i].str()].values, kStep, [&] {
        return total(ArrayRef<Array>(evaluate(lower, bindings)).drop_front(first));
      });
      SCOPED_TRACE(names[i].str());
      ArrayRef<double> found = all[all.size() - names.size() + i].values;
      ASSERT_EQ(found.size(), numeric.size());
      for (size_t e = 0; e < found.size(); ++e)
        EXPECT_NEAR(found[e], numeric[e], 1e-8 + 2e-7 * std::abs(numeric[e])) << "element " << e;
    }
    lower = result.graph;
    first = all.size() - names.size();
  }
}

std::string inferShapes(StringRef name, ArrayRef<AttrText> attrs, StringRef shapes) {
  TestContext context;
  const OpDef *op = context.ops.find(name);
  EXPECT_NE(op, nullptr) << name.str();
  const KindRef handle = cantFail(context.kind(*op, context.attrs(attrs)));
  const NodeKind &kind = *handle;
  ShapeTable table;
  auto [left, right] = shapes.split(" -> ");
  SmallVector<StringRef, 4> words;
  SmallVector<ShapeId, 4> in, out;
  left.split(words, ' ', -1, false);
  for (StringRef word : words) in.push_back(parseShape(table, word));
  words.clear();
  right.split(words, ' ', -1, false);
  for (StringRef word : words) out.push_back(parseShape(table, word));
  EXPECT_EQ(in.size(), kind.numInputs);
  EXPECT_EQ(out.size(), kind.numOutputs);
  // Until nothing changes, as the pass calls it.
  for (SmallVector<ShapeId, 8> before;; before.clear()) {
    before.append(in.begin(), in.end());
    before.append(out.begin(), out.end());
    ShapeInference inference(table, kind, in, out, true);
    op->shape(inference);
    if (inference.hasFailed()) return inference.failureText().str();
    SmallVector<ShapeId, 8> after(in.begin(), in.end());
    after.append(out.begin(), out.end());
    if (after == before) break;
  }
  return printShapes(table, in) + " -> " + printShapes(table, out);
}

}  // namespace gradc::testing
