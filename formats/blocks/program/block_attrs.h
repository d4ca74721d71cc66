// Attributes of a block program's operators, by Paddle's types. `Attrs` holds each as its file spells it,
// `["INTS",[1,2]]`, so that a file is written as it was read and equal lists are shared. Tested by
// tests/formats/blocks/block_program_test.cc
#pragma once

#include "formats/blocks/program/fluid_types.h"
#include "ir/op/attrs.h"

#include <string>

namespace gradc {

/// The type an attribute is tagged with; nothing where the list does not have the key.
std::optional<AttrTag> attrTag(const Attrs &attrs, llvm::StringRef key);

/// The value; nothing if the key is missing or has another type.
std::optional<int64_t> intAttr(const Attrs &attrs, llvm::StringRef key);   // INT, LONG, BOOLEAN
std::optional<bool> boolAttr(const Attrs &attrs, llvm::StringRef key);     // BOOLEAN
std::optional<double> floatAttr(const Attrs &attrs, llvm::StringRef key);  // FLOAT, FLOAT64, and numbers of SCALAR
std::optional<std::string> stringAttr(const Attrs &attrs, llvm::StringRef key);         // STRING, VAR
std::optional<std::vector<int64_t>> intsAttr(const Attrs &attrs, llvm::StringRef key);  // INTS, LONGS
std::optional<std::vector<double>> floatsAttr(const Attrs &attrs,
                                              llvm::StringRef key);  // FLOATS, FLOAT64S, and numbers of SCALARS
std::optional<std::vector<std::string>> stringsAttr(const Attrs &attrs, llvm::StringRef key);  // STRINGS, VARS

/// The text of a value, to be given to Context::attrs.
std::string intAttrText(AttrTag tag, int64_t value);
std::string boolAttrText(bool value);
std::string floatAttrText(AttrTag tag, double value);
std::string stringAttrText(AttrTag tag, llvm::StringRef value);
std::string intsAttrText(AttrTag tag, llvm::ArrayRef<int64_t> values);
std::string floatsAttrText(AttrTag tag, llvm::ArrayRef<double> values);
std::string stringsAttrText(AttrTag tag, llvm::ArrayRef<std::string> values);

/// The strings of a JSON list of strings.
std::vector<std::string> stringsOfJson(llvm::StringRef json);
/// Where the user created an operator, from a call stack as JSON: the innermost frame outside of Paddle, `File
/// "train.py", line 12, in main: y = fluid.layers.fc(x)`.
std::string callSite(llvm::StringRef callstack);

}  // namespace gradc
