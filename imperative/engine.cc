// Tested by tests/imperative/imperative_test.cc
#include "imperative/engine.h"

#include "imperative/tape/function_op.h"
#include "imperative/tape/tape_shapes.h"

#include "runtime/executor/bindings.h"

#include "llvm/ADT/Hashing.h"

using namespace llvm;

namespace gradc {

size_t Scratch::heapBytes() const {
  return heapBlock(sizeof(Scratch)) + collected.heapBytes() + heapBlock(recorded.sums.getMemorySize()) +
         heapBlock(recorded.taken.getMemorySize()) + heapBlock(listed.getMemorySize()) +
         host.missing.getBitCapacity() / 8 +
         heapBytesOf(request.wrt, request.retained, request.noGrad, request.taps, request.types, ys, heads, marks) +
         heapBytesOf(memory, results, key, recorded.values, recorded.origins, recorded.versions, recorded.isDelivered) +
         heapBytesOf(recorded.inputs, recorded.outputs) +
         heapBytesOf(host.taps, host.nodes, host.marks, host.states, host.heads, host.values, host.callbacks,
                     host.resultOf, host.late);
}

void Scratch::clear() {
  request.clear();
  ys.clear();
  heads.clear();
  marks.clear();
  results.clear();
  listed.clear();
  key.clear();
}

Engine::~Engine() {
  if (workspace) release(workspace);
}

Expected<OperandType> Engine::typeOf(Dims dims, DType dtype) {
  store.shapes.sweep();
  const std::optional<ShapeId> shape = is_contained(dims, kUnknownDim) ? std::nullopt : store.shapes.intern(dims);
  if (!shape || dtypeBytes(dtype) == 0)
    return Failure(ErrorKind::BadAttribute, "no tensor is " + describeTensor(ShapeRef(dims), dtype) +
                                                ": expected a type and dimensions from 0, at most 2^48 elements");
  return OperandType{*shape, dtype};
}

Expected<Tensor> Engine::makeTensor(OperandType type, Storage *storage, bool isShapeOnly) {
  const Dims dims = store.shapes[type.shape].dims();
  const size_t bytes = TensorRef(nullptr, type.dtype, dims).bytes();
  if (!storage && !isShapeOnly) storage = store.allocateStorage(bytes);
  void *const block = storage || isShapeOnly ? store.allocate(sizeof(TensorImpl)) : nullptr;
  if (!block) {
    if (storage) release(storage);
    return Failure(ErrorKind::TooLarge, "no memory for the " + Twine(bytes) + " bytes of a tensor");
  }
  TapeShapes::retain(dims.data());
  return Tensor::adopt(new (block) TensorImpl{.dtype = type.dtype,
                                              .shape = type.shape,
                                              .rank = static_cast<uint32_t>(dims.size()),
                                              .dims = dims.data(),
                                              .store = &store,
                                              .storage = storage});
}

Error Engine::checkOwn(Tensors list, const Twine &what) const {
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i]) return Failure(ErrorKind::BadType, what + " " + Twine(i + 1) + " is missing");
    if (list[i].get()->store != &store)
      return Failure(ErrorKind::ForeignEntry,
                     what + " " + Twine(i + 1) + ", " + describe(*list[i].get()) + ", belongs to another Imperative");
  }
  return Error::success();
}

Error Engine::checkOwn(const KindRow *kind) const {
  if (!kind) return Failure(ErrorKind::ForeignEntry, "there is no kind to call");
  if (kind->store == &store) return Error::success();
  return Failure(ErrorKind::ForeignEntry, "the kind to call belongs to another Imperative");
}

Expected<Mark *> Engine::markOf(TensorImpl &impl) {
  if (!impl.mark) {
    void *const block = store.allocate(sizeof(Mark));
    if (!block) return Failure(ErrorKind::TooLarge, "no memory for the mark of " + describe(impl));
    impl.mark =
        new (block) Mark{.dtype = impl.dtype, .shape = impl.shape, .dims = impl.dims, .store = &store, .name = {}};
    TapeShapes::retain(impl.dims);
  }
  return impl.mark;
}

