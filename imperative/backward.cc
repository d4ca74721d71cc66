// Backward: collect the history of the ys, find or compile the plan for its structure, run it, deliver the gradients to
// their marks, clear the history. Until delivery nothing of the user's has changed (RET-05). Tested by
// tests/imperative/imperative_test.cc
#include "imperative/backward.h"

#include "imperative/call.h"
#include "imperative/plans/compile_backward.h"
#include "imperative/plans/deep_stack.h"
#include "imperative/replay.h"
#include "imperative/replay_recorded.h"
#include "imperative/tape/tape_shapes.h"

#include "runtime/executor/bindings.h"
#include "runtime/executor/failures.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

class Run {
 public:
  template <class Options>
  Run(Engine &engine, Tensors ys, const Options &options, StoreLock &lock)
      : scratch(takeScratch(engine)), engine(engine), ys(ys), heads(options.heads),
        retains(options.retain.value_or(options.createGraph)), createGraph(options.createGraph),
        isLenient(options.secondBackward == SecondBackward::Lenient), checksNaN(modesOf(engine.owner).checksNaN),
        host(engine, lock, createGraph, scratch->host) {
    scratch->request.headPolicy = options.headPolicy;
    scratch->request.duplicates = options.duplicates;
    scratch->request.policies = options.policies;
  }
  ~Run() {
    host.end();
    for (const TapeValue &y : scratch->ys)
      if (y.node) release(y.node);
    scratch->clear();
    if (engine.spare.size() < Engine::kMaxSpare) engine.spare.push_back(std::move(scratch));
  }

  std::unique_ptr<Scratch> scratch;

  Error checkHeads() {
    if (ys.empty()) return Failure(ErrorKind::MissingAttr, "no tensor to differentiate (ys): the list is empty");
    if (Error error = engine.checkOwn(ys, "y")) return error;
    if (scratch->request.headPolicy == HeadPolicy::Input)
      return Failure(ErrorKind::UnsupportedOption, "HeadPolicy::Input makes variables of a graph, and a tape has none")
          .note("give head gradients as tensors: HeadPolicy::Required refuses gaps");
    if (!heads.empty() && heads.size() != ys.size())
      return Failure(ErrorKind::HeadCount, Twine(ys.size()) + " ys have " + Twine(heads.size()) +
                                               " head gradients: give one per y, an empty handle for a gap");
    for (size_t i = 0; i < ys.size(); ++i) {
      const TapeValue y = TapeValue::of(*ys[i].get());
      if (!heads.empty() && heads[i])
        if (Error error = checkHead(i)) return error;
      if (!y.isTracked()) continue;
      scratch->ys.push_back(y);
      if (y.node) retain(y.node);  // a y may be a buffer, which gets another history with the gradient
      scratch->heads.push_back(heads.empty() ? Tensor() : heads[i]);
    }
    if (!scratch->ys.empty()) return Error::success();
    std::string names;
    for (const Tensor &y : ys) names += (names.empty() ? "" : ", ") + describe(*y.get());
    if (ys.size() > 1) return Failure(ErrorKind::NoLiveOutput, "no y carries gradient: " + names);
    return Failure(ErrorKind::NoGraph, names + " was not computed from a tracked tensor while that was recorded")
        .note("mark its leaves with requireGrad, or with attachGrad and record inside RecordScope")
        .note("if an earlier backward cleared its history, set `retain` on that call");
  }

  Error collect() {
    if (Error error = scratch->collected.collect(scratch->ys, engine.nextEpoch(), isLenient)) return error;
    for (auto [i, y] : enumerate(scratch->ys))
      scratch->request.heads.push_back({scratch->collected.word(y), static_cast<bool>(scratch->heads[i])});
    return Error::success();
  }

