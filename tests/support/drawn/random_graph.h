// Random differentiation problems: a small graph in a form that is easy to change, and a request.
//
// Drawn only from a seed, so a seed is a reproducer. The graph is independent of gradc's classes, with operators by
// name and entries as pairs, so that jets.h can evaluate it without gradc, and so that parts can be dropped to make a
// failing one smaller. Values are drawn with the graph: a node whose values leave a benign range, or are near a kink,
// is rejected.
//
// In the graphs: operators with several outputs, shared and repeated inputs, control dependencies, operators without
// gradient, losses, operators that overwrite a variable, integers, bodies, loops, branches and calls. In the requests:
// y that are repeated, ancestors of one another, or x themselves; repeated and intermediate x; retained, stopped and
// cut entries; head gradients as ones, variables and entries; requests null/write/add; orders 1 and 2; every policy.
// Tested by tests/networks/differential_test.cc
#pragma once

#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"

#include <memory>
#include <string>
#include <vector>

namespace gradc::testing {

struct SketchEntry {
  uint32_t node = 0, output = 0;
  uint32_t version = 0;  // of a state: the version that is read, or written
  friend bool operator==(SketchEntry, SketchEntry) = default;
};

struct SketchFlow;

struct SketchNode {
  std::string op;  // empty: a variable
  std::vector<SketchEntry> inputs;
  std::vector<uint32_t> deps;                              // control dependencies
  std::vector<std::pair<std::string, std::string>> attrs;  // as gradc reads them
  double a = 0, b = 0;                                     // the same attributes as numbers, as the operator takes them
  int64_t axis = 0, count = 0;
  bool flag = false;
  uint32_t numOutputs = 1, numVisible = 1;
  std::vector<int64_t> shape;              // of a variable
  std::vector<double> values;              // of a variable
  bool isState = false;                    // a variable some node may overwrite
  bool isInteger = false;                  // a variable of integers
  bool isCount = false;                    // one of them: the number of steps that a loop runs
  std::vector<uint32_t> bodies;            // of an operator: positions in Sketch::bodies, perhaps repeated
  std::shared_ptr<const SketchFlow> flow;  // of a loop, branch or call; shared by copies of a sketch

  bool isVariable() const { return op.empty(); }
  bool isLoss() const { return op == "make_loss" || op == "MakeLoss"; }
  /// Requesting a gradient through it is an error.
  bool lacksGradient() const { return op == "test_part" || op == "sgd_mom_update"; }
  /// Whether input i is overwritten.
  bool overwrites(size_t i) const;
};

struct SketchHead {
  SketchEntry y;
  std::vector<int64_t> shape;  // of y
  std::string seedName;        // a new variable, holding `seedValue`s; else
  bool hasSeed = false;        // an entry of the graph; else as the policy determines
  SketchEntry seed;
};

struct SketchTarget {
  SketchEntry x;
  Request request = Request::Write;
};

struct Sketch {
  std::vector<SketchNode> nodes;
  std::vector<SketchHead> heads;
  std::vector<SketchTarget> wrt, retained;
  std::vector<SketchEntry> stop, noGrad;
  HeadPolicy headPolicy = HeadPolicy::Ones;
  UnusedPolicy unused = UnusedPolicy::None;
  DuplicatePolicy duplicates = DuplicatePolicy::Allow;
  ControlOnlyPolicy controlOnly = ControlOnlyPolicy::Unused;
  ReachPolicy reach = ReachPolicy::Ignore;
  IntegerPolicy integers = IntegerPolicy::Stop;
  uint32_t order = 1;
  bool isTraining = true;
  bool hasVersions = true;  // states are read with their version; else dependencies give the order
  bool hasTypes = false;    // the gradient is requested with the types known
  /// Graphs that nodes contain. They change no value; the nodes of later ones may contain earlier ones.
  std::vector<Sketch> bodies;
  /// Unknown operators that are read only by each other. Their entries number them after the nodes.
  std::vector<SketchNode> beside;

  const SketchNode &nodeOf(SketchEntry e) const { return nodes[e.node]; }
  /// "v3" for a variable, "n4" for another node.
  std::string nameOf(uint32_t n) const { return (nodes[n].isVariable() ? "v" : "n") + std::to_string(n); }
};

/// A graph that a loop, branch or call runs. Nothing is requested of it.
struct SketchBody {
  Sketch graph;
  std::vector<SketchEntry> heads;
  std::vector<uint32_t>
      operandOf;  // by variable of the graph, in the order of its nodes: the input of the node that it gets
};

/// The computation of a node with bodies. Inputs of a loop: the count if there is one, data, states, others.
struct SketchFlow {
  enum class Form : uint8_t { Scan, While, Branch, Call };
  Form form = Form::Call;
  std::vector<SketchBody> bodies;  // the first of a While and of a Branch decides; a Branch has two more
  uint32_t numData = 0, numStates = 0;
  bool hasCount = false, isReverse = false;
  int64_t length = 0;      // of a loop: its rows; of a While: the bound
  bool hasLength = false;  // a Scan states its length
  /// For each stacked output of a loop: the shape of a row, and whether it holds integers.
  std::vector<std::pair<std::vector<int64_t>, bool>> stacked;
  std::vector<bool> isMutated;  // by input of the node

  bool decides(size_t body) const { return body == 0 && (form == Form::While || form == Form::Branch); }
  bool isState(size_t input) const { return input >= hasCount + numData && input < hasCount + numData + numStates; }
};

/// Whether some node, in a body or not, is a loop, a branch or a call; whether one has integers inside.
bool hasFlows(const Sketch &sketch);
bool hasIntegersInside(const Sketch &sketch);

/// The same problem for the same seed.
Sketch drawSketch(uint64_t seed);

/// The name of the variable that holds the head gradient of y number i; empty for ones and for an entry.
std::string seedVariable(const Sketch &sketch, size_t i);
/// The value at `index` of the head-gradient variable of a name; equal for equal arguments.
double seedValue(llvm::StringRef name, size_t index);

/// All its digits.
std::string numberText(double value);

/// The request, one line per list, for a person.
std::string describe(const Sketch &sketch);

/// A sketch as gradc sees it, without the nodes beside it.
struct SketchGraph {
  Graph graph;              // heads: every visible entry no other node reads
  std::vector<NodeId> ids;  // by node of the sketch
  GradientRequest request;
  std::vector<Graph> bodies;  // of the sketch

  Value at(SketchEntry e) const { return Value{ids[e.node], static_cast<uint16_t>(e.output), 0}; }
};
llvm::Expected<SketchGraph> buildSketch(Context &context, const Sketch &sketch);
/// Adds the nodes beside it; those that no other reads become heads after the others.
llvm::Error addBeside(Context &context, const Sketch &sketch, SketchGraph &built);
std::string besideName(size_t i);
/// Calls visit(v) for every value that the request names, taps apart.
void forEachValue(GradientRequest &request, llvm::function_ref<void(Value &)> visit);
/// `orderMutations`, as every verb does with what it reads.
llvm::Error orderSketch(Context &context, SketchGraph &built);
/// The options that the sketch requests.
GradientOptions optionsOf(const Sketch &sketch);

/// The first node of the graph `before` that `after` has under its name and with the same operator, but with other
/// bodies or copies of them. With `mayLack`, nodes may be missing or have become another operator.
std::string findLostBody(const Graph &before, const Graph &after, bool mayLack);

}  // namespace gradc::testing
