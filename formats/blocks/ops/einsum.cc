// Sums of products over named axes. Tested by tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;

/// A tensor whose axes have names. Axes of `...` are named by digits, the last one by 0.
struct Labelled {
  Value v;
  std::string axes;
};

class Einsum {
 public:
  explicit Einsum(OpTranslation &op) : op(op) {}

  void run() {
    std::string equation = op.text("equation", "");
    erase_if(equation, [](char c) { return c == ' '; });
    const auto [left, right] = StringRef(equation).split("->");
    const std::vector<Value> values = op.ins("Operands");
    SmallVector<StringRef, 4> terms;
    left.split(terms, ',');
    if (terms.size() != values.size())
      return op.fail(ErrorKind::BadAttribute, "attribute 'equation' has " + Twine(terms.size()) +
                                                  " operands, the operator has " + Twine(values.size()));
    std::vector<Labelled> operands;
    for (auto [i, term] : enumerate(terms)) {
      operands.push_back({values[i], expanded(term, op.rank("Operands", i))});
      if (!learn(operands.back().axes, op.shape("Operands", i))) return;
      op.out("InnerCache", values[i], i);
      op.out("XShape", values[i], i);
    }
    result = equation.find("->") == std::string::npos ? implied(operands) : expanded(right, 0);
    for (char c : result)
      if (sizes.count(c) == 0 || StringRef(result).count(c) > 1) return mistaken();
    Labelled product = operands.front();
    for (size_t i = 1; i < operands.size(); ++i) {
      std::string later = result;
      for (const Labelled &operand : ArrayRef(operands).drop_front(i + 1)) later += operand.axes;
      product = multiplied(summed(product, later + operands[i].axes), summed(operands[i], later + product.axes), later);
    }
    product = ordered(summed(product, result), result);
    op.out("Out", product.v);
  }

 private:
  void mistaken() {
    op.fail(ErrorKind::BadAttribute,
            "attribute 'equation' is " + op.text("equation", "") +
                ", expected one letter for each axis, each letter of the result in an operand");
  }

  /// The letters of a term, with digits for `...`; with rank 0 for all of the known ones.
  std::string expanded(StringRef term, size_t rank) {
    auto [before, after] = term.split("...");
    if (before.size() == term.size()) return term.str();
    size_t number = numBroadcast;
    if (rank != 0) number = rank - std::min(rank, before.size() + after.size());
    numBroadcast = std::max(numBroadcast, std::min<size_t>(number, 9));
    std::string digits;
    for (size_t i = std::min<size_t>(number, 9); i-- > 0;) digits += static_cast<char>('0' + i);
    return (before + digits + after).str();
  }

  bool learn(StringRef axes, ArrayRef<int64_t> shape) {
    bool isFine = axes.size() == shape.size();
    for (auto [i, c] : enumerate(axes)) {
      isFine &= (isAlpha(c) || isDigit(c)) && axes.count(c) == 1;
      if (!isFine) break;
      if (shape[i] < 0) {
        op.unsupported("axes of unknown size are not supported");
        return false;
      }
      int64_t &size = sizes.try_emplace(c, shape[i]).first->second;
      isFine &= size == shape[i];
    }
    if (!isFine)
      op.unsupported("'equation' " + op.text("equation", "") +
                     " with axes that repeat, differ in size or have no letter "
                     "is not supported");
    return isFine;
  }

  /// Without an arrow: the letters that occur once, sorted.
  std::string implied(ArrayRef<Labelled> operands) const {
    std::map<char, int> counts;
    std::string broadcast, letters;
    for (const Labelled &operand : operands)
      for (char c : operand.axes) ++counts[c];
    for (auto [c, number] : counts)
      if (isDigit(c)) broadcast.insert(broadcast.begin(), c);
      else if (number == 1) letters += c;
    return broadcast + letters;
  }