  /// Finds the values whose gradients code of the host sees. Scratch::marks must hold the targets of the delivery, if
  /// any.
  void listTaps() {
    std::vector<uint32_t> &resultOf = scratch->host.resultOf;  // by leaf
    resultOf.assign(scratch->collected.leaves().size(), Plan::kNone);
    for (auto [i, mark] : enumerate(scratch->marks))
      if (scratch->collected.isLeaf(*mark)) resultOf[mark->index] = static_cast<uint32_t>(i);
    auto add = [&](const TapeValue &value, Mark &mark) {
      HostScratch::Tap tap{liveHooks(hooksOf(mark).before), nullptr, value, &mark};
      if (value.mark && resultOf[mark.index] != Plan::kNone) tap.after = liveHooks(hooksOf(mark).after);
      if (tap.after) tap.result = resultOf[mark.index];
      if (!tap.before && !tap.after) return;
      scratch->request.taps.push_back(scratch->collected.word(value));
      host.addTap(tap);
    };
    for (Mark *mark : scratch->collected.leaves())
      if (mark->hooks) add({nullptr, 0, mark, {}}, *mark);
    for (TapeNode *node : scratch->collected.nodes()) {
      if (node->signature->isHostCode) host.setHasFunctions();
      for (RetainedMark *retained = node->retained; retained; retained = retained->next)
        if (retained->mark->hooks) add({node, retained->output, nullptr, {}}, *retained->mark);
    }
    if (host.isNeeded()) host.retainAll(scratch->collected, scratch->marks, scratch->heads);
  }

  /// Delivers the gradients to their marks; until then nothing has changed.
  Error deliver() {
    if (createGraph)
      if (Error error = addRecorded()) return error;
    scratch->host.late.reserve(scratch->marks.size());
    if (createGraph) engine.recordedGradients.reserve(scratch->marks.size());
    for (auto [i, mark, gradient] : enumerate(scratch->marks, scratch->results)) {
      if (!gradient) continue;
      gradc::deliver(engine, *mark, std::move(gradient), createGraph);
      if (mark->hooks && liveHooks(hooksOf(*mark).after)) scratch->host.late.push_back(static_cast<uint32_t>(i));
    }
    return Error::success();
  }

  Error finish() {
    // Gradients that are zero for any values on the tape pass no tap.
    for (const HostScratch::Tap &tap : scratch->host.taps)
      if (llvm::binary_search(scratch->host.late, tap.result))
        if (Error error = host.runHooksAfter(tap)) return error;
    return host.finish();
  }

  /// Leaves the gradients in Scratch::results.
  Error run() {
    scratch->request.encode(scratch->key);
    scratch->collected.encode(scratch->key);
    Expected<std::shared_ptr<Plan>> plan = findPlan(scratch->key);
    if (!plan) return plan.takeError();
    const ReplayRequest replayed{engine,    **plan,        *scratch, retains, host.isNeeded() ? &host : nullptr,
                                 checksNaN, scratch->marks};
    if (createGraph && (*plan)->isZeros.any()) zeros = (*plan)->isZeros;
    engine.plans.lease(**plan);
    const auto endLease = make_scope_exit([&] { engine.plans.giveBack(**plan); });
    if (createGraph) return replayRecorded(replayed);
    bool hasReleased = false;
    Error error = replay(replayed, hasReleased);
    if (error && hasReleased) markReleased();
    return error;
  }

  /// Applies P-04 to gradients that functions of the host did not return. Zeros of a recorded gradient are tracked.
  Error fillMissing(Tensors xs, UnusedPolicy unused) {
    for (auto [i, gradient] : enumerate(scratch->results)) {
      if (unused == UnusedPolicy::None) continue;
      if (gradient) {
        // Zeros are unrecorded, or were recorded by an earlier call.
        const bool isConstant = createGraph && isZeros(i) && !gradient.get()->tracked;
        if (!isConstant) continue;
      } else if (!host.hasFunctionsAtAll()) {
        continue;
      } else if (unused == UnusedPolicy::Error) {
        return Failure(ErrorKind::Unreachable, "x number " + Twine(i + 1) + ", " + describe(*xs[i].get()) +
                                                   ", gets no gradient: the functions it leads to gave none")
            .note("request None or Zeros for unused xs");
      }
      Expected<Tensor> zeros = createGraph ? trackedZeros(xs[i]) : makeZeros(scratch->request.types[i]);
      if (!zeros) return zeros.takeError();
      gradient = std::move(*zeros);
    }
    return Error::success();
  }

  /// RET-01, RET-04. In the order of the calls, so that each node is still held by a later one or by a y.
  void clearHistory() {
    if (retains) return;
    for (TapeNode *node : scratch->collected.nodes()) {
      node->isCleared = true;
      clear(*node, isLenient);
    }
  }

