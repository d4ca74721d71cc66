// The phases, in the order in which Paddle 2.6 has them in python/paddle/base/backward.py:
//
//   1. seeds        the gradients of the targets                gradient_seeds.h   _create_loss_op_desc_
//   2. path         which operators gradients go through        op_path.h          _find_op_path_, _find_no_grad_vars
//   3. makers       gradient operators, last operator first;    gradient_maker.h   core.get_grad_op_desc
//                   inner blocks first, as separate blocks
//   4. sums         of gradients that arrive several times      sum_gradients.h    _addup_repetitive_outputs_
//   5. cuts         gradients not requested, loose operators    prune_gradients.h  _remove_no_grad_branch_,
//                                                                                  _find_not_need_ops
//   6. names        of gradients that earlier calls have taken  gradient_maker.h   _rename_grad_
//   7. variables    declared; what reads none is dropped     gradient_variables.h  _append_backward_vars_
//   8. pairs        of parameters and gradients                 resolve_request.h
//
// Phases 3 to 5 handle one block at a time; each block has separate counters (CF-13). Tested by
// tests/formats/blocks/backward/append_backward_test.cc and tests/oracles/paddle_programs.py
#include "formats/blocks/backward/append_backward.h"

#include "formats/blocks/backward/copy_overwritten.h"
#include "formats/blocks/backward/gradients/array_gradients.h"
#include "formats/blocks/backward/gradients/gradient_maker.h"
#include "formats/blocks/backward/gradients/gradient_seeds.h"
#include "formats/blocks/backward/gradients/gradient_variables.h"
#include "formats/blocks/backward/gradients/prune_gradients.h"
#include "formats/blocks/backward/op_path.h"
#include "formats/blocks/backward/owner_slots.h"
#include "formats/blocks/backward/prepare_recurrent.h"
#include "formats/blocks/backward/resolve_request.h"
#include "formats/blocks/program/named_variables.h"
#include "formats/blocks/tables/op_slots.h"
#include "ir/base/out_of_memory.h"

using namespace llvm;

namespace gradc {
namespace {

class Backward {
 public:
  Backward(Context &context, BlockProgram program, const FluidRequest &request)
      : context(context), program(std::move(program)), request(request), names(this->program.texts),
        maker(context, this->program, names), arrays(context, this->program, names, maker),
        isGradients(request.api == FluidRequest::Api::Gradients), isInBranch(!isGradients && request.block != 0),
        priorCalls(isInBranch ? request.priorCalls : std::max(request.priorCalls, callsOn(this->program))),
        numCalls(priorCalls + (isInBranch ? 0 : 1)), isAgain(numCalls > 1 && !isInBranch) {}

  Expected<FluidResult> run() {
    Expected<ResolvedRequest> resolved = resolveRequest(context, program, request);
    if (!resolved) return resolved.takeError();
    if (!isAgain && !isInBranch)
      if (Error error = checkGradientNames(program)) return error;
    targets = std::move(resolved->targets);
    inputs = std::move(resolved->inputs);
    noGradNames = NameSet(resolved->noGradNames);
    errorClips = std::move(resolved->errorClips);
    numberOps(program);
    const std::vector<TextId> flagged = liftFlags(program, request.block, targets);
    if (Error error = matchOwnerSlots(program)) return error;
    if (Error error = prepareRecurrent(context, program)) return error;
    separateValues();
    const std::vector<TextId> sources = isGradients ? inputs : parametersOf(program, request);
    std::vector<LostGradient> lost = findLostGradients(program, request.block, targets, sources, noGradNames);
    arrays.choose();
    numForward = program.blocks.size();
    targetBlock = isInBranch ? addBlock(*program.blocks[request.block].parent, request.block) : request.block;
    firstOp = program.blocks[targetBlock].ops.size();
    if (isAgain) numEarlier = program.blocks[targetBlock].variables.size();
    if (Error error = makeSeeds()) return error;
    for (uint32_t block : wayOut())
      if (Error error = differentiate(block)) return error;
    const NameSet kept = isGradients ? seeded : NameSet();
    renameTakenGradients(program, targetBlock, firstOp, std::move(headOf), kept, names, maker);
    renameArriving(program, names, numForward);
    GradientPlaces places;
    if (Error error = declareGradients(program, targetBlock, {firstOp, numEarlier}, maker, names, places)) return error;
    emptyLostBlocks(program, numForward, targetBlock);
    Expected<std::vector<FluidPair>> pairs =
        isGradients ? gradientsOfInputs(places) : parameterPairs(context, program, request, targetBlock, places);
    if (!pairs) return pairs.takeError();
    for (TextId name : flagged) program.find(request.block, name)->stopsGradient = true;
    forgetNumbers(program);
    return FluidResult{std::move(program), std::move(*pairs), std::move(lost)};
  }

