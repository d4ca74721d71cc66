// Matches arrays that a caller gives by name to the variables and heads of a graph (RUN-04).
#pragma once

#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"
#include "runtime/arrays/npy.h"

namespace gradc {

struct StartValue {
  size_t head;
  NamedArray array;
};

/// What the bindings mean: arrays per variable, start values per head.
struct MatchedBindings {
  static constexpr uint32_t kNone = 0xffffffff;

  std::vector<uint32_t> arrayOf;  // by node: index into arrays, or kNone
  std::vector<NamedArray> arrays;
  std::vector<StartValue> starts;

  /// Null for a variable without binding.
  NamedArray *binding(NodeId n) { return arrayOf[n.value] == kNone ? nullptr : &arrays[arrayOf[n.value]]; }
  const NamedArray *binding(NodeId n) const { return const_cast<MatchedBindings *>(this)->binding(n); }
};

/// E-34 for a name that several variables share or that is bound twice; E-72, with similar names, for a name that the
/// graph does not have.
llvm::Expected<MatchedBindings> matchBindings(const Graph &graph, const std::optional<GradientTable> &table,
                                              llvm::ArrayRef<Request> headRequests, std::vector<NamedArray> bindings);

/// `conflict`, the error of inference with the shapes of the bound arrays. E-71 if inference succeeds without them, so
/// that one of them must be wrong; it names the first whose shape disagrees alone, else it has the message of
/// `conflict`.
llvm::Error explainConflict(Context &context, const Graph &graph, const MatchedBindings &matched,
                            const InferRequest &hints, const InferOptions &options, llvm::Error conflict);

/// Whether `dims` is compatible with the possibly partial `shape`.
bool agrees(ShapeRef shape, Dims dims);
/// Floating variables accept arrays of any dtype, others only of the same dtype.
bool isConvertible(DType from, DType to);
/// `array` converted to `dtype`; moved if it has that dtype already. The data is never null.
Array converted(Array array, DType dtype);

/// "(2,3) float32"
std::string describeTensor(ShapeRef shape, DType dtype);
/// "'a', 'b' and 7 more"
std::string quotedList(llvm::ArrayRef<llvm::StringRef> names);
/// E-71
llvm::Error bindingMismatch(llvm::StringRef name, const std::string &expected, const std::string &found);

}  // namespace gradc
