// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/resolve_request.h"

#include "formats/blocks/graph/first_reads.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/named_variables.h"
#include "formats/blocks/tables/gradient_forms.h"

using namespace llvm;

namespace gradc {

namespace {

constexpr int64_t kNoRole = 4096;  // value of op_role

Error checkFlow(const BlockProgram &program) {
  for (uint32_t block = 0; block < program.blocks.size(); ++block)
    for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
      if (conditionSlot(program.text(program.blocks[block].ops[at].type)).empty()) continue;
      if (Expected<TextId> condition = conditionOf(program, block, at); !condition) return condition.takeError();
    }
  return Error::success();
}

}  // namespace

Expected<ResolvedRequest> resolveRequest(Context &context, const BlockProgram &program, const FluidRequest &request) {
  ResolvedRequest resolved;
  if (request.block >= program.blocks.size())
    return Failure(ErrorKind::UnknownName, "the program has no block " + Twine(request.block));
  if (Error error = checkFlow(program)) return error;
  if (Error error = checkFirstReads(program)) return error;
  constexpr uint32_t kMostCalls = 1000;  // a name that is taken grows with each
  if (request.priorCalls > kMostCalls)
    return Failure(ErrorKind::TooLarge,
                   Twine(request.priorCalls) + " earlier calls on the program, expected at most " + Twine(kMostCalls));
  if (request.targets.empty()) return Failure(ErrorKind::MissingAttr, "no target is given, expected at least one");
  if (!request.targetGradients.empty() && request.targetGradients.size() != request.targets.size())
    return Failure(ErrorKind::HeadCount, Twine(request.targets.size()) + " targets with " +
                                             Twine(request.targetGradients.size()) + " gradients");
  if (Error error = findVariables(program, request.block, request.targets, "target", resolved.targets)) return error;
  if (Error error = findVariables(program, request.block, request.inputs, "input", resolved.inputs)) return error;
  for (const std::string &name : request.noGrad) {
    Expected<TextId> id = findAnywhere(program, name, "no-gradient variable");
    if (!id) return id.takeError();
    resolved.noGradNames.push_back(*id);
  }
  for (const ErrorClip &clip : request.errorClips) {
    Expected<TextId> variable = findVariable(program, request.block, clip.variable, "clipped variable");
    if (!variable) return variable.takeError();
    resolved.errorClips[variable->value] =
        context.attrs({{"max", floatAttrText(AttrTag::Float, clip.max)},
                       {"min", floatAttrText(AttrTag::Float, clip.min)},
                       {"mkldnn_data_type", stringAttrText(AttrTag::String, "float32")},
                       {"op_role", intAttrText(AttrTag::Int, kNoRole)},
                       {"op_role_var", stringsAttrText(AttrTag::Strings, {})},
                       {"use_mkldnn", boolAttrText(false)}});
  }
  for (TextId target : resolved.targets)
    if (!program.find(request.block, target))
      return Failure(ErrorKind::ForeignEntry,
                     "target '" + program.text(target) + "' is not a variable of block " + Twine(request.block));
  if (request.api == FluidRequest::Api::AppendBackward)
    if (Error error = checkLoss(program, request.block, resolved.targets[0])) return error;
  return resolved;
}

Error checkGradientNames(const BlockProgram &program) {
  for (uint32_t block = 0; block < program.blocks.size(); ++block)
    for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
      const BlockOp &op = program.blocks[block].ops[at];
      for (const std::vector<BlockSlot> *slots : {&op.inputs, &op.outputs})
        for (const BlockSlot &slot : *slots)
          for (TextId name : slot.variables) {
            if (!program.text(name).contains("@GRAD")) continue;
            return failureAt(program, block, at, ErrorKind::AmbiguousName,
                             "'" + program.text(name) + "' in slot '" + program.text(slot.name) +
                                 "' has a name of a gradient, in a program that has no gradients yet");
          }
    }
  return Error::success();
}

Error checkEarlierGradients(const BlockProgram &program, uint32_t block, ArrayRef<uint32_t> path,
                            const NameSet &targetGradients, GradientNames &names) {
  const std::vector<BlockOp> &ops = program.blocks[block].ops;
  IdMap<uint32_t> lastWriter;
  for (uint32_t i = 0; i < ops.size(); ++i)
    if (!ops[i].subBlock)  // the gradient of a loop works in place, and has none
      forEachVariable(ops[i].outputs, [&](TextId name) {
        if (names.isGradient(name)) lastWriter[name.value] = i;
      });
  for (uint32_t i : path)
    for (const std::vector<BlockSlot> *slots : {&ops[i].inputs, &ops[i].outputs})
      for (const BlockSlot &slot : *slots)
        for (TextId name : slot.variables) {
          if (targetGradients.contains(name))
            return failureAt(program, block, i, ErrorKind::AmbiguousName,
                             "'" + program.text(name) + "' in slot '" + program.text(slot.name) +
                                 "' has the name of a target's gradient");
          const auto last = lastWriter.find(name.value);
          if (last == lastWriter.end() || last->second < i + (slots == &ops[i].outputs)) continue;
          return failureAt(program, block, i, ErrorKind::AmbiguousName,
                           "the gradient '" + program.text(name) + "' in slot '" + program.text(slot.name) +
                               "' is overwritten later, so the name is ambiguous");
        }
  return Error::success();
}

