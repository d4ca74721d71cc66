// Reading, hints, writing. Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/block_input.h"
#include "tools/gradc/common/tool.h"

#include "formats/json/writer.h"
#include "ir/rules/verify.h"
#include "ops/registry.h"
#include "passes/order/order_mutation.h"

#include <utility>

using namespace llvm;

namespace gradc {

Tool::Tool(Diagnostics &diagnostics) : diagnostics(diagnostics) { registerBuiltinOps(context.ops); }

Expected<std::unique_ptr<MemoryBuffer>> readFile(StringRef path) {
  static bool isInputRead = false;  // there is one standard input, and it ends
  if (path == "-" && std::exchange(isInputRead, true))
    return Failure(ErrorKind::Usage, "standard input is requested for two files, and can be only one of them")
        .note("without FILE the graph is read from it");
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFileOrSTDIN(path);
  if (buffer) return std::move(*buffer);
  const StringRef name = path == "-" ? StringRef("<stdin>") : path;
  if (buffer.getError() == std::errc::not_enough_memory)
    return Failure(ErrorKind::TooLarge, "no memory to read '" + name + "'");
  return Failure(ErrorKind::Io, "cannot read '" + name + "': " + buffer.getError().message());
}

Expected<StringRef> readInput(Tool &tool, StringRef path) {
  Expected<std::unique_ptr<MemoryBuffer>> buffer = readFile(path);
  if (!buffer) return buffer.takeError();
  return tool.diagnostics.setSource(path, std::move(*buffer));
}

StringRef inputPath(const Tool &tool) {
  return tool.options.files.empty() ? StringRef("-") : StringRef(tool.options.files.front());
}

Expected<BlockFile> loadBlocks(Tool &tool, StringRef text) {
  Expected<BlockFile> file = readBlocks(tool.context, text);
  if (!file) return file.takeError();
  for (const std::string &warning : file->warnings) tool.diagnostics.warning(warning);
  return file;
}

Expected<Graph> loadText(Tool &tool, StringRef text) {
  if (looksLikeBlocks(text)) {
    Expected<BlockFile> file = loadBlocks(tool, text);
    if (!file) return file.takeError();
    Expected<Graph> graph = blocksAsGraph(tool, std::move(*file));
    if (!graph) return graph;
    if (Error error = verifyGraph(*graph, tool.options.errorLimit)) return error;
    return graph;
  }
  Expected<LoadedGraph> loaded = readJson(tool.context, text, ReadOptions());
  if (!loaded) return loaded.takeError();
  tool.diagnostics.setInput(loaded->graph, std::move(loaded->sources));
  for (const std::string &warning : loaded->warnings) tool.diagnostics.warning(warning);
  if (Error error = verifyGraph(loaded->graph, tool.options.errorLimit)) return error;
  return loaded->graph;
}

Expected<Graph> load(Tool &tool, StringRef path) {
  Expected<StringRef> text = readInput(tool, path);
  if (!text) return text.takeError();
  return loadText(tool, *text);
}

Expected<Graph> load(Tool &tool) { return load(tool, inputPath(tool)); }

Expected<Graph> inOrder(Tool &tool, const Graph &graph) {
  Expected<OrderedGraph> ordered = orderMutations(tool.context, graph, OverwrittenPolicy::Save);
  if (!ordered) return ordered.takeError();
  tool.diagnostics.setCurrent(ordered->graph);
  return ordered->graph;
}

Expected<Graph> loadInOrder(Tool &tool) {
  Expected<Graph> input = load(tool);
  if (!input) return input.takeError();
  return inOrder(tool, *input);
}

Expected<InferRequest> resolveHints(const Tool &tool, const Graph &graph, const Graph &known) {
  InferRequest request;
  const TypeFlags &flags = tool.options.types;
  if (flags.shapes.empty() && flags.dtypes.empty()) return request;
  NameIndex names(graph), knownNames(known);
  auto variable = [&](StringRef name) -> Expected<NodeId> {
    if (Expected<NodeId> inKnown = knownNames.variable(name); !inKnown) return inKnown.takeError();
    Expected<NodeId> found = names.variable(name);
    if (found) return *found;
    consumeError(found.takeError());
    return NodeId();
  };
  for (const ShapeFlag &shape : flags.shapes) {
    Expected<NodeId> node = variable(shape.name);
    if (!node) return node.takeError();
    if (node->isValid()) request.shapes.push_back({*node, shape.dims});
  }
  for (const DTypeFlag &dtype : flags.dtypes) {
    Expected<NodeId> node = variable(dtype.name);
    if (!node) return node.takeError();
    if (node->isValid()) request.dtypes.push_back({*node, dtype.dtype});
  }
  return request;
}

Expected<Inference> inferWithFlags(Tool &tool, const Graph &graph) {
  Expected<InferRequest> hints = resolveHints(tool, graph, graph);
  if (!hints) return hints.takeError();
  return infer(tool.context, graph, *hints, tool.options.types.inferOptions());
}

Expected<Inference> inferPartly(Tool &tool, const Graph &graph, const InferRequest &hints) {
  InferOptions options;
  options.allowUnknown = true;
  options.unknownDim = tool.options.types.unknownDim;
  return infer(tool.context, graph, hints, options);
}

Error writeGraph(Tool &tool, const Graph &graph) {
  return writeFile(tool.options.output, [&](raw_ostream &os) { writeJson(os, graph); });
}

static Error writeTextTo(StringRef path, StringRef text) {
  return writeFile(path, [&](raw_ostream &os) { os << text; });
}

Error writeText(Tool &tool, StringRef text) { return writeTextTo(tool.options.output, text); }

Error printReport(StringRef text) { return writeTextTo("", text); }

Expected<int> exitCode(Error error) {
  if (error) return error;
  return 0;
}

}  // namespace gradc
