// Counters of a loop's steps: an `increment` in the gradient block has the negated step of a forward one and starts
// from the value which that one wrote. Tested by tests/formats/blocks/block_array_test.cc
#include "formats/blocks/graph/block_body.h"
#include "formats/blocks/program/gradient_names.h"

using namespace llvm;

namespace gradc {
void BlockReader::findCounters() {
  DenseSet<uint32_t> others;
  for (const BlockOp &op : program.blocks[index].ops) {
    const bool isCount = program.text(op.type) == "increment";
    const ArrayRef<TextId> counted = program.variables(op.inputs, "X");
    forEachVariable(op.outputs, [&](TextId name) {
      const bool isInPlace = isCount && counted.size() == 1 && counted[0] == name;
      (isInPlace ? counters : others).insert(name.value);
    });
  }
  for (uint32_t name : others) counters.erase(name);
}

void BlockReader::restoreCounters(const ForwardFlow &flow, uint32_t gradientBlock) {
  auto numCounts = [&](uint32_t block, TextId name) {
    return llvm::count_if(program.blocks[block].ops, [&](const BlockOp &op) {
      return program.text(op.type) == "increment" && program.variables(op.outputs, "Out") == ArrayRef(name);
    });
  };
  for (auto [i, input] : enumerate(flow.body->inputs)) {
    const TextId name = input.name.name;
    const bool isResult = is_contained(flow.body->results, input.name);
    if (input.from != BlockInput::From::Around || !isResult || !numCounts(gradientBlock, name)) continue;
    if (numCounts(gradientBlock, name) != numCounts(flow.block, name)) continue;
    write(declared(name), operandHere(flow, static_cast<uint32_t>(i)));
  }
}

}  // namespace gradc
