// Tested by tests/tools/drawing_test.cc
#include "drawing/svg.h"

#include "ir/base/printable.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace gradc::svg {
namespace {

bool startsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// Light colours first; viewers without media queries keep them, on a light page.
constexpr StringRef kStyle = R"(<style>
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#1f2933}
.t1{font-weight:600}.t2{fill:#3e4c59}.t3{font-size:10.5px;fill:#66727f}.mid{text-anchor:middle}.end{text-anchor:end}
.h1{font-size:17px;font-weight:600}.h2{font-size:14px;font-weight:600;fill:#52606d}
.paper{fill:#fff}.lane{fill:#f6f8fa;stroke:none}
.variable{fill:#e6f6ec;stroke:#2f9e5b}.aux{fill:#f3eefb;stroke:#8a63c9;stroke-dasharray:4 2.5}
.operator{fill:#e7f0fd;stroke:#3a72c4}.backward{fill:#fdeede;stroke:#d27d22}
.sum{fill:#fbe4e6;stroke:#cc4b59}.other{fill:#fdf8e1;stroke:#b3952a}.update{fill:#dff4f5;stroke:#228a94}
.head{fill:#52606d;stroke:none}.ht{fill:#fff;font-size:10.5px}.scratch{fill:#e4e7eb;stroke:#9aa5b1}
.e{fill:none;stroke-width:1.4;stroke-linejoin:round}
.forward{stroke:#3a72c4}.gradient{stroke:#d27d22}.saved{stroke:#93a7be;stroke-width:1.1}
.control{stroke:#9aa5b1;stroke-width:1.1;stroke-dasharray:4 3}
.axis{stroke:#66727f;fill:none}.grid{stroke:#e4e7eb;fill:none})"
                             R"(.bound{stroke:#c8102e;stroke-width:1.6;stroke-dasharray:7 4;fill:none}
.live{stroke:#1f2933;stroke-width:1.2;fill:none}.boundtext{fill:#c8102e}.block{stroke-width:.6}
.mf{fill:#3a72c4}.mg{fill:#d27d22}.ms{fill:#93a7be}.mc{fill:#9aa5b1}
g:hover>.block,.node:hover>rect{stroke-width:2.5}g:hover>.e{stroke-width:3}
@media (prefers-color-scheme:dark){
text{fill:#e4e7eb}.t2{fill:#c3cad2}.t3{fill:#98a3af}.h2{fill:#aab4bf}.paper{fill:#14171b}.lane{fill:#1b1f25}
.variable{fill:#16301f;stroke:#57c785}.aux{fill:#281f3a;stroke:#b497e7}.operator{fill:#1a2a42;stroke:#7fb0f5}
.backward{fill:#3b2612;stroke:#f0a35a}.sum{fill:#3c1a1f;stroke:#f08a95}.other{fill:#332c10;stroke:#dcc463}
.update{fill:#10333a;stroke:#5fc4cf}.head{fill:#98a3af}.ht{fill:#14171b}.scratch{fill:#2b3138;stroke:#66727f}
.forward{stroke:#7fb0f5}.gradient{stroke:#f0a35a}.saved{stroke:#5b6f88}.control{stroke:#66727f}
.axis{stroke:#98a3af}.grid{stroke:#2b3138}.bound{stroke:#ff6b7d}.boundtext{fill:#ff6b7d}.live{stroke:#e4e7eb}
.mf{fill:#7fb0f5}.mg{fill:#f0a35a}.ms{fill:#5b6f88}.mc{fill:#66727f}}
</style>
)";

}  // namespace

std::string escaped(StringRef text) {
  std::string clean;
  SmallVector<StringRef, 4> lines;
  text.split(lines, '\n');
  ListSeparator newLine("\n");
  for (StringRef line : lines) {
    clean += StringRef(newLine);
    for (char c : printable(line)) {
      switch (c) {
        case '&': clean += "&amp;"; break;
        case '<': clean += "&lt;"; break;
        case '>': clean += "&gt;"; break;
        case '"': clean += "&quot;"; break;
        default: clean += c;
      }
    }
  }
  return clean;
}

double textWidth(StringRef text, double fontSize) {
  double width = 0;
  for (char c : text) {
    if (!startsCharacter(c)) continue;
    const bool isWide = static_cast<unsigned char>(c) >= 0xe0 || StringRef("mwMW@%").contains(c);
    const bool isNarrow = StringRef("iljtfr.,:;|'!()[] -").contains(c);
    width += isWide ? 0.95 : isNarrow ? 0.4 : isUpper(c) ? 0.71 : 0.63;
  }
  return width * fontSize;
}

std::string shortened(StringRef text, size_t limit) {
  std::string fixed = printable(text);
  SmallVector<size_t, 64> starts;  // of characters
  for (size_t i = 0; i < fixed.size(); ++i)
    if (startsCharacter(fixed[i])) starts.push_back(i);
  if (starts.size() <= limit) return fixed;
  const size_t head = (limit - 1) / 2, tail = limit - 1 - head;
  return fixed.substr(0, starts[head]) + "\u2026" + fixed.substr(starts[starts.size() - tail]);
}

std::string number(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.2f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > (value < 0 ? 4u : 3u);) digits.insert(at -= 3, ",");
  return digits;
}

void open(raw_ostream &os, double width, double height, StringRef title) {
  const std::string w = number(width), h = number(height);
  os << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << w << "\" height=\"" << h << "\" viewBox=\"0 0 " << w
     << ' ' << h << "\" role=\"img\">\n<title>" << escaped(title) << "</title>\n"
     << kStyle << "<rect class=\"paper\" width=\"" << w << "\" height=\"" << h << "\"/>\n";
}

void close(raw_ostream &os) { os << "</svg>\n"; }

}  // namespace gradc::svg
