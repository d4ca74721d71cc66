// Resolution of entries. Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/names.h"

#include "drawing/table.h"

#include "passes/gradient/higher_order/mark_inside.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {

std::vector<std::string> closeMatches(StringRef name, ArrayRef<StringRef> candidates) {
  constexpr size_t kMaxMatches = 3;
  unsigned limit = 1 + static_cast<unsigned>(name.size()) / 3;
  std::vector<std::pair<unsigned, StringRef>> near;
  for (StringRef candidate : candidates) {
    if (candidate.empty()) continue;
    unsigned distance = name.edit_distance(candidate, true, limit);
    bool isPart = name.size() >= 3 && candidate.contains(name);
    bool isClose = distance <= limit && distance < name.size();  // else nothing of the name would be left
    if (isClose || isPart) near.push_back({isPart ? std::min(distance, limit) : distance, candidate});
  }
  llvm::sort(near);
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::vector<std::string> matches;
  for (size_t i = 0; i < near.size() && i < kMaxMatches; ++i) matches.push_back(near[i].second.str());
  return matches;
}

std::string joinMatches(ArrayRef<std::string> matches, StringRef prefix) {
  std::string text;
  for (size_t i = 0; i < matches.size(); ++i) {
    if (i > 0) text += i + 1 == matches.size() ? " or " : ", ";
    text += ("'" + prefix + matches[i] + "'").str();
  }
  return text;
}

NameIndex::NameIndex(const Graph &graph) : graph(graph) {
  byName.reserve(graph.numNodes());
  for (uint32_t i = 0; i < graph.numNodes(); ++i)
    if (!graph.name(NodeId(i)).empty()) byName.push_back(NodeId(i));
  llvm::sort(byName, [&](NodeId a, NodeId b) {
    int order = graph.name(a).compare(graph.name(b));
    return order != 0 ? order < 0 : a < b;
  });
}

ArrayRef<NodeId> NameIndex::named(StringRef name) const {
  auto first = partition_point(byName, [&](NodeId n) { return graph.name(n) < name; });
  auto last = std::find_if(first, byName.end(), [&](NodeId n) { return graph.name(n) != name; });
  return ArrayRef<NodeId>(byName).slice(first - byName.begin(), last - first);
}

/// The node called `text`, `name#k` or `#id`; nothing when there is none, E-34 when there are several.
std::optional<Expected<NodeId>> NameIndex::node(StringRef text) const {
  ArrayRef<NodeId> exact = named(text);
  if (exact.size() == 1) return exact.front();
  if (exact.size() > 1) {
    std::string ids;
    for (NodeId n : exact.take_front(10)) ids += (ids.empty() ? "#" : ", #") + std::to_string(n.value);
    if (exact.size() > 10) ids += ", …";
    return Failure(ErrorKind::AmbiguousName,
                   "name '" + text + "' is ambiguous: " + Twine(exact.size()) + " nodes have this name (" + ids + ")")
        .at(exact[1])
        .note("use '#" + Twine(exact[0].value) + "', or '" + text + "#2' for the second one");
  }
  size_t at = text.rfind('#');
  uint32_t number = 0;
  if (at == StringRef::npos || text.drop_front(at + 1).getAsInteger(10, number)) return std::nullopt;
  if (at == 0) {
    if (number >= graph.numNodes()) return std::nullopt;
    return NodeId(number);
  }
  ArrayRef<NodeId> same = named(text.take_front(at));
  if (number == 0 || number > same.size()) return std::nullopt;
  return same[number - 1];
}

/// `<node>_<output name>`: the node's name may itself contain underscores, so every split is tried.
std::optional<Value> NameIndex::listedOutput(StringRef text) const {
  for (size_t at = text.rfind('_'); at != StringRef::npos && at > 0; at = text.take_front(at).rfind('_')) {
    for (NodeId n : named(text.take_front(at))) {
      if (graph.isVariable(n)) continue;
      for (uint32_t i = 0; i < graph.numOutputs(n) && i <= kMaxIndex; ++i) {
        Value value{n, static_cast<uint16_t>(i), 0};
        if (graph.listedName(value) == text) return value;
      }
    }
  }
  return std::nullopt;
}

