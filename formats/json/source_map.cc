// A scan of brackets, commas and keys. Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/source_map.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace gradc {
namespace {

/// An array or object that is open.
struct Level {
  bool isArray;
  size_t index = 0;  // of an array: the element that comes next, or that we are in
  StringRef key;     // of an object: of the member that comes next, or that we are in
  bool wantsKey;     // the next string is a key
};

// The position of the closing quote, or the end of the text.
size_t endOfString(StringRef text, size_t quote) {
  size_t at = quote + 1;
  for (; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return at;
}

constexpr size_t kMaxLevels = 12;  // that a path spells

std::string spell(ArrayRef<Level> levels) {
  constexpr size_t kMaxKey = 64;
  std::string path;
  for (const Level &level : levels.take_front(kMaxLevels)) {
    if (level.isArray) path += "[" + std::to_string(level.index) + "]";
    else if (!level.wantsKey) path += (path.empty() ? "" : ".") + level.key.take_front(kMaxKey).str();
  }
  return levels.size() > kMaxLevels ? path + "…" : path;
}

/// Path to the value that contains the byte at `offset`; empty at the root. The text has to be JSON up to there. Long
/// paths end in "…". Linear, and nothing is stored for it while a file is read.
std::string jsonPathAt(StringRef text, size_t offset) {
  SmallVector<Level, kMaxLevels + 1> levels;
  size_t numDeeper = 0;  // levels below those in `levels`: a file may have any number
  auto close = [&] {
    if (numDeeper != 0) --numDeeper;
    else if (!levels.empty()) levels.pop_back();
  };
  for (size_t at = 0; at < offset && at < text.size(); ++at) {
    Level *top = levels.empty() || numDeeper != 0 ? nullptr : &levels.back();
    switch (text[at]) {
      case '[':
      case '{':
        if (levels.size() > kMaxLevels) ++numDeeper;
        else levels.push_back({text[at] == '[', 0, {}, text[at] == '{'});
        break;
      case ']':
      case '}': close(); break;
      case ',':
        if (top) ++top->index, top->wantsKey = !top->isArray;
        break;
      case '"': {
        const size_t end = endOfString(text, at);
        if (end >= offset) return spell(levels);
        if (top && top->wantsKey) top->key = text.slice(at + 1, end), top->wantsKey = false;
        at = end;
        break;
      }
      default: break;
    }
  }
  const bool isEnd = offset < text.size() && (text[offset] == ']' || text[offset] == '}');
  if (isEnd) close();
  return spell(levels);
}

}  // namespace

int64_t SourceMap::offsetOf(const Place &place) const {
  const SourceMap *at = this;
  for (const BodyStep &step : place.path) {
    auto found =
        llvm::lower_bound(at->bodies, step, [](const Body &body, const BodyStep &key) { return body.step < key; });
    if (found == at->bodies.end() || found->step != step) return -1;
    at = &found->sources;
  }
  return place.node.isValid() && place.node.value < at->nodes.size() ? at->nodes[place.node.value].begin : -1;
}

Error withJsonPath(Error error, StringRef text) {
  return amend(std::move(error), [&](GradcError &info) {
    if (info.place.offset < 0) return;
    std::string path = jsonPathAt(text, static_cast<size_t>(info.place.offset));
    if (!path.empty()) info.notes.push_back({"at " + path, {}});
  });
}

}  // namespace gradc
