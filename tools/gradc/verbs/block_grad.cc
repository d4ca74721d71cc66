// Tested by tests/tools/golden_test.cc, cases F_blocks_*
#include "tools/gradc/verbs/block_grad.h"

#include "tools/gradc/common/block_input.h"

#include "formats/blocks/backward/append_backward.h"
#include "formats/blocks/backward/minimize.h"
#include "formats/blocks/backward/resolve_request.h"
#include "formats/blocks/files/block_writer.h"
#include "ir/rules/verify.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

/// Names of variables contain no commas.
std::vector<std::string> split(ArrayRef<std::string> lists) {
  std::vector<std::string> names;
  for (StringRef list : lists) {
    SmallVector<StringRef, 4> parts;
    list.split(parts, ',', -1, false);
    for (StringRef part : parts) names.push_back(part.str());
  }
  return names;
}

/// What the call asks for and gradc does not do.
void warnOfCheckpoints(Tool &tool, const BlockCall &call) {
  if (call.checkpoints && !call.checkpoints->empty())
    tool.diagnostics.warning("'checkpoints' of 'call' do not count: the gradient keeps every value that it reads");
}

/// Gradients that the program has only in part, because Paddle's operators compute no more.
void warnOfLost(Tool &tool, ArrayRef<LostGradient> lost) {
  for (const LostGradient &one : lost)
    tool.diagnostics.warning(one.op + ": the gradient of '" + one.variable + "' in slot '" + one.slot +
                             "' is left out, because Paddle's " + one.gradientType + " does not " +
                             (one.isOutput ? "read" : "compute") + " it; the gradient of '--as graph' is whole");
}

/// Of names that a call asks for and that get no gradient: a warning for each that it lists, a note for other
/// parameters.
void noteMissing(Tool &tool, const BlockProgram &program, const BlockCall &call, ArrayRef<std::string> names) {
  if (is_contained(tool.options.given, "unused") && tool.options.grad.options.unused == UnusedPolicy::None) return;
  const bool isListed = call.api == "gradients" || call.parameterList;
  for (const std::string &name : names) {
    const TextId id = program.texts.find(name);
    const BlockVariable *variable = id.isValid() ? program.find(0, id) : nullptr;
    const bool isCut = call.noGradSet && is_contained(*call.noGradSet, name);
    const std::string text =
        "'" + name + "' has no gradient: " +
        (isCut                                 ? "it is a no-gradient variable"
         : variable && variable->stopsGradient ? "it is declared with stop_gradient"
                                               : "no target depends on it, or the gradient is cut on the way");
    if (isListed) tool.diagnostics.warning(text);
    else tool.diagnostics.note(text);
  }
}

/// The names without a gradient in the result. `append_backward` lists only parameters that have one.
std::vector<std::string> missingIn(const FluidResult &made, const BlockCall &call) {
  std::vector<std::string> missing;
  StringSet<> known;
  for (const FluidPair &pair : made.pairs) {
    const StringRef name = made.program.text(pair.variable);
    if (pair.gradient.isValid()) known.insert(name);
    else if (known.insert(name).second) missing.push_back(name.str());
  }
  if (call.api == "gradients") return missing;
  std::vector<std::string> parameters = call.parameterList.value_or(std::vector<std::string>());
  if (!call.parameterList)
    for (const BlockParameter &parameter : made.program.parameters)
      if (parameter.isTrainable) parameters.push_back(made.program.text(parameter.name).str());
  for (const std::string &name : parameters)
    if (known.insert(name).second) missing.push_back(name);
  return missing;
}

Error addSeeds(const Tool &tool, BlockCall &call) {
  if (tool.options.grad.seeds.empty()) return Error::success();
  if (call.api != "gradients")
    return Failure(ErrorKind::Usage, "'--seed' needs '--wrt': the loss of append_backward starts from ones");
  if (!call.targetGradients) call.targetGradients.emplace(call.targets.size());
  for (const KeyValue &seed : tool.options.grad.seeds) {
    const auto at = llvm::find(call.targets, seed.key);
    if (at == call.targets.end())
      return Failure(ErrorKind::UnknownName, "'--seed' names '" + seed.key + "', which is not among the targets")
          .note("the targets are " + join(call.targets, ", "));
    (*call.targetGradients)[static_cast<size_t>(at - call.targets.begin())] = seed.value;
  }
  return Error::success();
}

