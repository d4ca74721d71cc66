// What every verb works with: operators, flags and messages, and the one way in which verbs read a graph.
// Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/common/names.h"
#include "tools/gradc/common/options.h"
#include "tools/gradc/common/output.h"
#include "tools/gradc/common/render.h"

#include "formats/blocks/files/block_file.h"
#include "formats/json/reader.h"

namespace gradc {

struct Tool {
  explicit Tool(Diagnostics &diagnostics);

  Context context;  // knows the built-in operators
  Options options;
  Diagnostics &diagnostics;
  std::vector<std::string> headNames =
      {};  // of a program of blocks that was read as a graph: the variables its heads are
};

/// Bytes of a file, or of standard input for "-". Io when they cannot be read.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readFile(llvm::StringRef path);

/// The text of a file, which messages refer to from now on.
llvm::Expected<llvm::StringRef> readInput(Tool &tool, llvm::StringRef path);
/// The path of the verb's only file, "-" when none is given.
llvm::StringRef inputPath(const Tool &tool);
/// A program of blocks; warnings of the reader are printed.
llvm::Expected<BlockFile> loadBlocks(Tool &tool, llvm::StringRef text);

/// Reads and verifies a graph, or a program of blocks as a graph (docs/blocks.md) whose heads are what its call
/// differentiates. Prints warnings of the reader; node places refer to the graph from now on. Several errors of the
/// verifier are joined.
llvm::Expected<Graph> load(Tool &tool, llvm::StringRef path);
/// The same for the verb's only file, standard input when none is given.
llvm::Expected<Graph> load(Tool &tool);
/// The same for a text.
llvm::Expected<Graph> loadText(Tool &tool, llvm::StringRef text);

/// `load`, then orders mutations and saves overwritten versions (passes/order/order_mutation.h): for verbs whose result
/// depends on the order in which nodes run. Node ids may differ from the file's.
llvm::Expected<Graph> loadInOrder(Tool &tool);
llvm::Expected<Graph> inOrder(Tool &tool, const Graph &graph);

/// `--shape` and `--dtype` for variables of `graph`. UnknownName if `known`, the user's graph, has no such variable;
/// one that only `known` has is left out, because a pass may have dropped it.
llvm::Expected<InferRequest> resolveHints(const Tool &tool, const Graph &graph, const Graph &known);

/// Infers with the flags of shapes and types.
llvm::Expected<Inference> inferWithFlags(Tool &tool, const Graph &graph);
/// Infers as far as the hints and the graph determine shapes and types.
llvm::Expected<Inference> inferPartly(Tool &tool, const Graph &graph, const InferRequest &hints);

/// Writes the JSON form to `--output` or standard output.
llvm::Error writeGraph(Tool &tool, const Graph &graph);
/// Writes text to `--output` or standard output.
llvm::Error writeText(Tool &tool, llvm::StringRef text);
/// Writes text to standard output, also where `--output` has the graph.
llvm::Error printReport(llvm::StringRef text);
/// The exit code of a verb whose last step this was: 0 without an error.
llvm::Expected<int> exitCode(llvm::Error error);

}  // namespace gradc
