// Executes the operators in order. A number is known or not; what a loop or branch of an unknown condition writes is
// not known afterwards. Tested by tests/formats/blocks/array_tensor_test.cc
#include "formats/blocks/arrays/array_lengths.h"

#include "formats/blocks/arrays/array_elements.h"
#include "formats/blocks/arrays/known_sizes.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace gradc {
namespace {

using Number = std::optional<int64_t>;

/// A comparison of numbers, or of truth values; nothing for other operators.
Number compare(StringRef type, int64_t x, int64_t y) {
  return StringSwitch<Number>(type)
      .Case("less_than", x < y)
      .Case("less_equal", x <= y)
      .Case("greater_than", x > y)
      .Case("greater_equal", x >= y)
      .Case("equal", x == y)
      .Case("not_equal", x != y)
      .Case("logical_and", x != 0 && y != 0)
      .Case("logical_or", x != 0 || y != 0)
      .Default(std::nullopt);
}

class Execution {
 public:
  explicit Execution(const BlockProgram &program) : program(program), needed(program.blocks.size()) {}

  std::map<std::pair<uint32_t, size_t>, int64_t> run() {
    findNeeded();
    runBlock(0);
    std::map<std::pair<uint32_t, size_t>, int64_t> constant;
    if (numLeft == 0) return constant;
    for (auto [place, length] : found)
      if (length) constant[place] = *length;
    return constant;
  }

 private:
  using Name = std::pair<uint32_t, uint32_t>;  // the block that declares it, and the text

  StringRef type(const BlockOp &op) const { return program.text(op.type); }
  Name declared(uint32_t block, TextId name) const {
    return {program.declaringBlock(block, name).value_or(block), name.value};
  }

  /// Operators on floating-point tensors of several elements change neither numbers nor lengths.
  bool isRelevant(uint32_t block, const BlockOp &op) const {
    if (op.subBlock || type(op) == "write_to_array" || type(op) == "tensor_array_to_tensor") return true;
    return anyVariable(op.outputs, [&](TextId name) {
      const std::optional<uint32_t> at = name == kEmptyName ? std::nullopt : program.declaringBlock(block, name);
      const BlockVariable *variable = at ? program.find(*at, name) : nullptr;
      if (!variable || !variable->dtype || !isFloating(dtypeOf(*variable->dtype))) return true;
      return all_of(variable->shape, [](int64_t size) { return size == 1; });
    });
  }

  void findNeeded() {
    for (uint32_t block = 0; block < program.blocks.size(); ++block)
      for (uint32_t at = 0; at < program.blocks[block].ops.size(); ++at)
        if (isRelevant(block, program.blocks[block].ops[at])) needed[block].push_back(at);
  }

  void runBlock(uint32_t block) {
    lengths.erase(lengths.lower_bound({block, 0}), lengths.lower_bound({block + 1, 0}));  // arrays of the block are new
    for (uint32_t at : needed[block]) {
      if (numLeft == 0 || --numLeft == 0) return;
      runOp(block, at);
    }
  }

  void runOp(uint32_t block, uint32_t at) {
    const BlockOp &op = program.blocks[block].ops[at];
    if (op.subBlock) return runOwner(block, op);
    if (type(op) == "write_to_array") return writeElement(block, op);
    if (type(op) == "tensor_array_to_tensor") return readLength(block, at, op);
    std::optional<Sizes> made = evaluate(block, op);
    forEachVariable(op.outputs, [&](TextId name) { known.erase(declared(block, name)); });
    const TextId out = operandIn(program, op.outputs, type(op) == "stack" ? "Y" : "Out");
    if (made && out.isValid()) known[declared(block, out)] = std::move(*made);
  }

  // Blocks. Names of gradients are not read by the forward program.

  void runOwner(uint32_t block, const BlockOp &op) {
    const bool isLoop = type(op) == "while", isBranch = type(op) == "conditional_block";
    const TextId condition = operandIn(program, op.inputs, isLoop ? "Condition" : "Cond");
    for (;;) {
      const Number decision = condition.isValid() ? number(block, condition) : std::nullopt;
      if (!decision || !(isLoop || isBranch)) return forgetWritten(*op.subBlock);
      if (*decision == 0) return;
      runBlock(*op.subBlock);
      if (isBranch || numLeft == 0) return;
    }
  }

