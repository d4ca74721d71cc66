// Identifiers: distinct 32-bit integers that cannot be mixed up, and `Value`, one edge of a graph.
//
// An id means something only together with the object that issued it (a Graph, a ShapeTable).
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace gradc {

template <class Tag> struct Id {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(uint32_t v) : value(v) {}
  constexpr bool isValid() const { return value != kNone; }
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id, Id) = default;
};

using NodeId = Id<struct NodeTag>;    // a node of one Graph or GraphBuilder
using EntryId = Id<struct EntryTag>;  // one output of one node, dense over a Graph (versions share it, IR-02)
using ShapeId = Id<struct ShapeTag>;  // interned shape of a ShapeTable; kUnknownShape is shape 0
using KindId = Id<struct KindTag>;    // a kind of one Graph or GraphBuilder

/// Output `index` of `node`, read at `version` (0 unless the node is a variable some operator mutates).
/// Equality uses all three parts (IR-01); 8 bytes.
struct Value {
  NodeId node;
  uint16_t index = 0;
  uint16_t version = 0;

  constexpr bool isValid() const { return node.isValid(); }
  friend constexpr bool operator==(const Value &, const Value &) = default;
};
static_assert(sizeof(Value) == 8, "inputs are a column of 8-byte values; the size target counts on it");

inline constexpr uint32_t kMaxIndex = 0xffff;  // largest output index or version a Value can hold

}  // namespace gradc
