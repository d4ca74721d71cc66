// Field numbers are those of Paddle's framework.proto. Tested by tests/formats/blocks/program_desc_test.cc
#include "formats/blocks/files/program_desc.h"

#include "formats/blocks/files/wire_format.h"
#include "formats/blocks/program/attr_parts.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/gradient_names.h"
#include "formats/blocks/program/json_stream.h"

#include "ir/base/out_of_memory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ConvertUTF.h"

#include <functional>

using namespace llvm;

namespace gradc {
namespace {

using Form = WireField::Form;

constexpr StringLiteral kLeftOut[] = {"op_namescope", "op_device", "with_quant_attr", "struct_name"};

/// Calls `take(field)` for each field of a message. The wire form of a field is checked where it is read.
Error forEachField(WireReader message, function_ref<Error(const WireField &)> take) {
  while (!message.isAtEnd()) {
    Expected<WireField> field = message.next();
    if (!field) return field.takeError();
    if (Error error = take(*field)) return error;
  }
  return Error::success();
}

class ProgramDescReader {
 public:
  ProgramDescReader(Context &context, StringRef bytes) : context(context), bytes(bytes) {}

  Expected<BlockFile> read() {
    Error error = forEachField(WireReader(bytes, 0), [&](const WireField &field) -> Error {
      return field.number == 1 ? readBlock(field) : Error::success();
    });
    if (error) return error;
    if (Error bad = verifyBlocks(file.program)) return bad;
    listParameters();
    return std::move(file);
  }

 private:
  Error fail(const Twine &what) const { return Failure(ErrorKind::BadJson, where + what); }

  /// A field that holds bytes.
  Expected<StringRef> bytesOf(const WireField &field, const Twine &what) const {
    if (field.form == Form::Bytes) return field.bytes;
    return fail("expected " + what + " in field " + Twine(field.number) + ", found a number");
  }
  Error readText(const WireField &field, const Twine &what, StringRef &to) const {
    Expected<StringRef> text = bytesOf(field, what);
    if (!text) return text.takeError();
    const auto *first = reinterpret_cast<const UTF8 *>(text->begin());
    if (!isLegalUTF8String(&first, reinterpret_cast<const UTF8 *>(text->end()))) return fail(what + " is not UTF-8");
    to = *text;
    return Error::success();
  }
  Error readNumber(const WireField &field, const Twine &what, int64_t &to) const {
    if (field.form != Form::Varint) return fail("expected " + what + " in field " + Twine(field.number));
    to = field.integer();
    return Error::success();
  }
  Error readFlag(const WireField &field, const Twine &what, bool &to) const {
    int64_t number = 0;
    if (Error error = readNumber(field, what, number)) return error;
    to = number != 0;
    return Error::success();
  }

  // BlockDesc: idx = 1, parent_idx = 2, vars = 3, ops = 4, forward_block_idx = 5.
  Error readBlock(const WireField &message) {
    const auto number = static_cast<uint32_t>(file.program.blocks.size());
    where = "block " + std::to_string(number) + ": ";
    Expected<StringRef> content = bytesOf(message, "a block");
    if (!content) return content.takeError();
    file.program.blocks.emplace_back();
    int64_t index = -1, parent = -1, forward = -1;
    Error error = forEachField(WireReader(message), [&](const WireField &field) -> Error {
      where = "block " + std::to_string(number) + ": ";
      switch (field.number) {
        case 1: return readNumber(field, "its number", index);
        case 2: return readNumber(field, "its parent", parent);
        case 3: return readVariable(number, field);
        case 4: return readOp(number, field);
        case 5: return readNumber(field, "its forward block", forward);
        default: return Error::success();
      }
    });
    if (error) return error;
    where = "block " + std::to_string(number) + ": ";
    if (index != number) return fail("its number is " + Twine(index));
    if (forward == number) forward = -1;  // Paddle's gradient merge links a branch to itself
    for (auto [link, to] : {std::pair(parent, &Block::parent), std::pair(forward, &Block::forward)}) {
      if (link < -1 || link > int64_t{UINT32_MAX}) return fail("it is linked to block " + Twine(link));
      if (link >= 0) file.program.blocks.back().*to = static_cast<uint32_t>(link);
    }
    return Error::success();
  }

