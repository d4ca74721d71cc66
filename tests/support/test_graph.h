// Graphs as inline text, for tests.
//
//   TestGraph g("w = var {__shape__=(2,3)}; c = elemwise_add(a, w); s = test_split3(c); y = exp(s:1) ^c; heads y,
//   s:0");
//
// Statements end with `;`. A name that is read before it is defined becomes a variable. `s:1` is output 1, `m@2`
// version 2, `^c` a control dependency, `{k=v, …}` attributes, `?op(…)` an unknown operator. Without `heads`, the
// last node's output 0 is the head. Malformed text stops the test program: it is a mistake in the test.
#pragma once

#include "ir/graph/graph.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace gradc::testing {

/// A context with the built-in and the test-only operators.
struct TestContext : Context {
  TestContext();
};

/// One context for the whole test program, for passes over graphs of any other: what a graph means does not depend on
/// the context that made it.
TestContext &testContext();

struct TestGraph {
  explicit TestGraph(llvm::StringRef text);

  TestContext context;
  Graph graph;

  operator const Graph &() const { return graph; }
  /// The value `text` refers to: "x", "s:1".
  Value at(llvm::StringRef text) const { return findValue(graph, text); }

  static Value findValue(const Graph &graph, llvm::StringRef text);
};

/// Parses `text`; freeze's errors (cycles, output indices) are returned, errors of the text itself are not.
llvm::Expected<Graph> parseGraph(Context &context, llvm::StringRef text);

/// One line per operator node, by name: `y = exp(s:1) ^c`, then `heads y, s:0`. Attributes are left out. Values
/// of nameless nodes are written `#<id>`.
std::string dump(const Graph &graph);
/// The lines of `dump` for nodes from `first` on, and the heads from `firstHead` on.
std::string dumpFrom(const Graph &graph, uint32_t first, size_t firstHead);
/// What writeJson writes of it.
std::string written(const Graph &graph);

/// Number of nodes of an operator.
size_t countOps(const Graph &graph, llvm::StringRef op);
/// Whether MXNet has an operator of this name.
bool isMxnets(const OpDef &op);
/// The node of this name; stops the test program when there is none.
NodeId nodeNamed(const Graph &graph, llvm::StringRef name);

/// Text of a GradcError: `[not_differentiable] message`; other errors as they print.
std::string describeError(llvm::Error error);
template <class T> std::string describeError(llvm::Expected<T> result) {
  return result ? "success" : describeError(result.takeError());
}

}  // namespace gradc::testing
