// Walks the program in execution order. For each array it keeps a bound of the elements accessed so far: the largest
// number, or how far the index used last has been advanced since. An access beyond that bound is of a new element.
// Tested by tests/formats/blocks/backward/array_gradient_test.cc
#include "formats/blocks/arrays/array_elements.h"

#include "formats/blocks/program/block_attrs.h"

#include <cmath>
#include <map>

using namespace llvm;

namespace gradc {
namespace {

constexpr uint32_t kNone = 0xffffffff;

/// Elements accessed so far: none, or all are at most `most`, and at most the index `last` plus `ahead`.
struct Bound {
  bool isAny = false;
  std::optional<int64_t> most;
  uint32_t last = kNone;  // a name
  int64_t ahead = 0;

  friend bool operator==(const Bound &, const Bound &) = default;
};

struct State {
  std::map<uint32_t, int64_t> known;        // values of indexes
  std::map<uint32_t, Bound> writes, reads;  // by array
};

/// The bound that holds after either.
Bound either(const Bound &a, const Bound &b) {
  if (!a.isAny || !b.isAny) return a.isAny ? a : b;
  Bound both;
  both.isAny = true;
  if (a.most && b.most) both.most = std::max(*a.most, *b.most);
  if (a.last == b.last) both.last = a.last, both.ahead = std::max(a.ahead, b.ahead);
  return both;
}

/// Joins `other` into `bounds`; true if nothing changed. With `isWidened`, gives up a bound that changed.
bool join(std::map<uint32_t, Bound> &bounds, const std::map<uint32_t, Bound> &other, bool isWidened) {
  bool isSame = true;
  for (const auto &[array, bound] : other) {
    Bound &known = bounds[array];
    Bound made = either(known, bound);
    if (made == known) continue;
    if (isWidened && made.most != known.most) made.most.reset();
    if (isWidened && made.ahead != known.ahead) made.last = kNone, made.ahead = 0;
    isSame &= made == known;
    known = made;
  }
  return isSame;
}

bool join(State &state, const State &other, bool isWidened) {
  bool isSame = join(state.writes, other.writes, isWidened);
  isSame &= join(state.reads, other.reads, isWidened);
  const size_t numKnown = state.known.size();
  std::erase_if(state.known, [&](const auto &entry) {
    auto found = other.known.find(entry.first);
    return found == other.known.end() || found->second != entry.second;
  });
  return isSame && state.known.size() == numKnown;
}

class ArrayWalk {
 public:
  explicit ArrayWalk(const BlockProgram &program) : program(program) {}

  IdMap<ArrayUse> run() {
    findIndexes();
    if (uses.empty()) return std::move(uses);
    constexpr size_t kMost = size_t(1) << 22;
    isGivenUp = numSteps * uses.size() > kMost;
    State state;
    walk(0, state, 0);
    for (auto &[place, number] : readers) uses[place.second].hasManyReaders |= number > (isDeclared(place) ? 2 : 1);
    for (auto &[place, number] : elementReaders) uses[place.second].hasManyReaders |= number > 1;
    for (auto &[array, use] : uses) use.isReadAgain |= use.isWhole && numReads.lookup(array) != 0;
    for (const auto &owned : countedOwners)
      if (type(*owned.first) == "while") uses[owned.second].isOnlyRead |= !writtenIn.contains(owned);
    return std::move(uses);
  }

 private:
  using Place = std::pair<uint32_t, uint32_t>;  // block and array

  StringRef type(const BlockOp &op) const { return program.text(op.type); }
  TextId in(const BlockOp &op, StringRef slot) const { return operandIn(program, op.inputs, slot); }
  TextId out(const BlockOp &op, StringRef slot) const { return operandIn(program, op.outputs, slot); }
  bool isDeclared(const Place &place) const { return program.find(place.first, TextId(place.second)); }

  const BlockVariable *visible(uint32_t block, TextId name) const {
    const std::optional<uint32_t> declaring = name.isValid() ? program.declaringBlock(block, name) : std::nullopt;
    return declaring ? program.find(*declaring, name) : nullptr;
  }
  bool carries(uint32_t block, TextId name, FluidType kind = FluidType::LodTensor) const {
    const BlockVariable *variable = visible(block, name);
    return variable && variable->kind == kind && !variable->stopsGradient && variable->dtype &&
           isFloating(dtypeOf(*variable->dtype));
  }

