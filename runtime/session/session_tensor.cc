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

Expected<Argument> Argument::create(DType dtype, Dims shape, const Twine &what) {
  Argument argument(TensorRef{nullptr, dtype, {}}, Layout::Plain);
  argument.dims = shape.vec();
  argument.memory.shape = argument.dims;
  Expected<Buffer> buffer = allocateBuffer(argument.memory.bytes(), what);
  if (!buffer) return buffer.takeError();
  argument.bytes = std::move(*buffer);
  argument.memory.data = argument.bytes.get();
  return argument;
}

TensorRef Argument::look() {
  if (isMoved() && memory.data) toPlain(numbersOf(memory).data(), memory);
  memory.layout = Layout::Plain;
  return memory;
}

void Argument::read(const TensorRef &to) const {
  assert(memory.shape == to.shape && memory.dtype == to.dtype);
  if (isMoved()) toPlain(memory.as<float>(), to);
  else copyBytes(memory, to);
}

void Argument::prepareRun() {
  if (isMoved() || wanted == Layout::Plain || !memory.data) return;
  assert(wanted == Layout::FilterTiles && "images of variables and heads are row-major");
  WeightReorder::create(memory.shape)->toTiles(numbersOf(memory).data(), memory.as<float>());
  memory.layout = wanted;
}

void Argument::assign(const Argument &from) {
  assert(memory.shape == from.memory.shape && memory.dtype == from.memory.dtype);
  const bool isAsWanted = from.isMoved() && from.wanted == wanted;
  if (from.isMoved() && !isAsWanted) toPlain(from.memory.as<float>(), memory);
  else copyBytes(from.memory, memory);
  memory.layout = isAsWanted ? wanted : Layout::Plain;
}

}  // namespace gradc