  // VarDesc: name = 1, type = 2, persistable = 3, need_check_feed = 4, is_parameter = 5, stop_gradient = 6.
  Error readVariable(uint32_t block, const WireField &message) {
    Expected<StringRef> content = bytesOf(message, "a variable");
    if (!content) return content.takeError();
    BlockVariable variable;
    StringRef name;
    bool hasType = false;
    Error error = forEachField(WireReader(message), [&](const WireField &field) -> Error {
      switch (field.number) {
        case 1: return readText(field, "the name of a variable", name);
        case 2: hasType = true; return readType(field, variable);
        case 3: return readFlag(field, "a flag", variable.isPersistable);
        case 4: return readFlag(field, "a flag", variable.isData);
        case 5: return readFlag(field, "a flag", variable.isParameter);
        case 6: return readFlag(field, "a flag", variable.stopsGradient);
        default: return Error::success();
      }
    });
    if (error) return error;
    if (!hasType) return fail("variable '" + name + "' has no type");
    variable.name = file.program.intern(name);
    if (!file.program.addVariable(block, std::move(variable))) return fail("declares '" + name + "' twice");
    return Error::success();
  }

  Error readFluidType(const WireField &field, FluidType &to) const {
    int64_t number = -1;
    if (Error error = readNumber(field, "a type", number)) return error;
    to = static_cast<FluidType>(number);
    if (number < 0 || number > 255 || fluidTypeName(to).empty())
      return fail("a variable has the type " + Twine(number));
    return Error::success();
  }

  // VarType: type = 1, selected_rows = 2 (a TensorDesc), lod_tensor = 3, tensor_array = 4 (with one).
  Error readType(const WireField &message, BlockVariable &variable) {
    Expected<StringRef> content = bytesOf(message, "a type");
    if (!content) return content.takeError();
    Error error = forEachField(WireReader(message), [&](const WireField &field) -> Error {
      if (field.number == 1) return readFluidType(field, variable.kind);
      if (field.number == 2) return readTensor(field, variable);
      return field.number == 3 || field.number == 4 ? readLodTensor(field, variable) : Error::success();
    });
    if (error) return error;
    using enum FluidType;
    if (!is_contained({LodTensor, SelectedRows, LodTensorArray}, variable.kind)) {
      variable.dtype.reset();
      variable.shape.clear();
      variable.lodLevel.reset();
    }
    return Error::success();
  }

  // LoDTensorDesc: tensor = 1, lod_level = 2.
  Error readLodTensor(const WireField &message, BlockVariable &variable) {
    Expected<StringRef> content = bytesOf(message, "a tensor's type");
    if (!content) return content.takeError();
    variable.lodLevel = 0;
    return forEachField(WireReader(message), [&](const WireField &field) -> Error {
      if (field.number == 1) return readTensor(field, variable);
      return field.number == 2 ? readNumber(field, "a level", *variable.lodLevel) : Error::success();
    });
  }

  // TensorDesc: data_type = 1, dims = 2.
  Error readTensor(const WireField &message, BlockVariable &variable) {
    Expected<StringRef> content = bytesOf(message, "a tensor's type");
    if (!content) return content.takeError();
    variable.dtype = FluidType::Bool;
    variable.shape.clear();
    return forEachField(WireReader(message), [&](const WireField &field) -> Error {
      if (field.number == 1) return readFluidType(field, *variable.dtype);
      if (field.number != 2) return Error::success();
      return WireReader::forEachNumber(field, Form::Varint,
                                       [&](const WireField &dim) { variable.shape.push_back(dim.integer()); });
    });
  }

  // OpDesc: inputs = 1, outputs = 2, type = 3, attrs = 4.
  Error readOp(uint32_t block, const WireField &message) {
    std::vector<BlockOp> &ops = file.program.blocks[block].ops;
    where = ("block " + Twine(block) + ", operator " + Twine(ops.size()) + ": ").str();
    Expected<StringRef> content = bytesOf(message, "an operator");
    if (!content) return content.takeError();
    BlockOp op;
    NameSet inputNames, outputNames;
    texts.clear();
    SmallVector<std::pair<StringRef, std::pair<size_t, size_t>>, 16> found;  // key, range in the texts
    Error error = forEachField(WireReader(message), [&](const WireField &field) -> Error {
      if (field.number == 1) return readSlot(field, op.inputs, inputNames);
      if (field.number == 2) return readSlot(field, op.outputs, outputNames);
      if (field.number == 3) {
        StringRef type;
        if (Error bad = readText(field, "the type of an operator", type)) return bad;
        op.type = file.program.intern(type);
        return Error::success();
      }
      if (field.number != 4) return Error::success();
      const size_t begin = texts.size();
      Expected<StringRef> key = readAttr(field, op);
      if (!key) return key.takeError();
      if (!key->empty()) found.push_back({*key, {begin, texts.size()}});
      return Error::success();
    });
    if (error) return error;
    if (!op.type.isValid()) return fail("it has no type");
    SmallVector<AttrText, 16> pairs;
    for (const auto &[key, range] : found) pairs.push_back({key, StringRef(texts).slice(range.first, range.second)});
    op.attrs = context.attrs(pairs);
    ops.push_back(std::move(op));
    return Error::success();
  }

