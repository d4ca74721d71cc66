#include "passes/gradient/state.h"

#include "ir/base/error.h"

using namespace llvm;

namespace gradc {

Expected<Value> GradientState::scaled(Value v, NodeId origin) {
  if (!ctx.ops.wellKnown.scaled)
    return Failure(ErrorKind::UnknownOp, "the registry has no operator that multiplies by a number");
  Expected<KindRef> kind = ctx.ops.wellKnown.scaled(ctx, options.lossScale);
  if (!kind) return kind.takeError();
  Expected<NodeId> node = builder.add(*(*kind)->op, v, NodeSpec{"", (*kind)->attrs, origin});
  if (!node) return node.takeError();
  return Value{*node};
}

}  // namespace gradc