Expected<Value> NameIndex::head(StringRef position) const {
  uint32_t number = 0;
  if (position.getAsInteger(10, number) || number >= graph.heads().size())
    return Failure(ErrorKind::BadEntry, "head '@" + position + "' does not exist: the graph has " +
                                            countOf(graph.heads().size(), "head") + ", counted from @0");
  return graph.heads()[number];
}

// E-14: a text that names nothing and looks like a number or a list.
std::optional<Error> NameIndex::wrongType(StringRef text) {
  double number;
  const bool isNumber = to_float(text, number);
  if (!isNumber && !text.starts_with("[") && !text.starts_with("(") && !text.starts_with("{")) return std::nullopt;
  Failure failure(ErrorKind::BadType, "'" + text + "' is " + (isNumber ? "a number" : "the start of a list") +
                                          ", expected the name of a node or an entry");
  if (!isNumber) return Error(std::move(failure).note("lists are written without brackets: a,b,c"));
  return Error(std::move(failure).note("node 3 is '#3', head 3 is '@3'"));
}

// E-25: a path to a node in a body, as `--no-grad` takes it.
std::optional<Error> NameIndex::inside(StringRef text) const {
  Expected<std::optional<NodeInside>> found = findInside(graph, text);
  if (found && !*found) found = findInside(graph, text.rsplit(':').first);
  if (!found) return found.takeError();
  if (!*found) return std::nullopt;
  const NodeId owner = (*found)->bodies.front().first;
  return Failure(ErrorKind::LoopScope,
                 "'" + text + "' is in a body of " + graph.describe(owner) +
                     ", which recomputes it at every step: only entries of the graph itself have gradients")
      .at(owner)
      .note("what the body yields is an output of " + graph.describe(owner) +
            "; --no-grad, --stop and --retain take paths");
}

Error NameIndex::unknown(StringRef text) const {
  if (std::optional<Error> wrong = wrongType(text)) return std::move(*wrong);
  if (std::optional<Error> isInside = inside(text)) return std::move(*isInside);
  std::vector<std::string> listed;
  for (Value head : graph.heads()) listed.push_back(graph.listedName(head));
  std::vector<StringRef> candidates(listed.begin(), listed.end());
  for (NodeId n : byName) candidates.push_back(graph.name(n));
  Failure failure(ErrorKind::UnknownName, "the graph has no node or output named '" + text + "'");
  std::string close = joinMatches(closeMatches(text, candidates), "");
  if (!close.empty()) return std::move(failure).note("did you mean " + close + "?");
  return std::move(failure).note("`gradc show` lists the nodes and their names");
}

Expected<Value> NameIndex::entry(StringRef text) const {
  if (std::optional<Expected<NodeId>> found = node(text)) {
    if (!*found) return found->takeError();
    return Value{**found, 0, 0};
  }
  auto [name, position] = text.rsplit(':');
  uint32_t index = 0;
  if (!position.empty() && !position.getAsInteger(10, index)) {
    if (std::optional<Expected<NodeId>> found = node(name)) {
      if (!*found) return found->takeError();
      if (index >= graph.numOutputs(**found) || index > kMaxIndex)
        return Failure(ErrorKind::BadEntry, graph.describe(**found) + " has " +
                                                countOf(graph.numOutputs(**found), "output") + ", counted from 0; '" +
                                                text + "' asks for output " + Twine(index))
            .at(**found);
      return Value{**found, static_cast<uint16_t>(index), 0};
    }
  }
  if (std::optional<Value> listed = listedOutput(text)) return *listed;
  if (text.starts_with("@")) return head(text.drop_front());
  return unknown(text);
}

Expected<NodeId> NameIndex::variable(StringRef text) const {
  Expected<Value> value = entry(text);
  if (!value) return value.takeError();
  if (graph.isVariable(value->node)) return value->node;
  return Failure(ErrorKind::BadHint, "'" + text + "' is " + graph.describe(value->node) + ", expected a variable")
      .at(value->node);
}

Expected<std::vector<Value>> NameIndex::entries(ArrayRef<std::string> lists) const {
  std::vector<Value> values;
  for (const std::string &list : lists) {
    SmallVector<StringRef, 8> parts;
    if (hasName(list)) parts.push_back(list);
    else StringRef(list).split(parts, ',');
    for (StringRef part : parts) {
      Expected<Value> value = entry(part);
      if (!value) return value.takeError();
      values.push_back(*value);
    }
  }
  return values;
}

}  // namespace gradc