 private:
  uint32_t addBlock(std::optional<uint32_t> parent, uint32_t forward) {
    program.blocks.push_back({parent, forward});
    paths.emplace_back();
    return static_cast<uint32_t>(program.blocks.size() - 1);
  }

  /// Separate names may take operators off the path. If a counter is not counted back after all, starts over without
  /// it.
  void separateValues() {
    const std::vector<TextId> givenTargets = targets;
    const NameSet givenNoGrad = noGradNames;
    for (CountedBack counters = countedBack();;) {
      std::optional<BlockProgram> original;
      if (!counters.empty()) original.emplace(program);
      nameValues(counters);
      if (!original || keepCounted(program, countedBack(), counters)) break;
      program = std::move(*original);
      targets = givenTargets;
      noGradNames = NameSet(givenNoGrad);
    }
    for (TextId target : targets) targetGradients.insert(names.gradient(target));
  }

  /// A target is the last value of its name.
  void nameValues(const CountedBack &counters) {
    std::vector<std::pair<TextId, TextId>> copies;
    const FinalNames finalNames = copyOverwritten(context, program, priorCalls > 0, counters, copies);
    for (auto [copy, original] : copies)
      if (noGradNames.contains(original)) noGradNames.insert(copy);
    for (TextId &target : targets)
      if (auto found = finalNames.find(target.value); request.block == 0 && found != finalNames.end())
        target = found->second;
  }

  // 1

  Error makeSeeds() {
    if (!isGradients) {
      addSeed(makeLossSeed(context, program, names, request.block, targets[0]));
      return Error::success();
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      const TextId gradient = names.gradient(targets[i]);
      if (request.targetGradients.empty() || request.targetGradients[i].empty()) {
        addSeed(makeOnes(context, program, names, request.block, targets[i]));
        continue;
      }
      Expected<TextId> head = findVariable(program, request.block, request.targetGradients[i], "gradient");
      if (!head) return head.takeError();
      const BlockVariable *given = program.find(request.block, *head);
      if (given && given->shape != program.find(request.block, targets[i])->shape)
        return Failure(ErrorKind::HeadShape, "target '" + program.text(targets[i]) + "' and its gradient '" +
                                                 program.text(*head) + "' have different shapes");
      heads.push_back({gradient, *head});
    }
    return Error::success();
  }

  void addSeed(BlockOp op) {
    const TextId gradient = op.outputs[0].variables[0];
    given.insert(gradient);
    arrived.insert(gradient);
    seeded.insert(gradient);
    seeds.push_back(std::move(op));
  }

  // 2

  /// The blocks that are differentiated, from that of the targets outwards.
  SmallVector<uint32_t, 4> wayOut() const {
    SmallVector<uint32_t, 4> way = {request.block};
    while (!isGradients && program.blocks[way.back()].parent) way.push_back(*program.blocks[way.back()].parent);
    return way;
  }

  /// No path goes through `stopped`. Returns the targets as the block sees them.
  NameSet findPath(uint32_t block, NameSet &stopped) {
    NameSet seen = targetsSeenFrom(program, block, request.block, targets);
    paths.resize(program.blocks.size());
    findOpPath(program, block, seen, inputs, stopped, paths);
    return seen;
  }

