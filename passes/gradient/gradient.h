// The gradient of a graph, as a graph.
//
// Reverse-mode differentiation over frozen columns: select what is between the requested x and the y, walk it backwards
// in id order, aggregate contributions per entry, apply each operator's rule, and freeze forward heads and gradients
// into one graph whose forward part keeps its ids. A zero gradient is a state of an accumulator, not a node, until a
// rule or a head needs an array. Linear in nodes + edges.
//
// Words: *contribution*, one gradient arriving at an entry; *on-path*, on a data path from some x to some y; *head
// gradient*, the incoming gradient of a y.
#pragma once

#include "passes/order/order_mutation.h"

#include "ir/graph/tables.h"

#include "llvm/Support/Error.h"

#include <optional>

namespace gradc {

struct Inference;

/// P-01: what a y gets when no seed is given.
enum class HeadPolicy : uint8_t { Ones, Scalar, Input, Required };
/// P-02, P-03: the same y or x listed twice.
enum class DuplicatePolicy : uint8_t { Allow, Strict };
/// P-04: an x no y depends on.
enum class UnusedPolicy : uint8_t { Error, None, Zeros };
/// P-05: an x reached through control dependencies only.
enum class ControlOnlyPolicy : uint8_t { Unused, Zeros };
/// P-06: an operator without gradient that is reached from y but is on no path from an x.
enum class ReachPolicy : uint8_t { Ignore, WholeGraph };
/// P-09: integer and bool values on the path.
enum class IntegerPolicy : uint8_t { Stop, Permissive };
/// P-08: which sums are a chain of additions instead of one n-ary sum: those of `sumCap` terms and more (AGG-03,
/// AGG-04), or those of up to `sumCap` terms (the polarity of AGG-08).
enum class ChainPolicy : uint8_t { FromCap, UpToCap };
/// ZERO-08: whether a gradient that a rule states as zeros takes part in sums and products. Dropping it never changes a
/// finite value, but 0 · inf and 0 · nan, which would be nan, become 0.
enum class ZeroPolicy : uint8_t { Drop, Keep };
/// §18: how generated nodes are named. Unique adds a counter to a name that is taken (NAME-09).
enum class NamingStyle : uint8_t { Unique, Mxnet, Nnvm, Fluid };

/// HOOK-01: a node of the emitted graph that is not the user's own.
struct EmittedNode {
  const Graph &graph;  // the emitted one, still without its side table
  NodeId node;
  NodeId forward;                    // the user's node for which it was made; invalid for a head-gradient variable
  llvm::ArrayRef<Value> gradientOf;  // per output: the entry whose gradient it is, whole or a summand; invalid: none
};

class GradientListener {
 public:
  /// Once per node, in id order.
  virtual void emitted(const EmittedNode &node) = 0;

 protected:
  ~GradientListener() = default;
};

struct GradientHead {
  Value y;
  std::optional<Value> seed;  // an existing entry of the graph
  std::string seedName;       // else, if not empty, a new variable of this name
};

struct GradientTarget {
  Value x;
  Request request = Request::Write;
};

struct GradientRequest {
  std::vector<GradientHead> heads;  // empty: every head of the graph
  std::vector<GradientTarget> wrt;
  std::vector<GradientTarget> retained;  // intermediate gradients (§9)
  std::vector<Value> noGrad;             // NG-*: edges into these entries are cut
  std::vector<Value> stop;               // STOP-03: these entries are constants
  /// HOOK-02: the gradient of each of these entries, with all contributions summed up, passes one `wellKnown.tap` node.
  /// All readers of the gradient read the tap: rules, and the head for an x or a retained entry (HOOK-03). A
  /// structurally zero gradient has no tap.
  std::vector<Value> taps;
};

struct GradientOptions {
  HeadPolicy headPolicy = HeadPolicy::Ones;
  DuplicatePolicy duplicates = DuplicatePolicy::Allow;
  UnusedPolicy unused = UnusedPolicy::Error;
  ControlOnlyPolicy controlOnly = ControlOnlyPolicy::Unused;
  ReachPolicy reach = ReachPolicy::Ignore;
  IntegerPolicy integers = IntegerPolicy::Stop;
  ZeroPolicy zeroTerms = ZeroPolicy::Drop;
  OverwrittenPolicy overwritten = OverwrittenPolicy::Save;
  NamingStyle naming = NamingStyle::Unique;
  uint32_t sumCap = 8;  // P-08; NamingStyle::Nnvm has only n-ary sums (AGG-07)
  ChainPolicy chain = ChainPolicy::FromCap;
  /// Recorded as `grad_mode`. Batch norm and dropout decide between training and inference when they run, and so do
  /// their gradients; runs of the emitted graph should use the same form.
  bool isTraining = true;
  /// Of the forward graph, for the checks that need shapes and dtypes, and for decompositions that need the size of an
  /// axis.
  const Inference *inference = nullptr;
  /// Factor of every first-order gradient: applied to the implied head gradient of a y without a seed, and to the
  /// gradients of an operator that is a loss and thus does not read its head gradient. Finite and above 0.
  double lossScale = 1;
  bool gradientOnly = false;             // heads are only the gradients
  GradientListener *listener = nullptr;  // called for every emitted node, at every order
};

enum class SlotStatus : uint8_t { Grad, Zeros, None };

struct GradientSlot {
  SlotStatus status = SlotStatus::None;
  Value value;  // in the result graph; invalid for None
};

struct GradientStats {
  /// The forward part, which comes first (IR-20). 0 when only gradients are emitted: the remaining forward nodes are
  /// then among the others.
  uint32_t numForwardNodes = 0, numForwardEntries = 0;
  uint32_t numGenerated = 0;  // nodes added
  uint32_t numSums = 0, numChains = 0, numCopies = 0, numZeros = 0, numTaps = 0;
};

struct GradientResult {
  Graph graph;  // forward heads, then gradients of x, then retained ones; side table in the graph's table
  std::vector<GradientSlot> wrt;  // parallel to the request
  std::vector<GradientSlot> retained;
  std::vector<NodeId> taps;            // parallel to the request; invalid where no gradient arrives or none is read
  std::vector<std::string> seedNames;  // per y: the head variable, empty when none was made
  GradientStats stats;
  /// The new ids of the given graph's nodes, invalid for those that are gone; empty when all kept their ids. They do
  /// unless overwritten versions had to be saved or put in order (passes/order/order_mutation.h), a forward head that
  /// is listed twice became a copy (COPY-05), or only gradients are emitted.
  std::vector<NodeId> forwardIds;
};

/// The order of the gradients, recorded in `grad_order`, is one more than the highest among the y, which the side table
/// gives if `graph` is an emitted one. From the second order on, an x whose gradient vanishes identically gets zeros
/// where the policy would be an error, and nothing where it is None (HO-08). E-35 for a malformed side table.
llvm::Expected<GradientResult> buildGradient(Context &context, const Graph &graph, const GradientRequest &request,
                                             const GradientOptions &options);

/// All arguments (not aux) that can carry gradient; the others are listed by name with a reason.
struct AllTargets {
  std::vector<GradientTarget> targets;
  std::vector<std::string> skipped;
};
AllTargets allTargets(const Graph &graph, const Inference *inference);

/// The side table of an emitted gradient graph; nullopt for any other graph, E-35 when the table is malformed in its
/// file.
llvm::Expected<std::optional<GradientTable>> readGradientTable(const Graph &graph);

}  // namespace gradc
