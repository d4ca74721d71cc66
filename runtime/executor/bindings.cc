// Matches bindings by name, and decides which array may be bound to which variable. Tested by
// tests/runtime/session_test.cc
#include "runtime/executor/bindings.h"

#include "ir/base/error.h"
#include "runtime/arrays/elements.h"
#include "runtime/executor/tensor_keys.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kMaxNamed = 10;  // variables named in one message
constexpr size_t kMaxSuggestions = 3;

class Matcher {
 public:
  Matcher(const Graph &graph, const std::optional<GradientTable> &table, ArrayRef<Request> headRequests)
      : graph(graph), table(table), headRequests(headRequests), keys(variableKeys(graph)) {
    StringMap<uint32_t> counts;
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      if (!graph.isVariable(NodeId(id))) continue;
      byKey[keys[id]] = id;
      if (++counts[graph.name(NodeId(id))] == 2) ambiguous[graph.name(NodeId(id))] = id;
    }
    addStartKeys();
  }

  Expected<MatchedBindings> match(std::vector<NamedArray> bindings) {
    MatchedBindings matched;
    matched.arrayOf.assign(graph.numNodes(), MatchedBindings::kNone);
    for (NamedArray &binding : bindings)
      if (Error error = place(binding, matched)) return error;
    return matched;
  }

 private:
  /// `<x>_grad`, or `<x>#grad` if a variable has that name.
  void addStartKeys() {
    for (size_t i = 0; table && i < headRequests.size(); ++i) {
      const GradientTable::Head &head = table->heads[i];
      if (headRequests[i] != Request::Add || head.kind == GradientTable::HeadKind::Forward) continue;
      std::string key = gradientKey(graph, keys, head, "_");
      startKeys[byKey.count(key) ? gradientKey(graph, keys, head, "#") : key] = i;
    }
  }

  Error place(NamedArray &binding, MatchedBindings &matched) {
    if (Error error = checkUnambiguous(binding.name)) return error;
    if (!seen.try_emplace(binding.name, 0).second)
      return Failure(ErrorKind::AmbiguousName, "'" + binding.name + "' is bound twice");
    StringMap<uint32_t>::iterator variable = byKey.find(binding.name);
    if (variable != byKey.end()) {
      matched.arrayOf[variable->second] = static_cast<uint32_t>(matched.arrays.size());
      matched.arrays.push_back(std::move(binding));
      return Error::success();
    }
    StringMap<size_t>::iterator start = startKeys.find(binding.name);
    if (start != startKeys.end()) {
      matched.starts.push_back({start->second, std::move(binding)});
      return Error::success();
    }
    if (isDroppedSeed(binding.name)) return Error::success();
    return surplus(binding.name);
  }

  Error checkUnambiguous(StringRef name) const {
    StringMap<uint32_t>::const_iterator second = ambiguous.find(name);
    if (second == ambiguous.end() || name.empty()) return Error::success();
    return Failure(ErrorKind::AmbiguousName, "several variables are called '" + name + "'")
        .at(NodeId(second->second))
        .note("the second is bound as '" + keys[second->second] + "'; the first needs a name of its own");
  }

  /// H-11: the head-gradient variable of a y that depends on no x.
  bool isDroppedSeed(StringRef name) const {
    return table && any_of(table->headGradOf, [&](const auto &row) { return row.first == name; });
  }

  Error surplus(StringRef name) const {
    std::vector<StringRef> near;
    for (unsigned distance = 0; distance <= 2 && near.size() < kMaxSuggestions; ++distance)
      for (uint32_t id = 0; id < graph.numNodes() && near.size() < kMaxSuggestions; ++id)
        if (!keys[id].empty() && name.edit_distance(keys[id], true, 3) == distance) near.push_back(keys[id]);
    Failure failure(ErrorKind::BindingSurplus, "'" + name + "' is bound, but the graph has no variable of that name");
    if (!near.empty()) failure = std::move(failure).note("did you mean " + quotedList(near) + "?");
    return Error(std::move(failure));
  }

  const Graph &graph;
  const std::optional<GradientTable> &table;
  ArrayRef<Request> headRequests;
  std::vector<std::string> keys;
  StringMap<uint32_t> byKey, ambiguous;  // to node ids; ambiguous: the second variable with the name
  StringMap<size_t> startKeys;           // to heads
  StringMap<char> seen;
};

}  // namespace

Expected<MatchedBindings> matchBindings(const Graph &graph, const std::optional<GradientTable> &table,
                                        ArrayRef<Request> headRequests, std::vector<NamedArray> bindings) {
  return Matcher(graph, table, headRequests).match(std::move(bindings));
}

Error explainConflict(Context &context, const Graph &graph, const MatchedBindings &matched, const InferRequest &hints,
                      const InferOptions &options, Error conflict) {
  InferOptions partial = options;
  partial.allowUnknown = true;
  Expected<Inference> alone = infer(context, graph, hints, partial);
  if (!alone) {
    consumeError(alone.takeError());
    return conflict;
  }
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    if (matched.arrayOf[id] == MatchedBindings::kNone) continue;
    const NamedArray &binding = matched.arrays[matched.arrayOf[id]];
    ShapeRef expected = alone->shapeOf(graph.firstEntry(NodeId(id)));
    if (agrees(expected, binding.array.shape)) continue;
    consumeError(std::move(conflict));
    return bindingMismatch(binding.name, "shape " + toString(expected), toString(ShapeRef(binding.array.shape)));
  }
  return amend(std::move(conflict), [](GradcError &error) {
    if (error.kind != ErrorKind::InferConflict) return;
    error.kind = ErrorKind::BindingMismatch;
    error.notes.push_back({"the shapes of the bound arrays take part in inference", {}});
  });
}

std::string quotedList(ArrayRef<StringRef> names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMaxNamed; ++i) text += (i ? ", '" : "'") + names[i].str() + "'";
  if (names.size() > kMaxNamed) text += " and " + std::to_string(names.size() - kMaxNamed) + " more";
  return text;
}

bool agrees(ShapeRef shape, Dims dims) {
  if (!shape.hasRank()) return true;
  DimsBuffer merged(shape.dims().begin(), shape.dims().end());
  return mergeDims(merged, dims);
}

bool isConvertible(DType from, DType to) { return from == to || isFloating(to); }

std::string describeTensor(ShapeRef shape, DType dtype) { return toString(shape) + " " + dtypeName(dtype).str(); }

Error bindingMismatch(StringRef name, const std::string &expected, const std::string &found) {
  return Failure(ErrorKind::BindingMismatch, "'" + name + "': expected " + expected + ", got " + found);
}

Array converted(Array array, DType dtype) {
  array.bytes.reserve(1);  // an empty tensor has an address too
  if (array.dtype == dtype) return array;
  Array result{dtype, array.shape, std::vector<char>(array.ref().size() * dtypeBytes(dtype))};
  result.bytes.reserve(1);
  convertElements(array.ref(), result.ref());
  return result;
}

}  // namespace gradc