  /// For the current program. A later call may leave out operators that read no gradient (NG-09).
  CountedBack countedBack() {
    for (uint32_t block : wayOut()) {
      NameSet stopped = stoppedVariables(block);
      findPath(block, stopped);
      if (isAgain) paths[block].clear();
    }
    CountedBack counters = countersOn(program, paths);
    paths.clear();
    return counters;
  }

  Error differentiate(uint32_t block) {
    NameSet stopped = stoppedVariables(block);
    const NameSet seen = findPath(block, stopped);
    if (isAgain)
      if (Error error = checkEarlierGradients(program, block, paths[block], targetGradients, names)) return error;
    stopped.insert(findUnreadOutputs(program, block, paths[block], seen, stopped));
    if (block == request.block) settleHeads();
    return addGradients(block, targetBlock, stopped, nullptr, isAgain ? &arrived : nullptr);
  }

  /// A given head gradient takes the place of a target's gradient if no operator on the path reads the target.
  /// Otherwise more contributions arrive, so a copy of the head is one of them (D-25); so it is for a target that is an
  /// input, whose gradient is a result. A branch's gradient block reads the gradient of what the branch writes under
  /// the name of the gradient itself.
  void settleHeads() {
    NameSet read;
    for (TextId input : inputs) read.insert(names.gradient(input));
    for (uint32_t i : paths[request.block]) {
      const BlockOp &op = program.blocks[request.block].ops[i];
      const bool isBranch = program.text(op.type) == "conditional_block";
      forEachVariable(op.inputs, [&](TextId name) { read.insert(names.gradient(name)); });
      if (isBranch) forEachVariable(op.outputs, [&](TextId name) { read.insert(names.gradient(name)); });
    }
    NameSet once;
    for (auto [gradient, head] : heads) {
      if (read.contains(gradient) || seeded.contains(gradient) || !once.insert(gradient)) {
        addSeed(makeHeadCopy(context, program, head, gradient));
        continue;
      }
      headOf[gradient.value] = head;
      given.insert({gradient, head});
      arrived.insert(head);
      if (numCalls > 1) renamed[gradient.value] = head;
    }
  }

  NameSet stoppedVariables(uint32_t block) {
    NameSet stopped;
    if (!noGradNames.names().empty())
      for (const BlockOp &op : program.blocks[block].ops) addUsed(op, noGradNames, stopped);
    for (const BlockVariable &variable : program.blocks[block].variables)
      if (variable.stopsGradient) stopped.insert(variable.name);
    return stopped;
  }

  /// Adds to `found` those of the names that the operator uses. A copy of all names for each block would not be linear.
  static void addUsed(const BlockOp &op, const NameSet &names, NameSet &found) {
    forEachOperand(op, [&](TextId name) {
      if (names.contains(name)) found.insert(name);
    });
  }

  // 3 to 5

