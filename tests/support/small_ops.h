// A dozen operators without kernels or gradients, for tests only of ir/, and shorthands to read and write files there.
#pragma once

#include "formats/json/reader.h"
#include "ir/base/error.h"
#include "tests/support/test_graph.h"

#include <string>

namespace gradc::testing {

/// Knows add(lhs, rhs), relu(data), split3(data) with three outputs, sum_n with `num_args` inputs, bump(data, state)
/// which overwrites its state, _backward_relu, and MXNet's FullyConnected, BatchNorm, LeakyReLU, argmax and Pooling
/// (alias Pooling_v1) with as many of their attributes as the upgrade of old files needs.
struct SmallContext : Context {
  SmallContext();
};

/// Reads or stops the test program.
LoadedGraph read(Context &context, llvm::StringRef text);
/// The error of a text that must not be readable; stops the test program when it is.
GradcError readError(llvm::StringRef text);
/// The text that `convert` writes.
std::string converted(llvm::StringRef text);
/// A whole file around the given nodes; `arg_nodes` empty, heads as given.
std::string fileOf(llvm::StringRef nodes, llvm::StringRef heads);
std::string readTestFile(llvm::StringRef path);

}  // namespace gradc::testing
