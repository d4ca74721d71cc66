#include "tests/support/blocks/backward_programs.h"

#include "tests/support/test_graph.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc::testing {
namespace {

SlotNames slotsOf(StringRef text) {
  SlotNames slots;
  for (StringRef slot : split(text, ' ')) {
    if (slot.empty()) continue;
    auto [name, variables] = slot.split('=');
    slots.push_back({name.str(), {}});
    if (!variables.empty())
      for (StringRef variable : split(variables, ',')) slots.back().second.push_back(variable.str());
  }
  return slots;
}

}  // namespace

BlockProgram programOf(StringRef text) {
  BlockProgram program;
  program.blocks.emplace_back();
  uint32_t block = 0;
  for (StringRef line : split(text, '\n')) {
    if (line.trim().empty()) continue;
    if (line.consume_front("block ")) {
      auto [number, parent] = line.split(" in ");
      program.blocks.emplace_back().parent = static_cast<uint32_t>(std::stoul(parent.str()));
      block = static_cast<uint32_t>(std::stoul(number.str()));
      continue;
    }
    auto [head, outputs] = line.split("->");
    auto [type, inputs] = head.trim().split(' ');
    auto [name, sub] = type.split(':');
    for (StringRef slots : {inputs, outputs})
      for (const auto &slot : slotsOf(slots.trim()))
        for (const std::string &variable : slot.second) {
          const TextId id = program.intern(variable);
          if (id == kEmptyName || program.declaringBlock(block, id)) continue;
          BlockVariable record = {id, FluidType::LodTensor, FluidType::Fp64, {2}, 0};
          record.isParameter = variable[0] == 'p';
          record.stopsGradient = variable[0] == 'c';
          if (variable == "loss") record.shape.clear();
          if (record.isParameter) program.parameters.push_back({id, true});
          program.addVariable(block, std::move(record));
        }
    addOp(program, block, name, slotsOf(inputs.trim()), slotsOf(outputs.trim()),
          sub.empty() ? std::nullopt : std::optional<uint32_t>(std::stoul(sub.str())));
  }
  for (uint32_t b = 0; b < program.blocks.size(); ++b)
    for (const BlockOp &op : program.blocks[b].ops)
      for (const char *slot : {"Cond", "Condition"})
        for (TextId name : program.variables(op.inputs, slot)) {
          if (name == kEmptyName) continue;
          BlockVariable &condition = *program.find(*program.declaringBlock(b, name), name);
          condition.dtype = FluidType::Bool, condition.shape = {1};
        }
  return program;
}

std::string dump(const BlockProgram &program, uint32_t block, size_t first) {
  std::string text;
  raw_string_ostream os(text);
  for (const BlockOp &op : ArrayRef(program.blocks[block].ops).drop_front(first)) {
    os << program.text(op.type);
    if (op.subBlock) os << ':' << *op.subBlock;
    auto print = [&](ArrayRef<BlockSlot> slots) {
      for (const BlockSlot &slot : slots) {
        os << ' ' << program.text(slot.name) << '=';
        interleave(slot.variables, os, [&](TextId name) { os << program.text(name); }, ",");
      }
    };
    print(op.inputs);
    os << " ->";
    print(op.outputs);
    os << '\n';
  }
  return text;
}

FluidRequest lossOf(std::string name) {
  FluidRequest request;
  request.targets = {std::move(name)};
  return request;
}

std::string pairsOf(const FluidResult &result) {
  std::string pairs;
  for (const FluidPair &pair : result.pairs)
    pairs += (result.program.text(pair.variable) + "=" +
              (pair.gradient.isValid() ? result.program.text(pair.gradient) : StringRef("none")) + " ")
                 .str();
  return pairs;
}

Emitted emitted(StringRef text, const FluidRequest &request) {
  TestContext context;
  FluidResult result = cantFail(appendBackward(context, programOf(text), request));
  std::string pairs = pairsOf(result);
  return {std::move(result.program), std::move(pairs)};
}

std::string emissionError(StringRef text, const FluidRequest &request) {
  TestContext context;
  return describeWithNotes(appendBackward(context, programOf(text), request).takeError());
}

FluidRequest gradientsOf(std::vector<std::string> targets, std::vector<std::string> inputs) {
  FluidRequest request;
  request.api = FluidRequest::Api::Gradients;
  request.targets = std::move(targets);
  request.inputs = std::move(inputs);
  return request;
}

}  // namespace gradc::testing
