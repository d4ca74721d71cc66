// Rendering of messages. Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/render.h"

#include "drawing/table.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace gradc {
namespace {

int exitCode(ErrorKind kind) {
  if (kind == ErrorKind::Usage || kind == ErrorKind::Io) return 2;
  return kind == ErrorKind::Internal ? 70 : 1;
}

/// Bytes of UTF-8 that do not start a character take no column on the screen.
bool startsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

size_t numCharacters(StringRef text) { return static_cast<size_t>(llvm::count_if(text, startsCharacter)); }

/// The text of an excerpt, in which each character that is not printed takes one column.
std::string blanked(StringRef text) {
  std::string clean;
  while (!text.empty()) {
    const size_t size = 1 + text.drop_front().take_until(startsCharacter).size();
    const StringRef character = text.take_front(size);
    if (isPrintable(character)) clean += character;
    else clean += ' ';
    text = text.drop_front(size);
  }
  return clean;
}

/// How a user of the command line follows the advice of a note; `*` is the subject. A switch, not an array: the
/// compiler reports a remedy that has no row.
constexpr StringRef remedyText(Remedy remedy) {
  switch (remedy) {
    case Remedy::None: return "";
    case Remedy::SaveOverwritten: return "--overwritten save keeps a copy of what the gradient needs";
    case Remedy::GiveShapes:
      return "give more shapes (--shape NAME=2,3); infer and plan can also leave some unknown (--partial)";
    case Remedy::GiveHeadGradient: return "give a head gradient with --seed *=NAME";
    case Remedy::GiveOrChooseHeads: return "give one with --seed *=NAME, or choose another --heads policy";
    case Remedy::StopGradient: return "stop the gradient there with --stop *, or request other variables";
    case Remedy::ChooseUnused: return "--unused none leaves it out, --unused zeros gives it a gradient of zeros";
    case Remedy::KeepOwnOperators: return "emit the graph without --dialect *";
    case Remedy::StartFromParameters:
      return "only a checkpoint written by training can be resumed; a file of parameters only provides initial "
             "values: --inputs";
    case Remedy::KeepForwardHeads: return "emit it with --emit combined";
    case Remedy::RunAsAnotherType: return "run it as another type: --dtype float32";
    case Remedy::DrawMissingValues: return "--init SEED fills what is not given";
    case Remedy::AllowMoreSteps:
      return "--max-iterations N, given where a program is read or a graph is run, allows more";
  }
  return "";
}

/// The note's text or, if it carries a remedy, the text that names the flag.
std::string noteText(const Note &note) {
  if (note.remedy == Remedy::None) return note.text;
  const auto [before, after] = remedyText(note.remedy).split('*');
  const bool namesSubject = remedyText(note.remedy).contains('*');
  return (before + (namesSubject ? StringRef(note.subject) : StringRef()) + after).str();
}

}  // namespace

StringRef Diagnostics::setSource(StringRef name, std::unique_ptr<MemoryBuffer> text) {
  path = name == "-" ? "<stdin>" : name.str();
  source = std::move(text);
  hasInput = false;
  return source->getBuffer();
}

void Diagnostics::setInput(const Graph &graph, SourceMap map) {
  input = current = graph;
  sources = std::move(map);
  findOrigin = {};
  hasInput = true;
}

void Diagnostics::setInput(const Graph &graph, FindOrigin find) {
  setInput(graph, SourceMap());
  findOrigin = std::move(find);
}

/// The node of the input that node `n` of the current graph is, or was generated for. Forward ids are usually a stable
/// prefix; where they are not, a node is recognised by kind and name. Graphs of programs have nodes without a name.
std::optional<NodeId> Diagnostics::inputNode(NodeId n) const {
  if (!hasInput || n.value >= current.numNodes()) return std::nullopt;
  NodeId user = current.origin(n).isValid() ? current.origin(n) : n;
  auto isSame = [&](NodeId candidate) {
    return input.kindHandle(candidate) == current.kindHandle(user) && input.name(candidate) == current.name(user);
  };
  const bool isNameless = current.name(user).empty();
  if (isNameless && (user.value >= input.numNodes() || input.inputs(user) != current.inputs(user))) return std::nullopt;
  if (user.value < input.numNodes() && isSame(user)) return user;
  for (uint32_t i = 0; i < input.numNodes() && !isNameless; ++i)
    if (isSame(NodeId(i))) return NodeId(i);
  return std::nullopt;
}

/// The place in the input graph. Bodies are part of the owner's kind, so below the outermost owner the ids are the
/// input's; those of a generated owner belong to that owner.
std::optional<Place> Diagnostics::inputPlace(Place place) const {
  const NodeId inRoot = place.path.empty() ? place.node : place.path.front().owner;
  const std::optional<NodeId> node = inRoot.isValid() ? inputNode(inRoot) : std::nullopt;
  if (!node) return std::nullopt;
  if (place.path.empty() || current.origin(inRoot).isValid()) return Place{*node, -1, {}};
  place.path.front().owner = *node;
  return place;
}

std::optional<Diagnostics::Origin> Diagnostics::originOf(const Place &place) const {
  if (!findOrigin || place.offset >= 0) return std::nullopt;
  const std::optional<Place> inInput = inputPlace(place);
  return inInput ? findOrigin(*inInput) : std::nullopt;
}

