// Only names that a single operator of the program writes are followed. Tested by tests/size_operands_test.cc
#include "formats/blocks/size_operands.h"

#include "formats/blocks/block_attrs.h"
#include "formats/blocks/gradient_forms.h"
#include "formats/blocks/visible_variables.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kMostSizes = 64;  // of one operand

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

/// A number, or a dimension of a variable that is not known.
struct Size {
  std::optional<int64_t> number;
  TextId of = {};
  size_t axis = 0;
};
using Sizes = std::vector<Size>;

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
      if (const GradientForm *form = formOfGradient(program.text(type)))
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
    if (std::optional<Sizes> sizes = valueOf(block, op); sizes && sizes->size() <= kMostSizes)
      known[to.value] = std::move(*sizes);
  }

  std::optional<Sizes> valueOf(uint32_t block, const BlockOp &op) {
    const StringRef type = program.text(op.type);
    if (type == "fill_constant") return filled(op);
    if (type == "assign_value") return listed(op);
    if (type == "shape") return shapeOf(block, op);
    if (type == "slice") return sliced(op);
    if (type == "concat" || type == "stack") return joined(op);
    if (type == "scale") return scaled(op);
    if (StringRef name = type; name.consume_front("elementwise_")) return combined(op, name);
    constexpr StringLiteral kPassing[] = {"assign", "cast", "reshape2", "share_data", "squeeze2", "unsqueeze2"};
    const Sizes *x = is_contained(kPassing, type) ? find(op, "X") : nullptr;
    return x ? std::optional(*x) : std::nullopt;
  }

  static std::optional<int64_t> wholeNumber(double value) {
    constexpr double kMost = 1e15;
    if (value != std::trunc(value) || std::abs(value) > kMost) return std::nullopt;
    return static_cast<int64_t>(value);
  }

  static std::optional<Sizes> filled(const BlockOp &op) {
    int64_t number = 1;
    for (int64_t size : intsAttr(op.attrs, "shape").value_or(std::vector<int64_t>()))
      number = size < 0 || size > static_cast<int64_t>(kMostSizes) ? kMostSizes + 1
                                                                   : std::min<int64_t>(number * size, kMostSizes + 1);
    std::optional<double> value = floatAttr(op.attrs, "value");
    if (std::optional<std::string> text = stringAttr(op.attrs, "str_value"); text && !text->empty()) {
      double spelled = 0;
      if (StringRef(*text).getAsDouble(spelled)) return std::nullopt;
      value = spelled;
    }
    const std::optional<int64_t> whole = value ? wholeNumber(*value) : std::nullopt;
    if (!whole || number > static_cast<int64_t>(kMostSizes)) return std::nullopt;
    return Sizes(static_cast<size_t>(number), Size{*whole});
  }

  static std::optional<Sizes> listed(const BlockOp &op) {
    Sizes sizes;
    for (const char *key : {"int32_values", "int64_values"})
      for (int64_t value : intsAttr(op.attrs, key).value_or(std::vector<int64_t>())) sizes.push_back({value});
    for (double value : floatsAttr(op.attrs, "values").value_or(std::vector<double>())) {
      if (!wholeNumber(value)) return std::nullopt;
      sizes.push_back({wholeNumber(value)});
    }
    if (sizes.empty()) return std::nullopt;
    return sizes;
  }

  std::optional<Sizes> shapeOf(uint32_t block, const BlockOp &op) const {
    ArrayRef<TextId> of = operands(op, "Input");
    const BlockVariable *record = of.empty() ? nullptr : visibleVariable(program, block, of[0]);
    if (!record || !record->dtype) return std::nullopt;
    Sizes sizes;
    for (auto [axis, size] : enumerate(record->shape))
      sizes.push_back({size < 0 ? std::nullopt : std::optional(size), of[0], axis});
    return sizes;
  }

  std::optional<Sizes> sliced(const BlockOp &op) const {
    const Sizes *x = find(op, "Input");
    const std::vector<int64_t> starts = intsAttr(op.attrs, "starts").value_or(std::vector<int64_t>()),
                               ends = intsAttr(op.attrs, "ends").value_or(std::vector<int64_t>());
    if (!x || starts.size() != 1 || ends.size() != 1 || !operands(op, "StartsTensor").empty() ||
        !operands(op, "StartsTensorList").empty() || !operands(op, "EndsTensor").empty() ||
        !operands(op, "EndsTensorList").empty())
      return std::nullopt;
    const auto length = static_cast<int64_t>(x->size());
    auto place = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? std::max(i, -length) + length : i, 0, length); };
    const int64_t begin = place(starts[0]), end = std::max(place(ends[0]), begin);
    return Sizes(x->begin() + begin, x->begin() + end);
  }

  std::optional<Sizes> joined(const BlockOp &op) const {
    Sizes sizes;
    for (TextId name : operands(op, "X")) {
      const Sizes *part = find(name);
      if (!part || sizes.size() > kMostSizes) return std::nullopt;
      append_range(sizes, *part);
    }
    return sizes;
  }

  std::optional<Sizes> scaled(const BlockOp &op) const {
    const Sizes *x = find(op, "X");
    if (!x || !operands(op, "ScaleTensor").empty()) return std::nullopt;
    const double factor = floatAttr(op.attrs, "scale").value_or(1), bias = floatAttr(op.attrs, "bias").value_or(0);
    const bool isLast = boolAttr(op.attrs, "bias_after_scale").value_or(true);
    Sizes sizes;
    for (const Size &size : *x) {
      Size made;
      const auto number = static_cast<double>(size.number.value_or(0));
      if (size.number) made.number = wholeNumber(isLast ? number * factor + bias : (number + bias) * factor);
      sizes.push_back(made);
    }
    return sizes;
  }

  static std::optional<int64_t> combined(StringRef how, int64_t a, int64_t b) {
    int64_t result = 0;
    if (how == "add") return AddOverflow(a, b, result) ? std::nullopt : std::optional(result);
    if (how == "sub") return SubOverflow(a, b, result) ? std::nullopt : std::optional(result);
    if (how == "mul") return MulOverflow(a, b, result) ? std::nullopt : std::optional(result);
    if (how == "floordiv" && a >= 0 && b > 0) return a / b;
    return std::nullopt;
  }

  std::optional<Sizes> combined(const BlockOp &op, StringRef how) const {
    const Sizes *x = find(op, "X"), *y = find(op, "Y");
    if (!x || !y || x->empty() || y->empty() || (x->size() != y->size() && x->size() != 1 && y->size() != 1))
      return std::nullopt;
    Sizes sizes;
    for (size_t i = 0; i < std::max(x->size(), y->size()); ++i) {
      const std::optional<int64_t> a = (*x)[x->size() == 1 ? 0 : i].number, b = (*y)[y->size() == 1 ? 0 : i].number;
      sizes.push_back({a && b ? combined(how, *a, *b) : std::nullopt});
    }
    return sizes;
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
