// Tested by tests/formats/blocks/block_array_test.cc
#include "formats/blocks/arrays/stacked_arrays.h"

#include "formats/blocks/arrays/array_elements.h"
#include "formats/blocks/arrays/array_lengths.h"
#include "formats/blocks/program/block_attrs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace llvm;

namespace gradc {
namespace {

constexpr StringLiteral kWhole = "tensor_array_to_tensor", kWholeGradient = "tensor_array_to_tensor_grad";

/// The slot that names an operator's array, and whether it is one of the outputs.
std::optional<std::pair<StringRef, bool>> arraySlotOf(StringRef type) {
  if (type == "write_to_array") return std::pair("Out", true);
  if (type == kWholeGradient) return std::pair("X@GRAD", true);
  if (is_contained({"read_from_array", "lod_array_length", "tensor_array_to_tensor"}, type))
    return std::pair("X", false);
  return std::nullopt;
}

class Stacking {
 public:
  Stacking(Context &context, BlockProgram given) : context(context), program(std::move(given)) { numberOps(program); }

  Expected<BlockProgram> run(int64_t maxIterations) {
    if (Error error = visit(maxIterations)) return error;
    for (auto [block, name] : arrays) stack(*program.find(block, TextId(name)));
    for (auto [block, name] : measured) declareLength(block, TextId(name));
    for (uint32_t block = 0; block < program.blocks.size(); ++block) rewrite(block);
    return std::move(program);
  }

 private:
  using Name = std::pair<uint32_t, uint32_t>;  // the block that declares it, and the text

  StringRef type(const BlockOp &op) const { return program.text(op.type); }
  Name declared(uint32_t block, TextId name) const { return {*program.declaringBlock(block, name), name.value}; }

  static constexpr uint64_t kMost = uint64_t(1) << 48;  // elements of a tensor

  /// How often `recurrent` runs its block; 1 for other operators.
  uint64_t numSteps(uint32_t block, const BlockOp &op, int64_t maxIterations) const {
    const ArrayRef<TextId> inputs = program.variables(op.inputs, "inputs");
    if (type(op) != "recurrent" || inputs.empty() || inputs[0] == kEmptyName) return 1;
    const BlockVariable &rows = *program.find(declared(block, inputs[0]).first, inputs[0]);
    return std::max<uint64_t>(1, rows.shape.empty() || rows.shape[0] < 0 ? maxIterations : rows.shape[0]);
  }

  Error visit(int64_t maxIterations) {
    std::vector<bool> isInLoop(program.blocks.size());
    std::vector<uint64_t> numRuns(program.blocks.size(), 1);  // as steps of `recurrent`
    bool isWrittenInLoop = false;
    for (uint32_t block = 0; block < program.blocks.size(); ++block)
      for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
        const BlockOp &op = program.blocks[block].ops[at];
        if (op.subBlock) isInLoop[*op.subBlock] = isInLoop[block] || type(op) == "while" || type(op) == "while_grad";
        if (op.subBlock)
          numRuns[*op.subBlock] =
              std::min(kMost, SaturatingMultiply(numRuns[block], numSteps(block, op, maxIterations)));
        const bool writes = type(op) == "write_to_array";
        if (writes && isInLoop[block]) isWrittenInLoop = true;
        const auto slot = arraySlotOf(type(op));
        if (!slot) continue;
        ArrayRef<TextId> names = program.variables(slot->second ? op.outputs : op.inputs, slot->first);
        if (names.size() != 1 || names[0] == kEmptyName)
          return failureAt(program, block, at, ErrorKind::BadEntry, "expected one array");
        const Name array = declared(block, names[0]);
        if (writes && !isInLoop[block]) length = std::min(kMost, length + numRuns[block] / numRuns[array.first]);
        if (Error error = add(block, at, array)) return error;
        if (type(op) == "lod_array_length") measured.insert(declared(block, names[0]));
        if (type(op) == kWhole) wholes.push_back({block, at});
      }
    if (Error error = findWholeLengths()) return error;
    if (isWrittenInLoop) length += std::min<uint64_t>(maxIterations, kMost);
    return Error::success();
  }

