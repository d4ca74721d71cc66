// Random permutations along the first axis: draw i is the key of row i, and rows are sorted by their keys.
//
// The permutation is a hidden output, which MXNet's operator lacks; so it has a gradient here, unlike in MXNet.
// Tested by tests/ops/ordering_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/index/sort_rows.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

// For each row of the output, its row in the input; in the shape of the data.
template <class Rule> Value positions(Rule &r, Value order, Value data) {
  const Value like = r.emit(kIndexLike, {data}, {{"axis", "0"}});  // of the order's type
  return r.emit(kBroadcastAxisLike, {order, like}, {{"axis", "0"}});
}

void shuffleShape(ShapeInference &s) {
  s.sameInOut(0, 0);
  if (s.hasFailed()) return;
  if (!s.in(0).hasRank()) return s.setOut(1, {kUnknownDim});
  if (s.in(0).rank() == 0) return s.fail("data has shape (), expected an axis to permute along");
  s.setOut(1, s.in(0)[0]);
  if (s.hasFailed()) return;
  DimsBuffer dims(s.in(0).dims());
  dims[0] = s.out(1)[0];
  s.setIn(0, dims);
  s.sameInOut(0, 0);
}

void shuffleKernel(const KernelCall &call) {
  const int64_t count = call.in[0].shape[0];
  double *keys = static_cast<double *>(call.workspace);
  const MutableArrayRef<int64_t> order(reinterpret_cast<int64_t *>(keys + count), static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) keys[i] = call.random.uniform(static_cast<uint64_t>(i));
  sortRow(keys, 1, true, order, count);
  if (call.wants(1)) std::copy(order.begin(), order.end(), call.out[1].as<int64_t>());
  if (!call.wants(0) || call.in[0].size() == 0) return;
  const size_t bytes = call.in[0].bytes() / static_cast<size_t>(count);
  for (size_t i = 0; i < order.size(); ++i)
    std::memcpy(call.out[0].as<char>() + i * bytes, call.in[0].as<const char>() + static_cast<size_t>(order[i]) * bytes,
                bytes);
}

constinit const OpDef kShuffle = {
    .name = "_shuffle",
    .aliases = {"shuffle", "_npi_shuffle"},
    .summary = "the rows of data, its slices along axis 0, in random order",
    .inputs = {"data"},
    .outputs = {"output", "order"},
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .shape = shuffleShape,
    .dtype =
        [](DTypeInference &t) {
          t.sameInOut(0, 0);
          t.setOut(1, DType::Int64);
        },
    .flags = {.isRandom = true, .movesElements = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient =
        [](GradRule &g) {
          if (g.isZero(0)) return g.noGrad(0);
          const Value dy = g.dy(0);
          g.dx(0, g.emit(kScatterAlongAxis, {dy, positions(g, g.y(1), dy), dy}, {{"axis", "0"}}));
        },
    .decompose =
        [](DecomposeRule &d) {
          const Value rows = d.emit(kSum, {d.x(0)}, {{"axis", "0"}, {"exclude", "True"}});  // for its shape
          const Value order = d.emit(kSortOrder, {d.emit(kUniformLike, {rows})}, {{"axis", "0"}});
          d.y(0, d.emit(kTakeAlongAxis, {d.x(0), positions(d, order, d.x(0))}, {{"axis", "0"}}));
          d.y(1, order);
        },
    .kernel = shuffleKernel,
    .workspace =
        [](const NodeKind &, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
          return static_cast<size_t>(in[0].shape[0]) * (sizeof(double) + sizeof(int64_t));
        },
};

}  // namespace

constinit const OpFamily kShuffleFamily = kOps<kShuffle>;

}  // namespace gradc