  /// Without the axes that are not in `kept`.
  Labelled summed(const Labelled &of, StringRef kept) {
    std::vector<int64_t> axes;
    std::string rest;
    for (auto [i, c] : enumerate(of.axes))
      if (kept.contains(c)) rest += c;
      else axes.push_back(static_cast<int64_t>(i));
    if (axes.empty()) return of;
    return {op.emit("sum", {of.v}, {{"axis", tupleText(axes)}}), rest};
  }

  Labelled ordered(const Labelled &of, const std::string &axes) {
    if (of.axes == axes) return of;
    std::vector<int64_t> order;
    for (char c : axes) order.push_back(static_cast<int64_t>(of.axes.find(c)));
    return {op.emit("transpose", {of.v}, {{"axes", tupleText(order)}}), axes};
  }

  int64_t sizeOf(StringRef axes) {
    int64_t product = 1;
    for (char c : axes) product = std::min(product * std::min(sizes.at(c), kMostElements), kMostElements);
    return product;
  }

  /// A product of two stacks of matrices: axes of both that `later` has are the stack, other axes of both are summed.
  Labelled multiplied(const Labelled &x, const Labelled &y, StringRef later) {
    std::string stack, inner, rows, columns;
    for (char c : x.axes)
      if (!StringRef(y.axes).contains(c)) rows += c;
      else (later.contains(c) ? stack : inner) += c;
    for (char c : y.axes)
      if (!StringRef(x.axes).contains(c)) columns += c;
    const int64_t number = sizeOf(stack), depth = sizeOf(inner);
    const Value a = op.reshaped(ordered(x, stack + rows + inner).v, {number, sizeOf(rows), depth});
    const Value b = op.reshaped(ordered(y, stack + inner + columns).v, {number, depth, sizeOf(columns)});
    std::vector<int64_t> shape;
    const std::string axes = stack + rows + columns;
    for (char c : axes) shape.push_back(sizes.at(c));
    return {op.reshaped(op.emit("batch_dot", {a, b}), shape), axes};
  }

  OpTranslation &op;
  std::map<char, int64_t> sizes;
  size_t numBroadcast = 0;
  std::string result;
};

// Every row of X times a matrix times the same row of Y, one matrix for each column of the result.
void bilinearProduct(OpTranslation &op) {
  const Value x = op.in("X"), y = op.in("Y"), weight = op.in("Weight");
  const Value half = op.emit("dot", {x, op.emit("transpose", {weight}, {{"axes", "(1, 0, 2)"}})});
  const Value terms = op.emit("broadcast_mul", {half, op.emit("expand_dims", {y}, {{"axis", "1"}})});
  Value v = op.emit("sum", {terms}, {{"axis", "2"}});
  if (op.has("Bias")) v = op.emit("broadcast_add", {v, op.in("Bias")});
  op.out("Out", v);
}

void multiDot(OpTranslation &op) {
  const std::vector<Value> operands = op.ins("X");
  if (operands.empty()) return;  // a mistake, as `ins` has recorded
  Value v = operands.front();
  for (Value next : ArrayRef(operands).drop_front()) v = op.emit("dot", {v, next});
  op.out("Out", v);
}

constexpr int64_t kHighestPower = 64;

void matrixPower(OpTranslation &op) {
  const int64_t n = op.integer("n", 1);
  if (n < 1 || n > kHighestPower || op.rank("X") != 2)
    return op.unsupported("'n' " + Twine(n) + " is not supported, expected 1 to 64, for one matrix");
  const Value x = op.in("X");
  Value v = x;
  for (int64_t i = 1; i < n; ++i) v = op.emit("dot", {v, x});
  op.out("Out", n == 1 ? op.emit("_copy", {x}) : v);
}

constexpr BlockOpRow kRows[] = {
    {"bilinear_tensor_product", bilinearProduct},
    {"einsum", [](OpTranslation &op) { Einsum(op).run(); }},
    {"matrix_power", matrixPower},
    {"multi_dot", multiDot},
};

}  // namespace

ArrayRef<BlockOpRow> einsumBlockOps() { return kRows; }

}  // namespace gradc
