// The backward side of functions of the host. Tested by tests/imperative/imperative_function_test.cc
#include "imperative/engine.h"
#include "imperative/inside.h"
#include "imperative/tape/function_call.h"
#include "imperative/tape/function_op.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

/// Whether a value of one shape can be summed down to the other: axes that are missing or have one element are summed
/// over.
bool sumsDownTo(Dims from, Dims to) {
  if (to.size() > from.size()) return false;
  const Dims last = from.take_back(to.size());
  return all_of(zip_equal(last, to),
                [](const auto &pair) { return std::get<0>(pair) == std::get<1>(pair) || std::get<1>(pair) == 1; });
}

/// Brings the gradients that a backward returned into the form that the tape needs.
class Results {
 public:
  Results(Engine &engine, const TapeNode &node, bool isRecording)
      : engine(engine), node(node), recording(isRecording ? Recording::On : Recording::Off) {}

  Error run(MutableArrayRef<Tensor> given, ArrayRef<bool> wanted, MutableArrayRef<Tensor> results) {
    const size_t number = node.signature->numInputs();
    while (given.size() > number && !given.back()) given = given.drop_back();
    if (given.size() != number)
      return Failure(ErrorKind::GradCount, who() + " returned " + Twine(given.size()) + " gradients, expected " +
                                               Twine(number) + ", one per input");
    for (size_t i = 0; i < number; ++i) {
      if (!given[i] || !wanted[i]) continue;
      Expected<Tensor> fitting = fit(given[i], i);
      if (!fitting) return fitting.takeError();
      results[i] = std::move(*fitting);
    }
    return Error::success();
  }

 private:
  std::string who() const { return "function '" + node.signature->handle->spelling.str() + "'"; }
  std::string which(size_t i) const { return "gradient " + std::to_string(i) + " that " + who() + " returned "; }

  Expected<Tensor> fit(const Tensor &gradient, size_t i) {
    const TensorImpl &impl = *gradient.get();
    const OperandType type = node.signature->inputs[i];
    if (impl.store != &engine.store)
      return Failure(ErrorKind::ForeignEntry, which(i) + "belongs to another Imperative");
    if (impl.dtype != type.dtype)
      return Failure(ErrorKind::HeadDType,
                     which(i) + "has type " + dtypeName(impl.dtype) + ", expected " + dtypeName(type.dtype));
    if (impl.shape == type.shape) return gradient;
    const ShapeRef shape = engine.store.shapes[type.shape];
    const OpDef *const sumLike = engine.ctx.ops.find("_sum_like");
    if (!sumLike || !sumsDownTo(impl.shapeDims(), shape.dims()))
      return Failure(ErrorKind::GradShape, which(i) + "has shape " + toString(ShapeRef(impl.shapeDims())) +
                                               ", expected " + toString(shape) + " of input " + Twine(i));
    Expected<Tensor> like = engine.makeTensor(type, nullptr, true);
    if (!like) return like.takeError();
    const Tensor operands[] = {gradient, std::move(*like)};
    Tensor sum;
    KindRow *const kind = engine.kindOf(*sumLike, engine.sumLikeKind);
    if (Error error = engine.call({kind, operands, {recording}, node.site()}, sum)) return error;
    return sum;
  }

  Engine &engine;
  const TapeNode &node;
  const Recording recording;
};

Expected<Tensor> zerosOf(Engine &engine, OperandType type) {
  Expected<Tensor> zeros = engine.makeTensor(type, nullptr);
  if (zeros && zeros->ref().bytes()) std::memset(zeros->ref().data, 0, zeros->ref().bytes());
  return zeros;
}

