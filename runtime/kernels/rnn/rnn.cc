// RNN and its gradient by matrix products. A thread takes a part of the batch through all steps of a cell without
// waiting for others.
//
// If allowed, the forward kernel keeps gates and states for the gradient (PreparedKernel::takeTape); otherwise the
// gradient reruns the layers. Tested by tests/runtime/kernels/rnn_kernels_test.cc
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/rnn/rnn_gradient.h"

#include <algorithm>

using namespace llvm;

namespace gradc::fast {
namespace {

RnnSizes sizesOf(const KernelSite &site) {
  return RnnSizes(site.kind->params<RnnParams>(), site.in[0].shape[0], site.in[0].shape[1], site.in[0].shape[2]);
}

/// The ports of a gradient node, which has lengths of sequences if it has an operand for them.
RnnPorts backwardPorts(const RnnParams &params, size_t numInputs) {
  const RnnPorts ports = RnnPorts::ofBackward(params, true);
  return numInputs > ports.lengths ? ports : RnnPorts::ofBackward(params, false);
}

template <class T> class RnnForward : public PreparedKernel {
 public:
  explicit RnnForward(const KernelSite &site)
      : s(sizesOf(site)), layers(site, s, RnnPorts::ofForward(site.kind->params<RnnParams>())),
        hasLengths(site.kind->params<RnnParams>().useSequenceLength), keepsSteps(site.keepsTape) {
    RnnSpace<T> space(nullptr);
    RnnTape<T>(space, site.kind->params<RnnParams>(), s, hasLengths, keepsSteps);
    layers.place(space);
    bytes = space.bytes();
  }

  void run(const KernelCall &call) override {
    RnnSpace<T> space(static_cast<T *>(call.workspace));
    const RnnTape<T> tape(space, call.params<RnnParams>(), s, hasLengths, keepsSteps);
    layers.place(space);
    layers.run(call, tape);
    if (call.wants(0)) std::copy_n(tape.outputOf(s.layers - 1), tape.rows() * s.width(), call.out[0].as<T>());
    if (call.params<RnnParams>().stateOutputs) writeStates(call, tape);
  }
  size_t workspaceBytes() const override { return bytes; }

 private:
  void writeStates(const KernelCall &call, const RnnTape<T> &tape) const {
    auto write = [&](size_t output, const T *after, int64_t size, const RnnCell &cell) {
      const int64_t count = s.batch * size;
      std::copy_n(after + cell.timeOf(s, s.time - 1) * count, count, call.out[output].as<T>() + cell.index * count);
    };
    for (int64_t index = 0; index < s.cells(); ++index) {
      const RnnCell cell(s, index / s.directions, index % s.directions);
      if (call.wants(1)) write(1, tape.statesAfter(cell), s.output, cell);
      if (s.isLstm && call.wants(2)) write(2, tape.cellsAfter(cell), s.state, cell);
    }
  }

  const RnnSizes s;
  RnnLayers<T> layers;
  const bool hasLengths, keepsSteps;
  size_t bytes;
};

template <class T> class RnnBackward : public PreparedKernel {
 public:
  explicit RnnBackward(const KernelSite &site)
      : s(sizesOf(site)), ports(backwardPorts(site.kind->params<RnnParams>(), site.in.size())),
        gradient(site, s, ports), hasTape(site.hasTape) {
    if (!hasTape) layers.emplace(site, s, ports);
    RnnSpace<T> space(nullptr);
    place(space, site.kind->params<RnnParams>());
    bytes = space.bytes();
  }

  void takeTape(void *workspace) override { kept = static_cast<T *>(workspace); }

  void run(const KernelCall &call) override {
    RnnSpace<T> space(static_cast<T *>(call.workspace));
    const RnnTape<T> tape = place(space, call.params<RnnParams>());
    if (layers) layers->run(call, tape);
    gradient.run(call, tape);
  }
  size_t workspaceBytes() const override { return bytes; }

 private:
  RnnTape<T> place(RnnSpace<T> &space, const RnnParams &params) {
    RnnSpace<T> elsewhere(kept);
    const RnnTape<T> tape(hasTape ? elsewhere : space, params, s, ports.lengths != RnnPorts::kNone, true);
    if (layers) layers->place(space);
    gradient.place(space);
    return tape;
  }

  const RnnSizes s;
  const RnnPorts ports;
  std::optional<RnnLayers<T>> layers;  // rerun by the gradient; none with a tape
  RnnGradient<T> gradient;
  const bool hasTape;
  T *kept = nullptr;
  size_t bytes;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site) {
  const bool hasSteps = site.in[0].size() > 0;
  if (!hasSteps) return nullptr;
  return floatingKernel<Kernel>(site.in[0].dtype, site);
}

std::unique_ptr<PreparedKernel> rnn(const KernelSite &site) { return make<RnnForward>(site); }
std::unique_ptr<PreparedKernel> rnnBackward(const KernelSite &site) { return make<RnnBackward>(site); }

// Inference has already checked that a gradient node has its forward node's attributes.
bool rnnTapeFits(const NodeKind &forward, ArrayRef<Value> forwardInputs, ArrayRef<Value> backwardInputs) {
  const RnnParams &params = forward.params<RnnParams>();
  const RnnPorts from = RnnPorts::ofForward(params), to = backwardPorts(params, backwardInputs.size());
  auto isSame = [&](size_t i, size_t j) { return forwardInputs[i] == backwardInputs[j]; };
  return isSame(0, 0) && isSame(1, 1) && isSame(from.state, to.state) &&
         (!params.isLstm() || isSame(from.stateCell, to.stateCell)) &&
         (!params.useSequenceLength || isSame(from.lengths, to.lengths));
}

constexpr FastKernelRow kRows[] = {
    {"RNN", rnn, LayoutRole::Plain},
    {"_RNN_grad", rnnBackward, LayoutRole::Plain, {}, {"RNN", rnnTapeFits}},
    {"_backward_RNN", rnnBackward, LayoutRole::Plain, {}, {"RNN", rnnTapeFits}},
};

}  // namespace

constinit const FastKernels kRnnKernels = kRows;

}  // namespace gradc::fast
