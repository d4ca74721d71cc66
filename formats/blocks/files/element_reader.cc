// Operators, variables and parameters. Tested by tests/formats/blocks/block_file_test.cc
#include "formats/blocks/files/element_reader.h"

#include "ir/base/dense_map.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

bool isFloat(JsonCursor value) {
  return value.kind() == JsonToken::Number ||
         (value.kind() == JsonToken::String && is_contained({"nan", "inf", "-inf"}, value.spelled()));
}

bool isInteger(JsonCursor value) {
  int64_t number;
  return value.kind() == JsonToken::Number && !value.spelled().getAsInteger(10, number);
}

bool isScalar(JsonCursor value) {  // ["FLOAT64",0.5]
  return value.kind() == JsonToken::Array;
}

/// Whether `value` has the form of the type, or of an element of a list type.
bool fits(AttrTag tag, JsonCursor value) {
  switch (tag) {
    case AttrTag::Int:
    case AttrTag::Ints:
    case AttrTag::Long:
    case AttrTag::Longs:
    case AttrTag::Block:
    case AttrTag::Blocks: return isInteger(value);
    case AttrTag::Float:
    case AttrTag::Floats:
    case AttrTag::Float64:
    case AttrTag::Float64s: return isFloat(value);
    case AttrTag::String:
    case AttrTag::Strings:
    case AttrTag::Var:
    case AttrTag::Vars: return value.kind() == JsonToken::String;
    case AttrTag::Boolean:
    case AttrTag::Booleans: return value.kind() == JsonToken::Literal && !value.isNull();
    case AttrTag::Scalar:
    case AttrTag::Scalars: return isScalar(value);
  }
  return false;
}

bool isList(AttrTag tag) {
  return is_contained({AttrTag::Ints, AttrTag::Floats, AttrTag::Strings, AttrTag::Booleans, AttrTag::Blocks,
                       AttrTag::Longs, AttrTag::Float64s, AttrTag::Vars, AttrTag::Scalars},
                      tag);
}

/// The tag of `["INTS",[1,2]]`, after a check that the value has the tag's form.
Expected<AttrTag> checkAttr(JsonCursor json, const Twine &what) {
  SmallVector<JsonCursor, 2> parts;
  Error error = json.forEachElement(what, [&](JsonCursor part) {
    parts.push_back(part);
    return Error::success();
  });
  if (error) return error;
  if (parts.size() != 2 || parts[0].kind() != JsonToken::String) return json.failure(what);
  const std::optional<AttrTag> tag = parseAttrTag(parts[0].spelled());
  if (!tag)
    return Failure(ErrorKind::BadJson, "expected " + what + ", found the type '" + parts[0].spelled() + "'")
        .atOffset(parts[0].offset());
  bool isFine = true;
  if (isList(*tag)) {
    if (Error bad = parts[1].forEachElement(what, [&](JsonCursor value) {
          isFine &= fits(*tag, value);
          return Error::success();
        }))
      return bad;
  } else {
    isFine = fits(*tag, parts[1]);
  }
  if (!isFine)
    return Failure(ErrorKind::BadJson, "expected " + what + ", found a value that does not fit " + attrTagName(*tag))
        .atOffset(parts[1].offset());
  return *tag;
}

}  // namespace

Expected<std::vector<BlockSlot>> ElementReader::slots(JsonCursor json, const Twine &of) {
  std::vector<BlockSlot> slots;
  Error error = json.forEachMember("an object of slots of " + of, [&](StringRef name, JsonCursor list) -> Error {
    BlockSlot slot{file.program.intern(name), {}};
    Error bad = list.forEachElement("a list of names for slot '" + name + "' of " + of, [&](JsonCursor value) -> Error {
      Expected<StringRef> variable = value.string("a name in slot '" + name + "' of " + of);
      if (!variable) return variable.takeError();
      slot.variables.push_back(file.program.intern(*variable));
      return Error::success();
    });
    if (bad) return bad;
    slots.push_back(std::move(slot));
    return Error::success();
  });
  if (error) return error;
  return slots;
}

