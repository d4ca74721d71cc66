// Reading, hints, writing. Tested by tests/cli_test.cc
#include "tool.h"

#include "ir/json_writer.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "passes/order_mutation.h"

using namespace llvm;

namespace gradc {

Tool::Tool(Diagnostics &diagnostics) : diagnostics(diagnostics) { registerBuiltinOps(context.ops); }

Expected<std::unique_ptr<MemoryBuffer>> readFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFileOrSTDIN(path);
  if (!buffer)
    return Failure(ErrorKind::Io, "cannot read '" + (path == "-" ? StringRef("<stdin>") : path) +
                                      "': " + buffer.getError().message());
  return std::move(*buffer);
}

Expected<LoadedInput> load(Tool &tool, StringRef path) {
  Expected<std::unique_ptr<MemoryBuffer>> buffer = readFile(path);
  if (!buffer) return buffer.takeError();
  StringRef text = tool.diagnostics.setSource(path, std::move(*buffer));
  Expected<LoadedProgram> loaded = readJson(tool.context, text, ReadOptions());
  if (!loaded) return loaded.takeError();
  LoadedInput input{std::move(loaded->program)};
  tool.diagnostics.setInput(input.graph(), std::move(loaded->sources));
  for (const std::string &warning : loaded->warnings) tool.diagnostics.warning(warning);
  if (Error error = verifyProgram(input.program, tool.options.errorLimit)) return error;
  return input;
}

Expected<LoadedInput> load(Tool &tool) {
  return load(tool, tool.options.files.empty() ? StringRef("-") : StringRef(tool.options.files.front()));
}

Expected<LoadedInput> loadInOrder(Tool &tool) {
  Expected<LoadedInput> input = load(tool);
  if (!input) return input.takeError();
  Expected<OrderedGraph> ordered = orderMutations(tool.context, input->graph(), OverwrittenPolicy::Save);
  if (!ordered) return ordered.takeError();
  input->program.graphs[input->program.root.value] = ordered->graph;
  tool.diagnostics.setCurrent(input->graph());
  return input;
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

Program withRoot(const Program &program, const Graph &root) {
  Program result = program;
  result.graphs[result.root.value] = root;
  return result;
}

Error writeGraph(Tool &tool, const Program &program) {
  Expected<OutputFile> file = OutputFile::open(tool.options.output);
  if (!file) return file.takeError();
  writeJson(file->stream(), program);
  return file->commit();
}

Error writeText(Tool &tool, StringRef text) {
  Expected<OutputFile> file = OutputFile::open(tool.options.output);
  if (!file) return file.takeError();
  file->stream() << text;
  return file->commit();
}

}  // namespace gradc
