#include "runtime/gradcheck/held.h"

#include "ir/op/attrs.h"
#include "runtime/arrays/elements.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;

namespace gradc {

std::string describeNotFinite(const Graph &graph, NodeId n, ArrayRef<TensorRef> outputs) {
  for (const TensorRef &output : outputs.take_front(graph.kind(n).numVisible)) {
    if (!output.data || !isFloating(output.dtype)) continue;
    for (int64_t i = 0, size = output.size(); i < size; ++i) {
      const double value = readElement(output, i);
      if (std::isfinite(value)) continue;
      return graph.describe(n) + " is " + (std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    }
  }
  return "";
}

}  // namespace gradc