  /// The array whose element an operator writes or reads; invalid for others.
  TextId arrayOf(uint32_t block, const BlockOp &op) const {
    const TextId array = type(op) == "write_to_array"    ? out(op, "Out")
                         : type(op) == "read_from_array" ? in(op, "X")
                                                         : TextId();
    return carries(block, array, FluidType::LodTensorArray) ? array : TextId();
  }

  void findIndexes() {
    for (uint32_t block = 0; block < program.blocks.size(); ++block)
      for (const BlockOp &op : program.blocks[block].ops)
        if (const TextId array = arrayOf(block, op); array.isValid()) {
          uses.try_emplace(array.value);
          if (const TextId index = in(op, "I"); index.isValid()) indexes.insert(index);
        }
    for (const Block &block : program.blocks)
      for (const BlockOp &op : block.ops) numSteps += op.subBlock || anyIn(op.outputs, indexes);
  }

  void walk(uint32_t block, State &state, uint32_t depth) {
    for (const BlockOp &op : program.blocks[block].ops) {
      if (op.subBlock && program.blocks[*op.subBlock].forward) continue;  // of an earlier call
      if (const TextId array = arrayOf(block, op); array.isValid()) access(block, op, array, state);
      else if (type(op) == "while" && op.subBlock) loop(block, op, state, depth);
      else if (type(op) == "conditional_block" && op.subBlock) branch(block, op, state, depth);
      else if (type(op) == "recurrent" && op.subBlock) steps(block, op, state, depth);
      else useWhole(block, op), count(op, state);
    }
  }

  // Loops and branches.

  void loop(uint32_t block, const BlockOp &op, State &state, uint32_t depth) {
    constexpr uint32_t kDeepest = 3, kWidened = 2, kLast = 5;
    owners.push_back({block, &op});
    const bool wasGivenUp = isGivenUp;
    isGivenUp |= depth >= kDeepest;
    for (uint32_t pass = 0;; ++pass) {
      isGivenUp |= pass >= kLast;
      State end = state;
      walk(*op.subBlock, end, depth + 1);
      if (join(state, end, pass >= kWidened) || isGivenUp) break;
    }
    isGivenUp = wasGivenUp;
    owners.pop_back();
  }

  void branch(uint32_t block, const BlockOp &op, State &state, uint32_t depth) {
    owners.push_back({block, &op});
    State end = state;
    walk(*op.subBlock, end, depth);
    join(state, end, false);
    owners.pop_back();
  }

  /// What a step writes is new in the next one.
  void steps(uint32_t block, const BlockOp &op, const State &state, uint32_t depth) {
    owners.push_back({block, &op});
    State inner = state;
    walk(*op.subBlock, inner, depth);
    owners.pop_back();
  }

  // Accesses.

  void access(uint32_t block, const BlockOp &op, TextId array, State &state) {
    ArrayUse &use = uses[array.value];
    const bool isRead = type(op) == "read_from_array";
    const bool isCarried = carries(block, isRead ? out(op, "Out") : in(op, "X"));
    if (isRead && isCarried && counted.insert(&op).second)
      ++readers[{block, array.value}], ++elementReaders[{block, array.value}], ++numReads[array.value];
    if (!isRead && use.isWhole)
      use.isWrittenAgain = use.hasOthers = true;  // the tensor has other elements than the array
    noteBlocks(block, array, use, isRead);
    if (isRead && !isCarried) return;
    Bound &bound = (isRead ? state.reads : state.writes)[array.value];
    const TextId index = in(op, "I");
    const auto known = index.isValid() ? state.known.find(index.value) : state.known.end();
    const bool isKnown = known != state.known.end();
    const bool isNew = !bound.isAny || (index.isValid() && bound.last == index.value && bound.ahead < 0) ||
                       (isKnown && bound.most && *bound.most < known->second);
    if (!isNew || isGivenUp) (isRead ? use.isReadAgain : use.isWrittenAgain) = true;
    if (!isCarried) return;
    Bound now;
    now.isAny = true;
    if (isNew && isKnown) now.most = known->second;
    if (isNew && index.isValid()) now.last = index.value;
    bound = now;
  }

