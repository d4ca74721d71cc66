// Tested by tests/append_backward_test.cc
#include "formats/blocks/named_variables.h"

using namespace llvm;

namespace gradc {

Expected<TextId> findVariable(const BlockProgram &program, uint32_t block, StringRef name, const char *what) {
  const TextId id = program.texts.find(name);
  if (id.isValid() && program.declaringBlock(block, id)) return id;
  return Failure(ErrorKind::UnknownName,
                 Twine(what) + " '" + name + "' is declared neither in block " + Twine(block) + " nor around it");
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

Expected<TextId> findAnywhere(const BlockProgram &program, StringRef name, const char *what) {
  const TextId id = program.texts.find(name);
  for (uint32_t block = 0; id.isValid() && block < program.blocks.size(); ++block)
    if (program.find(block, id)) return id;
  return Failure(ErrorKind::UnknownName, Twine(what) + " '" + name + "' is not in the program");
}

}  // namespace gradc
