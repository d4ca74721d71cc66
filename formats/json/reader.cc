// From the parser's events to a graph. Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/reader.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"

#include "formats/json/assemble.h"
#include "formats/json/parse_graph.h"

using namespace llvm;

namespace gradc {

Expected<LoadedGraph> readJson(Context &context, StringRef text, const ReadOptions &options) {
  return catchingBadAlloc("to read the graph", [&]() -> Expected<LoadedGraph> {
    if (text.trim().empty()) return Failure(ErrorKind::BadJson, "the input is empty, expected a graph").atOffset(0);
    const char *position = text.data();
    JsonHandler handler(context, text, position, options.maxNesting);
    parseJson(text, position, handler);
    Expected<RawFile> file = handler.finish();
    if (!file) return withJsonPath(file.takeError(), text);
    Expected<LoadedGraph> loaded = assembleFile(context, std::move(*file));
    if (!loaded) return withJsonPath(loaded.takeError(), text);
    return loaded;
  });
}

}  // namespace gradc
