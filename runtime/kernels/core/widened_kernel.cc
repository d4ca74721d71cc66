// Tested by tests/ir/widening_test.cc
#include "runtime/kernels/core/widened_kernel.h"

#include "ir/tensor/half.h"
#include "runtime/kernels/core/threads.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kGrain = 16384;  // fewer elements are not worth a second thread
constexpr int64_t kBlockDims[] = {kWideningBlock};

/// The inner kernel that the factory makes for the widened operands; `dims`, unless empty, replaces their shapes.
std::unique_ptr<PreparedKernel> makeInner(const KernelSite &site, const Widening &widening, Dims dims,
                                          WidenedFactory make) {
  SmallVector<TensorRef, 8> operands(site.in.begin(), site.in.end());
  operands.append(site.out.begin(), site.out.end());
  for (size_t i = 0; i < operands.size(); ++i) {
    operands[i].dtype = widening.type(i);
    if (!dims.empty()) operands[i].shape = dims;
  }
  KernelSite inner = site;
  inner.in = ArrayRef(operands).take_front(site.in.size());
  inner.out = ArrayRef(operands).drop_front(site.in.size());
  return make(inner);
}

}  // namespace

WidenedKernel::WidenedKernel(const KernelSite &site, const Widening &widening)
    : widening(widening), threads(site.threads), operands(site.in.size() + site.out.size()),
      requests(site.out.size(), Request::Null) {}

std::unique_ptr<WidenedKernel> WidenedKernel::create(const KernelSite &site, const Widening &widening,
                                                     WidenedFactory make) {
  std::unique_ptr<WidenedKernel> kernel(new WidenedKernel(site, widening));
  const int64_t block = widening.blockLength();
  kernel->whole = makeInner(site, widening, block ? Dims(kBlockDims) : Dims(), make);
  if (block) kernel->restDims[0] = site.out[0].size() % block;
  if (kernel->whole && kernel->restDims[0] > 0) kernel->rest = makeInner(site, widening, kernel->restDims, make);
  const bool isComplete = kernel->whole && (kernel->rest || kernel->restDims[0] == 0);
  if (!isComplete && !site.kind->op->kernel) return nullptr;
  for (const PreparedKernel *inner : {kernel->whole.get(), kernel->rest.get()})
    if (inner) kernel->innerBytes = std::max(kernel->innerBytes, inner->workspaceBytes());
  return kernel;
}

void WidenedKernel::run(const KernelCall &call) {
  const int64_t block = widening.blockLength();
  if (!block) return runPart(call, 0, 0, whole.get());
  const int64_t size = call.out[0].size();
  for (int64_t begin = 0; begin < size; begin += block) {
    const int64_t count = std::min(block, size - begin);
    runPart(call, begin, count, count == block ? whole.get() : rest.get());
  }
}

void WidenedKernel::runPart(const KernelCall &call, int64_t begin, int64_t size, PreparedKernel *inner) {
  char *scratch = static_cast<char *>(call.workspace);
  const size_t numIn = call.in.size();
  partDims[0] = size;
  for (size_t i = 0; i < numIn; ++i) operands[i] = innerOperand(i, call.in[i], scratch, begin);
  for (size_t o = 0; o < call.out.size(); ++o) {
    operands[numIn + o] = innerOperand(numIn + o, call.out[o], scratch, begin);
    // A result that is computed in scratch is not in place.
    const bool isMoved = call.wants(o) && widening.scratchOffset(numIn + o) != Widening::kInPlace;
    requests[o] = isMoved ? Request::Write : call.requests[o];
  }
  widenInputs(call, begin, size);
  KernelCall part = call;
  part.in = ArrayRef(operands).take_front(numIn);
  part.out = ArrayRef(operands).drop_front(numIn);
  part.requests = requests;
  part.workspace = scratch ? scratch + widening.scratchBytes() : nullptr;
  if (inner) inner->run(part);
  else call.kind->op->kernel(part);
  narrowResults(call, begin, size);
}

TensorRef WidenedKernel::innerOperand(size_t i, const TensorRef &stored, char *scratch, int64_t begin) const {
  TensorRef operand = stored;
  operand.dtype = widening.type(i);
  if (widening.blockLength()) operand.shape = partDims;
  const size_t offset = widening.scratchOffset(i);
  if (offset != Widening::kInPlace) operand.data = scratch + offset;
  else if (stored.data) operand.data = stored.as<char>() + static_cast<size_t>(begin) * dtypeBytes(stored.dtype);
  return operand;
}

void WidenedKernel::widenInputs(const KernelCall &call, int64_t begin, int64_t size) const {
  for (size_t i = 0; i < call.in.size(); ++i) {
    const TensorRef &stored = call.in[i];
    if (widening.scratchOffset(i) == Widening::kInPlace || !stored.data) continue;  // null: nothing requested reads it
    const uint16_t *from = stored.as<uint16_t>() + begin;
    float *to = operands[i].as<float>();
    parallelFor(threads, length(stored, size), kGrain, [&](int64_t first, int64_t last) {
      widenElements(stored.dtype, from + first, to + first, static_cast<size_t>(last - first));
    });
  }
}

void WidenedKernel::narrowResults(const KernelCall &call, int64_t begin, int64_t size) const {
  auto narrow = [&](size_t i, const TensorRef &stored) {
    if (widening.scratchOffset(i) == Widening::kInPlace) return;
    const float *from = operands[i].as<float>();
    uint16_t *to = stored.as<uint16_t>() + begin;
    parallelFor(threads, length(stored, size), kGrain, [&](int64_t first, int64_t last) {
      narrowElements(stored.dtype, from + first, to + first, static_cast<size_t>(last - first));
    });
  };
  for (size_t i = 0; i < call.in.size(); ++i)
    if (call.kind->isMutated(i)) narrow(i, call.in[i]);
  for (size_t o = 0; o < call.out.size(); ++o)
    if (call.wants(o)) narrow(call.in.size() + o, call.out[o]);
}

}  // namespace gradc
