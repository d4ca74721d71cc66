// Tables of names. Tested by tests/formats/blocks/block_file_test.cc
#include "formats/blocks/program/fluid_types.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// By number; empty where there is none.
constexpr StringLiteral kTypes[] = {
    "BOOL",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "LOD_TENSOR",
    "SELECTED_ROWS",
    "FEED_MINIBATCH",
    "FETCH_LIST",
    "STEP_SCOPES",
    "LOD_RANK_TABLE",
    "LOD_TENSOR_ARRAY",
    "PLACE_LIST",
    "READER",
    "",
    "RAW",
    "TUPLE",
    "SIZE_T",
    "UINT8",
    "INT8",
    "BF16",
    "COMPLEX64",
    "COMPLEX128",
    "STRING",
    "STRINGS",
    "VOCAB",
    "FEED_LIST",
    "PSTRING",
    "SPARSE_COO",
    "SPARSE_CSR",
};
constexpr StringLiteral kTags[] = {
    "INT",  "FLOAT",  "STRING", "INTS",     "FLOATS", "STRINGS", "BOOLEAN", "BOOLEANS", "BLOCK",
    "LONG", "BLOCKS", "LONGS",  "FLOAT64S", "VAR",    "VARS",    "FLOAT64", "SCALAR",   "SCALARS",
};

template <class T> std::optional<T> parse(ArrayRef<StringLiteral> names, StringRef name) {
  const auto *at = find(names, name);
  if (name.empty() || at == names.end()) return std::nullopt;
  return static_cast<T>(at - names.begin());
}

}  // namespace

StringRef fluidTypeName(FluidType type) {
  const auto number = static_cast<size_t>(type);
  return number < std::size(kTypes) ? StringRef(kTypes[number]) : StringRef();
}

std::optional<FluidType> parseFluidType(StringRef name) { return parse<FluidType>(kTypes, name); }

DType dtypeOf(FluidType type) {
  switch (type) {
    case FluidType::Bool: return DType::Bool;
    case FluidType::Int16: return DType::Int16;
    case FluidType::Int32: return DType::Int32;
    case FluidType::Int64: return DType::Int64;
    case FluidType::Fp16: return DType::Float16;
    case FluidType::Fp32: return DType::Float32;
    case FluidType::Fp64: return DType::Float64;
    case FluidType::UInt8: return DType::UInt8;
    case FluidType::Int8: return DType::Int8;
    case FluidType::Bf16: return DType::BFloat16;
    default: return DType::Unknown;
  }
}

StringRef attrTagName(AttrTag tag) { return kTags[static_cast<size_t>(tag)]; }

std::optional<AttrTag> parseAttrTag(StringRef name) { return parse<AttrTag>(kTags, name); }

}  // namespace gradc
