// One oneDNN primitive with the reorders around it, over plain pointers.
//
//   DnnlStep step;
//   step.input(DNNL_ARG_SRC, outside, inside);    // slot 0
//   step.output(DNNL_ARG_DST, outside, inside);   // slot 1
//   step.finish(primitive, scratchpad);
//   step.run({x, y}, workspace);
//
// An operand whose outside format differs from the primitive's is reordered through scratch. oneDNN's C++ interface
// throws; only `guarded` and `run` handle its exceptions. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"
#include "runtime/kernels/dnnl/weight_reorder.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <dnnl.hpp>

namespace gradc {

/// The process's CPU engine, which has no state.
const dnnl::engine &dnnlEngine();

/// Makes primitives take their scratch from the workspace.
dnnl::primitive_attr userScratchpad();

/// A dense float32 tensor; layouts other than Plain need rank four.
dnnl::memory::desc denseDesc(Dims shape, Layout layout);
/// The same dimensions in a format that the primitive chooses.
dnnl::memory::desc anyDesc(Dims shape);

/// Whether `make` returned without an exception of oneDNN's. Lack of memory is rethrown as std::bad_alloc.
bool guarded(llvm::function_ref<void()> make);
/// The same for the primitives of a node. Those of a small one are made for a single thread: oneDNN would wake the
/// whole team for a handful of elements.
bool guarded(const KernelSite &site, llvm::function_ref<void()> make);

class DnnlStep {
 public:
  void input(int arg, const dnnl::memory::desc &outside, const dnnl::memory::desc &inside);
  void output(int arg, const dnnl::memory::desc &outside, const dnnl::memory::desc &inside);
  /// An operand of the primitive that exists only in scratch.
  void scratch(int arg, const dnnl::memory::desc &inside);
  /// A scratch operand that an earlier step of the same kernel left at `offset`.
  void scratchAt(int arg, const dnnl::memory::desc &inside, size_t offset);
  /// The primitive will run on as many threads as there are now, or fewer.
  void finish(const dnnl::primitive &primitive, const dnnl::memory::desc &scratchpad);

  bool isReady() const { return static_cast<bool>(primitive); }
  Reorders reorders() const;
  /// Scratch of this step. `reserve` keeps the first bytes for scratch of earlier steps.
  size_t bytes() const { return used; }
  void reserve(size_t bytes) { used = bytes; }
  /// Offset of the scratch operand `arg`.
  size_t offsetOf(int arg) const;
  /// `data` holds one pointer per input and output, in the order they were added. Throws as PreparedKernel::run does.
  void run(llvm::ArrayRef<void *> data, void *workspace);

 private:
  static constexpr int kNoSlot = -1;
  struct Operand {
    int arg;
    int slot;  // of `data`; kNoSlot: scratch
    bool isOutput;
    dnnl::memory outside, inside;
    dnnl::reorder reorder;  // if this and `weights` are empty, the primitive works on the outside memory
    std::optional<WeightReorder> weights;
    size_t offset;  // of the inside memory in the workspace

    bool isConverted() const { return weights || reorder; }
  };
  void execute(llvm::ArrayRef<void *> data, char *scratch);
  void execute(const dnnl::primitive &what, llvm::ArrayRef<dnnl_exec_arg_t> operands);
  void convert(Operand &operand);
  void add(int arg, bool isOutput, const dnnl::memory::desc &outside, const dnnl::memory::desc &inside);
  size_t take(size_t bytes);

  std::vector<Operand> operands;
  int numSlots = 0;
  size_t used = 0;
  unsigned threads = 1;
  dnnl::primitive primitive;
  dnnl::stream stream;
  std::vector<dnnl_exec_arg_t> arguments;  // in the form of the C interface, which copies no list
};

}  // namespace gradc
