// Through this interface a row of formats/blocks/ops sees its operator and emits the translation. A mistake is
// recorded, and the caller reports the first; values after it are invalid, and rows need not check. Tested by
// tests/formats/blocks/block_graph_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/graph_builder.h"

#include <functional>

namespace gradc {

using AttrPair = std::pair<llvm::StringRef, std::string>;

class OpTranslation {
 public:
  /// The value of operand `name`, at a position of an input slot.
  using Read = std::function<Value(llvm::StringRef slot, size_t i, TextId name)>;

  /// Messages name operator `index` of `block`, which is `op` or the operator that `op` was derived from.
  OpTranslation(GraphBuilder &builder, const BlockProgram &program, uint32_t block, size_t index, const BlockOp &op,
                Read read);

  // Operands.
  size_t count(llvm::StringRef slot) const { return program.variables(op.inputs, slot).size(); }
  bool has(llvm::StringRef slot) const { return count(slot) != 0; }
  /// The value at a position of an input slot; a mistake when there is none.
  Value in(llvm::StringRef slot, size_t i = 0);
  std::vector<Value> ins(llvm::StringRef slot);
  /// Refuses operands in slots that the row does not support: sizes given as tensors.
  void refuse(std::initializer_list<llvm::StringRef> slots);

  // The program's declaration of the variable at a position of an input or output slot.
  llvm::ArrayRef<int64_t> shape(llvm::StringRef slot, size_t i = 0);
  size_t rank(llvm::StringRef slot, size_t i = 0) { return shape(slot, i).size(); }
  /// Whether it is declared with a type of whole numbers.
  bool isWhole(llvm::StringRef slot, size_t i = 0);
  /// Whether it is declared with truth values.
  bool isTruth(llvm::StringRef slot, size_t i = 0);
  /// Whether it is a persistable variable of the root and the operator is in the root, so that it may be overwritten in
  /// place.
  bool isStored(llvm::StringRef slot, size_t i = 0);
  /// A dimension that has to be known; a negative axis counts from the end.
  int64_t dim(llvm::StringRef slot, int64_t axis);
  /// An axis of an operand as a number from 0; a mistake if it is out of range.
  int64_t axisOf(llvm::StringRef slot, int64_t axis);

  // Attributes: the default if one is missing, a mistake if it has another type.
  int64_t integer(llvm::StringRef key, int64_t missing);
  bool flag(llvm::StringRef key, bool missing);
  double number(llvm::StringRef key, double missing);
  std::string text(llvm::StringRef key, llvm::StringRef missing);
  std::vector<int64_t> integers(llvm::StringRef key);
  std::vector<double> numbers(llvm::StringRef key);
  /// gradc's name of the element type that an attribute gives by number.
  std::string dtype(llvm::StringRef key);

  // Results.
  /// Output 0 of a new node of gradc's operator.
  Value emit(llvm::StringRef opName, llvm::ArrayRef<Value> inputs, llvm::ArrayRef<AttrPair> attrs = {});
  /// Output `index` of the node of a value.
  static Value output(Value v, uint16_t index) { return {v.node, index, 0}; }
  Value addScalar(Value v, double number) { return scalar("_plus_scalar", v, number); }
  Value timesScalar(Value v, double number) { return scalar("_mul_scalar", v, number); }
  Value scalar(llvm::StringRef opName, Value v, double number);
  /// Without dimensions: one of one element, a scalar.
  Value reshaped(Value v, llvm::ArrayRef<int64_t> shape);
  /// With more axes of one element in front, so that `rank` axes become `wanted`.
  Value withRank(Value v, size_t rank, size_t wanted);
  Value sliced(Value v, int64_t axis, int64_t begin, int64_t end);
  Value joined(llvm::ArrayRef<Value> parts, int64_t axis);
  /// Aligns y, of lower rank than operand `X`, with the axes of that from attribute `axis` on, by appending axes of one
  /// element.
  Value alignedWithX(Value y);
  /// Sets the variable at a position of an output slot; does nothing if the operator does not name one.
  void out(llvm::StringRef slot, Value v, size_t i = 0);
  size_t numOut(llvm::StringRef slot) const { return program.variables(op.outputs, slot).size(); }

  void fail(ErrorKind kind, const llvm::Twine &what);
  void unsupported(const llvm::Twine &what) { fail(ErrorKind::UnsupportedOption, what); }
  llvm::StringRef type() const { return program.text(op.type); }

  struct Written {
    TextId name;
    Value value;
    llvm::StringRef slot;
    size_t i;
  };
  /// The written variables, or the first mistake.
  llvm::Expected<std::vector<Written>> finish();

 private:
  template <class T> T attribute(llvm::StringRef key, std::optional<T> found, T missing, llvm::StringRef form);
  TextId variable(llvm::StringRef slot, size_t i);
  /// The declaration of the variable at a position of a slot; null: none.
  const BlockVariable *record(llvm::StringRef slot, size_t i);

  GraphBuilder &builder;
  const BlockProgram &program;
  uint32_t block;
  size_t index;
  const BlockOp &op;
  Read read;
  std::vector<Written> written;
  std::optional<llvm::Error> error;
};

/// "(1, 2)", as gradc's attributes spell tuples.
std::string tupleText(llvm::ArrayRef<int64_t> numbers);
/// "1.5", the shortest text for the same number.
std::string numberText(double number);
inline std::string flagText(bool flag) { return flag ? "True" : "False"; }

}  // namespace gradc
