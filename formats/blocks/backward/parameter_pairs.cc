// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/parameter_pairs.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/named_variables.h"

using namespace llvm;

namespace gradc {
namespace {

/// The last writers of parameters' gradients list their pairs, the last pair first.
void setRoleVars(Context &context, const BlockProgram &program, std::vector<BlockOp> &ops, ArrayRef<FluidPair> pairs,
                 ArrayRef<size_t> lastWriter) {
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

}  // namespace

Expected<std::vector<FluidPair>> parameterPairs(Context &context, BlockProgram &program, const FluidRequest &request,
                                                uint32_t targetBlock, const GradientPlaces &places) {
  std::vector<TextId> wanted;
  if (request.parameters) {
    if (Error error = findVariables(program, request.block, *request.parameters, "parameter", wanted)) return error;
  } else {
    for (const BlockParameter &parameter : program.parameters)
      if (parameter.isTrainable) wanted.push_back(parameter.name);
  }
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