  /// For a block that is run an unknown number of times. Lengths that it reads are not known either.
  void forgetWritten(uint32_t block) {
    auto visit = [&](auto handle) {
      SmallVector<uint32_t, 4> pending = {block};
      while (!pending.empty()) {
        const uint32_t inner = pending.pop_back_val();
        for (uint32_t at : needed[inner]) {
          if (numLeft == 0 || --numLeft == 0) return;
          const BlockOp &op = program.blocks[inner].ops[at];
          if (op.subBlock) pending.push_back(*op.subBlock);
          handle(inner, at, op);
        }
      }
    };
    visit([&](uint32_t inner, uint32_t at, const BlockOp &op) {
      if (type(op) == "tensor_array_to_tensor") found[{inner, at}] = std::nullopt;
      forEachVariable(op.outputs, [&](TextId name) { known.erase(declared(inner, name)); });
    });
    visit([&](uint32_t inner, uint32_t, const BlockOp &op) {
      if (type(op) == "write_to_array") return writeElement(inner, op, false);
      forEachVariable(op.outputs, [&](TextId name) { lengths[declared(inner, name)] = std::nullopt; });
    });
  }

  // Arrays.

  void writeElement(uint32_t block, const BlockOp &op, bool isCertain = true) {
    const TextId array = operandIn(program, op.outputs, "Out"), index = operandIn(program, op.inputs, "I");
    if (!array.isValid()) return;
    std::optional<int64_t> &length = lengths.try_emplace(declared(block, array), 0).first->second;
    const int64_t at = index.isValid() ? number(block, index).value_or(-1) : -1;
    const bool isLonger = length && at >= *length;
    if (at < 0 || (isLonger && !isCertain)) length.reset();
    else if (isLonger) length = at + 1;
  }

  void readLength(uint32_t block, uint32_t at, const BlockOp &op) {
    const TextId array = operandIn(program, op.inputs, "X");
    if (!array.isValid()) return;
    const std::optional<int64_t> length = lengths.try_emplace(declared(block, array), 0).first->second;
    auto [entry, isNew] = found.try_emplace({block, at}, length);
    if (entry->second != length) entry->second.reset();
  }

  // Numbers.

  const Sizes *find(uint32_t block, TextId name) const {
    const auto at = known.find(declared(block, name));
    return at == known.end() ? nullptr : &at->second;
  }

  Number number(uint32_t block, TextId name) const {
    const Sizes *sizes = find(block, name);
    return sizes && sizes->size() == 1 ? sizes->front().number : std::nullopt;
  }
  Number operand(uint32_t block, const BlockOp &op, StringRef slot) const {
    const TextId name = operandIn(program, op.inputs, slot);
    return name.isValid() ? number(block, name) : std::nullopt;
  }

  std::optional<Sizes> evaluate(uint32_t block, const BlockOp &op) const {
    if (std::optional<Sizes> made = sizesMade(program, block, op, [&](TextId name) { return find(block, name); }))
      return made;
    const Number x = operand(block, op, "X"), y = operand(block, op, "Y");
    const bool isNot = type(op) == "logical_not";
    const Number made = !x ? std::nullopt : isNot ? Number(*x == 0) : y ? compare(type(op), *x, *y) : std::nullopt;
    return made ? std::optional(Sizes{{made}}) : std::nullopt;
  }

  const BlockProgram &program;
  std::vector<std::vector<uint32_t>> needed;  // operators, by block
  std::map<Name, Sizes> known;                // numbers, by name
  std::map<Name, std::optional<int64_t>> lengths;
  std::map<std::pair<uint32_t, size_t>, std::optional<int64_t>> found;
  size_t numLeft = size_t(1) << 20;
};

}  // namespace

std::map<std::pair<uint32_t, size_t>, int64_t> findArrayLengths(const BlockProgram &program) {
  return Execution(program).run();
}

}  // namespace gradc