  /// Visits the blocks from that of an access outwards to the one that declares the array.
  void noteBlocks(uint32_t block, TextId array, ArrayUse &use, bool isRead) {
    for (size_t i = owners.size(); i-- > 0 && !program.find(block, array); block = owners[i].first) {
      const auto [around, owner] = owners[i];
      use.isInBlocks = true;
      if (type(*owner) == "while") {
        const bool isState = is_contained(program.variables(owner->inputs, "X"), array) &&
                             is_contained(program.variables(owner->outputs, "Out"), array);
        use.isOnlyRead |= !isState;
        if (!isRead) writtenIn.insert({owner, array.value});
      } else if (type(*owner) == "conditional_block") {
        use.isInBranch = true;
        use.isReadInBranch |= isRead;
      }
      if (countedOwners.insert({owner, array.value}).second) ++readers[{around, array.value}];
    }
  }

  /// Handles an operator that may take arrays as a whole.
  void useWhole(uint32_t block, const BlockOp &op) {
    if (type(op) == "lod_array_length" || type(op) == "fill_zeros_like") return;
    if (type(op) == "tensor_array_to_tensor") return useAsTensor(block, op);
    forEachOperand(op, [&](TextId name) {
      if (auto found = uses.find(name.value); found != uses.end())
        found->second.hasOthers |= visible(block, name) != nullptr;
    });
  }

  /// Its gradient is one array for all elements.
  void useAsTensor(uint32_t block, const BlockOp &op) {
    const TextId array = in(op, "X");
    const auto found = array.isValid() ? uses.find(array.value) : uses.end();
    if (found == uses.end() || !carries(block, out(op, "Out")) || !counted.insert(&op).second) return;
    ArrayUse &use = found->second;
    use.isWhole = true;
    ++readers[{block, array.value}];
    if (!program.find(block, array)) use.hasOthers = use.isReadAgain = use.isInBlocks = true;
  }

  // Indexes.

  void count(const BlockOp &op, State &state) {
    if (!anyIn(op.outputs, indexes)) return;
    const TextId index = out(op, "Out");
    const bool isOne = index.isValid() && !op.subBlock;
    if (isOne && type(op) == "increment" && in(op, "X") == index)
      return countOn(index, floatAttr(op.attrs, "step").value_or(1), state);
    forEachVariable(op.outputs, [&](TextId name) { forget(name, state); });
    if (!isOne) return;
    if (type(op) == "increment") {
      const auto before = state.known.find(in(op, "X").value);
      if (before != state.known.end())
        learn(index, static_cast<double>(before->second) + floatAttr(op.attrs, "step").value_or(1), state);
    } else if (type(op) == "fill_constant" && op.inputs.empty()) {
      learn(index, floatAttr(op.attrs, "value").value_or(NAN), state);
    }
  }

  static bool isCount(double value) { return value == std::floor(value) && std::abs(value) < 1e9; }

  void learn(TextId index, double value, State &state) {
    if (isCount(value)) state.known[index.value] = static_cast<int64_t>(value);
  }

  void forget(TextId index, State &state) {
    state.known.erase(index.value);
    for (auto *bounds : {&state.writes, &state.reads})
      for (auto &[array, bound] : *bounds)
        if (bound.last == index.value) bound.last = kNone, bound.ahead = 0;
  }

  void countOn(TextId index, double step, State &state) {
    if (!isCount(step)) return forget(index, state);
    for (auto *bounds : {&state.writes, &state.reads})
      for (auto &[array, bound] : *bounds)
        if (bound.last == index.value) bound.ahead -= static_cast<int64_t>(step);
    if (auto known = state.known.find(index.value); known != state.known.end())
      known->second += static_cast<int64_t>(step);
  }

  const BlockProgram &program;
  IdMap<ArrayUse> uses;
  NameSet indexes;
  size_t numSteps = 0;  // operators that change a state
  bool isGivenUp = false;
  std::vector<std::pair<uint32_t, const BlockOp *>> owners;  // of the enclosing blocks, with the blocks they are in
  std::map<Place, uint32_t> readers, elementReaders;         // numbers of operators, with and without owners of blocks
  DenseMap<uint32_t, uint32_t> numReads;                     // by array: operators that read an element
  DenseSet<const BlockOp *> counted;
  DenseSet<std::pair<const BlockOp *, uint32_t>> countedOwners, writtenIn;
};

}  // namespace

TextId operandIn(const BlockProgram &program, ArrayRef<BlockSlot> slots, StringRef slot) {
  const ArrayRef<TextId> names = program.variables(slots, slot);
  return names.size() == 1 && names[0] != kEmptyName ? names[0] : TextId();
}

IdMap<ArrayUse> findArrayUses(const BlockProgram &program) { return ArrayWalk(program).run(); }

}  // namespace gradc