Error checkNamesInside(const BlockProgram &program, uint32_t block, uint32_t index, uint32_t gradientBlock,
                       GradientNames &names) {
  const BlockOp &owner = program.blocks[block].ops[index];
  NameSet used;
  for (const BlockOp &op : program.blocks[*owner.subBlock].ops)
    forEachOperand(op, [&](TextId name) {
      if (names.isGradient(name)) used.insert(name);
    });
  if (used.names().empty()) return Error::success();
  TextId taken;
  auto note = [&](TextId gradient) {
    if (!taken.isValid() && used.contains(gradient)) taken = gradient;
  };
  for (TextId name : program.variables(owner.outputs, "Out")) note(names.gradient(name));
  for (const BlockOp &op : program.blocks[gradientBlock].ops) forEachVariable(op.outputs, note);
  if (!taken.isValid()) return Error::success();
  return failureAt(program, block, index, ErrorKind::AmbiguousName,
                   "its block uses the name '" + program.text(taken) +
                       "', which a gradient has in the block of its gradient");
}

std::vector<TextId> liftFlags(BlockProgram &program, uint32_t block, ArrayRef<TextId> targets) {
  std::vector<TextId> flagged;
  for (TextId name : targets) {
    BlockVariable &target = *program.find(block, name);
    if (!target.stopsGradient) continue;
    target.stopsGradient = false;
    flagged.push_back(name);
  }
  return flagged;
}

static std::vector<TextId> trainableParameters(const BlockProgram &program) {
  std::vector<TextId> names;
  for (const BlockParameter &parameter : program.parameters)
    if (parameter.isTrainable) names.push_back(parameter.name);
  return names;
}

std::vector<TextId> parametersOf(const BlockProgram &program, const FluidRequest &request) {
  std::vector<TextId> names;
  if (!request.parameters) names = trainableParameters(program);
  else
    for (const std::string &name : *request.parameters) names.push_back(program.texts.find(name));
  erase_if(names, [&](TextId name) { return !name.isValid() || !program.declaringBlock(0, name); });
  return names;
}

uint32_t callsOn(const BlockProgram &program) {
  constexpr int64_t kBackward = 1;  // a bit of op_role
  if (program.blocks.empty()) return 0;
  DenseSet<const void *> attrs;
  IdSet types;
  const bool isDifferentiated = any_of(program.blocks[0].ops, [&](const BlockOp &op) {
    const bool hasRole = attrs.insert(op.attrs.id()).second && intAttr(op.attrs, "op_role").value_or(0) & kBackward;
    return hasRole || (types.insert(op.type.value).second && isGradientType(program.text(op.type)));
  });
  if (!isDifferentiated) return 0;
  uint32_t most = 1;
  for (const BlockVariable &variable : program.blocks[0].variables) {
    uint32_t number = 0;
    for (StringRef name = program.text(variable.name); name.consume_front("grad/");) ++number;
    most = std::max(most, number);
  }
  return most;
}

/// The last writers of parameters' gradients list their pairs, the last pair first.
static void setRoleVars(Context &context, const BlockProgram &program, std::vector<BlockOp> &ops,
                        ArrayRef<FluidPair> pairs, ArrayRef<size_t> lastWriter) {
  std::vector<std::pair<size_t, const FluidPair *>> named;  // by the operator that lists them
  for (const FluidPair &pair : reverse(pairs)) named.push_back({lastWriter[pair.gradient.value], &pair});
  llvm::stable_sort(named, llvm::less_first());
  for (size_t i = 0; i < named.size();) {
    BlockOp &op = ops[named[i].first];
    std::vector<std::string> vars;
    for (; i < named.size() && &ops[named[i].first] == &op; ++i)
      for (TextId name : {named[i].second->variable, named[i].second->gradient})
        vars.push_back(program.text(name).str());
    op.attrs = context.withAttrs(op.attrs, {{"op_role_var", stringsAttrText(AttrTag::Strings, vars)}});
  }
}

Expected<std::vector<FluidPair>> parameterPairs(Context &context, BlockProgram &program, const FluidRequest &request,
                                                uint32_t targetBlock, const GradientPlaces &places) {
  std::vector<TextId> wanted;
  if (!request.parameters) wanted = trainableParameters(program);
  else if (Error error = findVariables(program, request.block, *request.parameters, "parameter", wanted)) return error;
  std::vector<size_t> lastWriter(program.texts.size());
  std::vector<BlockOp> &ops = program.blocks[targetBlock].ops;
  for (size_t i = 0; i < ops.size(); ++i)
    forEachVariable(ops[i].outputs, [&](TextId name) { lastWriter[name.value] = i; });
  std::vector<FluidPair> pairs;
  for (TextId parameter : wanted) {
    auto found = places.find(parameter.value);
    if (found == places.end()) continue;
    const auto [gradient, block] = found->second;
    if (!program.find(targetBlock, gradient)) {
      if (!request.parameters) continue;
      return Failure(ErrorKind::MissingGradVar, "the gradient '" + program.text(gradient) + "' of parameter '" +
                                                    program.text(parameter) + "' is a variable of block " +
                                                    Twine(block) + ", expected of block " + Twine(targetBlock));
    }
    pairs.push_back({parameter, gradient});
  }
  setRoleVars(context, program, ops, pairs, lastWriter);
  return pairs;
}

}  // namespace gradc