Error ElementReader::order(std::vector<BlockSlot> &slots, JsonCursor json, const Twine &of) {
  std::vector<BlockSlot> sorted;
  constexpr size_t kFew = 8;
  DenseMap<uint32_t, size_t> positions;  // by name; empty while there are few
  if (slots.size() > kFew)
    for (auto [i, slot] : enumerate(slots)) positions.try_emplace(slot.name.value, i);
  auto positionOf = [&](TextId name) {
    if (slots.size() > kFew) return positions.contains(name.value) ? positions.lookup(name.value) : slots.size();
    return static_cast<size_t>(find_if(slots, [&](const BlockSlot &slot) { return slot.name == name; }) -
                               slots.begin());
  };
  auto failure = [&](StringRef name, JsonCursor at) -> Error {
    return Failure(ErrorKind::BadJson,
                   "the order of slots of " + of + " has '" + name + "', expected each of its slots once")
        .atOffset(at.offset());
  };
  Error error = json.forEachElement("a list of slots of " + of, [&](JsonCursor value) -> Error {
    Expected<StringRef> name = value.string("a slot of " + of);
    if (!name) return name.takeError();
    const TextId known = file.program.texts.find(*name);
    const size_t at = known.isValid() ? positionOf(known) : slots.size();
    if (at == slots.size() || !slots[at].name.isValid()) return failure(*name, value);
    sorted.push_back(std::move(slots[at]));
    slots[at].name = TextId();  // listed
    return Error::success();
  });
  if (error) return error;
  if (sorted.size() != slots.size())
    return Failure(ErrorKind::BadJson, "the order of slots of " + of + " lists " + Twine(sorted.size()) +
                                           " of them, expected " + Twine(slots.size()))
        .atOffset(json.offset());
  slots = std::move(sorted);
  return Error::success();
}

Error ElementReader::attrs(BlockOp &op, JsonCursor json, const Twine &of) {
  SmallVector<std::pair<StringRef, std::pair<size_t, size_t>>, 16> found;  // key, range in the buffer
  buffer.clear();
  Error error = json.forEachMember("an object of attributes of " + of, [&](StringRef key, JsonCursor value) -> Error {
    Expected<AttrTag> tag = checkAttr(value, "[type, value] for attribute '" + key + "' of " + of);
    if (!tag) return tag.takeError();
    const size_t begin = buffer.size();
    value.print(buffer);
    StringRef spelled = StringRef(buffer).drop_front(begin);
    if (key == "sub_block" && *tag == AttrTag::Block) {
      StringRef number = spelled.drop_back().split(',').second;
      uint32_t block;
      if (number.getAsInteger(10, block))
        return Failure(ErrorKind::BadJson,
                       "expected the number of a block for attribute 'sub_block' of " + of + ", found " + number)
            .atOffset(value.offset());
      op.subBlock = block;
      buffer.resize(begin);
    } else if (key == "op_callstack" && *tag == AttrTag::Strings) {
      op.callstack = file.program.intern(spelled.drop_back().split(',').second);
      buffer.resize(begin);
    } else {
      found.push_back({key, {begin, buffer.size()}});
    }
    return Error::success();
  });
  if (error) return error;
  SmallVector<AttrText, 16> pairs;
  for (const auto &[key, range] : found) pairs.push_back({key, StringRef(buffer).slice(range.first, range.second)});
  op.attrs = context.attrs(pairs);
  return Error::success();
}

