// Tested by tests/runtime/fusion_test.cc
#include "runtime/fusion/element_group.h"

#include "runtime/executor/instruction_list.h"
#include "runtime/kernels/core/threads.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <array>

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kGrain = 16384;  // fewer elements are not worth a second thread

/// Runs all members on one piece after the other, on one thread. Lives on that thread's stack, so nothing is allocated.
class Pieces {
 public:
  Pieces(const ElementGroup &group, const InstructionList &list, ArrayRef<Instruction> members)
      : group(group), members(members) {
    size_t at = 0;
    for (size_t m = 0; m < members.size(); ++m) {
      KernelCall &call = calls[m];
      call = list.call(members[m]);
      call.in = take(call.in, at);
      call.out = take(call.out, at);
    }
  }
  Pieces(const Pieces &) = delete;

  void run(int64_t begin, int64_t end) {
    for (; begin < end; begin += group.piece) runPiece(begin, std::min(group.piece, end - begin));
  }

 private:
  ArrayRef<TensorRef> take(ArrayRef<TensorRef> whole, size_t &at) {
    const ArrayRef<TensorRef> taken(operands.data() + at, whole.size());
    for (const TensorRef &tensor : whole) {
      operands[at] = tensor;
      bases[at] = tensor.as<char>();
      if (group.operands[at].kind != GroupOperand::Kind::Whole) operands[at].shape = length;
      ++at;
    }
    return taken;
  }

  void runPiece(int64_t begin, int64_t size) {
    length[0] = size;
    for (size_t i = 0; i < group.operands.size(); ++i) {
      const auto [kind, width, slot] = group.operands[i];
      if (kind == GroupOperand::Kind::Scratch) operands[i].data = scratch + slot * stride;
      else if (kind == GroupOperand::Kind::Part && bases[i])
        operands[i].data = bases[i] + static_cast<size_t>(begin) * width;
    }
    for (size_t m = 0; m < members.size(); ++m) members[m].run(calls[m]);
  }

  const ElementGroup &group;
  const ArrayRef<Instruction> members;
  const size_t stride = alignTo(static_cast<uint64_t>(group.piece), kPieceAlignment);
  std::array<int64_t, 1> length;
  std::array<TensorRef, kMaxOperands> operands;
  std::array<char *, kMaxOperands> bases;
  std::array<KernelCall, kMaxMembers> calls;
  alignas(64) char scratch[kScratchBytes];
};

class ElementGroupKernel final : public GroupKernel {
 public:
  explicit ElementGroupKernel(ElementGroup group) : group(std::move(group)) {}

  void run(const InstructionList &list, ArrayRef<Instruction> members) const override {
    const int64_t grain = std::max(kGrain / static_cast<int64_t>(members.size()), 2 * group.piece);
    parallelFor(group.threads, group.size, grain,
                [&](int64_t begin, int64_t end) { Pieces(group, list, members).run(begin, end); });
  }

 private:
  ElementGroup group;
};

}  // namespace

std::unique_ptr<GroupKernel> elementGroupKernel(ElementGroup group) {
  return std::make_unique<ElementGroupKernel>(std::move(group));
}

}  // namespace gradc
