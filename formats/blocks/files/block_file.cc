// Reads the frame of the file event by event, and the operators and variables in it one element at a time. Tested by
// tests/formats/blocks/block_file_test.cc
#include "formats/blocks/files/block_file.h"

#include "formats/blocks/files/call_reader.h"
#include "formats/blocks/files/element_reader.h"
#include "formats/blocks/files/program_desc.h"
#include "formats/json/source_map.h"
#include "ir/base/out_of_memory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {
namespace {

class BlockFileEvents final : public JsonEvents {
 public:
  BlockFileEvents(Context &context, StringRef text, const char *const &position)
      : text(text), position(position), elements(context, file) {}

  bool onLiteral(StringRef literal) override { return scalar(JsonToken::Literal, literal); }
  bool onInteger(int64_t value) override { return scalar(JsonToken::Number, std::to_string(value)); }
  bool onOtherNumber(StringRef spelled) override { return scalar(JsonToken::Number, spelled); }
  bool onString(StringRef value) override { return scalar(JsonToken::String, value); }
  bool onKey(StringRef name) override;
  bool onOpen(char bracket) override;
  bool onClose(char bracket) override;
  bool onSyntaxError(size_t at, StringRef explanation) override {
    return fail(Failure(ErrorKind::BadJson, "malformed JSON: " + explanation).atOffset(static_cast<int64_t>(at)));
  }

  Expected<BlockFile> finish();

 private:
  enum class In : uint8_t { Nothing, File, Program, Blocks, Block, Variables, Ops, Element };

  In current() const { return stack.back(); }
  int64_t begin(JsonToken token) const { return jsonTokenBegin(text, position - text.data(), token); }
  bool fail(Error error) {
    failure.emplace(std::move(error));
    return false;
  }
  bool fail(Failure &&what) { return fail(Error(std::move(what))); }
  bool check(Error error) { return error ? fail(std::move(error)) : true; }
  /// The frame that an array or object under the key opens; none: it is an element.
  std::optional<In> frame(char bracket) const;
  /// Whether the value that begins is part of the frame, which has a fixed form there.
  bool isOfFrame() const;
  bool unexpected(JsonToken token);
  bool enter(In in);
  bool scalar(JsonToken token, StringRef spelled);
  bool take();
  Error takeElement(JsonCursor json);
  Error takeOfFile(JsonCursor json);
  Error takeOfBlock(JsonCursor json);