Expected<BlockOp> ElementReader::op(JsonCursor json, ElementPlace place) {
  BlockOp op;
  op.offset = json.offset();
  std::string label = ("block " + Twine(place.block) + ", operator " + Twine(place.op)).str();
  std::optional<JsonCursor> in, out, inOrder, outOrder, attributes;
  Error error = json.forEachMember("an object for " + Twine(label), [&](StringRef key, JsonCursor value) -> Error {
    if (key == "type") {
      Expected<StringRef> type = value.string("a string for 'type' of " + Twine(label));
      if (!type) return type.takeError();
      op.type = file.program.intern(*type);
    } else if (key == "in") in = value;
    else if (key == "out") out = value;
    else if (key == "in_order") inOrder = value;
    else if (key == "out_order") outOrder = value;
    else if (key == "attrs") attributes = value;
    else file.warnOfKey(key, label);
    return Error::success();
  });
  if (error) return error;
  if (!op.type.isValid()) return Failure(ErrorKind::BadJson, label + " has no 'type'").atOffset(op.offset);
  label += (" (" + file.program.text(op.type) + ")").str();
  for (const auto &[slots, order, to] : {std::tuple(in, inOrder, &op.inputs), std::tuple(out, outOrder, &op.outputs)}) {
    if (!slots) continue;
    Expected<std::vector<BlockSlot>> read = this->slots(*slots, label);
    if (!read) return read.takeError();
    *to = std::move(*read);
    if (!order) continue;
    if (Error bad = this->order(*to, *order, label)) return bad;
  }
  if (attributes)
    if (Error bad = attrs(op, *attributes, label)) return bad;
  return op;
}

Expected<BlockVariable> ElementReader::variable(JsonCursor json, StringRef name, size_t block) {
  BlockVariable variable;
  variable.name = file.program.intern(name);
  const std::string label = ("variable '" + name + "' of block " + Twine(block)).str();
  auto flag = [&](StringRef key, JsonCursor value, bool &to) -> Error {
    Expected<bool> read = value.boolean("true or false for '" + key + "' of " + label);
    if (!read) return read.takeError();
    to = *read;
    return Error::success();
  };
  auto type = [&](StringRef key, JsonCursor value) -> Expected<FluidType> {
    Expected<StringRef> spelled = value.string("a string for '" + key + "' of " + label);
    if (!spelled) return spelled.takeError();
    std::optional<FluidType> known = parseFluidType(*spelled);
    if (!known)
      return Failure(ErrorKind::BadJson, "'" + key + "' of " + label + " is '" + *spelled + "', which is not a type")
          .atOffset(value.offset());
    return *known;
  };
  Error error = json.forEachMember("an object for " + Twine(label), [&](StringRef key, JsonCursor value) -> Error {
    if (key == "persistable") return flag(key, value, variable.isPersistable);
    if (key == "stop_gradient") return flag(key, value, variable.stopsGradient);
    if (key == "is_parameter") return flag(key, value, variable.isParameter);
    if (key == "is_data") return flag(key, value, variable.isData);
    if (key == "kind" || key == "dtype") {
      Expected<FluidType> read = type(key, value);
      if (!read) return read.takeError();
      if (key == "kind") variable.kind = *read;
      else variable.dtype = *read;
    } else if (key == "shape") {
      Expected<std::vector<int64_t>> shape = value.integers("a list of numbers for 'shape' of " + Twine(label));
      if (!shape) return shape.takeError();
      variable.shape.assign(shape->begin(), shape->end());
    } else if (key == "lod_level") {
      Expected<int64_t> level = value.integer("a number for 'lod_level' of " + Twine(label));
      if (!level) return level.takeError();
      variable.lodLevel = *level;
    } else {
      file.warnOfKey(key, label);
    }
    return Error::success();
  });
  if (error) return error;
  return variable;
}

Error ElementReader::parameters(JsonCursor json) {
  return json.forEachElement("a list for 'parameters'", [&](JsonCursor pair) -> Error {
    constexpr StringLiteral kWhat = "a pair [name, trainable] among the parameters";
    SmallVector<JsonCursor, 2> parts;
    if (Error error = pair.forEachElement(kWhat, [&](JsonCursor part) {
          parts.push_back(part);
          return Error::success();
        }))
      return error;
    if (parts.size() != 2) return pair.failure(kWhat);
    Expected<StringRef> name = parts[0].string(kWhat);
    if (!name) return name.takeError();
    Expected<bool> isTrainable = parts[1].boolean(kWhat);
    if (!isTrainable) return isTrainable.takeError();
    file.program.parameters.push_back({file.program.intern(*name), *isTrainable});
    return Error::success();
  });
}

}  // namespace gradc