/// Records what a function that is only once differentiable has computed, as a call without a gradient that reads the
/// operands of the function and of its gradient.
Error recordOnce(Engine &engine, const TapeNode &node, ArrayRef<Tensor> gradients, MutableArrayRef<Tensor> results) {
  std::vector<uint64_t> &key = engine.callKey;
  key.assign({0});
  for (const Tensor &gradient : gradients)
    if (gradient)
      if (Error error = engine.makeMarks(gradient, kTracked)) return error;
  Pooled<KnownOutput> known{PoolAllocator<KnownOutput>(engine.store)};
  Pooled<Edge> edges{PoolAllocator<Edge>(engine.store)};
  key.reserve(1 + gradients.size() + node.numEdges + results.size());  // nothing may fail while edges are held
  known.reserve(results.size());
  edges.reserve(gradients.size() + node.numEdges);
  bool isTracked = false, isByLeaf = false;
  for (const Tensor &gradient : gradients) {
    if (!gradient) continue;
    TensorImpl &impl = *gradient.get();
    key.push_back(keyWord({impl.shape, impl.dtype}, impl.tracked != 0));
    edges.push_back(edgeOf(impl, kTracked));
    isByLeaf |= (impl.tracked & kTrackedByLeaf) != 0;
    isTracked |= impl.tracked != 0;
  }
  for (auto [edge, type] : zip_equal(const_cast<TapeNode &>(node).edges(), node.signature->inputs)) {
    key.push_back(keyWord(type, edge.isTracked() && edge.bits));
    retain(edge);
    edges.push_back(edge);
    isTracked |= edge.isTracked() && edge.bits;
  }
  isByLeaf |= node.isTrackedByLeaf;
  key[0] = formWord(false, edges.size());
  for (const Tensor &result : results) {
    if (!result) continue;
    known.push_back({{result.get()->shape, result.dtype()}});
    key.push_back(keyWord(known.back().type, true));
  }
  auto letGo = [&] {
    for (const Edge &edge : edges) release(edge);
  };
  if (known.empty() || !isTracked) return letGo(), Error::success();
  Expected<KindRow *> kind =
      engine.functionKind(kOnceFunction, node.signature->handle->spelling, edges.size(), known.size());
  if (!kind) return letGo(), kind.takeError();
  Expected<Signature *> signature = engine.signatures.find(**kind, key, known);
  if (!signature) return letGo(), signature.takeError();
  void *const block = engine.store.allocate(TapeNode::bytes(edges.size(), 0));
  if (!block) return letGo(), Failure(ErrorKind::TooLarge, "no memory to record a function");
  retain(*signature);
  TapeNode *const once = new (block) TapeNode{.numEdges = static_cast<uint32_t>(edges.size()),
                                              .numKept = 0,
                                              .line = node.line,
                                              .file = node.file,
                                              .signature = *signature,
                                              .call = ++engine.numCalls,
                                              .store = &engine.store,
                                              .origin = engine.makeOrigin(node)};
  once->isTrackedByLeaf = isByLeaf;
  llvm::copy(edges, once->edges().begin());
  uint16_t output = 0;
  for (Tensor &result : results) {
    if (!result) continue;
    // A tensor of its own: the host may hold what it returned.
    TensorImpl &was = *result.get();
    retain(was.storage);
    Expected<Tensor> own = engine.makeTensor({was.shape, was.dtype}, was.storage);
    if (!own) return release(once), own.takeError();
    TensorImpl &impl = *own->get();
    retain(once);
    impl.producer = once;
    impl.output = output++;
    impl.tracked = isByLeaf ? kTracked | kTrackedByLeaf : kTracked;
    result = std::move(*own);
  }
  release(once);
  return Error::success();
}

}  // namespace

Error HostRun::runFunction(size_t number, MutableArrayRef<Tensor> gradients,
                           const std::shared_ptr<const bool[]> &wanted, MutableArrayRef<Tensor> results) {
  const TapeNode &node = *scratch.nodes[number];
  const std::shared_ptr<FunctionCall> call = functionCallOf(*stateOf(number));
  if (call->materializes)
    for (auto [gradient, output] : zip_equal(gradients, node.signature->outputs)) {
      if (gradient) continue;
      Expected<Tensor> zeros = zerosOf(engine, output.type);
      if (!zeros) return zeros.takeError();
      gradient = std::move(*zeros);
    }
  const bool isRecorded = isRecording && !call->function->isOnceDifferentiable;
  std::optional<Expected<TensorList>> given;
  {
    Inside inside(*this, isRecorded);
    given.emplace(call->function->backward(FunctionContext(call, wanted), gradients));
  }
  if (!*given) return given->takeError();
  if (Error error = Results(engine, node, isRecorded).run(**given, ArrayRef(wanted.get(), results.size()), results))
    return error;
  return isRecording && !isRecorded ? recordOnce(engine, node, gradients, results) : Error::success();
}

}  // namespace gradc