  StringRef text;
  const char *const &position;
  BlockFile file;
  ElementReader elements;
  SmallVector<In, 8> stack = {In::Nothing};
  SmallVector<StringSet<>, 4> keysSeen;  // of the open objects of the frame
  std::string key;                       // whose value comes next
  int64_t keyOffset = 0;
  JsonElement element;
  bool hasProgram = false, hasBlocks = false;
  std::optional<Error> failure;  // the parser stops at the first
};

bool BlockFileEvents::onKey(StringRef name) {
  if (current() == In::Element) {
    element.addKey(name, begin(JsonToken::String));
    return true;
  }
  key = name.str();
  keyOffset = begin(JsonToken::String);
  if (current() == In::Variables) return true;  // addVariable finds duplicates
  if (!keysSeen.back().insert(name).second)
    return fail(Failure(ErrorKind::BadJson, "the object has the key '" + name + "' twice").atOffset(keyOffset));
  return true;
}

std::optional<BlockFileEvents::In> BlockFileEvents::frame(char bracket) const {
  const bool isArray = bracket == '[';
  switch (current()) {
    case In::Nothing:
      if (!isArray) return In::File;
      break;
    case In::File:
      if (key == "program" && !isArray) return In::Program;
      [[fallthrough]];
    case In::Program:
      if (key == "blocks" && isArray) return In::Blocks;
      break;
    case In::Blocks:
      if (!isArray) return In::Block;
      break;
    case In::Block:
      if (key == "vars" && !isArray) return In::Variables;
      if (key == "ops" && isArray) return In::Ops;
      break;
    default: break;
  }
  return std::nullopt;
}

bool BlockFileEvents::enter(In in) {
  stack.push_back(in);
  if (in == In::File || in == In::Program || in == In::Block) keysSeen.emplace_back();
  if (in == In::Blocks && hasBlocks)
    return fail(Failure(ErrorKind::BadJson, "the file has two programs").atOffset(keyOffset));
  if (in == In::Program) hasProgram = true;
  if (in == In::Blocks) hasBlocks = true;
  if (in == In::Block) file.program.blocks.emplace_back();
  return true;
}

bool BlockFileEvents::isOfFrame() const {
  switch (current()) {
    case In::Nothing:
    case In::Blocks: return true;
    case In::File: return key == "program" || key == "blocks";
    case In::Program: return key == "blocks";
    case In::Block: return key == "vars" || key == "ops";
    default: return false;
  }
}

bool BlockFileEvents::unexpected(JsonToken token) {
  std::string expected = "an object with a program";
  if (current() == In::Blocks) expected = "an object for block " + std::to_string(file.program.blocks.size());
  else if (current() == In::File && key == "program") expected = "an object for 'program'";
  else if (current() == In::File || current() == In::Program) expected = "a list for 'blocks'";
  else if (current() == In::Block)
    expected = ((key == "ops" ? "a list for 'ops' of block " : "an object for 'vars' of block ") +
                Twine(file.program.blocks.size() - 1))
                   .str();
  return fail(
      Failure(ErrorKind::BadJson, "expected " + expected + ", found " + jsonTokenName(token)).atOffset(begin(token)));
}

bool BlockFileEvents::onOpen(char bracket) {
  const JsonToken token = bracket == '{' ? JsonToken::Object : JsonToken::Array;
  if (current() != In::Element) {
    if (std::optional<In> in = frame(bracket)) return enter(*in);
    if (isOfFrame()) return unexpected(token);
    element.clear();
    stack.push_back(In::Element);
  }
  element.open(bracket, begin(token));
  return true;
}

bool BlockFileEvents::scalar(JsonToken token, StringRef spelled) {
  if (current() == In::Element) {
    element.addScalar(token, spelled, begin(token));
    return true;
  }
  if (current() == In::File && key == "program" && spelled == "null")
    return fail(Failure(ErrorKind::BadJson, "the file has no program: its key is null").atOffset(begin(token)));
  if (isOfFrame()) return unexpected(token);
  element.clear();
  element.addScalar(token, spelled, begin(token));
  stack.push_back(In::Element);
  return take();
}

bool BlockFileEvents::onClose(char) {
  if (current() == In::Element) {
    element.close();
    return !element.isComplete() || take();
  }
  const In left = stack.pop_back_val();
  if (left == In::File || left == In::Program || left == In::Block) keysSeen.pop_back();
  return true;
}

bool BlockFileEvents::take() {
  stack.pop_back();
  return check(takeElement(element.root()));
}

Error BlockFileEvents::takeElement(JsonCursor json) {
  const size_t block = file.program.blocks.size() - 1;
  switch (current()) {
    case In::File: return takeOfFile(json);
    case In::Program:
      if (key == "parameters") return elements.parameters(json);
      return Error::success();
    case In::Block: return takeOfBlock(json);
    case In::Variables: {
      Expected<BlockVariable> variable = elements.variable(json, key, block);
      if (!variable) return variable.takeError();
      if (!file.program.addVariable(static_cast<uint32_t>(block), std::move(*variable)))
        return Failure(ErrorKind::BadJson, "block " + Twine(block) + " declares '" + key + "' twice")
            .atOffset(keyOffset);
      return Error::success();
    }
    case In::Ops: {
      std::vector<BlockOp> &ops = file.program.blocks.back().ops;
      Expected<BlockOp> op = elements.op(json, {block, ops.size()});
      if (!op) return op.takeError();
      ops.push_back(std::move(*op));
      return Error::success();
    }
    default: return Error::success();
  }
}

Error BlockFileEvents::takeOfFile(JsonCursor json) {
  if (key == "parameters") return elements.parameters(json);
  if (key == "call") return readCall(json, file);
  if (key == "result" && !json.isNull()) return readResult(json, file);
  json.print(file.others[key]);
  return Error::success();
}

Error BlockFileEvents::takeOfBlock(JsonCursor json) {
  const size_t number = file.program.blocks.size() - 1;
  Block &block = file.program.blocks.back();
  if (key != "idx" && key != "parent" && key != "forward") return Error::success();
  Expected<int64_t> value = json.integer("a number for '" + Twine(key) + "' of block " + Twine(number));
  if (!value) return value.takeError();
  if (key == "idx" ? *value != static_cast<int64_t>(number) : *value < -1 || *value > int64_t{UINT32_MAX})
    return Failure(ErrorKind::BadJson, "'" + key + "' of block " + Twine(number) + " is " + Twine(*value))
        .atOffset(json.offset());
  if (*value < 0) return Error::success();
  if (key == "parent") block.parent = static_cast<uint32_t>(*value);
  // Paddle's gradient merge links a branch to itself: it is the gradient of none.
  if (key == "forward" && *value != static_cast<int64_t>(number)) block.forward = static_cast<uint32_t>(*value);
  return Error::success();
}

Expected<BlockFile> BlockFileEvents::finish() {
  if (failure) return std::move(*failure);
  if (!hasBlocks)
    return Failure(ErrorKind::BadJson, hasProgram ? "the program has no key 'blocks'" : "the file has no key 'program'")
        .atOffset(0);
  if (Error error = verifyBlocks(file.program)) return error;
  return std::move(file);
}

}  // namespace

void BlockFile::warnOfKey(StringRef key, const Twine &of) {
  constexpr size_t kMost = 16;
  if (warnings.size() < kMost) warnings.push_back(("key '" + key + "' of " + of + " is ignored").str());
}

Expected<BlockFile> readBlocks(Context &context, StringRef text) {
  return catchingBadAlloc("to read the program", [&]() -> Expected<BlockFile> {
    if (looksLikeProgramDesc(text)) return readProgramDesc(context, text);
    if (text.trim().empty()) return Failure(ErrorKind::BadJson, "the input is empty, expected a program").atOffset(0);
    const char *position = text.data();
    BlockFileEvents events(context, text, position);
    parseJson(text, position, events);
    Expected<BlockFile> file = events.finish();
    if (!file) return withJsonPath(file.takeError(), text);
    return file;
  });
}

// Decides by the first key that a graph or a program has; skips other keys and their values.
bool looksLikeBlocks(StringRef text) {
  if (looksLikeProgramDesc(text)) return true;
  size_t depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != '"') continue;
    const size_t begin = at + 1;
    for (++at; at < text.size() && text[at] != '"'; ++at)
      if (text[at] == '\\') ++at;
    if (depth != 1 || !text.substr(std::min(at + 1, text.size())).ltrim().starts_with(":")) continue;
    const StringRef key = text.slice(begin, at);
    if (is_contained({"program", "blocks", "call"}, key)) return true;
    if (is_contained({"nodes", "arg_nodes", "heads", "node_row_ptr", "attrs"}, key)) return false;
  }
  return false;
}

}  // namespace gradc
