#include "passes/gradient/state.h"

#include "ir/base/error.h"
#include "ir/op/attr_spec.h"

using namespace llvm;

namespace gradc {

Expected<Value> GradientState::scaled(Value v, NodeId origin) {
  const OpDef *op = ctx.ops.find("_mul_scalar");
  if (!op) return Failure(ErrorKind::UnknownOp, "the registry has no operator '_mul_scalar'");
  std::string text;
  raw_string_ostream os(text);
  printAttr(os, options.lossScale);
  Expected<NodeId> node = builder.add(*op, v, NodeSpec{"", ctx.attrs({{"scalar", os.str()}}), origin});
  if (!node) return node.takeError();
  return Value{*node};
}

}  // namespace gradc
