// The file of a block program: JSON as docs/blocks.md describes it, `{program}`, optionally with the call that
// differentiates it and the result of that call; or only the program, as Paddle saves it
// (formats/blocks/files/program_desc.h). Tested by tests/formats/blocks/block_file_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/context.h"

#include <array>
#include <map>
#include <string>

namespace gradc {

/// How the user requested gradients from Paddle: the arguments of `append_backward`, `gradients` or `minimize`.
struct BlockCall {
  using Names = std::vector<std::string>;

  std::string api = {};
  int64_t currentBlock = 0;
  int64_t priorCalls = 0;  // on the same program
  // append_backward and minimize
  std::string loss = {};
  std::optional<int64_t> lossBlock = {};
  std::optional<Names> parameterList = {};
  std::optional<Names> checkpoints = {};
  /// Variables whose gradients are clipped where they arrive: the least and the largest value as the file spells them.
  /// Paddle has them as attributes of variables, which it does not write.
  std::map<std::string, std::array<std::string, 2>> errorClips = {};
  std::optional<std::string> optimizer = {};
  /// minimize: numbers and truth values as the file spells them.
  std::optional<std::map<std::string, std::string>> optimizerArguments = {};
  // append_backward and gradients
  std::optional<Names> noGradSet = {};
  // gradients
  Names targets = {}, inputs = {};
  std::optional<std::vector<std::optional<std::string>>> targetGradients = {};
};

/// What the call returned: pairs of a parameter and its gradient, or for `gradients` one gradient per input. A missing
/// name is a gradient that does not exist.
struct BlockResult {
  struct Row {
    std::optional<std::string> parameter = {}, gradient = {};
  };
  std::vector<Row> rows = {};
};

struct BlockFile {
  BlockProgram program;
  std::optional<BlockCall> call = {};
  std::optional<BlockResult> result = {};
  std::map<std::string, std::string> others = {};  // other keys and their values as JSON
  std::vector<std::string> warnings = {};          // about keys that nothing reads

  void warnOfKey(llvm::StringRef key, const llvm::Twine &of);
};

/// True for an object that has one of the keys `program`, `blocks` and `call` before any key of a graph, and for
/// Paddle's form.
bool looksLikeBlocks(llvm::StringRef text);

/// Reads either form. Linear. Errors: E-33 (malformed), naming block, operator, slot or variable, with a byte offset;
/// those of verifyBlocks.
llvm::Expected<BlockFile> readBlocks(Context &context, llvm::StringRef text);

}  // namespace gradc
