// The starting point of tests of the command line: a folder with a small graph.
#pragma once

#include "tests/support/tool.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <gtest/gtest.h>

namespace gradc::testing {

// z = tanh(x · w); two heads: z and the sum s = z + x.
inline constexpr llvm::StringRef kModel = R"({"nodes": [
{"op": "null", "name": "x", "inputs": []},
{"op": "null", "name": "w", "inputs": []},
{"op": "elemwise_mul", "name": "y", "inputs": [[0, 0, 0], [1, 0, 0]]},
{"op": "tanh", "name": "z", "inputs": [[2, 0, 0]]},
{"op": "elemwise_add", "name": "s", "inputs": [[3, 0, 0], [0, 0, 0]]}],
"arg_nodes": [0, 1], "heads": [[3, 0, 0], [4, 0, 0]]}
)";

inline bool contains(llvm::StringRef text, llvm::StringRef part) { return text.contains(part); }

class Cli : public ::testing::Test {
 protected:
  Cli() { folder.write("m.json", kModel); }

  /// The list of a graph attribute of a file, verbatim: `["", "x"]`.
  std::string graphAttr(llvm::StringRef file, llvm::StringRef key) {
    std::string text = folder.read(file);
    llvm::StringRef rest = llvm::StringRef(text).split(("\"" + llvm::Twine(key) + "\": [").str()).second;
    return rest.split(", ").second.take_until([](char c) { return c == '\n'; }).rtrim(",").drop_back().str();
  }

  ScratchFolder folder;
};

}  // namespace gradc::testing
