// Phases of a new signature: infer the outputs, find what the gradient of a single node reads, lay out the operands.
// Kernels are prepared when a signature is used, and dropped when many others were used since.
// Tested by tests/imperative/imperative_edges_test.cc
#include "imperative/tape/signature.h"

#include "imperative/tape/function_op.h"
#include "imperative/tape/tape_shapes.h"

#include "imperative/tape/storage.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/widening.h"
#include "ops/kit/output_reads.h"
#include "passes/gradient/higher_order/keep_lists.h"
#include "runtime/executor/failures.h"
#include "runtime/executor/instruction_list.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/core/widened_kernel.h"
#include "runtime/kernels/table.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr uint64_t kTrackedBit = uint64_t{1} << 40;

OperandType typeOf(uint64_t word) {
  return {ShapeId(static_cast<uint32_t>(word)), static_cast<DType>(static_cast<int8_t>(word >> 32 & 0xff))};
}

/// The input whose bytes an output has under another shape, or -1. Only the copy operator itself makes a copy.
int32_t sharedInput(const Context &ctx, const Signature &signature, uint32_t output) {
  const OpDef &op = *signature.handle->op;
  if (&op == ctx.ops.wellKnown.copy || op.flags.isBackward || op.flags.isStateful) return -1;
  for (const InplacePair &pair : op.inplace) {
    if (!pair.isIdentity || pair.output != output || pair.input >= signature.numInputs()) continue;
    if (signature.inputs[pair.input].dtype == signature.outputs[output].type.dtype)
      return static_cast<int32_t>(pair.input);
  }
  return -1;
}

class Maker {
 public:
  Maker(Context &context, TapeShapes &shapes, const SignatureOptions &options, Signature &signature)
      : ctx(context), shapes(shapes), options(options), signature(signature) {}

  Error run(ArrayRef<KnownOutput> known) {
    const NodeKind &kind = *signature.handle;
    signature.numVisible = kind.numVisible;
    signature.isRandom = kind.draws || kind.drawsInBodies;
    signature.isHostCode = isHostCode(*kind.op);
    for (uint64_t word : ArrayRef(signature.key).slice(1, signature.key[0] >> 1)) {
      signature.inputs.push_back(typeOf(word));
      signature.isTracked |= (word & kTrackedBit) != 0;
    }
    for (uint32_t i = 0; i < signature.numInputs(); ++i)
      if (kind.isMutated(i)) signature.mutated.push_back(i);
    const bool isInferred = known.empty() || kind.flow;
    if (isInferred)
      if (Error error = makeSingle()) return error;
    if (kind.flow && signature.isTracked)
      if (Error error = yieldSaved()) return error;
    signature.outputs.resize(signature.handle->numOutputs);
    for (auto [output, of] : zip(signature.outputs, known)) {
      output.type = of.type;
      output.isWanted = of.isWanted;
      output.isRead = of.isRead;
    }
    if (isInferred) takeTypes();
    for (auto [o, output] : enumerate(signature.outputs)) {
      // Hidden outputs too: a recorded gradient may read them, and depends on them.
      output.isTracked = signature.isTracked && output.isWanted && options.carriesGradient(output.type.dtype) &&
                         !kind.op->flags.hasNoGradient;
      output.sharedInput = sharedInput(ctx, signature, static_cast<uint32_t>(o));
    }
    signature.isTracked = any_of(ArrayRef(signature.outputs).take_front(kind.numVisible),
                                 [](const Signature::Output &output) { return output.isTracked; });
    if (signature.isTracked && !signature.isHostCode)
      if (Error error = listKept(!known.empty())) return error;
    return layOut();
  }

 private:
  Error makeSingle() {
    Expected<SingleCall> made = SingleCall::create(ctx, shapes, signature.handle, signature.inputs);
    if (!made) return made.takeError();
    single = std::move(*made);
    return Error::success();
  }

  void takeTypes() {
    for (auto [o, output] : enumerate(signature.outputs)) {
      const EntryId e = single.output(static_cast<uint32_t>(o));
      output.type = {*shapes.intern(single.inference.shapeOf(e).dims()), single.inference.dtype[e]};
    }
  }

  KeepQuery query() const {
    KeepQuery query;
    query.options.inference = &single.inference;
    query.options.isTraining = signature.isTraining;
    query.options.integers = options.integers;
    query.isAnyOrder = signature.handle->flow;
    query.reads = readsInput;
    query.isRecorded = true;
    for (uint32_t i = 0; i < signature.numInputs(); ++i)
      if (isWanted(i)) query.wanted.push_back(i);
    return query;
  }

