// Tested by tests/filter_tiles_test.cc
#include "runtime/argument.h"

#include "passes/plan_memory.h"
#include "runtime/kernels/weight_reorder.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

#include <cstdlib>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

void release(char *bytes) { std::free(bytes); }

void copyBytes(const TensorRef &from, const TensorRef &to) {
  if (to.bytes() != 0) std::memcpy(to.data, from.data, to.bytes());
}

void toPlain(const float *tiles, const TensorRef &to) {
  WeightReorder::create(to.shape)->toPlain(tiles, to.as<float>());
}

std::vector<float> numbersOf(const TensorRef &tensor) {
  return std::vector<float>(tensor.as<float>(), tensor.as<float>() + tensor.size());
}

}  // namespace

Argument::Argument(Array array) : dims(std::move(array.shape)) {
  memory = TensorRef{nullptr, array.dtype, dims};
  const size_t size = alignTo(std::max<size_t>(memory.bytes(), 1), kPlanAlignment);
  bytes = {static_cast<char *>(std::aligned_alloc(kPlanAlignment, size)), release};
  if (!bytes) report_bad_alloc_error("no memory for a variable");
  memory.data = bytes.get();
  if (memory.bytes() != 0) std::memcpy(memory.data, array.bytes.data(), memory.bytes());
}

TensorRef Argument::look() {
  if (isMoved && memory.data) toPlain(numbersOf(memory).data(), memory);
  isMoved = false;
  return memory;
}

void Argument::prepareRun() {
  if (isMoved || wanted == Layout::Plain || !memory.data) return;
  assert(wanted == Layout::FilterTiles && "images of variables and heads are row-major");
  WeightReorder::create(memory.shape)->toTiles(numbersOf(memory).data(), memory.as<float>());
  isMoved = true;
}

void Argument::assign(const Argument &from) {
  assert(memory.shape == from.memory.shape && memory.dtype == from.memory.dtype);
  const bool isAsWanted = from.isMoved && from.wanted == wanted;
  if (from.isMoved && !isAsWanted) toPlain(from.memory.as<float>(), memory);
  else copyBytes(from.memory, memory);
  isMoved = isAsWanted;
}

}  // namespace gradc
