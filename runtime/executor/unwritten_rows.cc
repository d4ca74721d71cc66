#include "runtime/executor/unwritten_rows.h"

#include "ir/graph/body_flow.h"
#include "ir/graph/effects.h"
#include "ir/rules/run_flow.h"

#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

bool isLoop(const NodeKind &kind) { return kind.flow && kind.flow->form == BodyFlow::Form::Loop; }

/// Whether the node reads only as many rows of the input as its count operand says.
bool readsRowsRun(const NodeKind &kind, size_t input) {
  return isLoop(kind) && kind.flow->countOperand && kind.flow->operands[input] == BodyFlow::Operand::Rows;
}

class ClearingKernel final : public PreparedKernel {
 public:
  void run(const KernelCall &call) override {
    for (uint32_t o = 0; o < call.out.size(); ++o)
      if (const size_t bytes = call.out[o].bytes(); bytes && call.wants(o) && isShortOutput(*call.kind, o))
        std::memset(call.out[o].data, 0, bytes);
    call.kind->op->kernel(call);
  }
  bool isFast() const override { return false; }
};

}  // namespace

BitVector loopsToClear(const Graph &graph, const BitVector &isPartlyRead) {
  BitVector cleared(graph.numNodes()), isReadWhole(graph.numEntries());
  auto entry = [&](Value v) { return graph.entry(v).value; };
  ArrayRef<Value> heads = graph.heads();
  for (size_t i = 0; i < heads.size(); ++i)
    if (i >= isPartlyRead.size() || !isPartlyRead[static_cast<unsigned>(i)]) isReadWhole.set(entry(heads[i]));
  for (uint32_t n = graph.numNodes(); n-- > 0;) {
    const NodeKind &kind = graph.kind(NodeId(n));
    if (kind.isVariable()) continue;
    const uint32_t first = graph.firstEntry(NodeId(n)).value;
    for (uint32_t o = 0; o < kind.numOutputs && isLoop(kind); ++o)
      if (isReadWhole[first + o] && isShortOutput(kind, o)) cleared.set(n);
    // An element-wise node does not mix rows.
    bool needsRest = !kind.op->flags.isElementwise;
    for (uint32_t o = 0; o < kind.numOutputs; ++o) needsRest |= isReadWhole[first + o];
    ArrayRef<Value> inputs = graph.inputs(NodeId(n));
    for (size_t i = 0; i < inputs.size() && needsRest; ++i)
      if (!kind.isIgnored(i) && !readsRowsRun(kind, i)) isReadWhole.set(entry(inputs[i]));
  }
  return cleared;
}

BitVector partlyReadHeads(const NodeKind &kind, size_t body) {
  const std::vector<uint32_t> &outputOf = kind.flow->bodies[body].outputOf;
  BitVector isPartlyRead(static_cast<unsigned>(outputOf.size()));
  for (size_t h = 0; h < outputOf.size(); ++h)
    if (outputOf[h] >= kind.numVisible || isShortOutput(kind, outputOf[h])) isPartlyRead.set(static_cast<unsigned>(h));
  return isPartlyRead;
}

size_t bytesOfPartlyWrittenStacks(const Graph &graph, const Inference &inference, const BitVector &isCleared) {
  uint64_t sum = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const NodeKind &kind = graph.kind(NodeId(n));
    for (uint32_t o = 0; o < kind.numOutputs && isLoop(kind) && !isCleared[n]; ++o) {
      const EntryId e(graph.firstEntry(NodeId(n)).value + o);
      if (isShortOutput(kind, o) && inference.isKnownShape(e))
        sum = SaturatingAdd(sum, static_cast<uint64_t>(inference.elements(e)) * dtypeBytes(inference.dtype[e]));
    }
  }
  return sum;
}

std::unique_ptr<PreparedKernel> clearingKernel() { return std::make_unique<ClearingKernel>(); }

}  // namespace gradc
