// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/program/named_variables.h"

#include "formats/blocks/program/gradient_names.h"

using namespace llvm;

namespace gradc {

Expected<TextId> findVariable(const BlockProgram &program, uint32_t block, StringRef name, const char *what) {
  const TextId id = program.texts.find(name);
  if (id.isValid() && program.declaringBlock(block, id)) return id;
  for (uint32_t other = 0; id.isValid() && other < program.blocks.size(); ++other)
    if (program.find(other, id))
      return Failure(ErrorKind::ForeignEntry, Twine(what) + " '" + name + "' is a variable of block " + Twine(other) +
                                                  ", expected one that block " + Twine(block) + " sees");
  return Failure(ErrorKind::UnknownName, Twine(what) + " '" + name + "' is not declared in block " + Twine(block) +
                                             " or in a block that encloses it");
}

Error findVariables(const BlockProgram &program, uint32_t block, ArrayRef<std::string> names, const char *what,
                    std::vector<TextId> &found) {
  for (const std::string &name : names) {
    Expected<TextId> id = findVariable(program, block, name, what);
    if (!id) return id.takeError();
    found.push_back(*id);
  }
  return Error::success();
}

Error checkLoss(const BlockProgram &program, uint32_t block, TextId loss) {
  if (const BlockVariable *variable = program.find(block, loss);
      variable && (variable->kind != FluidType::LodTensor || !variable->dtype))
    return Failure(ErrorKind::BadEntry,
                   "the loss '" + program.text(loss) + "' is declared " +
                       (variable->dtype ? "as " + fluidTypeName(variable->kind) : "without a type") +
                       ", expected a tensor with the type of its elements");
  for (const BlockOp &op : reverse(program.blocks[block].ops))
    if (anyVariable(op.outputs, [&](TextId name) { return name == loss; })) return Error::success();
  return Failure(ErrorKind::NoGraph,
                 "no operator of block " + Twine(block) + " writes the loss '" + program.text(loss) + "'");
}

Expected<TextId> findAnywhere(const BlockProgram &program, StringRef name, const char *what) {
  const TextId id = program.texts.find(name);
  for (uint32_t block = 0; id.isValid() && block < program.blocks.size(); ++block)
    if (program.find(block, id)) return id;
  return Failure(ErrorKind::UnknownName, Twine(what) + " '" + name + "' is not in the program");
}

}  // namespace gradc
