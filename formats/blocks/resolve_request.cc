// Tested by tests/append_backward_test.cc
#include "formats/blocks/resolve_request.h"

#include "formats/blocks/block_attrs.h"
#include "formats/blocks/named_variables.h"

using namespace llvm;

namespace gradc {

constexpr int64_t kNoRole = 4096;  // value of op_role

Expected<ResolvedRequest> resolveRequest(Context &context, const BlockProgram &program, const FluidRequest &request) {
  ResolvedRequest resolved;
  if (request.block >= program.blocks.size())
    return Failure(ErrorKind::UnknownName, "the program has no block " + Twine(request.block));
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
  return resolved;
}

}  // namespace gradc
