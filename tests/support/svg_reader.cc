// Tested by tests/tools/drawing_test.cc
#include "tests/support/svg_reader.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {

double SvgElement::number(const std::string &key) const {
  double value = 0;
  (void)to_float(attr(key), value);
  return value;
}

StringRef SvgElement::attr(const std::string &key) const {
  auto at = attrs.find(key);
  return at == attrs.end() ? StringRef() : StringRef(at->second);
}

namespace {

/// The tags in order; reports what is not well-formed.
std::vector<SvgElement> parseXml(StringRef text) {
  std::vector<SvgElement> elements;
  std::vector<std::string> open;
  while (true) {
    const size_t begin = text.find('<'), end = text.find('>', begin);
    if (begin == StringRef::npos) break;
    if (end == StringRef::npos) {
      ADD_FAILURE() << "a tag does not end: " << text.substr(begin, 60).str();
      break;
    }
    StringRef tag = text.slice(begin + 1, end);
    text = text.drop_front(end + 1);
    SvgElement element;
    element.isClosing = tag.consume_front("/") || tag.ends_with("/");
    element.isOpening = !element.isClosing || tag.consume_back("/");
    element.name = tag.take_until([](char c) { return c == ' '; }).str();
    tag = tag.drop_front(element.name.size()).ltrim();
    while (!tag.empty()) {
      auto [key, rest] = tag.split("=\"");
      auto [value, after] = rest.split('"');
      EXPECT_FALSE(value.contains('<')) << value.str();
      element.attrs[key.str()] = value.str();
      tag = after.ltrim();
    }
    element.text = text.take_until([](char c) { return c == '<'; }).str();
    if (element.isOpening && !element.isClosing) open.push_back(element.name);
    if (!element.isOpening) {
      const bool isMatched = !open.empty() && open.back() == element.name;
      EXPECT_TRUE(isMatched) << "</" << element.name << "> closes " << (open.empty() ? "nothing" : open.back());
      if (isMatched) open.pop_back();
    }
    elements.push_back(element);
  }
  EXPECT_TRUE(open.empty()) << open.size() << " elements stay open";
  return elements;
}

}  // namespace

std::vector<std::pair<double, double>> pathPoints(StringRef path) {
  std::vector<std::pair<double, double>> points;
  while (!path.empty()) {
    const char command = path[0];
    path = path.drop_front();
    StringRef body = path.take_until([](char c) { return isAlpha(c); });
    path = path.drop_front(body.size());
    SmallVector<StringRef, 4> parts;
    body.split(parts, ' ', -1, false);
    double x = 0, y = 0;
    if (parts.size() < 2 || !to_float(parts[0], x) || !to_float(parts[1], y)) continue;
    if (command == 'L' && !path.empty() && path[0] == 'Q') continue;  // where the rounding begins
    points.emplace_back(x, y);
  }
  return points;
}

Picture pictureOf(StringRef svg) {
  Picture picture;
  picture.elements = parseXml(svg);
  std::string id, title;
  for (const SvgElement &element : picture.elements) {
    if (element.name == "g" && element.isOpening) id = element.attr("id").str();
    if (element.name == "title" && element.isOpening) {
      title = element.text;
      if (!picture.edges.empty() && picture.edges.back().title.empty()) picture.edges.back().title = title;
    }
    const StringRef style = element.attr("class");
    if (element.name == "rect") {
      Rect rect{element.number("x"),      element.number("y"), element.number("width"),
                element.number("height"), style.str(),         title};
      if (style.starts_with("block")) picture.blocks.push_back(rect);
      else if (!id.empty()) picture.nodes[id] = rect;
    }
    if (element.name == "path" && style.starts_with("e ") && id.empty())
      picture.edges.push_back({style.drop_front(2).str(), "", pathPoints(element.attr("d"))});
    if (element.name == "g" && !element.isOpening) id.clear();
  }
  return picture;
}

void expectApart(const Picture &picture) {
  for (auto a = picture.nodes.begin(); a != picture.nodes.end(); ++a)
    for (auto b = std::next(a); b != picture.nodes.end(); ++b) {
      const Rect &r = a->second, &s = b->second;
      const bool isApart =
          r.x + r.width <= s.x || s.x + s.width <= r.x || r.y + r.height <= s.y || s.y + s.height <= r.y;
      EXPECT_TRUE(isApart) << a->first << " and " << b->first;
    }
}

}  // namespace gradc::testing
