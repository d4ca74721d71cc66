// Phases of a new signature: infer the outputs, find what the gradient of a single node reads, lay out the operands.
// Kernels are prepared when a signature is used, and dropped when many others were used since.
// Tested by tests/imperative_edges_test.cc
#include "imperative/signature.h"

#include "imperative/function_op.h"
#include "imperative/heap_bytes.h"

#include "ir/graph_builder.h"
#include "ir/widening.h"
#include "passes/gradient/keep_lists.h"
#include "runtime/failures.h"
#include "runtime/instructions.h"
#include "runtime/kernels/table.h"
#include "runtime/kernels/threads.h"
#include "runtime/kernels/widened_kernel.h"

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
  Maker(Context &context, ShapeTable &shapes, const SignatureOptions &options, Signature &signature)
      : ctx(context), shapes(shapes), options(options), signature(signature) {}

  Error run(ArrayRef<KnownOutput> known) {
    const NodeKind &kind = *signature.handle;
    signature.numVisible = kind.numVisible;
    signature.isRandom = kind.draws || kind.drawsInside;
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

  KeepQuestion question() const {
    KeepQuestion question;
    question.options.inference = &single.inference;
    question.options.isTraining = signature.isTraining;
    question.options.integers = options.integers;
    question.isAnyOrder = signature.handle->flow;
    question.isRecorded = true;
    for (uint32_t i = 0; i < signature.numInputs(); ++i)
      if (isWanted(i)) question.wanted.push_back(i);
    return question;
  }

  /// A call cannot be made again with more outputs, so those that gradients of any order read are there from the start.
  Error yieldSaved() {
    while (true) {
      Expected<KindRef> saving = savingKind(ctx, single.node, question());
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
    Expected<KeepList> list = keepListOf(ctx, single.node, question());
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
      if (!kind.isIgnored(i)) signature.kept.push_back(i);
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
  ShapeTable &shapes;
  const SignatureOptions &options;
  Signature &signature;
  SingleCall single;
};

}  // namespace

KindId SignatureTable::kindId(const KindRef &kind) {
  if (const auto at = numbers.find(kind.get()); at != numbers.end()) return KindId(at->second);
  rows.emplace_back().kind = kind;
  const uint32_t id = static_cast<uint32_t>(rows.size() - 1);
  numbers.try_emplace(kind.get(), id);
  return KindId(id);
}

Expected<Signature *> SignatureTable::findSlow(KindId kind, ArrayRef<uint64_t> key, ArrayRef<KnownOutput> known) {
  // DenseMap reserves two values.
  const uint64_t hash = static_cast<size_t>(hash_combine(kind.value, hash_combine_range(key.begin(), key.end()))) >> 2;
  SmallVector<Signature *, 1> &list = byHash[hash];
  for (Signature *signature : list)
    if (signature->kind == kind && ArrayRef(signature->key) == key) return signature;
  Expected<std::unique_ptr<Signature>> made =
      catching("to prepare an operator", [&] { return make(kind, key, known); });
  if (!made) return made.takeError();
  all.push_back(std::move(*made));
  list.push_back(all.back().get());
  return list.back();
}

Expected<std::unique_ptr<Signature>> SignatureTable::make(KindId kind, ArrayRef<uint64_t> key,
                                                          ArrayRef<KnownOutput> known) {
  const KindRef &handle = rows[kind.value].kind;
  const size_t numInputs = key[0] >> 1;
  if (handle->numInputs != NodeKind::kAnyInputs && handle->numInputs != numInputs)
    return Failure(ErrorKind::Arity, "operator '" + handle->spelling + "' takes " + Twine(handle->numInputs) +
                                         (handle->numInputs == 1 ? " input" : " inputs") + ", got " + Twine(numInputs));
  auto signature = std::make_unique<Signature>();
  signature->id = static_cast<uint32_t>(all.size());
  signature->kind = kind;
  signature->handle = signature->called = handle;
  signature->key.assign(key.begin(), key.end());
  signature->isTraining = key[0] & 1;
  if (Error error = Maker(ctx, shapes, options, *signature).run(known)) return error;
  return signature;
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

// A shape: its row, its dimensions, and an entry of a table of strings.
constexpr size_t kShapeBytes = 40 + 16 + heapBlock(32) + 24;

size_t SignatureTable::heapBytes() const {
  size_t bytes = heapBytesOf(all, rows, prepared), numShapes = 1;
  bytes += heapBlock(byHash.getMemorySize());
  for (const std::unique_ptr<Signature> &s : all) {
    bytes += heapBlock(sizeof(Signature)) +
             heapBytesOf(s->key, s->outputs, s->inputs, s->kept, s->mutated, s->operands, s->requests);
    for (const OperandType &input : s->inputs) numShapes = std::max<size_t>(numShapes, input.shape.value + 1);
    for (const Signature::Output &output : s->outputs)
      numShapes = std::max<size_t>(numShapes, output.type.shape.value + 1);
  }
  return bytes + numShapes * kShapeBytes;
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
