#include "bench/programs/network_file.h"

#include "formats/json/reader.h"
#include "ops/registry.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdlib>

using namespace llvm;

namespace gradc::bench {

Graph readNetwork(Context &context, const char *path) {
  registerBuiltinOps(context.ops);
  const auto text = cantFail(errorOrToExpected(MemoryBuffer::getFile(path)));
  return cantFail(readJson(context, text->getBuffer(), ReadOptions())).graph;
}

InferRequest readShapes(const Graph &graph, ArrayRef<char *> arguments) {
  InferRequest request;
  for (StringRef argument : arguments) {
    const auto [name, dims] = argument.split('=');
    DimsBuffer shape;
    for (StringRef part : split(dims, ',')) shape.push_back(std::atoll(part.str().c_str()));
    for (NodeId n(0); n.value < graph.numNodes(); ++n.value)
      if (graph.isVariable(n) && graph.name(n) == name) request.shapes.push_back({n, shape});
  }
  return request;
}

}  // namespace gradc::bench
