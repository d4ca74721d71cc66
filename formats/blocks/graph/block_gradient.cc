// Tested by tests/formats/blocks/block_gradient_test.cc
#include "formats/blocks/graph/block_gradient.h"

#include "formats/blocks/program/named_variables.h"
#include "ir/graph/context.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {
namespace {

std::vector<std::string> namesOf(const BlockProgram &program, const BlockCall &call) {
  if (call.api == "gradients") return call.inputs;
  std::vector<std::string> names;
  StringSet<> listed;
  if (call.parameterList)
    for (const std::string &name : *call.parameterList) listed.insert(name);
  for (const BlockParameter &parameter : program.parameters)
    if (const StringRef name = program.text(parameter.name);
        parameter.isTrainable && (!call.parameterList || listed.contains(name)))
      names.push_back(name.str());
  return names;
}

/// The value that a requested name denotes: the variable it begins as, else the last value written to it.
Value asX(const Graph &graph, const BlockName &name) {
  return name.first.isValid() && graph.isVariable(name.first.node) ? name.first : name.last;
}

Error addSeeds(BlockGradient &gradient, const BlockCall &call) {
  if (!call.targetGradients) return Error::success();
  if (call.targetGradients->size() != call.targets.size())
    return Failure(ErrorKind::HeadCount,
                   Twine(call.targets.size()) + " targets with " + Twine(call.targetGradients->size()) + " gradients");
  for (auto [head, name] : zip(gradient.request.heads, *call.targetGradients))
    if (name) head.seed = gradient.forward.find(*name)->last;
  return Error::success();
}

}  // namespace

Expected<BlockGradient> gradientOfCall(Context &context, const BlockProgram &program, const BlockCall &call,
                                       BlockGraphOptions options) {
  if (!call.errorClips.empty())
    return Failure(ErrorKind::UnsupportedOption, "the call clips the gradient of '" + call.errorClips.begin()->first +
                                                     "' where it arrives, which the gradient as a graph cannot do")
        .note("the gradient as a program of blocks can");
  if (call.noGradSet) llvm::append_range(options.noGrad, *call.noGradSet);
  const std::vector<std::string> targets = call.api == "gradients" ? call.targets : std::vector<std::string>{call.loss};
  if (targets.empty()) return Failure(ErrorKind::MissingAttr, "no target is given, expected at least one");
  if (call.currentBlock != 0 || call.lossBlock.value_or(0) != 0)
    return Failure(ErrorKind::ForeignEntry, "target '" + targets.front() + "' is in block " +
                                                Twine(call.lossBlock.value_or(call.currentBlock)) +
                                                ", expected one of the root");
  for (const std::string &name : options.noGrad)
    if (Expected<TextId> id = findAnywhere(program, name, "no-gradient variable"); !id) return id.takeError();
  if (call.api != "gradients") {
    Expected<TextId> loss = findVariable(program, 0, call.loss, "target");
    if (!loss) return loss.takeError();
    if (Error error = checkLoss(program, 0, *loss)) return error;
  }
  options.heads = targets;
  if (call.targetGradients)  // as heads, so that they are in the graph
    for (const std::optional<std::string> &name : *call.targetGradients)
      if (name) options.heads.push_back(*name), ++options.numSeeds;
  Expected<BlockGraph> forward = graphOfBlocks(context, program, options);
  if (!forward) return forward.takeError();
  BlockGradient gradient{std::move(*forward), {}, {}, {}};
  const Graph &graph = gradient.forward.graph;
  for (const std::string &name : targets)
    gradient.request.heads.push_back({gradient.forward.find(name)->last, std::nullopt, ""});
  if (Error error = addSeeds(gradient, call)) return error;
  StringSet<> cut;
  for (const std::string &name : options.noGrad) cut.insert(name);
  for (const std::string &name : namesOf(program, call)) {
    Expected<TextId> id = findVariable(program, 0, name, call.api == "gradients" ? "input" : "parameter");
    if (!id) return id.takeError();
    const BlockName *known = gradient.forward.find(name);
    const Value x = known ? asX(graph, *known) : Value();
    const bool isFlagged = program.find(0, *id)->stopsGradient && !is_contained(targets, name);
    if (!x.isValid() || isFlagged || cut.contains(name)) {
      gradient.unreached.push_back(name);
      continue;
    }
    gradient.request.wrt.push_back({x});
    gradient.wrt.push_back(name);
  }
  return gradient;
}

}  // namespace gradc
