// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/dnnl/dnnl_descs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <new>

using namespace llvm;
using dnnl::memory;

namespace gradc {

const dnnl::engine &dnnlEngine() {
  // Never destroyed: threads may still use it while the process exits.
  static const dnnl::engine &engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr userScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

namespace {

/// Of more axes than there are format tags for.
memory::desc rowMajor(Dims shape) {
  memory::dims dims(shape.begin(), shape.end()), strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * std::max<int64_t>(dims[axis], 1);
  return memory::desc(dims, memory::data_type::f32, strides);
}

}  // namespace

memory::desc denseDesc(Dims shape, Layout layout) {
  constexpr memory::format_tag kRowMajor[] = {
      memory::format_tag::a,    memory::format_tag::a,     memory::format_tag::ab,    memory::format_tag::abc,
      memory::format_tag::abcd, memory::format_tag::abcde, memory::format_tag::abcdef};
  if (layout == Layout::Plain && shape.size() >= std::size(kRowMajor)) return rowMajor(shape);
  const memory::format_tag last = shape.size() == 3 ? memory::format_tag::acb : memory::format_tag::acdb;
  const memory::format_tag tag = layout == Layout::ChannelsLast  ? last
                                 : layout == Layout::FilterTiles ? memory::format_tag::ABcd16b16a
                                                                 : kRowMajor[shape.size()];
  return memory::desc(memory::dims(shape.begin(), shape.end()), memory::data_type::f32, tag);
}

memory::desc anyDesc(Dims shape) {
  return memory::desc(memory::dims(shape.begin(), shape.end()), memory::data_type::f32, memory::format_tag::any);
}

namespace {

std::optional<WeightReorder> tilesToPlain(const memory::desc &from, const memory::desc &to) {
  const memory::dims dims = dimsOf(to);
  std::optional<WeightReorder> reorder = WeightReorder::create(dims);
  if (reorder && (from != denseDesc(dims, Layout::FilterTiles) || to != denseDesc(dims, Layout::Plain)))
    reorder.reset();
  return reorder;
}

}  // namespace

bool guarded(function_ref<void()> make) {
  try {
    make();
    return true;
  } catch (const dnnl::error &error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    return false;
  }
}

bool guarded(const KernelSite &site, function_ref<void()> make) {
  constexpr int64_t kGrain = 8192;  // fewer elements, of all operands, are not worth a second thread
  int64_t size = 0;
  for (const TensorRef &operand : concat<const TensorRef>(site.in, site.out)) size += std::min(operand.size(), kGrain);
  bool isMade = false;
  withThreads(size <= kGrain ? 1 : scopeThreads(), [&] { isMade = guarded(make); });
  return isMade;
}

size_t DnnlStep::take(size_t bytes) {
  const size_t offset = alignTo(used, 64);
  used = offset + bytes;
  return offset;
}

void DnnlStep::add(int arg, bool isOutput, const memory::desc &outside, const memory::desc &inside) {
  Operand operand{arg, numSlots++, isOutput, memory(outside, dnnlEngine(), DNNL_MEMORY_NONE), {}, {}, {}, 0};
  if (outside == inside) {
    operand.inside = operand.outside;
  } else {
    operand.inside = memory(inside, dnnlEngine(), DNNL_MEMORY_NONE);
    operand.offset = take(inside.get_size());
    if (isOutput) operand.weights = tilesToPlain(inside, outside);
    memory &from = isOutput ? operand.inside : operand.outside, &to = isOutput ? operand.outside : operand.inside;
    if (!operand.weights) operand.reorder = dnnl::reorder(from, to);
  }
  arguments.push_back({arg, operand.inside.get()});
  operands.push_back(std::move(operand));
}

void DnnlStep::input(int arg, const memory::desc &outside, const memory::desc &inside) {
  add(arg, false, outside, inside);
}

void DnnlStep::output(int arg, const memory::desc &outside, const memory::desc &inside) {
  add(arg, true, outside, inside);
}

void DnnlStep::scratch(int arg, const memory::desc &inside) { scratchAt(arg, inside, take(inside.get_size())); }

void DnnlStep::scratchAt(int arg, const memory::desc &inside, size_t offset) {
  Operand operand{arg, kNoSlot, false, {}, memory(inside, dnnlEngine(), DNNL_MEMORY_NONE), {}, {}, offset};
  arguments.push_back({arg, operand.inside.get()});
  operands.push_back(std::move(operand));
}

void DnnlStep::finish(const dnnl::primitive &made, const memory::desc &scratchpad) {
  if (scratchpad.get_size() != 0) scratch(DNNL_ARG_SCRATCHPAD, scratchpad);
  primitive = made;
  threads = scopeThreads();
  stream = dnnl::stream(dnnlEngine());
}

Reorders DnnlStep::reorders() const {
  Reorders count;
  for (const Operand &operand : operands) {
    if (!operand.isConverted()) continue;
    const bool isWeight = operand.arg == DNNL_ARG_WEIGHTS || operand.arg == DNNL_ARG_DIFF_WEIGHTS;
    ++(isWeight ? count.numWeights : count.numImages);
    count.bytes += operand.outside.get_desc().get_size();
  }
  return count;
}

size_t DnnlStep::offsetOf(int arg) const {
  for (const Operand &operand : operands)
    if (operand.arg == arg) return operand.offset;
  llvm_unreachable("the step has no such operand");
}

void DnnlStep::execute(const dnnl::primitive &what, ArrayRef<dnnl_exec_arg_t> operands) {
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(what.get(), stream.get(), static_cast<int>(operands.size()), operands.data()),
      "could not execute a primitive");
}

void DnnlStep::convert(Operand &operand) {
  memory &from = operand.isOutput ? operand.inside : operand.outside;
  memory &to = operand.isOutput ? operand.outside : operand.inside;
  if (operand.weights)
    operand.weights->toPlain(static_cast<const float *>(from.get_data_handle()),
                             static_cast<float *>(to.get_data_handle()));
  else execute(operand.reorder, {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}});
}

void DnnlStep::run(ArrayRef<void *> data, void *workspace) {
  char *scratch = static_cast<char *>(workspace);
  if (threads >= scopeThreads()) return execute(data, scratch);
  withThreads(threads, [&] { execute(data, scratch); });
}

void DnnlStep::execute(ArrayRef<void *> data, char *scratch) {
  requireTeam();
  try {
    for (Operand &operand : operands) {
      if (operand.slot != kNoSlot) operand.outside.set_data_handle(data[operand.slot]);
      if (operand.slot == kNoSlot || operand.isConverted()) operand.inside.set_data_handle(scratch + operand.offset);
      if (operand.isConverted() && !operand.isOutput) convert(operand);
    }
    execute(primitive, arguments);
    for (Operand &operand : operands)
      if (operand.isConverted() && operand.isOutput) convert(operand);
    stream.wait();
  } catch (const dnnl::error &error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw KernelError{"a prepared oneDNN primitive failed: " + std::string(error.what())};
  }
}

}  // namespace gradc
