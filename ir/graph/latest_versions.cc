// One row per overwritten variable. Tested by tests/ir/graph_builder_test.cc
#include "ir/graph/latest_versions.h"

#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"

using namespace llvm;

namespace gradc {

LatestVersions::LatestVersions(const Graph *base) {
  for (uint32_t n = 0; base && n < base->numNodes(); ++n) {
    const NodeKind &kind = base->kind(NodeId(n));
    ArrayRef<Value> inputs = base->inputs(NodeId(n));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (kind.isMutated(i) || inputs[i].version) note(inputs[i], std::max<uint32_t>(inputs[i].version, 1));
  }
}

void LatestVersions::note(Value v, uint32_t version) {
  uint32_t &known = latest[v.node.value];
  known = std::max(known, version);
}

Error LatestVersions::refresh(const GraphBuilder &builder, StringRef name, const NodeKind &kind,
                              MutableArrayRef<Value> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value &input = inputs[i];
    const NodeKind &source = builder.kind(input.node);
    if (kind.isMutated(i) && !source.isVariable())
      return Failure(ErrorKind::BadMutation, "node '" + name + "' (" + kind.op->name + ") overwrites input " +
                                                 Twine(i) + ", expected a variable there, found node '" +
                                                 builder.name(input.node) + "' (" + source.op->name + ")");
    if (!source.isVariable()) continue;
    const uint32_t version = latest.lookup(input.node.value) + kind.isMutated(i);
    if (version > kMaxIndex)
      return Failure(ErrorKind::BadMutation, "node '" + name + "' makes version " + Twine(version) + " of variable '" +
                                                 builder.name(input.node) + "', but the largest possible is " +
                                                 Twine(kMaxIndex));
    input.version = static_cast<uint16_t>(version);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (kind.isMutated(i)) note(inputs[i], inputs[i].version);
  return Error::success();
}

}  // namespace gradc
