#include "tests/support/blocks/block_programs.h"

#include "formats/blocks/files/block_writer.h"
#include "tests/support/test_graph.h"

#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <filesystem>

using namespace llvm;

namespace gradc::testing {
namespace {

std::vector<BlockSlot> slotsOf(BlockProgram &program, const SlotNames &slots) {
  std::vector<BlockSlot> made;
  for (const auto &[name, variables] : slots) {
    BlockSlot &slot = made.emplace_back();
    slot.name = program.intern(name);
    for (const std::string &variable : variables) slot.variables.push_back(program.intern(variable));
  }
  return made;
}

}  // namespace

uint32_t addBlock(BlockProgram &program, std::optional<uint32_t> parent, const std::vector<std::string> &names,
                  std::optional<uint32_t> forward) {
  const auto number = static_cast<uint32_t>(program.blocks.size());
  program.blocks.push_back({parent, forward});
  for (const std::string &name : names) {
    BlockVariable variable{program.intern(name)};
    variable.dtype = FluidType::Fp64;
    program.addVariable(number, std::move(variable));
  }
  return number;
}

BlockOp &addOp(BlockProgram &program, uint32_t block, StringRef type, const SlotNames &inputs, const SlotNames &outputs,
               std::optional<uint32_t> subBlock) {
  BlockOp op{program.intern(type), slotsOf(program, inputs), slotsOf(program, outputs)};
  op.subBlock = subBlock;
  return program.blocks[block].ops.emplace_back(std::move(op));
}

std::string text(const BlockFile &file) {
  std::string text;
  raw_string_ostream os(text);
  writeBlocks(os, file);
  return text;
}

std::string describeWithNotes(Error error) {
  std::string text;
  error = handleErrors(std::move(error), [&](std::unique_ptr<GradcError> info) -> Error {
    for (const Note &note : info->notes) text += "; " + note.text;
    return Error(std::move(info));
  });
  return describeError(std::move(error)) + text;
}

std::string paddleFolder() {
  // Beside the tree: a test runs in a separate tree, whose files are links into that.
  std::error_code error;
  const std::filesystem::path ledger = std::filesystem::canonical("testdata/spec_rows.txt", error);
  return (ledger.parent_path().parent_path().parent_path() / "shared/programs/paddle").string();
}

std::vector<PaddleFile> paddlePrograms(StringRef ending) {
  std::vector<PaddleFile> files;
  std::error_code error;
  for (const std::filesystem::directory_entry &entry : std::filesystem::directory_iterator(paddleFolder(), error)) {
    const std::string name = entry.path().filename().string();
    if (!StringRef("/" + name).ends_with(ending)) continue;
    if (auto buffer = MemoryBuffer::getFile(entry.path().string()))
      files.push_back({name, (*buffer)->getBuffer().str()});
  }
  std::sort(files.begin(), files.end(), [](const PaddleFile &a, const PaddleFile &b) { return a.name < b.name; });
  return files;
}

}  // namespace gradc::testing
