// Paddle's numbers and names for the types of variables and of attributes (framework.proto: VarType.Type, AttrType).
// Tested by tests/formats/blocks/block_file_test.cc
#pragma once

#include "ir/tensor/types.h"

namespace gradc {

/// The kind of a variable, or the type of its elements; the values are Paddle's.
enum class FluidType : uint8_t {
  Bool = 0,
  Int16 = 1,
  Int32 = 2,
  Int64 = 3,
  Fp16 = 4,
  Fp32 = 5,
  Fp64 = 6,
  LodTensor = 7,
  SelectedRows = 8,
  FeedMinibatch = 9,
  FetchList = 10,
  StepScopes = 11,
  LodRankTable = 12,
  LodTensorArray = 13,
  PlaceList = 14,
  Reader = 15,
  Raw = 17,
  Tuple = 18,
  SizeT = 19,
  UInt8 = 20,
  Int8 = 21,
  Bf16 = 22,
  Complex64 = 23,
  Complex128 = 24,
  String = 25,
  Strings = 26,
  Vocab = 27,
  FeedList = 28,
  Pstring = 29,
  SparseCoo = 30,
  SparseCsr = 31,
};

/// "LOD_TENSOR", "FP64", …; empty for a number that is not in the list.
llvm::StringRef fluidTypeName(FluidType type);
std::optional<FluidType> parseFluidType(llvm::StringRef name);
/// The element type; Unknown for what gradc does not compute with.
DType dtypeOf(FluidType type);

/// How an attribute's value is spelled in a file: `["INTS",[1,2]]`. The values are Paddle's.
enum class AttrTag : uint8_t {
  Int = 0,
  Float = 1,
  String = 2,
  Ints = 3,
  Floats = 4,
  Strings = 5,
  Boolean = 6,
  Booleans = 7,
  Block = 8,
  Long = 9,
  Blocks = 10,
  Longs = 11,
  Float64s = 12,
  Var = 13,
  Vars = 14,
  Float64 = 15,
  Scalar = 16,
  Scalars = 17,
};

/// "INT", "FLOAT", …
llvm::StringRef attrTagName(AttrTag tag);
std::optional<AttrTag> parseAttrTag(llvm::StringRef name);

}  // namespace gradc