  /// Appends to block `into` the gradient operators of the path in `block`. With `fed`, keeps only operators that read
  /// a gradient in it (NG-09), and adds their outputs to it.
  Error addGradients(uint32_t block, uint32_t into, const NameSet &stopped, const BlockOp *owner, NameSet *fed) {
    NameSet cut;
    for (TextId name : stopped.names()) cut.insert(names.gradient(name));
    const std::vector<uint32_t> path = std::move(paths[block]);
    std::vector<BlockOp> ops;
    const size_t numSeeds = block == request.block && into == targetBlock ? seeds.size() : 0;
    if (numSeeds) ops = std::move(seeds);
    for (uint32_t i : reverse(path)) {
      const size_t numBlocks = program.blocks.size();
      std::optional<uint32_t> inner;
      if (std::optional<uint32_t> owned = program.blocks[block].ops[i].subBlock) {
        const BlockOp loop = program.blocks[block].ops[i];  // a copy, because blocks are added
        inner = addBlock(into, *owned);
        if (Error error = addGradients(*owned, *inner, stoppedVariables(*owned), &loop, nullptr)) return error;
      }
      const size_t first = ops.size();
      Expected<bool> isMade = arrays.make(block, i, cut, ops);
      if (!isMade) return isMade.takeError();
      if (!*isMade)
        if (Error error = maker.make(block, i, cut, inner, ops)) return error;
      if (inner && (isAgain || isInBranch))  // else checkGradientNames has seen all names
        if (Error error = checkNamesInside(program, block, i, *inner, names)) return error;
      const MutableArrayRef<BlockOp> made = MutableArrayRef(ops).drop_front(first);
      if (isAgain && !owner) renameAgain(block, i, made, cut);  // a gradient block has separate names
      if (!fed || isFed(made, *fed)) continue;
      arrays.forget(ArrayRef(ops).drop_front(first));
      ops.resize(first);
      program.blocks.erase(program.blocks.begin() + static_cast<ptrdiff_t>(numBlocks), program.blocks.end());
      paths.resize(numBlocks);
    }
    const NameSet handed = owner ? handedGradients(program, *owner, names) : NameSet();
    sumGradients(context, ops, names, block, handed, arrays.addedUp(), request.sums);
    NameSet known;
    for (size_t i = 0; i < numSeeds; ++i) {
      forEachVariable(ops[i].outputs,
                      [&](TextId name) { known.insert(name); });  // its name when others are added to it
      program.blocks[into].ops.push_back(std::move(ops[i]));
    }
    ops.erase(ops.begin(), ops.begin() + numSeeds);
    NameSet arriving = handed;  // an operator that writes one of these needlessly leaves it as it arrives
    for (const BlockOp &op : ops) {
      addUsed(op, targetGradients, arriving);
      addUsed(op, given, known);
    }
    // `a` may be missing where the program has `a@GRAD` and asks for its gradient, `a@GRAD@GRAD`.
    auto like = [&](TextId gradient) {
      const TextId stripped = names.stripped(gradient), variable = maker.variableOf(gradient);
      return !variable.isValid() || program.declaringBlock(into, stripped) ? stripped : variable;
    };
    removeCutOps(context, ops, cut, arriving, names, like);
    for (uint32_t i : path) forEachOperand(program.blocks[block].ops[i], [&](TextId name) { known.insert(name); });
    known.insert(handed.names());  // Paddle drops operators that start from these (D-28)
    NameSet connected = known;
    if (fed) connected.insert(fed->names());
    removeUnconnectedOps(ops, connected);
    for (const BlockVariable &variable : program.blocks[into].variables)  // of earlier calls
      if (names.isGradient(variable.name)) known.insert(variable.name);
    fillUncomputed(context, ops, known, owner != nullptr, names, like);
    if (owner) fillLostStates(context, program, block, *owner, ops, names);
    program.blocks[into].ops.reserve(program.blocks[into].ops.size() + ops.size());
    for (BlockOp &op : ops) {
      program.blocks[into].ops.push_back(std::move(op));
      tell(into);
    }
    return Error::success();
  }

  /// Names that an earlier call has declared get `grad/` in front (NAME-07).
  /// What is cut stays cut.
  void renameAgain(uint32_t block, uint32_t forward, MutableArrayRef<BlockOp> made, NameSet &cut) {
    NameSet operands;  // also outputs: `sqrt_grad_grad` reads what `sqrt_grad` computes
    const BlockOp &of = program.blocks[block].ops[forward];
    forEachOperand(of, [&](TextId name) { operands.insert(name); });
    for (BlockOp &op : made) {
      auto isTaken = [&](TextId name) { return names.isGradient(name) && program.find(block, name); };
      forEachVariable(op.inputs, [&](TextId &name) {
        if (operands.contains(name)) return;
        auto found = renamed.find(name.value);
        if (found != renamed.end()) name = found->second;
        // A gradient that this call has not computed must not be read from an earlier call.
        else if (isTaken(name) && !arrived.contains(name)) name = nameAgain(name, cut);
      });
      forEachVariable(op.outputs, [&](TextId &name) {
        if (isTaken(name)) name = nameAgain(name, cut);
      });
    }
  }