 private:
  static std::unique_ptr<Scratch> takeScratch(Engine &engine) {
    if (engine.spare.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(engine.spare.back());
    engine.spare.pop_back();
    return scratch;
  }

  /// Whether a result is zeros, whatever the values.
  bool isZeros(size_t result) const { return result < zeros.size() && zeros[static_cast<unsigned>(result)]; }

  /// Zeros that x has nothing to do with, but which have a history, so that the next order of gradients is zero as well
  /// (HO-08).
  Expected<Tensor> trackedZeros(const Tensor &x) {
    const CallRequest request{
        engine.kindOf(*engine.ctx.ops.wellKnown.zerosLike, engine.zerosLikeKind), x, {Recording::On}};
    Tensor zeros;
    if (Error error = runCall(engine, request, zeros)) return error;
    return zeros;
  }

  Expected<Tensor> makeZeros(OperandType type) {
    Expected<Tensor> made = engine.makeTensor(type, nullptr);
    if (made && made->ref().bytes()) std::memset(made->ref().data, 0, made->ref().bytes());
    return made;
  }

  static const HookList &hooksOf(const Mark &mark) { return *static_cast<const HookList *>(mark.hooks->releaseUser); }

  Error checkHead(size_t i) {
    const TensorImpl &head = *heads[i].get(), &y = *ys[i].get();
    if (Error error = engine.checkOwn(heads[i], "head gradient")) return error;
    const std::string which = ("head gradient " + Twine(i + 1) + " of " + describe(y)).str();
    if (head.shape != y.shape)
      return Failure(ErrorKind::HeadShape, which + " has shape " + toString(ShapeRef(head.shapeDims())) +
                                               ", expected " + toString(ShapeRef(y.shapeDims())));
    if (head.dtype != y.dtype)
      return Failure(ErrorKind::HeadDType,
                     which + " has type " + dtypeName(head.dtype) + ", expected " + dtypeName(y.dtype));
    return Error::success();
  }

  /// A plan that is not running: a backward inside a hook of another one with the same structure gets a plan of its
  /// own.
  Expected<std::shared_ptr<Plan>> findPlan(ArrayRef<uint32_t> key) {
    std::shared_ptr<Plan> plan = engine.plans.find(key, engine.signatures.numDropped());
    if (plan && (plan->source || !createGraph)) return plan;
    Expected<std::unique_ptr<Plan>> made = catching("to compile a backward", [&] {
      return compileBackward(engine.ctx, engine.store.shapes, scratch->collected, scratch->request,
                             engine.signatureOptions(), createGraph);
    });
    if (!made) return made.takeError();
    if (plan) {
      plan->source = std::move((*made)->source);
      engine.plans.grow(*plan, plan->source->heapBytes());
      return plan;
    }
    (*made)->key.assign(key.begin(), key.end());
    (*made)->bytes += heapBytesOf((*made)->key);
    plan = std::move(*made);
    engine.plans.insert(plan);
    return plan;
  }

  /// Replaces recorded gradients with request add by their sums. REQ-09: several may add to one buffer.
  Error addRecorded() {
    DenseMap<const char *, const Tensor *> &sums = scratch->recorded.sums;
    sums.clear();
    for (auto [mark, gradient] : zip_equal(scratch->marks, scratch->results)) {
      if (!gradient) continue;
      Tensor before = Tensor::share(mark->grad);
      const Tensor **sum = before && mark->isCallersBuffer ? &sums[before.get()->storage->data] : nullptr;
      if (sum && *sum) before = **sum;
      if (Error error = gradc::addRecorded(engine, *mark, gradient, before)) return error;
      if (sum) *sum = &gradient;
    }
    return Error::success();
  }

  /// Nodes that lost values cannot be differentiated again.
  void markReleased() {
    for (TapeNode *node : scratch->collected.nodes())
      for (const Kept &kept : node->kept())
        if (!kept.storage) node->isCleared = true;
  }

  Engine &engine;
  const Tensors ys, heads;
  const bool retains, createGraph, isLenient, checksNaN;
  HostRun host;
  BitVector zeros;  // Plan::isZeros
};

std::string position(size_t i, const Tensor &x) {
  return ("x number " + Twine(i + 1) + ", " + describe(*x.get())).str();
}

Error checkTarget(const Tensor &x, size_t i) {
  if (TapeValue::of(*x.get()).isTracked()) return Error::success();
  return Failure(ErrorKind::NotRequiresGrad, position(i, x) + ", carries no gradient: it is not tracked")
      .note("mark it with requireGrad or attachGrad before it is used");
}

Error deliverHere(Engine &engine, Tensors ys, const BackwardOptions &options) {
  StoreLock lock(engine.store);
  Run run(engine, ys, options, lock);
  if (options.inputs && options.inputs->empty())
    return Failure(ErrorKind::EmptyXs, "no tensor to differentiate with respect to (inputs): the list is empty");
  if (Error error = run.checkHeads()) return error;
  if (Error error = run.collect()) return error;
  BackwardRequest &request = run.scratch->request;
  Collected &collected = run.scratch->collected;
  std::vector<Mark *> &marks = run.scratch->marks;
  auto ask = [&](std::vector<uint32_t> &list, const TapeValue &value, Mark *mark) {
    list.push_back(collected.word(value));
    request.types.push_back(value.type);
    marks.push_back(mark);
  };
  if (options.inputs) {
    if (Error error = engine.checkOwn(*options.inputs, "input")) return error;
    for (size_t i = 0; i < options.inputs->size(); ++i) {
      const Tensor &x = (*options.inputs)[i];
      if (Error error = checkTarget(x, i)) return error;
      Expected<Mark *> mark = engine.markOf(*x.get());
      if (!mark) return mark.takeError();
      if (!run.scratch->listed.insert(*mark).second) continue;  // TA-14
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
      return Failure(ErrorKind::NoInputs,
                     "no tensor in the history of the ys requests a gradient: every request is 'null'");
  }
  run.listTaps();
  if (Error error = run.run()) return error;
  if (Error error = run.deliver()) return error;
  run.clearHistory();
  return run.finish();
}

Error computeHere(Engine &engine, Tensors ys, Tensors xs, const GradOptions &options, std::vector<Tensor> &gradients) {
  StoreLock lock(engine.store);
  if (!options.onlyInputs)
    return Failure(ErrorKind::UnsupportedOption, "onlyInputs = false (gradients of all leaves) is not supported");
  if (xs.empty())
    return Failure(ErrorKind::EmptyXs, "no tensor to differentiate with respect to (xs): the list is empty");
  if (Error error = engine.checkOwn(xs, "x")) return error;
  if (Error error = engine.checkOwn(options.noGrad, "member of noGrad")) return error;
  for (size_t i = 0; i < xs.size(); ++i)
    if (Error error = checkTarget(xs[i], i)) return error;
  Run run(engine, ys, options, lock);
  if (Error error = run.checkHeads()) return error;
  if (Error error = run.collect()) return error;
  BackwardRequest &request = run.scratch->request;
  Collected &collected = run.scratch->collected;
  request.unused = options.unused;
  for (const Tensor &x : xs) {
    const TapeValue value = TapeValue::of(*x.get());
    request.wrt.push_back(collected.word(value));
    request.types.push_back(value.type);
  }
  for (const Tensor &x : options.noGrad)
    if (const TapeValue value = TapeValue::of(*x.get()); collected.contains(value))
      request.noGrad.push_back(collected.word(value));
  run.listTaps();
  if (Error error = run.run()) return error;
  if (Error error = run.fillMissing(xs, options.unused)) return error;
  run.clearHistory();
  if (Error error = run.finish()) return error;
  gradients = std::move(run.scratch->results);
  return Error::success();
}

}  // namespace

Error deliverGradients(Engine &engine, Tensors ys, const BackwardOptions &options) {
  return withRoomOnStack(
      [&] { return catching("to run a backward", [&] { return deliverHere(engine, ys, options); }); });
}

Expected<std::vector<Tensor>> computeGradients(Engine &engine, Tensors ys, Tensors xs, const GradOptions &options) {
  std::vector<Tensor> gradients;
  auto work = [&] { return computeHere(engine, ys, xs, options, gradients); };
  if (Error error = withRoomOnStack([&] { return catching("to compute gradients", work); })) return error;
  return gradients;
}

}  // namespace gradc
