// Only names that a single operator of the program writes are followed. Tested by
// tests/formats/blocks/size_operands_test.cc
#include "formats/blocks/arrays/size_operands.h"

#include "formats/blocks/arrays/known_sizes.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/tables/gradient_forms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

/// An operand that gives an attribute: one tensor, or a list of numbers.
struct SizeRule {
  StringLiteral type, attr, tensor, list;
  bool isNumber = false;  // otherwise numbers
};

constexpr SizeRule kRules[] = {
    {"concat", "axis", "AxisTensor", "", true},
    {"crop_tensor", "offsets", "Offsets", "OffsetsTensor"},
    {"crop_tensor", "shape", "Shape", "ShapeTensor"},
    {"expand_v2", "shape", "Shape", "expand_shapes_tensor"},
    {"fill_constant", "shape", "ShapeTensor", "ShapeTensorList"},
    {"gather", "axis", "Axis", "", true},
    {"gaussian_random", "shape", "ShapeTensor", "ShapeTensorList"},
    {"one_hot_v2", "depth", "depth_tensor", "", true},
    {"pad3d", "paddings", "Paddings", ""},
    {"reshape2", "shape", "Shape", "ShapeTensor"},
    {"roll", "shifts", "ShiftsTensor", ""},
    {"sequence_mask", "maxlen", "MaxLenTensor", "", true},
    {"set_value", "ends", "", "EndsTensorList"},
    {"set_value", "starts", "", "StartsTensorList"},
    {"set_value", "steps", "", "StepsTensorList"},
    {"slice", "ends", "EndsTensor", "EndsTensorList"},
    {"slice", "starts", "StartsTensor", "StartsTensorList"},
    {"split", "axis", "AxisTensor", "", true},
    {"split", "sections", "", "SectionsTensorList"},
    {"strided_slice", "ends", "EndsTensor", "EndsTensorList"},
    {"strided_slice", "starts", "StartsTensor", "StartsTensorList"},
    {"strided_slice", "strides", "StridesTensor", "StridesTensorList"},
    {"tile", "repeat_times", "RepeatTimes", "repeat_times_tensor"},
    {"top_k_v2", "k", "K", "", true},
    {"uniform_random", "shape", "ShapeTensor", "ShapeTensorList"},
    {"unsqueeze2", "axes", "AxesTensor", "AxesTensorList"},
};

class SizeOperands {
 public:
  SizeOperands(Context &context, const BlockProgram &program) : context(context), program(program) {}

  std::optional<BlockProgram> run() {
    if (!isNeeded()) return std::nullopt;
    numWriters.resize(program.texts.size());
    for (const Block &block : program.blocks)
      for (const BlockOp &op : block.ops)
        for (const BlockSlot &slot : op.outputs)
          for (TextId name : slot.variables) ++numWriters[name.value];
    std::optional<BlockProgram> changed;
    for (uint32_t block = 0; block < program.blocks.size(); ++block)
      for (size_t at = 0; at < program.blocks[block].ops.size(); ++at) {
        BlockOp op = program.blocks[block].ops[at];
        if (replaceOperands(op)) {
          if (!changed) changed.emplace(program);
          changed->blocks[block].ops[at] = op;
        }
        learn(block, op);
      }
    return changed;
  }

 private:
  struct TypeRules {
    ArrayRef<SizeRule> rules;
    bool isInterpolation = false;
    std::vector<StringRef> unread = {};  // attributes of a gradient operator that has no such operands
  };

  const TypeRules &rulesOf(TextId type) {
    auto [at, isNew] = rules.try_emplace(type.value);
    if (isNew) {
      StringRef forward = program.text(type);
      while (forward.consume_back("_grad")) {}
      auto isMeant = [&](const SizeRule &rule) { return rule.type == forward; };
      at->second = {ArrayRef(kRules).drop_until(isMeant).take_while(isMeant), forward.ends_with("_interp_v2")};
      if (const std::optional<GradientForm> form = formOfGradient(program.text(type)))
        for (const SizeRule &rule : at->second.rules)
          if (none_of(form->inputs, [&](const GradientForm::Slot &slot) {
                return slot.name == rule.tensor || slot.name == rule.list;
              }))
            at->second.unread.push_back(rule.attr);
    }
    return at->second;
  }

  bool isNeeded() {
    for (const Block &block : program.blocks)
      for (const BlockOp &op : block.ops) {
        const TypeRules &of = rulesOf(op.type);
        for (const SizeRule &rule : of.rules)
          if (!operands(op, rule.tensor).empty() || !operands(op, rule.list).empty()) return true;
        if (of.isInterpolation && (!operands(op, "OutSize").empty() || !operands(op, "SizeTensor").empty()))
          return true;
      }
    return false;
  }

  ArrayRef<TextId> operands(const BlockOp &op, StringRef slot) const {
    return slot.empty() ? ArrayRef<TextId>() : program.variables(op.inputs, slot);
  }

  // What is known of a name.

