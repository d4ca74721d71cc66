#include "tests/support/written.h"

#include "formats/json/writer.h"

#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace gradc::testing {

std::string written(const Graph &graph) {
  std::string text;
  raw_string_ostream os(text);
  writeJson(os, graph);
  return text;
}

}  // namespace gradc::testing
