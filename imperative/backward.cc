// Backward: collect what the ys lead to, find or compile the plan for that structure, run it, bring the gradients to their
// marks, clear what was collected. Until gradients are brought nothing of the user's has changed (RET-05).
// Tested by tests/imperative_test.cc
#include "imperative/replay.h"

#include "runtime/bindings.h"
#include "runtime/elements.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

/// What backward and grad have in common.
struct Asked {
  Tensors ys, heads;
  bool retains = false, createGraph = false;
  bool isLenient = false;
};

class Run {
 public:
  Run(Engine &engine, const Asked &asked, StoreLock &lock)
      : engine(engine), asked(asked), host(engine, lock, asked.createGraph) {
    if (engine.spare.empty()) engine.spare.push_back(std::make_unique<Scratch>());
    scratch = std::move(engine.spare.back());
    engine.spare.pop_back();
  }
  ~Run() {
    for (TapeNode *node : held) release(node);
    for (Mark *mark : heldMarks) release(mark);
    scratch->clear();
    engine.spare.push_back(std::move(scratch));
  }

  std::unique_ptr<Scratch> scratch;

  Error checkHeads() {
    if (asked.ys.empty()) return Failure(ErrorKind::MissingAttr, "no tensor to differentiate (ys): the list is empty");
    if (Error error = engine.checkOwn(asked.ys, "y")) return error;
    if (!asked.heads.empty() && asked.heads.size() != asked.ys.size())
      return Failure(ErrorKind::HeadCount, Twine(asked.ys.size()) + " ys have " + Twine(asked.heads.size()) +
                                               " head gradients: give one per y, no tensor for a gap");
    for (size_t i = 0; i < asked.ys.size(); ++i) {
      const TapeValue y = TapeValue::of(*asked.ys[i].get());
      if (!asked.heads.empty() && asked.heads[i])
        if (Error error = checkHead(i)) return error;
      if (!y.isTracked()) continue;
      scratch->ys.push_back(y);
      scratch->heads.push_back(asked.heads.empty() ? Tensor() : asked.heads[i]);
    }
    if (!scratch->ys.empty()) return Error::success();
    std::string names;
    for (const Tensor &y : asked.ys) names += (names.empty() ? "" : ", ") + Engine::describe(*y.get());
    if (asked.ys.size() > 1) return Failure(ErrorKind::NoLiveOutput, "no y carries gradient: " + names);
    return Failure(ErrorKind::NoGraph, names + " was not computed from a tracked tensor while that was recorded")
        .note("mark its leaves with requireGrad, or with attachGrad and record inside RecordScope")
        .note("where its history is gone because of an earlier backward, retain on that call");
  }

  Error collect() {
    auto describe = [&](const TapeNode &node) { return engine.describe(node); };
    if (Error error = scratch->collected.collect(scratch->ys, ++engine.epoch, asked.isLenient, describe)) return error;
    for (auto [i, y] : enumerate(scratch->ys))
      scratch->request.heads.push_back({scratch->collected.word(y), static_cast<bool>(scratch->heads[i])});
    listTaps();
    return Error::success();
  }

  Error finish() { return host.finish(); }

  /// Leaves the gradients in Scratch::results.
  Error run() {
    scratch->request.encode(scratch->key);
    scratch->collected.encode(scratch->key);
    Expected<std::shared_ptr<Plan>> plan = findPlan(scratch->key);
    if (!plan) return plan.takeError();
    const ReplayRequest replayed{engine, **plan, *scratch, asked.retains, host.numTaps() ? &host : nullptr};
    (*plan)->isLeased = true;
    const auto endLease = make_scope_exit([&] { (*plan)->isLeased = false; });
    if (asked.createGraph) return replayRecorded(replayed);
    bool hasReleased = false;
    Error error = replay(replayed, hasReleased);
    if (error && hasReleased) markReleased();
    return error;
  }

  /// RET-01, RET-04. In the order of the calls, so that each node is still held by a later one or by a y.
  void clearHistory() {
    if (asked.retains) return;
    for (TapeNode *node : scratch->collected.nodes()) {
      node->isCleared = true;
      clear(*node, asked.isLenient);
    }
  }

 private:
  static bool hasHooks(const Mark &mark) {
    return mark.hooks && !static_cast<const HookList *>(mark.hooks->releaseUser)->isEmpty();
  }