Edge edgeOf(TensorImpl &impl, uint8_t mask) {
  const uint32_t version = impl.storage ? impl.storage->version.load(std::memory_order_relaxed) : 0;
  if ((impl.tracked & mask) != 0) {
    if (impl.producer) {
      retain(impl.producer);
      return Edge::node(impl.producer, Edge::Kind::Node, impl.output, version);
    }
    retain(impl.mark);
    return Edge::mark(impl.mark, Edge::Kind::Leaf, version);
  }
  if (isDerived(impl)) {
    retain(impl.producer);
    return Edge::node(impl.producer, Edge::Kind::Derived, impl.output, version);
  }
  if (!impl.storage) return Edge::shape();
  retain(impl.mark);
  return Edge::mark(impl.mark, Edge::Kind::Untracked, version);
}

Error Engine::makeMarks(Tensors inputs, uint8_t mask) {
  for (const Tensor &input : inputs) {
    TensorImpl &impl = *input.get();
    if (impl.mark || !impl.storage || (impl.tracked & mask) || gradc::isDerived(impl)) continue;
    if (Expected<Mark *> mark = markOf(impl); !mark) return mark.takeError();
  }
  return Error::success();
}

KindRow *Engine::kindOf(const OpDef &op, Kind &known) {
  if (!known) known = Kind(signatures.row(cantFail(ctx.kind(op, Attrs()))));
  return known.get();
}

Expected<KindRow *> Engine::functionKind(const OpDef &op, StringRef name, size_t numArgs, size_t numOutputs) {
  // DenseMap reserves two values.
  const uint64_t hash = static_cast<size_t>(hash_combine(&op, name, numArgs, numOutputs)) >> 2;
  if (const auto at = functionKinds.find(hash); at != functionKinds.end())
    for (const Kind &known : at->second) {
      const NodeKind &kind = *known.get()->kind;
      if (kind.op == &op && kind.spelling == name && kind.numInputs == numArgs && kind.numOutputs == numOutputs)
        return known.get();
    }
  const std::string args = std::to_string(numArgs), outputs = std::to_string(numOutputs);
  Expected<KindRef> kind =
      ctx.kind(op, ctx.attrs(ArrayRef<AttrText>{{"num_args", args}, {"num_outputs", outputs}}), name);
  if (!kind) return kind.takeError();
  constexpr size_t kMostFunctions = 1024;  // names that the host makes up do not stay for good
  if (functionKinds.size() >= kMostFunctions) functionKinds.clear();
  SmallVector<Kind, 1> &list = functionKinds[hash];
  list.push_back(Kind(signatures.row(*kind)));
  return list.back().get();
}

Expected<Tensor> Engine::snapshot(const TensorImpl &impl, uint8_t mask) {
  retain(impl.storage);
  Expected<Tensor> own = makeTensor({impl.shape, impl.dtype}, impl.storage);
  if (!own) return own.takeError();
  TensorImpl &made = *own->get();
  made.producer = impl.producer;
  made.mark = impl.mark;
  made.output = impl.output;
  made.tracked = (impl.tracked & mask) ? impl.tracked : 0;
  made.isDerived = impl.isDerived;
  if (made.producer) retain(made.producer);
  if (made.mark) retain(made.mark);
  return own;
}

Error Engine::growWorkspace(size_t bytes) {
  if (bytes == 0 || (workspace && workspace->bytes >= bytes)) return Error::success();
  Storage *const larger = store.allocateStorage(bytes);
  if (!larger) return Failure(ErrorKind::TooLarge, "no memory for the " + Twine(bytes) + " bytes of a workspace");
  if (workspace) release(workspace);
  workspace = larger;
  return Error::success();
}

Error Engine::checkWritable(const TensorImpl &impl, const Modes &modes, bool isTarget) const {
  if (!(impl.tracked & trackedMask(modes))) return Error::success();
  if (isTarget && impl.producer && options.inplace == InplacePolicy::Rebase) {
    // Others would see the new contents with the old history: a view, or the leaf of which this is one.
    const bool isAlone = static_cast<uint32_t>(impl.storage->owners.load(std::memory_order_relaxed)) == 1;
    if (isAlone && !store.isOverlapped(*impl.storage)) return Error::success();
    return Failure(ErrorKind::InplaceRecorded, describe(impl) +
                                                   " is recorded, shares its memory with another tensor, " +
                                                   "and would be overwritten while recording")
        .note("write into a copy of it");
  }
  return Failure(ErrorKind::InplaceRecorded, describe(impl) + (impl.producer ? " is recorded" : " is tracked") +
                                                 " and would be overwritten while recording")
      .note("write inside NoGradScope, or into a detached tensor");
}

}  // namespace gradc
