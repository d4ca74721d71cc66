// Tested by tests/formats/blocks/program_desc_test.cc
#include "formats/blocks/program/attr_parts.h"

#include "formats/blocks/program/block_attrs.h"

using namespace llvm;

namespace gradc {

std::string attrText(AttrTag tag, const AttrParts &parts) {
  auto list = [&](ArrayRef<std::string> values, bool isList) {
    std::string text = "[\"" + attrTagName(tag).str() + "\"," + (isList ? "[" : "");
    for (const std::string &value : values) text += value + ",";
    if (!values.empty()) text.pop_back();
    return text + (isList ? "]]" : "]");
  };
  switch (tag) {
    case AttrTag::Int:
    case AttrTag::Long:
    case AttrTag::Block: return parts.integers.empty() ? "" : intAttrText(tag, parts.integers.back());
    case AttrTag::Boolean: return parts.integers.empty() ? "" : boolAttrText(parts.integers.back() != 0);
    case AttrTag::Float:
    case AttrTag::Float64: return parts.floats.empty() ? "" : floatAttrText(tag, parts.floats.back());
    case AttrTag::String:
    case AttrTag::Var: return parts.strings.empty() ? "" : stringAttrText(tag, parts.strings.back());
    case AttrTag::Scalar: return parts.scalars.empty() ? "" : list(parts.scalars.back(), false);
    case AttrTag::Ints:
    case AttrTag::Longs:
    case AttrTag::Blocks: return intsAttrText(tag, parts.integers);
    case AttrTag::Floats:
    case AttrTag::Float64s: return floatsAttrText(tag, parts.floats);
    case AttrTag::Strings:
    case AttrTag::Vars: return stringsAttrText(tag, parts.strings);
    case AttrTag::Scalars: return list(parts.scalars, true);
    case AttrTag::Booleans: break;
  }
  std::vector<std::string> flags;
  for (int64_t flag : parts.integers) flags.push_back(flag ? "true" : "false");
  return list(flags, true);
}

}  // namespace gradc