  /// Code of the host may let go of the tape.
  void listTaps() {
    auto add = [&](const TapeValue &value, const Mark &mark, const Twine &name) {
      scratch->request.taps.push_back(scratch->collected.word(value));
      host.addTap(mark, name.str());
    };
    for (Mark *mark : scratch->collected.leaves())
      if (hasHooks(*mark))
        add({nullptr, 0, mark, {}}, *mark, mark->name.empty() ? "a leaf" : "tensor '" + Twine(mark->name) + "'");
    for (TapeNode *node : scratch->collected.nodes())
      for (RetainedMark *retained = node->retained; retained; retained = retained->next)
        if (hasHooks(*retained->mark))
          add({node, retained->output, nullptr, {}}, *retained->mark,
              "output " + Twine(retained->output) + " of " + engine.describe(*node));
    if (scratch->request.taps.empty()) return;
    for (TapeNode *node : scratch->collected.nodes()) {
      retain(node);
      held.push_back(node);
    }
    for (Mark *mark : scratch->collected.leaves()) {
      retain(mark);
      heldMarks.push_back(mark);
    }
  }

  Error checkHead(size_t i) {
    const TensorImpl &head = *asked.heads[i].get(), &y = *asked.ys[i].get();
    if (Error error = engine.checkOwn(asked.heads[i], "head gradient")) return error;
    const std::string which = ("head gradient " + Twine(i + 1) + " of " + Engine::describe(y)).str();
    if (head.shape != y.shape)
      return Failure(ErrorKind::HeadShape, which + " has shape " + toString(ShapeRef(head.shapeDims())) +
                                               ", expected " + toString(ShapeRef(y.shapeDims())));
    if (head.dtype != y.dtype)
      return Failure(ErrorKind::HeadDType,
                     which + " has type " + dtypeName(head.dtype) + ", expected " + dtypeName(y.dtype));
    return Error::success();
  }

  /// One that nobody runs at the moment: a backward inside a hook of one of the same structure gets a plan of its own.
  Expected<std::shared_ptr<Plan>> findPlan(ArrayRef<uint32_t> key) {
    std::shared_ptr<Plan> plan = engine.plans.find(key);
    if (plan) return plan;
    Expected<std::unique_ptr<Plan>> made =
        compileBackward(engine.ctx, engine.store.shapes, scratch->collected, scratch->request,
                        {engine.options.backend, engine.options.threads});
    if (!made) return made.takeError();
    (*made)->key.assign(key.begin(), key.end());
    plan = std::move(*made);
    engine.plans.insert(plan);
    return plan;
  }

  /// What lost values cannot be differentiated again.
  void markReleased() {
    for (TapeNode *node : scratch->collected.nodes())
      for (const Kept &kept : node->kept()) node->isCleared |= !kept.storage;
  }

  Engine &engine;
  const Asked &asked;
  HostRun host;
  std::vector<TapeNode *> held;  // while hooks run
  std::vector<Mark *> heldMarks;
};

std::string position(size_t i, const Tensor &x) {
  return ("x number " + Twine(i + 1) + ", " + Engine::describe(*x.get())).str();
}

Error checkTarget(const Tensor &x, size_t i) {
  if (TapeValue::of(*x.get()).isTracked()) return Error::success();
  return Failure(ErrorKind::NotRequiresGrad, position(i, x) + ", carries no gradient: it is not tracked")
      .note("mark it with requireGrad or attachGrad before it is used");
}

}  // namespace

Error Imperative::backward(Tensors ys, const BackwardOptions &options) {
  StoreLock lock(engine->store);
  Asked asked{ys, options.heads, options.retain.value_or(options.createGraph), options.createGraph,
              options.secondBackward == SecondBackward::Lenient};
  Run run(*engine, asked, lock);
  if (options.inputs && options.inputs->empty())
    return Failure(ErrorKind::EmptyXs, "no tensor to differentiate with respect to (inputs): the list is empty");
  if (Error error = run.checkHeads()) return error;
  if (Error error = run.collect()) return error;
  BackwardRequest &request = run.scratch->request;
  Collected &collected = run.scratch->collected;
  request.headPolicy = options.headPolicy;
  request.duplicates = options.duplicates;
  std::vector<Mark *> &marks = run.scratch->marks;
  auto ask = [&](std::vector<uint32_t> &list, const TapeValue &value, Mark *mark) {
    list.push_back(collected.word(value));
    request.types.push_back(value.type);
    marks.push_back(mark);
  };
  if (options.inputs) {
    if (Error error = engine->checkOwn(*options.inputs, "input")) return error;
    SmallPtrSet<Mark *, 16> listed;
    for (size_t i = 0; i < options.inputs->size(); ++i) {
      const Tensor &x = (*options.inputs)[i];
      if (Error error = checkTarget(x, i)) return error;
      Expected<Mark *> mark = engine->markOf(*x.get());
      if (!mark) return mark.takeError();
      if (!listed.insert(*mark).second) continue;  // TA-14
      if (!(*mark)->isMarked) (*mark)->request = Request::Add;
      ask(request.wrt, TapeValue::of(*x.get()), *mark);
    }
  } else {
    for (Mark *mark : collected.leaves())
      if (mark->isMarked && mark->request != Request::Null)
        ask(request.wrt, {nullptr, 0, mark, {mark->shape, mark->dtype}}, mark);
    for (TapeNode *node : collected.nodes())
      for (RetainedMark *retained = node->retained; retained; retained = retained->next)
        if (retained->mark->isMarked && retained->mark->request != Request::Null &&
            retained->mark->refs.load(std::memory_order_relaxed) > 1)
          ask(request.retained, {node, retained->output, nullptr, node->signature->outputs[retained->output].type},
              retained->mark);
    if (marks.empty())
      return Failure(ErrorKind::NoInputs, "no tensor that the ys lead to asks for a gradient: every request is 'null'");
  }
  if (Error error = run.run()) return error;
  for (auto [mark, gradient] : zip_equal(marks, run.scratch->results))
    if (gradient)
      if (Error error = engine->deliver(*mark, std::move(gradient), options.createGraph)) return error;
  run.clearHistory();
  return run.finish();
}