  Error add(uint32_t block, size_t at, Name array) {
    const BlockVariable &record = *program.find(array.first, TextId(array.second));
    const StringRef name = program.text(TextId(array.second));
    if (record.kind != FluidType::LodTensorArray)
      return failureAt(program, block, at, ErrorKind::BadEntry, "variable '" + name + "' is not an array");
    const bool isKnown = record.dtype && dtypeOf(*record.dtype) != DType::Unknown;
    if (!isKnown || any_of(record.shape, [](int64_t size) { return size < 0; }))
      return failureAt(program, block, at, ErrorKind::InferMissing,
                       "array '" + name + "' is declared without a shape of known dimensions and a type");
    arrays.insert(array);
    return Error::success();
  }

  /// The number of elements is a dimension of the result. One that only the declaration gives is compared with the
  /// length when the operator runs.
  Error findWholeLengths() {
    if (wholes.empty()) return Error::success();
    const auto known = findArrayLengths(program);
    for (auto [block, at] : wholes) {
      BlockOp &op = program.blocks[block].ops[at];
      const TextId array = program.variables(op.inputs, "X")[0];
      const auto found = known.find({block, at});
      const std::optional<int64_t> number =
          found != known.end() ? std::optional(found->second) : declaredLength(block, op);
      if (!number)
        return failureAt(program, block, at, ErrorKind::InferMissing,
                         "how many elements array '" + program.text(array) +
                             "' has is not known, expected constant indexes or the shape of slot 'Out'");
      if (*number < 1)
        return failureAt(program, block, at, ErrorKind::BadEntry,
                         "array '" + program.text(array) + "' has no elements, expected at least one");
      const std::string spelled = intAttrText(AttrTag::Long, *number),
                        element = intsAttrText(AttrTag::Longs, elementShape(block, array));
      op.attrs = context.withAttrs(op.attrs, {{kNumElements, spelled}, {kElementShape, element}});
      erase_if(op.inputs, [&](const BlockSlot &slot) { return program.text(slot.name) == kLengthSlot; });
      if (found != known.end()) continue;
      measured.insert(declared(block, array));
      op.inputs.push_back(slot(kLengthSlot, lengthOf(array)));
    }
    return Error::success();
  }

  SmallVector<int64_t, 4> elementShape(uint32_t block, TextId array) const {
    return program.find(declared(block, array).first, array)->shape;
  }

  /// By the declared shape of the result; nothing if that is not known.
  std::optional<int64_t> declaredLength(uint32_t block, const BlockOp &op) const {
    const TextId out = operandIn(program, op.outputs, "Out");
    const BlockVariable *record = out.isValid() ? program.find(declared(block, out).first, out) : nullptr;
    if (!record || !record->dtype) return std::nullopt;
    const SmallVector<int64_t, 4> element = elementShape(block, program.variables(op.inputs, "X")[0]);
    const bool isStack = boolAttr(op.attrs, "use_stack").value_or(false);
    const auto rank = static_cast<int64_t>(record->shape.size());
    int64_t axis = intAttr(op.attrs, "axis").value_or(0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || record->shape.size() != element.size() + isStack) return std::nullopt;
    const int64_t total = record->shape[static_cast<size_t>(axis)],
                  part = isStack ? 1 : element[static_cast<size_t>(axis)];
    return total < 0 || part < 1 || total % part ? std::nullopt : std::optional(total / part);
  }

  void stack(BlockVariable &array) {
    array.kind = FluidType::LodTensor;
    if (array.shape.empty()) array.shape.push_back(1);  // a scalar
    array.shape.insert(array.shape.begin(), static_cast<int64_t>(std::max<uint64_t>(length, 1)));
  }