  const Sizes *find(TextId name) const {
    auto at = known.find(name.value);
    return at == known.end() ? nullptr : &at->second;
  }
  const Sizes *find(const BlockOp &op, StringRef slot, size_t i = 0) const {
    ArrayRef<TextId> names = operands(op, slot);
    return i < names.size() ? find(names[i]) : nullptr;
  }

  void learn(uint32_t block, const BlockOp &op) {
    TextId to;
    for (const BlockSlot &slot : op.outputs)
      if (const StringRef name = program.text(slot.name); (name == "Out" || name == "Y") && slot.variables.size() == 1)
        to = slot.variables[0];
    if (!to.isValid() || to == kEmptyName || numWriters[to.value] != 1) return;
    if (std::optional<Sizes> sizes = sizesMade(program, block, op, [&](TextId name) { return find(name); }))
      known[to.value] = std::move(*sizes);
  }

  // The operators that have such operands.

  bool replaceOperands(BlockOp &op) {
    bool isChanged = false;
    for (const SizeRule &rule : rulesOf(op.type).rules) {
      const bool isTensor = !operands(op, rule.tensor).empty();
      if (!isTensor && operands(op, rule.list).empty()) continue;
      std::optional<Sizes> sizes;
      if (isTensor) {
        const Sizes *found = find(op, rule.tensor);
        if (found) sizes = *found;
      } else {
        sizes.emplace();
        for (TextId name : operands(op, rule.list)) {
          const Sizes *found = find(name);
          sizes->push_back(found && found->size() == 1 ? found->front() : Size());
        }
      }
      std::optional<std::vector<int64_t>> numbers = sizes ? numbersOf(op, rule, *sizes) : std::nullopt;
      if (!numbers || (rule.isNumber && numbers->size() != 1)) continue;
      const std::string text =
          rule.isNumber ? intAttrText(AttrTag::Int, numbers->front()) : intsAttrText(AttrTag::Longs, *numbers);
      op.attrs = context.withAttrs(op.attrs, {{rule.attr, text}});
      for (BlockSlot &slot : op.inputs)
        if (const StringRef name = program.text(slot.name); name == rule.tensor || name == rule.list)
          slot.variables.clear();
      isChanged = true;
    }
    if (const std::vector<StringRef> &unread = rulesOf(op.type).unread; !unread.empty()) {
      op.attrs = context.withoutAttrs(op.attrs, [&](StringRef key) { return is_contained(unread, key); });
      isChanged = true;  // its forward operator has other values
    }
    return replaceExtents(op) || isChanged;
  }

  /// Of interpolations: `OutSize` or `SizeTensor` count before `scale`.
  bool replaceExtents(BlockOp &op) {
    if (!rulesOf(op.type).isInterpolation) return false;
    Sizes sizes;
    if (const Sizes *found = find(op, "OutSize")) sizes = *found;
    for (TextId name : operands(op, "SizeTensor"))
      if (const Sizes *found = find(name); found && found->size() == 1) sizes.push_back(found->front());
    constexpr StringLiteral kExtents[] = {"out_d", "out_h", "out_w"};
    const size_t number = operands(op, "SizeTensor").empty() ? sizes.size() : operands(op, "SizeTensor").size();
    if (sizes.empty() || sizes.size() != number || number > std::size(kExtents) ||
        any_of(sizes, [](const Size &size) { return !size.number; }))
      return false;
    op.attrs = context.withoutAttrs(op.attrs, [](StringRef key) { return key == "scale"; });
    for (auto [key, size] : zip(ArrayRef(kExtents).take_back(number), sizes))
      op.attrs = context.withAttrs(op.attrs, {{key, intAttrText(AttrTag::Int, *size.number)}});
    for (BlockSlot &slot : op.inputs)
      if (const StringRef name = program.text(slot.name); name == "OutSize" || name == "SizeTensor")
        slot.variables.clear();
    return true;
  }

  std::optional<std::vector<int64_t>> numbersOf(const BlockOp &op, const SizeRule &rule, const Sizes &sizes) const {
    const bool isReshape = rule.type == "reshape2";
    ArrayRef<TextId> x = operands(op, "X");
    std::vector<int64_t> numbers;
    size_t numOpen = 0;
    for (auto [axis, size] : enumerate(sizes)) {
      const bool isSameAxis = !x.empty() && size.of == x[0] && size.axis == axis;
      if (!size.number && !isReshape) return std::nullopt;
      numbers.push_back(size.number ? *size.number : isSameAxis ? 0 : -1);
      numOpen += numbers.back() == -1;
    }
    if (isReshape && numOpen > 1) return std::nullopt;
    return numbers;
  }

  Context &context;
  const BlockProgram &program;
  DenseMap<uint32_t, TypeRules> rules;  // by type
  std::vector<uint32_t> numWriters;     // by name
  DenseMap<uint32_t, Sizes> known;      // by name
};

}  // namespace

std::optional<BlockProgram> withKnownSizes(Context &context, const BlockProgram &program) {
  return SizeOperands(context, program).run();
}

}  // namespace gradc
