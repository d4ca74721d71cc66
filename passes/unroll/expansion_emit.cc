// Nodes that are in no body: counts, zeros and copies beside what is copied. Tested by tests/passes/unroll_test.cc
#include "passes/unroll/expansion.h"

#include "passes/rewrite/following_attrs.h"

#include "ir/base/error.h"

using namespace llvm;

namespace gradc {

Value Expansion::emit(const Scope &scope, NodeId n, const OpDef &op, ArrayRef<Value> operands, ArrayRef<AttrText> attrs,
                      const Twine &suffix) {
  GraphBuilder &builder = rewriter.builder();
  KindRef kind = cantFail(pass.context.kind(op, pass.context.attrs(attrs)));
  kind = cantFail(withFollowingAttrsOf(pass.context, kind, scope.graph().attrs(n)));
  const NodeId node = builder.addKind(kind, operands, NodeId());
  builder.setName(node, names.take((scope.prefix + scope.graph().name(n) + suffix).str()), "");
  return Value{node};
}

Value Expansion::emitCount(const Scope &scope, NodeId n, int64_t number, const Twine &suffix) {
  const Value v = emit(scope, n, *rowOps().full, {},
                       {{"shape", "(1,)"}, {"dtype", "int64"}, {"value", std::to_string(number)}}, suffix);
  known.add(v, number);
  return v;
}

Value Expansion::emitZeros(const Scope &scope, NodeId n, uint32_t output, const Twine &suffix, std::string &whyNot) {
  const EntryId e(scope.graph().firstEntry(n).value + output);
  const DType dtype = scope.known ? scope.known->dtype[e] : DType::Unknown;
  if (dtype == DType::Unknown || !scope.known->isKnownShape(e))
    return whyNot = "the shape of output " + std::to_string(output) + " is not known", Value();
  if (zeroIsUnknown(rewriter.graph()) && is_contained(scope.known->shapeOf(e).dims(), 0))
    return whyNot = "output " + std::to_string(output) +
                    " is empty, and files before mxnet_version 20000 cannot spell an empty constant",
           Value();
  std::string shape = "(";
  for (int64_t dim : scope.known->shapeOf(e).dims()) shape += std::to_string(dim) + ",";
  return emit(scope, n, *rowOps().full, {}, {{"shape", shape + ")"}, {"dtype", dtypeName(dtype)}, {"value", "0"}},
              suffix);
}

}  // namespace gradc
