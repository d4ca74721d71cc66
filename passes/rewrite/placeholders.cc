#include "passes/rewrite/placeholders.h"

using namespace llvm;

namespace gradc {

NodeId addOverVariables(GraphBuilder &builder, const KindRef &kind) {
  SmallVector<Value, 8> inputs;
  for (uint32_t i = 0; i < kind->numInputs; ++i) inputs.push_back(builder.addVariable("", Attrs()));
  return builder.addKind(kind, inputs, NodeId());
}

}  // namespace gradc