  // OpDesc.Var: parameter = 1, arguments = 2. `names` are those of the slots so far.
  Error readSlot(const WireField &message, std::vector<BlockSlot> &slots, NameSet &names) {
    Expected<StringRef> content = bytesOf(message, "a slot");
    if (!content) return content.takeError();
    BlockSlot slot;
    Error error = forEachField(WireReader(message), [&](const WireField &field) -> Error {
      StringRef text;
      if (field.number != 1 && field.number != 2) return Error::success();
      if (Error bad = readText(field, field.number == 1 ? "the name of a slot" : "the name of a variable", text))
        return bad;
      if (field.number == 1) slot.name = file.program.intern(text);
      else slot.variables.push_back(file.program.intern(text));
      return Error::success();
    });
    if (error) return error;
    if (!slot.name.isValid()) return fail("a slot has no name");
    if (!names.insert(slot.name)) return fail("slot '" + file.program.text(slot.name) + "' is there twice");
    slots.push_back(std::move(slot));
    return Error::success();
  }

  // OpDesc.Attr: name = 1, type = 2; i = 3, f = 4, s = 5, ints = 6, floats = 7, strings = 8, b = 10, bools = 11,
  // block_idx = 12, l = 13, blocks_idx = 14, longs = 15, float64s = 16, var_name = 17, vars_name = 18, float64 = 19,
  // scalar = 20, scalars = 21. Appends the JSON spelling to `texts`; returns the name, empty if nothing was appended.
  Expected<StringRef> readAttr(const WireField &message, BlockOp &op) {
    Expected<StringRef> content = bytesOf(message, "an attribute");
    if (!content) return content.takeError();
    AttrParts parts;
    Error error = forEachField(WireReader(message), [&](const WireField &field) -> Error {
      switch (field.number) {
        case 1: return readText(field, "the name of an attribute", parts.name);
        case 2: return readNumber(field, "the type of an attribute", parts.type);
        case 4:
        case 7:
          return WireReader::forEachNumber(field, Form::Fixed32,
                                           [&](const WireField &f) { parts.floats.push_back(f.float32()); });
        case 16:
        case 19:
          return WireReader::forEachNumber(field, Form::Fixed64,
                                           [&](const WireField &f) { parts.floats.push_back(f.float64()); });
        case 5:
        case 8:
        case 17:
        case 18: {
          StringRef text;
          if (Error bad = readText(field, "a string", text)) return bad;
          parts.strings.push_back(text.str());
          return Error::success();
        }
        case 20:
        case 21: return readScalar(field, parts);
        case 3:
        case 6:
        case 10:
        case 11:
        case 12:
        case 13:
        case 14:
        case 15:
          return WireReader::forEachNumber(field, Form::Varint,
                                           [&](const WireField &f) { parts.integers.push_back(f.integer()); });
        default: return Error::success();
      }
    });
    if (error) return error;
    if (is_contained(kLeftOut, parts.name)) return StringRef();
    if (parts.type < 0 || parts.type > static_cast<int64_t>(AttrTag::Scalars))
      return fail("attribute '" + parts.name + "' has the type " + Twine(parts.type));
    return keepAttr(parts, op);
  }

  Expected<StringRef> keepAttr(const AttrParts &parts, BlockOp &op) {
    const auto tag = static_cast<AttrTag>(parts.type);
    const std::string text = attrText(tag, parts);
    if (text.empty()) return fail("attribute '" + parts.name + "' has no value of its type " + attrTagName(tag));
    if (parts.name == "op_callstack" && tag == AttrTag::Strings) {
      op.callstack = file.program.intern(StringRef(text).drop_back().split(',').second);
      return StringRef();
    }
    if (parts.name == "sub_block" && tag == AttrTag::Block) {
      const int64_t block = parts.integers.back();  // as for every single value
      if (block < 0 || block > int64_t{UINT32_MAX}) return fail("attribute 'sub_block' is " + Twine(block));
      op.subBlock = static_cast<uint32_t>(block);
      return StringRef();
    }
    texts += text;
    return parts.name;
  }

