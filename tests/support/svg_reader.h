// SVG files as far as the tests need to read them. Tested by tests/tools/drawing_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gradc::testing {

struct SvgElement {
  std::string name, text;  // text: what follows up to the next tag
  std::map<std::string, std::string> attrs;
  bool isOpening = false, isClosing = false;

  double number(const std::string &key) const;  // 0 if there is none
  llvm::StringRef attr(const std::string &key) const;
};

struct Rect {
  double x, y, width, height;
  std::string style, title;
};
struct Edge {
  std::string style, title;
  std::vector<std::pair<double, double>> points;  // corners, rounding undone
};
struct Picture {
  std::map<std::string, Rect> nodes;  // by id
  std::vector<Edge> edges;
  std::vector<Rect> blocks;  // of a plan
  std::vector<SvgElement> elements;
};

/// The points of a path's attribute `d`: M and L give points; Q gives a corner as its control point, and its end is on
/// the way.
std::vector<std::pair<double, double>> pathPoints(llvm::StringRef path);

/// Reports what is not well-formed as a failure of the running test.
Picture pictureOf(llvm::StringRef svg);

/// No two nodes overlap.
void expectApart(const Picture &picture);

}  // namespace gradc::testing