FluidRequest requestOf(const BlockCall &call) {
  FluidRequest request;
  request.block = static_cast<uint32_t>(call.lossBlock.value_or(call.currentBlock));
  request.noGrad = call.noGradSet.value_or(std::vector<std::string>());
  request.priorCalls = static_cast<uint32_t>(call.priorCalls);
  if (call.api == "gradients") {
    request.api = FluidRequest::Api::Gradients;
    request.targets = call.targets;
    request.inputs = call.inputs;
    if (call.targetGradients)
      for (const std::optional<std::string> &name : *call.targetGradients)
        request.targetGradients.push_back(name.value_or(""));
  } else {
    request.targets = {call.loss};
    for (const auto &[variable, bounds] : call.errorClips) {
      ErrorClip &clip = request.errorClips.emplace_back(ErrorClip{variable, 0, 0});
      to_float(bounds[0], clip.min);
      to_float(bounds[1], clip.max);
    }
    request.parameters = call.parameterList;
  }
  return request;
}

/// The optimizer of the call. Clipping is an argument, too; Paddle is given an object for it.
Expected<FluidOptimizer> optimizerOf(const BlockCall &call) {
  using Clip = FluidOptimizer::Clip;
  FluidOptimizer optimizer;
  optimizer.name = call.optimizer.value_or(optimizer.name);
  if (!call.optimizerArguments) return optimizer;
  for (const auto &[name, spelled] : *call.optimizerArguments) {
    double value = spelled == "true";
    if (spelled != "true" && spelled != "false" && !(to_float(spelled, value) && std::isfinite(value)))
      return Failure(ErrorKind::BadJson, "argument '" + name + "' of the optimizer is " + spelled +
                                             ", expected a number that is finite in double precision");
    const Clip clip = StringSwitch<Clip>(name)
                          .Case("clip_by_value", Clip::Value)
                          .Case("clip_by_norm", Clip::Norm)
                          .Case("clip_by_global_norm", Clip::GlobalNorm)
                          .Default(Clip::None);
    if (clip == Clip::None) {
      optimizer.arguments[name] = value;
      continue;
    }
    if (optimizer.clip != Clip::None)
      return Failure(ErrorKind::UnsupportedOption, "the optimizer clips in two ways, expected one 'clip_by_…'");
    optimizer.clip = clip;
    optimizer.clipMax = value;
    optimizer.clipMin = -value;
  }
  return optimizer;
}

}  // namespace

Expected<BlockCall> callOf(const Tool &tool, const BlockFile &file) {
  const Options &options = tool.options;
  BlockCall call = file.call.value_or(BlockCall());
  const int64_t numCalls = callsOn(file.program);
  if (!options.grad.of.empty()) {
    call = BlockCall();
    if (options.grad.wrt.empty()) {
      const std::vector<std::string> losses = split(options.grad.of);
      if (losses.size() != 1)
        return Failure(ErrorKind::Usage,
                       "'--of' names " + Twine(losses.size()) + " variables, expected one loss, or '--wrt'");
      call.api = "append_backward";
      call.loss = losses.front();
      call.lossBlock = 0;
    } else {
      call.api = "gradients";
      call.targets = split(options.grad.of);
      call.inputs = split(options.grad.wrt);
    }
  } else if (!file.call) {
    return Failure(ErrorKind::Usage, "the file has no 'call', which names what to differentiate")
        .note("'--of LOSS' asks for the gradients of the parameters, '--of TARGET --wrt NAME' for those of variables");
  } else if (!options.grad.wrt.empty()) {
    return Failure(ErrorKind::Usage, "'--wrt' needs '--of' where the input is a program of blocks");
  }
  if (!options.grad.parameters.empty()) {
    if (call.api == "gradients") return Failure(ErrorKind::Usage, "'--parameters' cannot be combined with '--wrt'");
    call.parameterList = split(options.grad.parameters);
  }
  if (!options.grad.noGrad.empty()) {
    if (!call.noGradSet) call.noGradSet.emplace();
    llvm::append_range(*call.noGradSet, split(options.grad.noGrad));
  }
  if (Error error = addSeeds(tool, call)) return error;
  if (call.currentBlock == 0 && call.lossBlock.value_or(0) == 0) call.priorCalls = std::max(call.priorCalls, numCalls);
  return call;
}

