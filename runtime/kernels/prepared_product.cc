// Tested by tests/rnn_kernels_test.cc
#include "runtime/kernels/prepared_product.h"

#include "runtime/kernels/dnnl_descs.h"
#include "runtime/kernels/threads.h"

#include "ir/dim.h"

#include <limits>
#include <new>

using dnnl::memory;

namespace gradc {
namespace {

memory::desc matrixDesc(int64_t rows, int64_t columns, memory::format_tag tag) {
  return memory::desc({rows, columns}, memory::data_type::f32, tag);
}
memory::format_tag denseTag(bool isTransposed) {
  return isTransposed ? memory::format_tag::ba : memory::format_tag::ab;
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

PreparedProduct<float>::PreparedProduct(const Gemm<float> &shape, bool packsB) : shape(dense(shape)) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // oneDNN counts some of it in int
  if (Dim(shape.m) * shape.k > kMost || Dim(shape.k) * shape.n > kMost || Dim(shape.m) * shape.n > kMost) return;
  const memory::desc a = matrixDesc(shape.m, shape.k, denseTag(shape.transA));
  const memory::desc b = matrixDesc(shape.k, shape.n, denseTag(shape.transB));
  const memory::desc c = matrixDesc(shape.m, shape.n, memory::format_tag::ab);
  const memory::desc wanted = packsB ? matrixDesc(shape.k, shape.n, memory::format_tag::any) : b;
  const bool isMade = guarded([&] {
    const dnnl::matmul::primitive_desc desc = matmulDescOf(a, wanted, c, shape.beta != 0);
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