  // Scalar: type = 1 (BOOLEAN 1, LONG 2, FLOAT64 3, COMPLEX128 4), b = 2, i = 3, r = 4, c = 5 (r = 1, i = 2).
  Error readScalar(const WireField &message, AttrParts &parts) {
    Expected<StringRef> content = bytesOf(message, "a scalar");
    if (!content) return content.takeError();
    int64_t type = 0, integer = 0;
    double real = 0, complex[2] = {0, 0};
    Error error = forEachField(WireReader(message), [&](const WireField &field) -> Error {
      if (field.number == 1) return readNumber(field, "the type of a scalar", type);
      if (field.number == 2 || field.number == 3) return readNumber(field, "a scalar", integer);
      if (field.number == 4)
        return WireReader::forEachNumber(field, Form::Fixed64, [&](const WireField &f) { real = f.float64(); });
      if (field.number != 5) return Error::success();
      Expected<StringRef> inner = bytesOf(field, "a complex number");
      if (!inner) return inner.takeError();
      return forEachField(WireReader(field), [&](const WireField &part) -> Error {
        if (part.number != 1 && part.number != 2) return Error::success();
        return WireReader::forEachNumber(part, Form::Fixed64,
                                         [&](const WireField &f) { complex[part.number - 1] = f.float64(); });
      });
    });
    if (error) return error;
    std::string text;
    JsonStream json(text);
    json.open('[');
    switch (type) {
      case 1: json.string("BOOLEAN").boolean(integer != 0); break;
      case 2: json.string("LONG").number(integer); break;
      case 3: json.string("FLOAT64").raw(spellFloat(real, false)); break;
      case 4:
        json.string("COMPLEX128")
            .open('[')
            .raw(spellFloat(complex[0], false))
            .raw(spellFloat(complex[1], false))
            .close(']');
        break;
      default: return fail("a scalar has the type " + Twine(type));
    }
    json.close(']');
    parts.scalars.push_back(std::move(text));
    return Error::success();
  }

  // The file does not have the order of their creation. A layer creates its parameters before its operators: weights,
  // then biases, then those that are not trained. Recursion is as deep as blocks are nested.
  void listParameters() {
    DenseSet<uint32_t> listed;
    auto list = [&](TextId name) {
      const BlockVariable *known = file.program.find(0, name);
      if (known && known->isParameter && listed.insert(name.value).second)
        file.program.parameters.push_back({name, !known->stopsGradient});
    };
    std::function<void(uint32_t)> listBlock = [&](uint32_t block) {
      for (const BlockOp &op : file.program.blocks[block].ops) {
        if (op.subBlock) listBlock(*op.subBlock);
        for (bool isTrained : {true, false})
          for (bool isBias : {false, true})
            for (const BlockSlot &slot : op.inputs)
              if ((file.program.text(slot.name) == "Bias") == isBias)
                for (TextId name : slot.variables)
                  if (const BlockVariable *known = file.program.find(0, name);
                      known && known->stopsGradient != isTrained)
                    list(name);
      }
    };
    listBlock(0);
    for (const BlockVariable &variable : file.program.blocks[0].variables) list(variable.name);
  }

  Context &context;
  StringRef bytes;
  BlockFile file;
  std::string where;  // place in the file, for messages
  std::string texts;  // of the attributes of one operator
};

}  // namespace

// A block's first field is its number, which is 0 in the first.
bool looksLikeProgramDesc(StringRef bytes) {
  constexpr char kBlock = 0x0a, kNumber = 0x08;
  if (!bytes.consume_front(StringRef(&kBlock, 1))) return false;
  while (!bytes.empty() && static_cast<uint8_t>(bytes.front()) >= 0x80) bytes = bytes.drop_front();
  return bytes.size() >= 3 && bytes[1] == kNumber && bytes[2] == 0;
}

Expected<BlockFile> readProgramDesc(Context &context, StringRef bytes) {
  return catchingBadAlloc("to read the program", [&] { return ProgramDescReader(context, bytes).read(); });
}

}  // namespace gradc
