// `gradc convert`: the contents of a file in canonical form. Tested by tests/tools/cli_test.cc
#include "drawing/table.h"
#include "tools/gradc/verbs/verbs.h"

#include "formats/blocks/files/block_writer.h"
#include "ir/base/error.h"
#include "ir/graph/text.h"

using namespace llvm;

namespace gradc {
namespace {

Error writeProgram(Tool &tool, StringRef text) {
  if (!looksLikeBlocks(text))
    return Failure(ErrorKind::UnsupportedOption, "'--to=blocks' needs a program of blocks, found a graph");
  Expected<BlockFile> file = loadBlocks(tool, text);
  if (!file) return file.takeError();
  return writeFile(tool.options.output, [&](raw_ostream &os) { writeBlocks(os, *file); });
}

Expected<int> runConvert(Tool &tool) {
  if (tool.options.convert == ConvertForm::Cbor)
    return Failure(ErrorKind::UnsupportedOption, "'--to=cbor' is not available yet")
        .note("--to=json is the form every host reads");
  Expected<StringRef> source = readInput(tool, inputPath(tool));
  if (!source) return source.takeError();
  if (tool.options.convert == ConvertForm::Blocks) return exitCode(writeProgram(tool, *source));
  Expected<Graph> input = loadText(tool, *source);
  if (!input) return input.takeError();
  if (tool.options.convert == ConvertForm::Json) return exitCode(writeGraph(tool, *input));
  std::string text;
  raw_string_ostream os(text);
  printText(os, *input);
  return exitCode(writeText(tool, text));
}

constexpr StringRef kConvertFlags[] = {"to", "output", "max-iterations", "unknown-dim", "error-limit", "diag", "help"};

}  // namespace

constinit const Verb kConvert = {
    .name = "convert",
    .arguments = "[FILE]",
    .summary = "write the canonical form; upgrade old files",
    .description =
        "Reads any supported form (files from before NNVM included) and writes the canonical one: nodes in depth-first "
        "order from the heads, what no head reaches left out. Converting the result again gives the same bytes. A "
        "program of blocks becomes a graph, or with --to blocks its canonical form.",
    .examples = "gradc convert old-model.json -o model.json\n"
                "gradc convert model.json --to text | less",
    .flags = kConvertFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .writesGraph = true,
    .run = runConvert,
};

}  // namespace gradc