Expected<std::vector<Tensor>> Imperative::grad(Tensors ys, Tensors xs, const GradOptions &options) {
  StoreLock lock(engine->store);
  if (!options.onlyInputs)
    return Failure(ErrorKind::UnsupportedOption,
                   "onlyInputs = false, gradients of other leaves besides, is not offered");
  Asked asked{ys, options.heads, options.retain.value_or(options.createGraph), options.createGraph,
              options.secondBackward == SecondBackward::Lenient};
  if (xs.empty())
    return Failure(ErrorKind::EmptyXs, "no tensor to differentiate with respect to (xs): the list is empty");
  if (Error error = engine->checkOwn(xs, "x")) return error;
  if (Error error = engine->checkOwn(options.noGrad, "member of noGrad")) return error;
  for (size_t i = 0; i < xs.size(); ++i)
    if (Error error = checkTarget(xs[i], i)) return error;
  Run run(*engine, asked, lock);
  if (Error error = run.checkHeads()) return error;
  if (Error error = run.collect()) return error;
  BackwardRequest &request = run.scratch->request;
  Collected &collected = run.scratch->collected;
  request.headPolicy = options.headPolicy;
  request.duplicates = options.duplicates;
  request.unused = options.unused;
  for (const Tensor &x : xs) {
    const TapeValue value = TapeValue::of(*x.get());
    request.wrt.push_back(collected.word(value));
    request.types.push_back(value.type);
  }
  for (const Tensor &x : options.noGrad)
    if (const TapeValue value = TapeValue::of(*x.get()); collected.contains(value))
      request.noGrad.push_back(collected.word(value));
  if (Error error = run.run()) return error;
  run.clearHistory();
  if (Error error = run.finish()) return error;
  return std::move(run.scratch->results);
}

namespace {

/// Memory of the host, or that others see under another tensor or keep for a gradient.
bool isShared(const TensorImpl &impl) { return impl.storage->refs.load(std::memory_order_relaxed) > 1; }

/// The tensor stays, its memory is another.
void swapMemory(TensorImpl &to, TensorImpl &from) {
  from.storage->version.store(to.storage->version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::swap(to.storage, from.storage);
}

void countWrite(TensorImpl &impl, uint64_t call) { impl.storage->countWrite(Storage::kNoWriter, call); }

}  // namespace

// REQ-04: `add` is computed in full, then added once. Memory that others see is not written, unless it is the caller's own.
Error Engine::deliver(Mark &mark, Tensor gradient, bool isRecorded) {
  mark.isFresh = true;
  TensorImpl *const old = mark.grad;
  const bool isAdd = mark.request == Request::Add && old;
  if (isRecorded && isAdd) {
    const KindRef add = cantFail(ctx.kind(*ctx.ops.wellKnown.add, Attrs()));
    const Tensor operands[] = {Tensor::share(old), gradient};
    CallRequest call{signatures.kindId(add), operands, {Recording::On}};
    Tensor sum;
    if (Error error = this->call(call, sum)) return error;
    gradient = std::move(sum);
  }
  TensorImpl &now = *gradient.get();
  if (old && mark.isCallersBuffer) {
    if (isAdd && !isRecorded) addElements(now.ref(), old->ref());
    else if (old->storage->bytes) std::memcpy(old->storage->data, now.storage->data, old->storage->bytes);
    countWrite(*old, numCalls);
    return Error::success();
  }
  if (!old || isRecorded || old->producer) {
    if (isAdd && !isRecorded) addElements(old->ref(), now.ref());
    if (old) release(old);
    mark.grad = gradient.take();
    return Error::success();
  }
  if (isAdd && !isShared(*old)) {
    addElements(now.ref(), old->ref());
    countWrite(*old, numCalls);
    return Error::success();
  }
  if (isAdd) addElements(old->ref(), now.ref());
  swapMemory(*old, now);
  return Error::success();
}

}  // namespace gradc
