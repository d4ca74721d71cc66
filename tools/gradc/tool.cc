// Reading, hints, writing. Tested by tests/cli_test.cc
#include "tool.h"

#include "formats/json/writer.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/order_mutation.h"

using namespace llvm;

namespace gradc {

Tool::Tool(Diagnostics &diagnostics) : diagnostics(diagnostics) { registerBuiltinOps(context.ops); }

Expected<std::unique_ptr<MemoryBuffer>> readFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFileOrSTDIN(path);
  if (buffer) return std::move(*buffer);
  const StringRef name = path == "-" ? StringRef("<stdin>") : path;
  if (buffer.getError() == std::errc::not_enough_memory)
    return Failure(ErrorKind::TooLarge, "no memory to read '" + name + "'");
  return Failure(ErrorKind::Io, "cannot read '" + name + "': " + buffer.getError().message());
}

Expected<Graph> load(Tool &tool, StringRef path) {
  Expected<std::unique_ptr<MemoryBuffer>> buffer = readFile(path);
  if (!buffer) return buffer.takeError();
  StringRef text = tool.diagnostics.setSource(path, std::move(*buffer));
  Expected<LoadedGraph> loaded = readJson(tool.context, text, ReadOptions());
  if (!loaded) return loaded.takeError();
  tool.diagnostics.setInput(loaded->graph, std::move(loaded->sources));
  for (const std::string &warning : loaded->warnings) tool.diagnostics.warning(warning);
  if (Error error = verifyGraph(loaded->graph, tool.options.errorLimit)) return error;
  return loaded->graph;
}

Expected<Graph> load(Tool &tool) {
  return load(tool, tool.options.files.empty() ? StringRef("-") : StringRef(tool.options.files.front()));
}

Expected<Graph> loadInOrder(Tool &tool) {
  Expected<Graph> input = load(tool);
  if (!input) return input.takeError();
  Expected<OrderedGraph> ordered = orderMutations(tool.context, *input, OverwrittenPolicy::Save);
  if (!ordered) return ordered.takeError();
  tool.diagnostics.setCurrent(ordered->graph);
  return ordered->graph;
}

Expected<InferRequest> resolveHints(const Tool &tool, const Graph &graph, const Graph &known) {
  InferRequest request;
  const Options &options = tool.options;
  if (options.shapes.empty() && options.dtypes.empty()) return request;
  NameIndex names(graph), knownNames(known);
  auto variable = [&](StringRef name) -> Expected<NodeId> {
    if (Expected<NodeId> inKnown = knownNames.variable(name); !inKnown) return inKnown.takeError();
    Expected<NodeId> found = names.variable(name);
    if (found) return *found;
    consumeError(found.takeError());
    return NodeId();
  };
  for (const ShapeFlag &shape : options.shapes) {
    Expected<NodeId> node = variable(shape.name);
    if (!node) return node.takeError();
    if (node->isValid()) request.shapes.push_back({*node, shape.dims});
  }
  for (const DTypeFlag &dtype : options.dtypes) {
    Expected<NodeId> node = variable(dtype.name);
    if (!node) return node.takeError();
    if (node->isValid()) request.dtypes.push_back({*node, dtype.dtype});
  }
  return request;
}

Error writeGraph(Tool &tool, const Graph &graph) {
  Expected<OutputFile> file = OutputFile::open(tool.options.output);
  if (!file) return file.takeError();
  writeJson(file->stream(), graph);
  return file->commit();
}

Error writeText(Tool &tool, StringRef text) {
  Expected<OutputFile> file = OutputFile::open(tool.options.output);
  if (!file) return file.takeError();
  file->stream() << text;
  return file->commit();
}

}  // namespace gradc