Error writeBackward(Tool &tool, BlockFile file, const BlockCall &call) {
  warnOfCheckpoints(tool, call);
  Expected<FluidResult> made = [&]() -> Expected<FluidResult> {
    if (call.api != "minimize") return appendBackward(tool.context, std::move(file.program), requestOf(call));
    Expected<FluidOptimizer> optimizer = optimizerOf(call);
    if (!optimizer) return optimizer.takeError();
    return minimize(tool.context, std::move(file.program), requestOf(call), *optimizer);
  }();
  if (!made) return made.takeError();
  warnOfLost(tool, made->lost);
  const std::vector<std::string> missing = missingIn(*made, call);
  noteMissing(tool, made->program, call, missing);
  if (made->pairs.empty() && missing.empty())
    tool.diagnostics.warning(
        "the result lists no gradient, because the program has no trainable parameters; '--wrt' asks "
        "for the gradients of variables");
  BlockFile result;
  result.others = std::move(file.others);
  result.call = call;
  result.result.emplace();
  for (const FluidPair &pair : made->pairs) {
    BlockResult::Row &row = result.result->rows.emplace_back();
    if (call.api != "gradients") row.parameter = made->program.text(pair.variable).str();
    if (pair.gradient.isValid()) row.gradient = made->program.text(pair.gradient).str();
  }
  result.program = std::move(made->program);
  return writeFile(tool.options.output, [&](raw_ostream &os) { writeBlocks(os, result); });
}

Expected<Graph> gradientAsGraph(Tool &tool, BlockFile file, const BlockCall &call, Graph &forward) {
  warnOfCheckpoints(tool, call);
  BlockGraphOptions blocks;
  if (tool.options.maxIterations) blocks.maxIterations = static_cast<int64_t>(*tool.options.maxIterations);
  Expected<BlockGradient> gradient = gradientOfCall(tool.context, file.program, call, blocks);
  if (!gradient) return gradient.takeError();
  forward = gradient->forward.graph;
  noteMissing(tool, file.program, call, gradient->unreached);
  if (tool.options.grad.forbidsUnused && !gradient->unreached.empty())
    return Failure(ErrorKind::Unreachable,
                   "'" + gradient->unreached.front() + "' has no gradient, which '--unused error' forbids");
  setInput(tool, std::move(file.program), std::move(gradient->forward));
  Expected<InferRequest> hints = resolveHints(tool, forward, forward);
  if (!hints) return hints.takeError();
  Expected<Inference> inference = inferPartly(tool, forward, *hints);
  if (!inference) return inference.takeError();
  GradientOptions options = tool.options.grad.options;
  options.inference = &*inference;
  if (!tool.options.grad.forbidsUnused && options.unused == UnusedPolicy::Error) options.unused = UnusedPolicy::None;
  Expected<GradientResult> result = buildGradientOfOrder(tool.context, forward, gradient->request, options,
                                                         static_cast<uint32_t>(tool.options.grad.order));
  if (!result) return result.takeError();
  std::vector<std::string> missing;
  for (auto [name, slot] : zip(gradient->wrt, result->wrt))
    if (slot.status == SlotStatus::None) missing.push_back(name);
  noteMissing(tool, BlockProgram(), call, missing);  // none of them is flagged
  tool.diagnostics.setCurrent(result->graph);
  if (Error error = verifyGraph(result->graph, tool.options.errorLimit)) return error;
  return result->graph;
}

}  // namespace gradc