  /// A call cannot be made again with more outputs, so those that gradients of any order read are there from the start.
  Error yieldSaved() {
    while (true) {
      Expected<KindRef> saving = savingKind(ctx, single.node, query());
      if (!saving) return onlyTooLarge(saving.takeError());
      if (*saving == signature.handle) return Error::success();
      const KindRef before = std::exchange(signature.handle, *saving);
      if (Error error = makeSingle()) {
        signature.handle = before;
        return onlyTooLarge(std::move(error));
      }
    }
  }

  /// An operator without gradient keeps nothing: a request for its gradient is the error.
  Error listKept(bool isKnown) {
    if (isKnown && signature.handle->op->flags.isBackward) return keepAll(), Error::success();
    if (isKnown && !signature.handle->flow)
      if (Error error = makeSingle()) return keepAll(), onlyTooLarge(std::move(error));
    Expected<KeepList> list = keepListOf(ctx, single.node, query());
    if (!list) return onlyTooLarge(list.takeError());
    signature.kept = list->inputs;
    for (uint32_t o : list->outputs) signature.kept.push_back(static_cast<uint32_t>(signature.numInputs()) + o);
    return Error::success();
  }

  bool isWanted(uint32_t i) const {
    const NodeKind &kind = *signature.handle;
    return (signature.key[i + 1] & kTrackedBit) && options.carriesGradient(signature.inputs[i].dtype) &&
           !kind.isStopped(i) && !kind.isMutated(i);
  }

  /// Keeps everything, because what a fused backward operator keeps is known only together with its forward node.
  void keepAll() {
    const NodeKind &kind = *signature.handle;
    for (uint32_t i = 0; i < signature.numInputs(); ++i)
      if (readsInput(kind, i, [&](uint32_t o) { return signature.outputs[o].isWanted; })) signature.kept.push_back(i);
    for (uint32_t o = 0; o < signature.outputs.size(); ++o)
      if (signature.outputs[o].isWanted) signature.kept.push_back(static_cast<uint32_t>(signature.numInputs()) + o);
  }

  Error layOut() {
    const NodeKind &kind = *signature.handle;
    if (!kind.op->kernel && !findFastKernel(*kind.op))
      return Failure(ErrorKind::UnknownOp, "operator '" + kind.spelling + "' has no kernel");
    for (auto [i, type] : enumerate(signature.inputs)) {
      signature.operands.push_back({nullptr, type.dtype, shapes[type.shape].dims()});
      if (kind.isIgnored(i)) continue;
      const DType given = kernelInputType(kind, i, type.dtype);
      if (Error error = checkComputable(kind, type.dtype, given, i == 0, "operator '" + kind.spelling + "'"))
        return error;
    }
    signature.isEmpty = signature.mutated.empty() && !kind.op->flags.isStateful;
    for (auto [o, output] : enumerate(signature.outputs)) {
      const TensorRef ref(nullptr, output.type.dtype, shapes[output.type.shape].dims());
      output.bytes = ref.bytes();
      const KeptOperand operand = static_cast<uint32_t>(signature.numInputs() + o);
      output.hasMemory =
          output.isWanted && (o < kind.numVisible || output.isRead || is_contained(signature.kept, operand));
      const bool isComputed = output.hasMemory && ref.size() != 0 && output.sharedInput < 0;
      signature.requests.push_back(isComputed ? Request::Write : Request::Null);
      signature.operands.push_back(ref);
      if (!isComputed) continue;
      signature.isEmpty = false;
      const DType type = output.type.dtype, given = kernelOutputType(kind, type);
      if (Error error = checkComputable(kind, type, given, o == 0, "operator '" + kind.spelling + "'")) return error;
    }
    signature.call.kind = &kind;
    signature.call.isTraining = signature.isTraining;
    signature.call.in = ArrayRef(signature.operands).take_front(signature.numInputs());
    signature.call.out = ArrayRef(signature.operands).drop_front(signature.numInputs());
    signature.call.requests = signature.requests;
    return Error::success();
  }

  Context &ctx;
  TapeShapes &shapes;
  const SignatureOptions &options;
  Signature &signature;
  SingleCall single;
};

}  // namespace