  TextId nameAgain(TextId name, NameSet &cut) {
    std::string again;
    for (uint32_t i = 0; i < numCalls; ++i) again += "grad/";
    const TextId to = program.intern(again + program.text(name).str());
    renamed[name.value] = to;
    if (cut.contains(name)) cut.insert(to);
    maker.rename(name, to);
    return to;
  }

  bool isFed(ArrayRef<BlockOp> made, NameSet &fed) {
    if (none_of(made, [&](const BlockOp &op) { return anyIn(op.inputs, fed); })) return false;
    for (const BlockOp &op : made) forEachVariable(op.outputs, [&](TextId name) { fed.insert(name); });
    return true;
  }

  /// Clips the gradients that the last operator of a block writes, then runs the callbacks.
  void tell(uint32_t block) {
    std::vector<BlockOp> &ops = program.blocks[block].ops;
    const size_t last = ops.size() - 1;
    if (!errorClips.empty()) clipErrors(ops);
    auto variableOf = [&](TextId gradient) { return maker.variableOf(gradient); };
    for (const BackwardCallback &callback : request.callbacks) callback(program, block, last, variableOf);
  }

  void clipErrors(std::vector<BlockOp> &ops) {
    SmallVector<TextId, 4> written;
    forEachVariable(ops.back().outputs, [&](TextId name) { written.push_back(name); });
    for (TextId name : written) {
      const TextId variable = maker.variableOf(name);
      auto clip = variable.isValid() ? errorClips.find(variable.value) : errorClips.end();
      if (clip != errorClips.end())
        ops.push_back({program.intern("clip"),
                       {BlockSlot{program.intern("X"), {name}}},
                       {BlockSlot{program.intern("Out"), {name}}},
                       clip->second});
    }
  }

  // 8

  Expected<std::vector<FluidPair>> gradientsOfInputs(const GradientPlaces &places) {
    std::vector<FluidPair> pairs;
    for (TextId input : inputs) {
      const TextId seed = names.gradient(input);  // of a target that is an input
      auto found = places.find(input.value);
      // In a block within, it is the part of a constant that one step or branch has.
      if (found != places.end() && found->second.block == targetBlock) pairs.push_back({input, found->second.gradient});
      else pairs.push_back({input, seeded.contains(seed) ? seed : TextId()});
    }
    return pairs;
  }

  Context &context;
  BlockProgram program;
  const FluidRequest &request;
  GradientNames names;
  GradientMaker maker;
  ArrayGradients arrays;
  const bool isGradients, isInBranch;
  const uint32_t priorCalls, numCalls;  // numCalls: this one included
  const bool isAgain;

  std::vector<TextId> targets, inputs;
  NameSet targetGradients, noGradNames;
  IdMap<Attrs> errorClips;   // by variable
  uint32_t targetBlock = 0;  // gets the operators
  size_t firstOp = 0;        // the first of them
  size_t numForward = 0;     // blocks before the call
  size_t numEarlier = 0;     // variables of that block, including gradients of earlier calls
  std::vector<BlockOp> seeds;
  NameSet seeded;                                // gradients they write
  std::vector<std::pair<TextId, TextId>> heads;  // gradients of targets, and the heads given for them
  IdMap<TextId> headOf;                          // those heads that take the gradient's place
  NameSet given;                                 // gradients of the targets, from which this call starts
  NameSet arrived;                               // these, and in a later call also what it has computed
  IdMap<TextId> renamed;                         // gradients whose names were taken
  OpPaths paths;
};

}  // namespace

Expected<FluidResult> appendBackward(Context &context, BlockProgram program, const FluidRequest &request) {
  return catchingBadAlloc("to differentiate the program", [&]() -> Expected<FluidResult> {
    if (Error error = verifyBlocks(program)) return error;
    if (Error error = verifySlots(program)) return error;
    return Backward(context, std::move(program), request).run();
  });
}

}  // namespace gradc
