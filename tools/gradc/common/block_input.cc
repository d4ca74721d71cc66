// Tested by tests/tools/golden_test.cc, cases F_blocks_*
#include "tools/gradc/common/block_input.h"

#include "formats/blocks/program/block_attrs.h"

#include "llvm/ADT/StringSet.h"

#include <optional>

using namespace llvm;

namespace gradc {
namespace {

/// A gradient of the result, and the variable it belongs to.
struct NamedGradient {
  std::string gradient, of;
};

/// Once it is clipped, or an optimizer has decayed it, a value differs from the gradient.
bool changesGradients(const BlockCall &call) {
  if (!call.errorClips.empty()) return true;
  if (call.api != "minimize" || !call.optimizerArguments) return false;
  return any_of(*call.optimizerArguments, [](const auto &argument) {
    return StringRef(argument.first).starts_with("clip_by_") || StringRef(argument.first).ends_with("_decay");
  });
}

std::vector<NamedGradient> gradientHeads(const BlockFile &file) {
  std::vector<NamedGradient> heads;
  if (!file.result) return heads;
  StringSet<> known;
  for (auto [i, row] : enumerate(file.result->rows)) {
    if (!row.gradient || !known.insert(*row.gradient).second) continue;
    const bool isInput = file.call->api == "gradients" && i < file.call->inputs.size();
    heads.push_back({*row.gradient, isInput ? file.call->inputs[i] : row.parameter.value_or("")});
  }
  return heads;
}

/// The heads that are gradients, and the head gradients that the call gives.
GradientTable tableOf(const BlockFile &file, const BlockGraph &made, size_t numTargets,
                      ArrayRef<NamedGradient> gradients) {
  GradientTable table;
  table.heads.resize(numTargets);
  table.numForwardHeads = static_cast<uint32_t>(numTargets);
  const bool areGradients = !changesGradients(*file.call);
  for (auto [i, gradient] : enumerate(gradients)) {
    GradientTable::Head &head = table.heads.emplace_back();
    const BlockName *of = made.find(gradient.of);
    if (!areGradients || !of) continue;
    const Value x = of->first;
    if (!x.isValid() || !made.graph.isVariable(x.node)) continue;
    head = {GradientTable::HeadKind::Grad, gradient.of, x.node, x.index, 1, Request::Write, static_cast<int64_t>(i)};
    table.slotStatus.push_back("grad");
  }
  const BlockCall &call = *file.call;
  if (call.api == "gradients" && call.targetGradients)
    for (auto [target, seed] : zip(call.targets, *call.targetGradients))
      if (const BlockName *y = seed ? made.find(target) : nullptr; y && y->last.isValid())
        table.headGradOf.push_back({*seed, made.graph.listedName(y->last)});
  return table;
}

}  // namespace

void setInput(Tool &tool, BlockProgram program, BlockGraph graph) {
  struct Input {
    BlockProgram program;
    BlockOrigins origins;
  };
  auto input = std::make_shared<Input>(Input{std::move(program), std::move(graph.origins)});
  tool.diagnostics.setInput(graph.graph, [input](const Place &place) -> std::optional<Diagnostics::Origin> {
    const std::optional<BlockOrigins::Op> op = input->origins.find(input->program, place);
    if (!op) return std::nullopt;
    const BlockOp &known = input->program.blocks[op->block].ops[op->op];
    Diagnostics::Origin origin{known.offset, describe(input->program, op->block, op->op), {}};
    if (known.callstack.isValid())
      origin.notes.push_back("created at " + callSite(input->program.text(known.callstack)));
    return origin;
  });
}

Expected<Graph> blocksAsGraph(Tool &tool, BlockFile file) {
  BlockGraphOptions options;
  if (tool.options.maxIterations) options.maxIterations = static_cast<int64_t>(*tool.options.maxIterations);
  std::vector<NamedGradient> gradients;
  size_t numTargets = 0;
  if (file.call && file.call->currentBlock == 0 && file.call->lossBlock.value_or(0) == 0) {
    StringSet<> known;
    const auto add = [&](const std::string &name) {
      if (known.insert(name).second) options.heads.push_back(name);
    };
    if (file.call->api == "gradients") for_each(file.call->targets, add);
    else add(file.call->loss);
    numTargets = options.heads.size();
    gradients = gradientHeads(file);
    erase_if(gradients, [&](const NamedGradient &head) { return known.contains(head.gradient); });
    for (const NamedGradient &head : gradients) add(head.gradient);
    options.numSeeds = static_cast<uint32_t>(options.heads.size() - numTargets);
    options.holdsLost = !gradients.empty();
  }
  Expected<BlockGraph> made = graphOfBlocks(tool.context, file.program, options);
  if (!made) return made.takeError();
  tool.headNames = made->headNames;
  if (!gradients.empty()) {
    GraphTable table = made->graph.table();
    table.gradient = tableOf(file, *made, numTargets, gradients);
    made->graph = made->graph.withTable(std::move(table));
  }
  const Graph graph = made->graph;
  setInput(tool, std::move(file.program), std::move(*made));
  return graph;
}

}  // namespace gradc
