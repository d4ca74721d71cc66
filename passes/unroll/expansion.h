// What unrolling and inlining share: copies a body in place of its node, tracking which values are known.
// Tested by tests/passes/unroll_test.cc
#pragma once

#include "passes/rewrite/body_map.h"
#include "passes/rewrite/rewriter.h"
#include "passes/unroll/known_values.h"
#include "passes/unroll/unroll.h"

#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"

#include "llvm/ADT/BitVector.h"

#include <map>
#include <set>

namespace gradc {

class Expansion {
 public:
  enum class What : uint8_t { Calls, Loops };

  /// What all graphs of one pass share.
  struct Pass {
    Context &context;
    const UnrollOptions &options;
    What what;
    BodyMap<Graph, const Inference *> bodies = {};  // of nodes that stay: the expanded body
    BodyMap<Graph> inert = {};                      // of nodes that exist only for their shapes
    std::vector<Graph> alive = {};                  // whose addresses are keys of `facts`
    std::set<std::pair<const GraphColumns *, uint32_t>> isNoted = {};
    std::vector<std::string> kept = {};
  };

  Expansion(Pass &pass, const Graph &graph, std::string path);

  llvm::Expected<Graph> run(const Inference *known);
  /// Where a node of the graph is in what `run` made of it.
  NodeId idAfter(NodeId n) const { return newId.empty() ? n : newId[n.value]; }

  /// A graph that is being copied: the whole one, or a body in place of its node.
  struct Scope {
    GraphCopy &to;
    const Inference *known;  // of its graph; null: nothing is known
    std::string prefix;      // of the names of its nodes
    Attrs owner = {};        // of the node whose body it is
    /// By node that others wait for: the nodes that replace it.
    std::map<uint32_t, llvm::SmallVector<NodeId, 4>> ends = {};

    const Graph &graph() const { return to.graph(); }
  };

  /// Copies body b of a node, whose operands are `operands` in the builder; returns the values of the body's heads.
  llvm::Expected<llvm::SmallVector<Value, 8>> copyBody(const Scope &scope, NodeId n, size_t b,
                                                       llvm::ArrayRef<Value> operands, llvm::StringRef prefix);
  /// Emits a node for node n, with its name and the suffix.
  Value emit(const Scope &scope, NodeId n, llvm::Expected<KindRef> kind, llvm::ArrayRef<Value> operands,
             const llvm::Twine &suffix);
  Value emit(const Scope &scope, NodeId n, const OpDef &op, llvm::ArrayRef<Value> operands, const llvm::Twine &suffix) {
    return emit(scope, n, context().kind(op, Attrs()), operands, suffix);
  }
  /// A known number as a value: int64, of shape (1,).
  Value emitCount(const Scope &scope, NodeId n, int64_t number, const llvm::Twine &suffix);
  /// Zeros in the shape and type of an output; invalid, with the reason, if these are unknown or cannot be written.
  Value emitZeros(const Scope &scope, NodeId n, uint32_t output, const llvm::Twine &suffix, std::string &whyNot);
  KnownValues &values() { return known; }
  Context &context() { return pass.context; }
  const RowOps &rowOps() const { return pass.options.rowOps; }
  /// The rows that a stack was made of, for loops that slice it; null for other values.
  const std::vector<Value> *rowsOf(Value v) const {
    auto made = stacks.find(v.node.value);
    return made == stacks.end() ? nullptr : &made->second;
  }
  void noteStack(Value v, std::vector<Value> rows) { stacks[v.node.value] = std::move(rows); }
  /// Whether output o of node n is read.
  bool isRead(const Scope &scope, NodeId n, uint32_t o);

 private:
  /// Facts that every copy of a graph needs.
  struct Facts {
    llvm::BitVector isRead;      // by entry
    llvm::BitVector isWaited;    // by node: some control dependency is on it
    llvm::BitVector isNumbered;  // by variable: some input reads it at a version other than 0
    bool hasOrderedWrites = true;
    bool hasInherited = false;
  };

  const Facts &factsOf(const Graph &graph);
  llvm::Error visit(Scope &scope, NodeId n);
  llvm::Error copy(Scope &scope, NodeId n);
  llvm::Expected<bool> expand(Scope &scope, NodeId n);
  llvm::Expected<llvm::SmallVector<Value, 8>> outputsOf(Scope &scope, NodeId n, llvm::ArrayRef<Value> operands,
                                                        std::string &whyNot);
  llvm::Expected<llvm::SmallVector<Value, 8>> choose(const Scope &scope, NodeId n, llvm::ArrayRef<Value> operands,
                                                     std::string &whyNot);
  llvm::Expected<KindRef> withExpandedBodies(const Scope &scope, NodeId n);
  llvm::Expected<KindRef> followingKind(const Scope &scope, NodeId n, KindRef kind);
  llvm::Expected<Graph> withoutEffectsInside(const Graph &body);
  Value operandOf(const Scope &scope, NodeId n, size_t i) const;
  llvm::SmallVector<Value, 2> numberedWrites(const Scope &scope, NodeId n);
  llvm::Error makeVersions(Scope &scope, NodeId n);
  void noteVersions(Scope &scope, NodeId n);
  void noteLatest(Scope &scope, NodeId n);
  void writeLatest(NodeId node);
  void waitForEnds(Scope &scope, NodeId n, llvm::ArrayRef<NodeId> nodes);
  llvm::Error checkSize(const Scope &scope, NodeId n);
  void noteKept(const Scope &scope, NodeId n, llvm::StringRef why);

  Pass &pass;
  GraphRewriter rewriter;
  FreeNames names;            // for what is not in the graph
  std::vector<NodeId> newId;  // set by `run`; empty if no node moved
  bool countsWrites = false;  // versions are renumbered
  const std::string path;     // of the graph, from the outermost one: "node 'loop' > body > "
  KnownValues known;
  std::map<const GraphColumns *, Facts> facts;
  std::map<uint32_t, std::vector<Value>> stacks;  // by node of the builder
  DenseMap<uint32_t, uint32_t> latest;            // version of each overwritten variable of the builder
  DenseMap<uint32_t, NodeId> lastWriter;          // of each such variable
};

}  // namespace gradc
