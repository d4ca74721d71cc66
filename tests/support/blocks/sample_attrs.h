// Shorthands for the samples of operator types.
#pragma once

#include "tests/support/blocks/rule_samples.h"

#include "formats/blocks/program/block_attrs.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc::testing {

using SampleOperands = std::vector<RuleSample::Operand>;
using SampleAttrs = std::vector<std::pair<std::string, std::string>>;
using AddSample = llvm::function_ref<void(std::string, SampleOperands, SampleOperands, SampleAttrs, RuleSample::Range)>;

inline std::string integer(int64_t value) { return intAttrText(AttrTag::Int, value); }
inline std::string number(double value) { return floatAttrText(AttrTag::Float, value); }
inline std::string numbers(std::vector<double> values) { return floatsAttrText(AttrTag::Floats, values); }
inline std::string integers(std::vector<int64_t> values) { return intsAttrText(AttrTag::Ints, values); }
inline std::string flag(bool value) { return boolAttrText(value); }
inline std::string string(llvm::StringRef value) { return stringAttrText(AttrTag::String, value); }

/// Interpolation, sums of products, windows of volumes, regions and arrangements of elements.
void addArrangedSamples(AddSample add);

}  // namespace gradc::testing
