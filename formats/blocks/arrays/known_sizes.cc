#include "formats/blocks/arrays/known_sizes.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_program.h"
#include "formats/blocks/program/gradient_names.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kMostSizes = 64;  // of one operand

class Maker {
 public:
  Maker(const BlockProgram &program, uint32_t block, const BlockOp &op, FindSizes find)
      : program(program), block(block), op(op), find(find) {}

  std::optional<Sizes> run() const {
    const StringRef type = program.text(op.type);
    if (type == "fill_constant") return filled();
    if (type == "assign_value") return listed();
    if (type == "shape") return shapeOf();
    if (type == "slice") return sliced();
    if (type == "concat" || type == "stack") return joined();
    if (type == "scale") return scaled();
    if (type == "increment") return moved(1, floatAttr(op.attrs, "step").value_or(1), true);
    if (StringRef name = type; name.consume_front("elementwise_")) return combined(name);
    constexpr StringLiteral kPassing[] = {"assign", "cast", "reshape2", "share_data", "squeeze2", "unsqueeze2"};
    const Sizes *x = is_contained(kPassing, type) ? operand("X") : nullptr;
    return x ? std::optional(*x) : std::nullopt;
  }

 private:
  static std::optional<int64_t> wholeNumber(double value) {
    constexpr double kMost = 1e15;
    if (value != std::trunc(value) || std::abs(value) > kMost) return std::nullopt;
    return static_cast<int64_t>(value);
  }

  std::optional<Sizes> filled() const {
    if (anyVariable(op.inputs, [](TextId) { return true; })) return std::nullopt;
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

  std::optional<Sizes> listed() const {
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

  std::optional<Sizes> shapeOf() const {
    ArrayRef<TextId> of = operands("Input");
    const BlockVariable *record = of.empty() ? nullptr : visibleVariable(program, block, of[0]);
    if (!record || !record->dtype) return std::nullopt;
    Sizes sizes;
    for (auto [axis, size] : enumerate(record->shape))
      sizes.push_back({size < 0 ? std::nullopt : std::optional(size), of[0], axis});
    return sizes;
  }

  std::optional<Sizes> sliced() const {
    const Sizes *x = operand("Input");
    const std::vector<int64_t> starts = intsAttr(op.attrs, "starts").value_or(std::vector<int64_t>()),
                               ends = intsAttr(op.attrs, "ends").value_or(std::vector<int64_t>());
    if (!x || starts.size() != 1 || ends.size() != 1 || !operands("StartsTensor").empty() ||
        !operands("StartsTensorList").empty() || !operands("EndsTensor").empty() || !operands("EndsTensorList").empty())
      return std::nullopt;
    const auto length = static_cast<int64_t>(x->size());
    auto place = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? std::max(i, -length) + length : i, 0, length); };
    const int64_t begin = place(starts[0]), end = std::max(place(ends[0]), begin);
    return Sizes(x->begin() + begin, x->begin() + end);
  }

  std::optional<Sizes> joined() const {
    Sizes sizes;
    for (TextId name : operands("X")) {
      const Sizes *part = find(name);
      if (!part || sizes.size() > kMostSizes) return std::nullopt;
      append_range(sizes, *part);
    }
    return sizes;
  }

  std::optional<Sizes> scaled() const {
    if (!operands("ScaleTensor").empty()) return std::nullopt;
    const double factor = floatAttr(op.attrs, "scale").value_or(1), bias = floatAttr(op.attrs, "bias").value_or(0);
    const bool isLast = boolAttr(op.attrs, "bias_after_scale").value_or(true);
    return moved(factor, bias, isLast);
  }

  std::optional<Sizes> moved(double factor, double bias, bool isLast) const {
    const Sizes *x = operand("X");
    if (!x) return std::nullopt;
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
    if (how == "max") return std::max(a, b);
    if (how == "min") return std::min(a, b);
    if (how == "floordiv" && a >= 0 && b > 0) return a / b;
    return std::nullopt;
  }

  std::optional<Sizes> combined(StringRef how) const {
    const Sizes *x = operand("X"), *y = operand("Y");
    if (!x || !y || x->empty() || y->empty() || (x->size() != y->size() && x->size() != 1 && y->size() != 1))
      return std::nullopt;
    Sizes sizes;
    for (size_t i = 0; i < std::max(x->size(), y->size()); ++i) {
      const std::optional<int64_t> a = (*x)[x->size() == 1 ? 0 : i].number, b = (*y)[y->size() == 1 ? 0 : i].number;
      sizes.push_back({a && b ? combined(how, *a, *b) : std::nullopt});
    }
    return sizes;
  }

  ArrayRef<TextId> operands(StringRef slot) const { return program.variables(op.inputs, slot); }
  const Sizes *operand(StringRef slot) const {
    ArrayRef<TextId> names = operands(slot);
    return names.empty() ? nullptr : find(names[0]);
  }

  const BlockProgram &program;
  const uint32_t block;
  const BlockOp &op;
  const FindSizes find;
};

}  // namespace

std::optional<Sizes> sizesMade(const BlockProgram &program, uint32_t block, const BlockOp &op, FindSizes find) {
  std::optional<Sizes> made = Maker(program, block, op, find).run();
  return made && made->size() <= kMostSizes ? std::move(made) : std::nullopt;
}

}  // namespace gradc
