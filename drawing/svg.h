// Parts of SVG files: escaping, text widths, numbers, and one style sheet for light and dark.
//
// The files are self-contained: no script, no link, no font to load. Tested by tests/tools/drawing_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace gradc::svg {

/// Text for an element or an attribute: markup escaped, every line `printable` (ir/base/printable.h).
std::string escaped(llvm::StringRef text);
/// Pixels, on the generous side: the viewer's font is unknown.
double textWidth(llvm::StringRef text, double fontSize);
/// At most `limit` characters of the printable text, the middle left out.
std::string shortened(llvm::StringRef text, size_t limit);
/// Up to two decimals, no trailing zeros.
std::string number(double value);
/// "1,234,567".
std::string grouped(int64_t value);

/// Starts a page of the given size with the style sheet. Classes: t1 t2 t3 (text: strong, plain, faint), mid end
/// (anchors), and for areas variable aux operator backward sum other update head scratch; for lines forward gradient
/// saved control axis grid bound.
void open(llvm::raw_ostream &os, double width, double height, llvm::StringRef title);
void close(llvm::raw_ostream &os);

}  // namespace gradc::svg