  void declareLength(uint32_t block, TextId array) {
    BlockVariable record{lengthOf(array), FluidType::LodTensor, FluidType::Int64, {1}, 0};
    record.stopsGradient = true;
    program.addVariable(block, std::move(record));
  }
  TextId lengthOf(TextId array) { return program.intern((program.text(array) + "@LENGTH").str()); }

  void rewrite(uint32_t block) {
    std::vector<BlockOp> old = std::move(program.blocks[block].ops), ops;
    for (auto at = measured.lower_bound({block, 0}); at != measured.end() && at->first == block; ++at)
      ops.push_back(constantZero(lengthOf(TextId(at->second))));
    for (BlockOp &op : old) {
      const StringRef kind = type(op);
      if (kind == "lod_array_length") {
        const TextId array = program.variables(op.inputs, "X")[0];
        op.type = program.intern("assign");
        op.inputs = {slot("X", lengthOf(array))};
      }
      ops.push_back(std::move(op));
      if (kind != "write_to_array") continue;
      const TextId array = program.variables(ops.back().outputs, "Out")[0];
      erase_if(ops.back().inputs, [&](const BlockSlot &known) { return program.text(known.name) == kArraySlot; });
      ops.back().inputs.push_back(slot(kArraySlot, array));
      const ArrayRef<TextId> index = program.variables(ops.back().inputs, "I");
      if (index.size() == 1 && measured.contains(declared(block, array))) lengthen(block, array, index[0], ops);
    }
    program.blocks[block].ops = std::move(ops);
  }

  BlockSlot slot(StringRef name, TextId variable) { return {program.intern(name), {variable}}; }
  BlockOp op(StringRef type, std::vector<BlockSlot> inputs, TextId out, ArrayRef<AttrText> attrs) {
    return {program.intern(type), std::move(inputs), {slot("Out", out)}, context.attrs(attrs)};
  }

  BlockOp constantZero(TextId out) {
    const std::string type = intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64)),
                      shape = intsAttrText(AttrTag::Longs, {1}), value = floatAttrText(AttrTag::Float, 0);
    return op("fill_constant", {}, out, {{"dtype", type}, {"shape", shape}, {"value", value}});
  }

  /// Updates the length, which is one more than the largest index.
  void lengthen(uint32_t block, TextId array, TextId index, std::vector<BlockOp> &ops) {
    const TextId total = lengthOf(array), next = program.intern((program.text(total) + "@NEXT").str());
    BlockVariable record{next, FluidType::LodTensor, FluidType::Int64, {1}, 0};
    record.stopsGradient = true;
    program.addVariable(block, std::move(record));
    const std::string type = intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64)),
                      one = floatAttrText(AttrTag::Float, 1);
    const size_t first = ops.size();
    ops.push_back(op("cast", {slot("X", index)}, next, {{"out_dtype", type}}));
    ops.push_back(op("increment", {slot("X", next)}, next, {{"step", one}}));
    ops.push_back(op("elementwise_max", {slot("X", total), slot("Y", next)}, total, {}));
    for (size_t i = first; i < ops.size(); ++i) ops[i].number = ops[first - 1].number;
  }

  Context &context;
  BlockProgram program;
  uint64_t length = 0;
  std::set<Name> arrays, measured;
  std::vector<std::pair<uint32_t, size_t>> wholes;  // operators that take whole arrays
};

}  // namespace

Expected<std::optional<BlockProgram>> withStackedArrays(Context &context, const BlockProgram &program,
                                                        int64_t maxIterations) {
  const bool hasArrays = any_of(program.blocks, [&](const Block &block) {
    return any_of(block.ops, [&](const BlockOp &op) { return arraySlotOf(program.text(op.type)).has_value(); });
  });
  if (!hasArrays) return std::nullopt;
  Expected<BlockProgram> stacked = Stacking(context, BlockProgram(program)).run(maxIterations);
  if (!stacked) return stacked.takeError();
  return std::optional<BlockProgram>(std::move(*stacked));
}

}  // namespace gradc