/// The graph the place's node belongs to: the current one, or a body in it.
std::optional<Graph> Diagnostics::graphOf(const Place &place) const {
  if (!hasInput || !place.node.isValid()) return std::nullopt;
  Graph graph = current;
  for (const BodyStep &step : place.path) {
    if (step.owner.value >= graph.numNodes() || step.body >= graph.bodies(step.owner).size()) return std::nullopt;
    graph = Graph(graph.bodies(step.owner)[step.body]);
  }
  return place.node.value < graph.numNodes() ? std::optional<Graph>(graph) : std::nullopt;
}

std::optional<Diagnostics::Position> Diagnostics::locate(Place place) const {
  if (!source) return std::nullopt;
  int64_t offset = place.offset;
  if (offset < 0 && place.node.isValid()) {
    if (const std::optional<Origin> origin = originOf(place)) offset = origin->offset;
    else if (const std::optional<Place> inInput = inputPlace(place)) offset = sources.offsetOf(*inInput);
  }
  StringRef text = source->getBuffer();
  if (offset < 0) return std::nullopt;
  // A node written over several lines: a lone brace shows nothing, its first member does.
  StringRef rest = text.substr(static_cast<size_t>(offset));
  if (rest.consume_front("{") && rest.ltrim(" \t\r").substr(0, 1) == "\n")
    offset = static_cast<int64_t>(text.size() - rest.ltrim().size());
  size_t at = std::min(static_cast<size_t>(offset), text.size());
  StringRef before = text.take_front(at);
  size_t lineStart = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
  return Position{at, before.count('\n') + 1, at - lineStart + 1};
}

/// The line of `position`, clipped to 72 columns with the place inside, and a caret under it.
void Diagnostics::printExcerpt(const Position &position) {
  constexpr size_t kWidth = 72, kBefore = 40;
  StringRef text = source->getBuffer();
  size_t lineStart = position.offset - (position.column - 1);
  StringRef line = text.slice(lineStart, text.find('\n', position.offset));
  line.consume_back("\r");
  size_t at = std::min(position.column - 1, line.size());
  size_t begin = line.size() > kWidth && at > kBefore ? at - kBefore : 0;
  if (begin > 0 && line.size() - begin < kWidth) begin = line.size() - kWidth;
  while (begin > 0 && !startsCharacter(line[begin])) --begin;
  size_t end = std::min(begin + kWidth, line.size());
  while (end < line.size() && !startsCharacter(line[end])) ++end;
  os << "  " << blanked(line.slice(begin, end)) << "\n";
  os.indent(2 + static_cast<unsigned>(numCharacters(blanked(line.slice(begin, at))))) << "^\n";
}

void Diagnostics::printText(const Message &message, std::optional<Position> position) {
  if (position) os << printable(path) << ':' << position->line << ':' << position->column << ": ";
  else if (source) os << printable(path) << ": ";
  else os << "gradc: ";
  os << message.severity << ": " << printable(message.text);
  if (!message.kind.empty()) os << " [" << message.kind << ']';
  os << '\n';
  if (position) printExcerpt(*position);
}

void Diagnostics::printJson(const Message &message, std::optional<Position> position) {
  std::string line;
  raw_string_ostream text(line);
  json::OStream out(text);
  out.object([&] {
    out.attribute("severity", message.severity);
    out.attribute("message", json::fixUTF8(message.text));
    if (!message.kind.empty()) out.attribute("kind", message.kind);
    if (!message.row.empty()) out.attribute("row", message.row);
    if (source) out.attribute("file", json::fixUTF8(path));
    if (position) {
      out.attribute("line", static_cast<int64_t>(position->line));
      out.attribute("column", static_cast<int64_t>(position->column));
      out.attribute("offset", static_cast<int64_t>(position->offset));
    }
    if (const std::optional<Graph> graph = graphOf(message.place))
      out.attribute("node", json::fixUTF8(graph->name(message.place.node)));
  });
  os << printableJson(line) << '\n';
}

void Diagnostics::print(const Message &message) {
  std::optional<Position> position = locate(message.place);
  form == DiagForm::Text ? printText(message, position) : printJson(message, position);
}

int Diagnostics::report(const GradcError &error) {
  print({"error", error.message, errorKindName(error.kind), errorRow(error.kind), error.place});
  for (const Note &note : error.notes) print({"note", noteText(note), "", "", note.place});
  if (const std::optional<Origin> origin = originOf(error.place)) {
    print({"note", "the node is of " + origin->text, "", "", Place{}});
    for (const std::string &text : origin->notes) print({"note", text, "", "", Place{}});
  }
  const NodeId node = error.place.node;
  const std::optional<Graph> graph = graphOf(error.place);
  if (graph && graph->origin(node).isValid()) {
    std::string text = graph->describe(node) + " was generated for " + graph->describe(graph->origin(node));
    print({"note", text, "", "", Place{}});
  }
  return exitCode(error.kind);
}

int Diagnostics::report(Error error) {
  int code = 0;
  handleAllErrors(
      std::move(error), [&](const GradcError &info) { code = std::max(code, report(info)); },
      [&](const ErrorInfoBase &info) {
        print({"error", info.message(), errorKindName(ErrorKind::Internal), "", Place{}});
        code = 70;
      });
  return code;
}

void Diagnostics::warning(const Twine &message) { print({"warning", message.str(), "", "", Place{}}); }
void Diagnostics::note(const Twine &message) { print({"note", message.str(), "", "", Place{}}); }

}  // namespace gradc
