// Embedding: rows of a table picked by number, and the gradient that adds rows back.
//
// Numbers outside the table count as the nearest row, fractions are dropped. Linear in the table; the backward operator
// is its adjoint, and each is the gradient of the other. The gradient is dense whatever sparse_grad says. The type of
// the table decides; attribute dtype is a suggestion MXNet drops as well. Tested by tests/layer_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ir/kernel.h"
#include "ops/families.h"
#include "ops/kernel_dispatch.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

struct EmbeddingParams {
  int64_t inputDim = 1, outputDim = 1;
  DType dtype = DType::Float32;
  bool sparseGrad = false;
};

constexpr AttrSpec kAttrs[] = {
    required<&EmbeddingParams::inputDim>("input_dim", "rows of the table").atLeast(1),
    required<&EmbeddingParams::outputDim>("output_dim", "columns of the table").atLeast(1),
    attr<&EmbeddingParams::dtype>("dtype", "float32", "accepted and not used"),
    attr<&EmbeddingParams::sparseGrad>("sparse_grad", "False", "accepted and not used"),
};

// Calls visit(position, row of the table) for every number of `data`.
template <class F> void forEachRow(const TensorRef &data, int64_t numRows, F visit) {
  dispatchNumeric(data.dtype, [&](auto zero) {
    const auto *numbers = data.as<const decltype(zero)>();
    const double last = static_cast<double>(numRows - 1);
    for (int64_t i = 0, size = data.size(); i < size; ++i) {
      const double number = static_cast<double>(numbers[i]);
      visit(i, number > 0 ? static_cast<int64_t>(std::min(number, last)) : 0);
    }
  });
}

// The picked rows have the data's shape with one more axis behind.
struct PickedPort {
  size_t index;
  bool isOutput;
};

void relateShapes(ShapeInference &s, size_t data, PickedPort picked) {
  const int64_t columns = s.params<EmbeddingParams>().outputDim;
  const ShapeRef rows = picked.isOutput ? s.out(picked.index) : s.in(picked.index);
  if (rows.hasRank()) {
    if (rows.rank() == 0) return s.fail("picked rows have no axes, expected one at least");
    s.setIn(data, rows.dims().drop_back());
  }
  if (s.hasFailed() || !s.in(data).hasRank()) return;
  DimsBuffer dims(s.in(data).dims());
  dims.push_back(columns);
  if (picked.isOutput) s.setOut(picked.index, dims);
  else s.setIn(picked.index, dims);
}

constexpr Domain kDomains[] = {Domain::ClassIndex};

extern const OpDef kBackwardEmbedding;

constinit const OpDef kEmbedding = {
    .name = "Embedding",
    .aliases = {"_npx_embedding", "_sparse_Embedding"},
    .summary = "y[i…,k] = w[⌊data[i…]⌋, k], numbers outside the table taken as its first or last row",
    .inputs = {"data", "weight"},
    .attrs = kAttrs,
    .params = paramsOf<EmbeddingParams>(),
    .shape =
        [](ShapeInference &s) {
          const EmbeddingParams &p = s.params<EmbeddingParams>();
          s.setIn(1, {p.inputDim, p.outputDim});
          relateShapes(s, 0, {0, true});
        },
    .dtype = [](DTypeInference &t) { t.sameInOut(1, 0); },
    .stopped = {0},
    .kernelTypes = kFloatingAndIntegers,
    .domains = kDomains,
    .gradient =
        [](GradRule &g) {
          g.fused(kBackwardEmbedding, {g.dy(0), g.x(0)});
          g.noGrad(0);
        },
    .primitive = {.onnx = "Cast, Clip, Gather", .c = "y[i,k] = w[data[i] > 0 ? (int64_t)fmin(data[i], rows - 1) : 0,k]"},
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          const size_t row = static_cast<size_t>(call.in[1].shape[1]) * dtypeBytes(call.in[1].dtype);
          const char *table = call.in[1].as<const char>();
          char *to = call.out[0].as<char>();
          forEachRow(call.in[0], call.in[1].shape[0], [&](int64_t i, int64_t at) {
            std::memcpy(to + static_cast<size_t>(i) * row, table + static_cast<size_t>(at) * row, row);
          });
        },
};

// dw[r] = Σ of dy over the positions that picked row r
constinit const OpDef kBackwardEmbedding = {
    .name = "_backward_Embedding",
    .summary = "gradient of Embedding: dw[r,k] = Σ of dy[i…,k] over the positions that picked row r; data has none",
    .inputs = {"ograd", "data"},
    .outputs = {"data_grad", "weight_grad"},
    .attrs = kAttrs,
    .params = paramsOf<EmbeddingParams>(),
    .shape =
        [](ShapeInference &s) {
          const EmbeddingParams &p = s.params<EmbeddingParams>();
          s.sameInOut(1, 0);
          relateShapes(s, 1, {0, false});
          s.sameInOut(1, 0);
          s.setOut(1, {p.inputDim, p.outputDim});
        },
    .dtype =
        [](DTypeInference &t) {
          t.sameInOut(0, 1);
          t.sameInOut(1, 0);
        },
    .stopped = {1},
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          g.noGrad(1);
          if (g.isZero(1)) return g.noGrad(0);
          g.dx(0, g.emit(kEmbedding, {g.x(1), g.dy(1)}, g.attrs()));
        },
    .primitive = {.onnx = "ConstantOfShape, Cast, Clip, Unsqueeze, ScatterND(reduction=add)",
                  .c = "dw[data[i] > 0 ? (int64_t)fmin(data[i], rows - 1) : 0,k] += dy[i,k]"},
    .kernel =
        [](const KernelCall &call) {
          if (call.wants(0)) std::memset(call.out[0].data, 0, call.out[0].bytes());
          if (!call.wants(1)) return;
          const int64_t columns = call.out[1].shape[1];
          dispatchFloating(call.out[1].dtype, [&](auto zero) {
            using T = decltype(zero);
            const T *dy = call.in[0].as<const T>();
            T *dw = call.out[1].as<T>();
            std::fill_n(dw, call.out[1].size(), T{0});
            forEachRow(call.in[1], call.out[1].shape[0], [&](int64_t i, int64_t at) {
              for (int64_t k = 0; k < columns; ++k) dw[at * columns + k] += dy[i * columns + k];
            });
          });
        },
};

constexpr const OpDef *kOps[] = {&kEmbedding, &kBackwardEmbedding};

}  // namespace
constinit const OpFamily kEmbeddingFamily = kOps;

}  // namespace gradc
