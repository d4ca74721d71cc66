// Tested by tests/runtime/kernels/rnn_kernels_test.cc
#include "runtime/kernels/matrix/prepared_product.h"

#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/dnnl/dnnl_descs.h"

#include "ir/tensor/dim.h"

#include <limits>
#include <new>

using dnnl::memory;

namespace gradc {
namespace {

/// A matrix whose rows, or columns if it is stored transposed, are `stride` elements apart.
memory::desc matrixDesc(int64_t rows, int64_t columns, bool isTransposed, int64_t stride) {
  const memory::dims strides = isTransposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  return memory::desc({rows, columns}, memory::data_type::f32, strides);
}

void guardedRun(llvm::function_ref<void()> run) {
  requireTeam();
  try {
    run();
  } catch (const dnnl::error &error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw KernelError{"a prepared matrix product failed: " + std::string(error.what())};
  }
}

}  // namespace

PreparedProduct<float>::PreparedProduct(const Gemm<float> &shape, bool packsB) : shape(withStrides(shape)) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // oneDNN counts some of it in int
  const Gemm<float> &g = this->shape;
  if (Dim(g.transA ? g.k : g.m) * g.lda > kMost || Dim(g.transB ? g.n : g.k) * g.ldb > kMost ||
      Dim(g.m) * g.ldc > kMost || hasLongSums(g))
    return;
  const memory::desc a = matrixDesc(g.m, g.k, g.transA, g.lda), b = matrixDesc(g.k, g.n, g.transB, g.ldb);
  const memory::desc c = matrixDesc(g.m, g.n, false, g.ldc);
  const memory::desc any({g.k, g.n}, memory::data_type::f32, memory::format_tag::any);
  const bool addsToC = g.beta != 0;
  const bool isMade = guarded([&] {
    dnnl::matmul::primitive_desc desc = matmulDescOf(a, packsB ? any : b, c, addsToC);
    // Where oneDNN chooses no blocked layout, it takes rows without gaps, whatever their distance.
    if (packsB && desc.weights_desc() == matrixDesc(g.k, g.n, false, g.n))
      desc = matmulDescOf(a, matrixDesc(g.k, g.n, false, rowStride<float>(g.n)), c, addsToC);
    const memory::desc packed = desc.weights_desc();
    packedB = memory(packed, dnnlEngine(), DNNL_MEMORY_NONE);
    if (packed != b) {
      plainB = memory(b, dnnlEngine(), DNNL_MEMORY_NONE);
      reorder = dnnl::reorder(plainB, packedB);
      packedSize = packed.get_size();
    }
    scratchSize = desc.scratchpad_desc().get_size();
    scratchpad = memory(desc.scratchpad_desc(), dnnlEngine(), DNNL_MEMORY_NONE);
    arguments = {{DNNL_ARG_SRC, memory(a, dnnlEngine(), DNNL_MEMORY_NONE)},
                 {DNNL_ARG_WEIGHTS, packedB},
                 {DNNL_ARG_DST, memory(c, dnnlEngine(), DNNL_MEMORY_NONE)},
                 {DNNL_ARG_SCRATCHPAD, scratchpad}};
    stream = dnnl::stream(dnnlEngine());
    primitive = dnnl::matmul(desc);
  });
  if (isMade) return;
  primitive = dnnl::matmul();
  reorder = dnnl::reorder();
  packedSize = scratchSize = 0;
}

const float *PreparedProduct<float>::pack(const float *b, void *packed) {
  if (!reorder) return b;
  guardedRun([&] {
    plainB.set_data_handle(const_cast<float *>(b));
    packedB.set_data_handle(packed);
    reorder.execute(stream, plainB, packedB);
    stream.wait();
  });
  return static_cast<const float *>(packed);
}

void PreparedProduct<float>::run(const float *a, const float *b, float *c, void *scratch) {
  if (!primitive) {
    Gemm<float> g = shape;
    g.a = a, g.b = b, g.c = c;
    return multiply(g);
  }
  guardedRun([&] {
    arguments.at(DNNL_ARG_SRC).set_data_handle(const_cast<float *>(a));
    packedB.set_data_handle(const_cast<float *>(b));
    arguments.at(DNNL_ARG_DST).set_data_handle(c);
    scratchpad.set_data_handle(scratch);
    primitive.execute(stream, arguments);
    stream.wait();
  });
}

}  // namespace gradc
