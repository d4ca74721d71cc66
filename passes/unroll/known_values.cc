#include "passes/unroll/known_values.h"

#include "ir/rules/decision.h"
#include "ir/rules/kernel.h"
#include "ir/rules/widening.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kMostElements = 16;  // decisions and counts have one

bool isComputable(const NodeKind &kind) {
  const OpDef *op = kind.op;
  if (!op || !op->kernel || op->workspace || kind.flow || !kind.mutated.isEmpty()) return false;
  return !kind.draws && !kind.readsForm && !op->flags.isStateful && !op->flags.isOpaque && !op->flags.isBackward;
}

// Running the graph reports the error.
bool succeeds(KernelCall call) {
  Error failure = Error::success();
  (void)!failure;  // else storing an error in it is a mistake
  call.failure = &failure;
  try {
    call.kind->op->kernel(call);
  } catch (const KernelError &) {
    consumeError(std::move(failure));
    return false;
  }
  return !errorToBool(std::move(failure));
}

}  // namespace

const TensorRef *KnownValues::find(Value v) const {
  auto known = values.find({v.node.value, v.index});
  return known == values.end() ? nullptr : &known->second->view;
}

std::optional<int64_t> KnownValues::count(Value v) const {
  const TensorRef *known = find(v);
  if (!known || known->size() != 1 || known->dtype != DType::Int64) return std::nullopt;
  return *known->as<int64_t>();
}

std::optional<bool> KnownValues::truth(Value v) const {
  const TensorRef *known = find(v);
  if (!known || known->size() != 1) return std::nullopt;
  return isTrue(*known);
}

KnownValues::Tensor &KnownValues::make(Value v, DType dtype, Dims dims) {
  auto made = std::make_unique<Tensor>();
  made->dims.assign(dims.begin(), dims.end());
  made->view = TensorRef(nullptr, dtype, made->dims);
  made->bytes.resize(std::max<size_t>(made->view.bytes(), 1));
  made->view.data = made->bytes.data();
  std::unique_ptr<Tensor> &place = values[{v.node.value, v.index}];
  place = std::move(made);
  return *place;
}

void KnownValues::add(Value v, int64_t number) { *make(v, DType::Int64, {1}).view.as<int64_t>() = number; }

void KnownValues::add(const GraphBuilder &builder, NodeId node, const Graph &graph, NodeId n,
                      const Inference *inference) {
  if (!inference || !isComputable(graph.kind(n))) return;
  SmallVector<TensorRef, 4> in, out;
  // The kernel is called directly, so it must not need its operands widened.
  const NodeKind &kind = graph.kind(n);
  for (Value v : builder.inputs(node)) {
    const TensorRef *known = find(v);
    if (!known || kernelInputType(kind, in.size(), known->dtype) != known->dtype) return;
    in.push_back(*known);
  }
  const uint32_t first = graph.firstEntry(n).value;
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
    const int64_t elements = inference->elements(EntryId(first + o));
    const DType type = inference->dtype[EntryId(first + o)];
    if (elements < 0 || elements > kMostElements || type == DType::Unknown) return;
    if (kernelOutputType(kind, type) != type) return;
  }
  const DType computed = in.empty() ? inference->dtype[EntryId(first)] : in[0].dtype;
  if (!graph.op(n)->kernelTypes.contains(computed)) return;
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
    const EntryId e(first + o);
    out.push_back(make(Value{node, static_cast<uint16_t>(o)}, inference->dtype[e], inference->shapeOf(e).dims()).view);
  }
  SmallVector<Request, 4> requests;
  for (const TensorRef &to : out) requests.push_back(to.size() ? Request::Write : Request::Null);
  KernelCall call;
  call.kind = &graph.kind(n);
  call.in = in, call.out = out, call.requests = requests;
  if (!succeeds(call))
    for (uint32_t o = 0; o < out.size(); ++o) values.erase({node.value, o});
}

}  // namespace gradc