SignatureTable::~SignatureTable() {
  for (Signature *signature : all) {
    if (!signature) continue;
    signature->fast.reset();  // calls of the tape may hold the rest for longer
    signature->bodies = PreparedBodies();
    release(signature, signature->prepaid + 1);
  }
  for (KindRow *row : rows) {
    row->store = nullptr;
    row->last = nullptr;
    release(row);
  }
}

KindRow *SignatureTable::row(const KindRef &kind) {
  if (const auto at = known.find(kind.get()); at != known.end()) return at->second;
  if (rows.size() >= kindLimit) sweepKinds();
  rows.reserve(rows.size() + 1);
  auto row = std::make_unique<KindRow>();
  row->number = numKinds;
  row->store = &store;
  row->kind = kind;
  known.try_emplace(kind.get(), row.get());
  ++numKinds;
  rows.push_back(row.release());
  return rows.back();
}

const KindRow *SignatureTable::findKind(uint32_t number) const {
  const auto at = llvm::lower_bound(rows, number, [](const KindRow *row, uint32_t n) { return row->number < n; });
  return at != rows.end() && (*at)->number == number ? *at : nullptr;
}

// DenseMap reserves two values.
static uint64_t hashOf(const KindRow &row, ArrayRef<uint64_t> key) {
  return static_cast<size_t>(hash_combine(row.number, hash_combine_range(key.begin(), key.end()))) >> 2;
}

Expected<Signature *> SignatureTable::findSlow(KindRow &row, ArrayRef<uint64_t> key, ArrayRef<KnownOutput> known) {
  const uint64_t hash = hashOf(row, key);
  if (const auto at = byHash.find(hash); at != byHash.end())
    for (Signature *signature : at->second)
      if (signature->kind == &row && ArrayRef(signature->key) == key) return signature;
  return catching("to prepare an operator", [&]() -> Expected<Signature *> {
    if (size() >= signatureLimit) sweepSignatures();
    shapes.sweep();
    SmallVector<Signature *, 1> &list = byHash[hash];
    list.reserve(list.size() + 1);
    if (freeIds.empty()) {
      all.reserve(all.size() + 1);
      freeIds.reserve(all.size() + 1);
    }
    Expected<Signature *> made = make(row, key, known);
    if (!made) {
      if (list.empty()) byHash.erase(hash);
      return made;
    }
    if (freeIds.empty()) {
      freeIds.push_back(static_cast<uint32_t>(all.size()));
      all.push_back(nullptr);
    }
    (*made)->id = freeIds.back();
    freeIds.pop_back();
    all[(*made)->id] = *made;
    list.push_back(*made);
    return made;
  });
}

// Calls and plans that hold a signature have its id in their keys.
void SignatureTable::sweepSignatures() {
  auto isIdle = [](const Signature &s) {
    return !s.isRecent && s.refs.load(std::memory_order_acquire) == s.prepaid + 1;
  };
  llvm::erase_if(prepared, [&](const Signature *signature) { return isIdle(*signature); });
  freeIds.reserve(all.size());
  for (Signature *&signature : all) {
    if (!signature) continue;
    if (!isIdle(*signature)) {
      signature->isRecent = false;
      continue;
    }
    const auto at = byHash.find(hashOf(*signature->kind, signature->key));
    llvm::erase(at->second, signature);
    if (at->second.empty()) byHash.erase(at);
    if (signature->kind->last == signature) signature->kind->last = nullptr;
    freeIds.push_back(signature->id);
    ++dropped;
    Signature *const idle = std::exchange(signature, nullptr);
    release(idle, idle->prepaid + 1);
  }
  signatureLimit = std::max<size_t>(1024, 2 * size());
}

void SignatureTable::sweepKinds() {
  sweepSignatures();
  llvm::erase_if(rows, [&](KindRow *row) {
    if (row->refs.load(std::memory_order_acquire) != 1) return false;
    known.erase(row->kind.get());
    release(row);
    return true;
  });
  kindLimit = std::max<size_t>(1024, 2 * rows.size());
}

