// Tested by tests/runtime/fusion_test.cc
#include "runtime/fusion/norm_group.h"

#include "runtime/executor/instruction_list.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace gradc {
namespace {

class NormGroupKernel final : public GroupKernel {
 public:
  NormGroupKernel(std::unique_ptr<PreparedKernel> kernel, fast::NormTail tail, size_t addend)
      : kernel(std::move(kernel)), tail(tail), addend(addend) {}

  void run(const InstructionList &list, ArrayRef<Instruction> members) const override {
    KernelCall call = list.call(members.front());
    SmallVector<TensorRef, 8> in(call.in), out(call.out);
    if (tail.hasAddend) in.push_back(list.call(members[1]).in[addend]);
    out[0] = list.call(members.back()).out[0];
    call.in = in;
    call.out = out;
    kernel->run(call);
  }

 private:
  std::unique_ptr<PreparedKernel> kernel;
  fast::NormTail tail;
  size_t addend;
};

class NormGradientGroupKernel final : public GroupKernel {
 public:
  explicit NormGradientGroupKernel(std::unique_ptr<PreparedKernel> kernel) : kernel(std::move(kernel)) {}

  void run(const InstructionList &list, ArrayRef<Instruction> members) const override {
    KernelCall call = list.call(members.back());
    SmallVector<TensorRef, 8> in(call.in);
    in[0] = list.call(members.front()).in[0];
    call.in = in;
    kernel->run(call);
  }

 private:
  std::unique_ptr<PreparedKernel> kernel;
};

}  // namespace

std::unique_ptr<GroupKernel> normGroupKernel(const KernelSite &site, fast::NormTail tail, size_t addend) {
  std::unique_ptr<PreparedKernel> kernel = fast::batchNormThen(site, tail);
  return kernel ? std::make_unique<NormGroupKernel>(std::move(kernel), tail, addend) : nullptr;
}

std::unique_ptr<GroupKernel> normGradientGroupKernel(const KernelSite &site) {
  std::unique_ptr<PreparedKernel> kernel = fast::batchNormBackwardBehindRelu(site);
  return kernel ? std::make_unique<NormGradientGroupKernel>(std::move(kernel)) : nullptr;
}

}  // namespace gradc
