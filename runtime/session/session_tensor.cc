// Tested by tests/runtime/kernels/filter_tiles_test.cc
#include "runtime/session/session_tensor.h"

#include "runtime/kernels/dnnl/weight_reorder.h"

using namespace llvm;

namespace gradc {
namespace {

void toPlain(const float *tiles, const TensorRef &to) {
  WeightReorder::create(to.shape)->toPlain(tiles, to.as<float>());
}

std::vector<float> numbersOf(const TensorRef &tensor) {
  return std::vector<float>(tensor.as<float>(), tensor.as<float>() + tensor.size());
}

}  // namespace

Expected<SessionTensor> SessionTensor::create(DType dtype, Dims shape, const Twine &what) {
  SessionTensor created(TensorRef{nullptr, dtype, {}}, Layout::Plain);
  created.dims = shape.vec();
  created.memory.shape = created.dims;
  Expected<Buffer> buffer = allocateBuffer(created.memory.bytes(), what);
  if (!buffer) return buffer.takeError();
  created.bytes = std::move(*buffer);
  created.memory.data = created.bytes.get();
  return created;
}

TensorRef SessionTensor::look() {
  if (isMoved() && memory.data) toPlain(numbersOf(memory).data(), memory);
  memory.layout = Layout::Plain;
  return memory;
}

void SessionTensor::read(const TensorRef &to) const {
  assert(memory.shape == to.shape && memory.dtype == to.dtype);
  if (isMoved()) toPlain(memory.as<float>(), to);
  else copyBytes(memory, to);
}

void SessionTensor::prepareRun() {
  if (isMoved() || wanted == Layout::Plain || !memory.data) return;
  assert(wanted == Layout::FilterTiles && "images of variables and heads are row-major");
  WeightReorder::create(memory.shape)->toTiles(numbersOf(memory).data(), memory.as<float>());
  memory.layout = wanted;
}

void SessionTensor::assign(const SessionTensor &from) {
  assert(memory.shape == from.memory.shape && memory.dtype == from.memory.dtype);
  const bool isAsWanted = from.isMoved() && from.wanted == wanted;
  if (from.isMoved() && !isAsWanted) toPlain(from.memory.as<float>(), memory);
  else copyBytes(from.memory, memory);
  memory.layout = isAsWanted ? wanted : Layout::Plain;
}

}  // namespace gradc