Expected<Signature *> SignatureTable::make(KindRow &row, ArrayRef<uint64_t> key, ArrayRef<KnownOutput> known) {
  const KindRef &handle = row.kind;
  const size_t numInputs = key[0] >> 1;
  if (handle->numInputs != NodeKind::kAnyInputs && handle->numInputs != numInputs)
    return Failure(ErrorKind::Arity, "operator '" + handle->spelling + "' takes " + Twine(handle->numInputs) +
                                         (handle->numInputs == 1 ? " input" : " inputs") + ", got " + Twine(numInputs));
  auto signature = std::make_unique<Signature>();
  signature->kind = &row;
  retain(&row);
  signature->handle = signature->called = handle;
  signature->key.assign(key.begin(), key.end());
  signature->isTraining = key[0] & 1;
  if (Error error = Maker(ctx, shapes, options, *signature).run(known)) return error;
  for (const TensorRef &operand : signature->operands) signature->shapes.add(operand.shape.data());
  return signature.release();
}

Error SignatureTable::prepare(Signature &signature) {
  const OpDef &op = *signature.handle->op;
  const auto hasElements = [](const TensorRef &operand) { return operand.size() != 0; };
  const FastKernelRow *row = options.backend == Backend::Reference ? nullptr : findFastKernel(op);
  if (!all_of(signature.operands, hasElements)) row = nullptr;
  const Widening widening(*signature.handle, signature.call.in, signature.call.out, signature.requests);
  if ((row || widening.isNeeded()) && !signature.isEmpty) {
    KernelSite site;
    site.kind = signature.handle.get();
    site.in = signature.call.in;
    site.out = signature.call.out;
    site.requests = signature.requests;
    site.isTraining = signature.isTraining;
    site.threads = options.threads;
    auto makeFast = [&](const KernelSite &inner) { return row ? row->make(inner) : nullptr; };
    auto make = [&]() -> Error {
      withThreads(options.threads, [&] {
        if (widening.isNeeded()) signature.fast = WidenedKernel::create(site, widening, makeFast);
        else signature.fast = row->make(site);
      });
      return Error::success();
    };
    const std::string what = ("to prepare a kernel of operator '" + op.name + "'").str();
    if (Error error = catching(what.c_str(), make)) return error;
  }
  if (!signature.fast && !op.kernel)
    return Failure(ErrorKind::UnknownOp,
                   "operator '" + op.name + "' has no reference kernel, and its fast one is not used here");
  if (signature.fast) signature.workspaceBytes = signature.fast->workspaceBytes();
  else if (op.workspace)
    signature.workspaceBytes = op.workspace(*signature.handle, signature.call.in, signature.call.out);
  if (signature.handle->flow)
    if (Error error = prepareBodies(signature)) return error;
  signature.isPrepared = true;
  if (!signature.fast && signature.bodies.isEmpty()) return Error::success();
  signature.isUsed = true;
  prepared.push_back(&signature);
  evict();
  return Error::success();
}

Error SignatureTable::prepareBodies(Signature &signature) {
  Expected<SingleCall> single = SingleCall::create(ctx, shapes, signature.handle, signature.inputs);
  if (!single) return single.takeError();
  ExecOptions exec;
  exec.backend = options.backend;
  exec.threads = options.threads;
  exec.isTraining = signature.isTraining;
  Expected<PreparedBodies> bodies = PreparedBodies::create(ctx, *single, signature.requests, exec);
  if (!bodies) return bodies.takeError();
  signature.bodies = std::move(*bodies);
  signature.workspaceBytes = signature.bodies.workspaceBytes();
  return Error::success();
}

size_t SignatureTable::heapBytes() const {
  size_t bytes = heapBytesOf(all, freeIds, rows, prepared) + heapBlock(byHash.getMemorySize()) +
                 heapBlock(known.getMemorySize()) + rows.size() * heapBlock(sizeof(KindRow)) + shapes.heapBytes();
  for (const Signature *s : all)
    if (s)
      bytes += heapBlock(sizeof(Signature)) +
               heapBytesOf(s->key, s->outputs, s->inputs, s->kept, s->mutated, s->operands, s->requests, s->shapes);
  return bytes;
}

// The latest one is marked as used and comes last, so the hand comes back to another one first.
void SignatureTable::evict() {
  while (prepared.size() > std::max<size_t>(maxKernels, 1)) {
    hand %= prepared.size();
    Signature *const signature = prepared[hand];
    if (std::exchange(signature->isUsed, false)) {
      ++hand;
      continue;
    }
    signature->fast.reset();
    signature->bodies = PreparedBodies();
    signature->isPrepared = false;
    prepared[hand] = prepared.back();
    prepared.pop_back();
  }
}

}  // namespace gradc
