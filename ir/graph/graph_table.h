// What is known of a graph beyond its nodes and edges: what its heads are gradients of, what inference and
// planning found, what a training step updates. Files spell it as graph-level attributes (formats/json/graph_table.h);
// passes use this form. Tested by tests/ir/graph_table_test.cc
#pragma once

#include "ir/base/ids.h"
#include "ir/tensor/types.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gradc {

class Graph;

/// A typed graph-level attribute, as NNVM writes them: ["list_shape", […]] and so on. `Raw` keeps the JSON text of any
/// other kind, so that nothing in a file is lost.
struct GraphAttr {
  enum class Kind : uint8_t { Int, SizeT, Str, ListInt, ListStr, ListShape, Raw };
  Kind kind = Kind::Int;
  int64_t number = 0;                        // Int, SizeT
  std::string text;                          // Str; Raw: the JSON text of the whole value
  std::vector<int64_t> numbers;              // ListInt
  std::vector<std::string> texts;            // ListStr
  std::vector<std::vector<int64_t>> shapes;  // ListShape

  static GraphAttr ofInt(int64_t value) {
    GraphAttr a;
    a.kind = Kind::Int;
    a.number = value;
    return a;
  }
  static GraphAttr ofSize(int64_t value) {
    GraphAttr a;
    a.kind = Kind::SizeT;
    a.number = value;
    return a;
  }
  static GraphAttr ofStr(std::string value) {
    GraphAttr a;
    a.kind = Kind::Str;
    a.text = std::move(value);
    return a;
  }
  static GraphAttr ofInts(std::vector<int64_t> v) {
    GraphAttr a;
    a.kind = Kind::ListInt;
    a.numbers = std::move(v);
    return a;
  }
  static GraphAttr ofStrs(std::vector<std::string> v) {
    GraphAttr a;
    a.kind = Kind::ListStr;
    a.texts = std::move(v);
    return a;
  }
  static GraphAttr ofShapes(std::vector<std::vector<int64_t>> v) {
    GraphAttr a;
    a.kind = Kind::ListShape;
    a.shapes = std::move(v);
    return a;
  }
  friend bool operator==(const GraphAttr &, const GraphAttr &) = default;
};
using GraphAttrs = std::map<std::string, GraphAttr>;

/// Which head of an emitted gradient graph is the gradient of what (settled: "The emitted gradient graph").
struct GradientTable {
  enum class HeadKind : uint8_t { Forward, Grad, Retained };
  struct Head {
    HeadKind kind = HeadKind::Forward;
    std::string of;  // variable, or node:index; empty for forward heads
    NodeId ofNode;   // invalid for forward heads, and where the node is gone
    uint32_t ofIndex = 0;
    uint32_t order = 0;  // 0 for forward heads
    Request request = Request::Write;
    int64_t slot = -1;  // position among the requested x
    friend bool operator==(const Head &, const Head &) = default;
  };
  std::vector<Head> heads;                                      // one per head of the graph
  std::vector<std::string> slotStatus;                          // per requested x
  std::vector<std::string> gradNone;                            // names of the x without gradient
  std::vector<std::pair<std::string, std::string>> headGradOf;  // head-gradient variable, its y
  uint32_t numForwardHeads = 0;
  bool isTraining = true;  // the form that the graph was emitted for
  friend bool operator==(const GradientTable &, const GradientTable &) = default;
};

/// A y and its head gradient whose shapes or types are not all known yet (passes/inference/head_checks.h).
struct HeadPair {
  uint32_t position = 0;  // among the y, from 0
  Value y;
  Value seed;  // invalid: implied ones, which require a scalar y
  friend bool operator==(const HeadPair &, const HeadPair &) = default;
};

/// What inference found, one element per entry; a list that was not given is empty.
struct EntryNotes {
  std::vector<std::vector<int64_t>> shapes;  // -1 where unknown; empty for unknown rank
  std::vector<int64_t> shapeKnown;           // 1 where the rank is known: distinguishes () from unknown
  std::vector<int64_t> dtypes, storages;     // MXNet's codes
  friend bool operator==(const EntryNotes &, const EntryNotes &) = default;
};

struct PlanNotes {
  struct Place {
    int64_t offset, bytes;  // offsets below 0: passes/memory/plan_memory.h
    friend bool operator==(const Place &, const Place &) = default;
  };
  std::vector<Place> places;  // by entry
  int64_t plannedBytes = 0, boundBytes = 0;
  friend bool operator==(const PlanNotes &, const PlanNotes &) = default;
};

/// For training graphs.
struct UpdateNotes {
  std::vector<std::string> parameterOf;  // by head: the parameter whose new value it is; empty for other heads
  std::vector<std::string> states;       // variables the optimizer overwrites
  friend bool operator==(const UpdateNotes &, const UpdateNotes &) = default;
};

struct GraphTable {
  std::optional<GradientTable> gradient;
  std::string gradientFault;  // why the file's attributes about gradients are `malformed`; empty: absent or well-formed
  std::vector<HeadPair> headPairs;
  std::vector<Value>
      constants;  // computed entries that a gradient took as constants (GradientRequest::stop, noGrad), each once
  EntryNotes entries;
  std::optional<PlanNotes> plan;
  std::optional<UpdateNotes> updates;
  std::optional<int64_t> mxnetVersion;
  GraphAttrs others;     // all other attributes of a file
  GraphAttrs malformed;  // gradc's own attributes that do not fit: written back unchanged, until nodes are renumbered

  /// Forgets what inference and planning found.
  void forgetEntries() { entries = {}, plan.reset(); }
  /// Forgets what the heads are gradients of.
  void forgetGradient() { gradient.reset(), gradientFault.clear(), headPairs.clear(), constants.clear(); }

  friend bool operator==(const GraphTable &, const GraphTable &) = default;
};

/// Where the nodes and entries of a graph, or of a file, went.
struct Renumbering {
  llvm::ArrayRef<NodeId> newId;         // by old id; invalid: dropped
  llvm::ArrayRef<uint32_t> entryBegin;  // first entry of each old node; one more element than nodes
  llvm::ArrayRef<Value> newValue =
      {};  // by old entry, where entries did not simply go with their nodes; invalid: dropped
};

/// Turns the table of an old graph into that of `graph`: renumbers ids, permutes lists with one element per node or
/// entry, and drops pairs that lost a value and constants that are gone or became variables. If nodes were added, or an
/// operator's number of outputs changed, it drops those lists and returns the names of their attributes. Linear.
std::vector<std::string> remap(GraphTable &table, const Renumbering &renumbering, const Graph &graph);

}  // namespace gradc
