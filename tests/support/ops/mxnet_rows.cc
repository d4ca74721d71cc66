// Tested by every test that has such rows, such as tests/ops/layer_ops_test.cc
#include "tests/support/ops/mxnet_rows.h"

#include "ops/registry.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

void checkOutputs(const MxnetRow &row, OpHarness &h, ArrayRef<Value> inputs, Value y) {
  for (size_t o = 0; o < row.outputs.size(); ++o) {
    expectClose(h.values(OpHarness::at(y, o)), row.outputs[o], row.tolerance);
    for (size_t i = 0; o == 0 && i < row.aux.size(); ++i)  // one run so far: the statistics moved once
      expectClose(h.storage(inputs[inputs.size() - row.aux.size() + i]), row.aux[i], row.tolerance);
  }
}

void checkGradients(const MxnetRow &row, OpHarness &h, ArrayRef<Value> inputs, Value y) {
  std::vector<double> seeds;
  for (size_t i = 0; i < row.outputs[0].size(); ++i) seeds.push_back(static_cast<double>(i % 5) - 1.5);
  const std::vector<Value> found = h.gradients(y, h.variable(h.shape(y), seeds), inputs);
  for (size_t i = 0; i < row.gradients.size(); ++i) {
    SCOPED_TRACE("gradient of input " + std::to_string(i));
    EXPECT_EQ(found[i].isValid(), !row.gradients[i].empty());
    if (!found[i].isValid()) continue;
    expectClose(h.values(found[i]), row.gradients[i], row.tolerance);
    if (!h.canDecompose(found[i])) continue;
    const Value parts = h.decomposed(found[i]);
    if (parts.isValid()) expectClose(h.values(parts), row.gradients[i], 10 * row.tolerance);
  }
}

}  // namespace

void checkMxnetRow(const MxnetRow &row) {
  OpHarness h;
  h.isTraining = row.isTraining;
  std::vector<Value> inputs;
  for (const OpTensor &operand : row.inputs) inputs.push_back(h.variable(operand.shape, operand.values));
  std::vector<AttrText> attrs;
  for (const auto &[key, value] : row.attrs) attrs.push_back({key, value});
  const Value y = h.apply(row.op, inputs, attrs);
  checkOutputs(row, h, inputs, y);
  if (!row.gradients.empty()) checkGradients(row, h, inputs, y);
}

std::string refusalOf(StringRef op, std::initializer_list<AttrText> attrs) {
  Context ctx;
  registerBuiltinOps(ctx.ops);
  Expected<KindRef> kind = ctx.kind(*ctx.ops.find(op), ctx.attrs(ArrayRef<AttrText>(attrs)));
  return kind ? "" : toString(kind.takeError());
}

}  // namespace gradc::testing
