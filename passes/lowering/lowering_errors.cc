#include "passes/lowering/lowering_errors.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"

using namespace llvm;

namespace gradc {

static constexpr StringRef kMistake = "this is a mistake in the operator's definition, not in the graph";

std::string describeLowered(const LoweredSite &site) {
  return ("operator '" + site.graph.opName(site.node) + "' of node '" + site.graph.name(site.node) + "'").str();
}

Error lackingOperator(const LoweredSite &site, const OpDef &op) {
  const bool isItself = &op == site.graph.op(site.node);
  Failure failure(ErrorKind::UnknownOp, describeLowered(site) + " cannot be expressed in the operators of " +
                                            site.target.title +
                                            (isItself ? Twine() : Twine(": it needs '") + op.name + "'"));
  if (!op.irreducible.empty()) failure = std::move(failure).note("'" + op.name + "' " + op.irreducible);
  if (!site.target.advice.empty())
    failure = std::move(failure).remedy(Remedy::KeepOwnOperators, site.target.advice, site.target.name);
  return std::move(failure).at(site.node);
}

Error unansweredOutput(const LoweredSite &site, const OpDef &op, size_t output) {
  return Failure(ErrorKind::GradientNull, describeLowered(site) + ": the decomposition of operator '" + op.name +
                                              "' sets no value for output " + Twine(output) + ", which is read")
      .at(site.node)
      .note(kMistake);
}

Error endlessDecomposition(const LoweredSite &site, const OpDef &op) {
  return Failure(ErrorKind::GradientCount, describeLowered(site) + ": the decomposition does not end: '" + op.name +
                                               "' remains after " + Twine(kMaxDecompositions) + " levels")
      .at(site.node)
      .note(kMistake);
}

Error hugeDecomposition(const LoweredSite &site) {
  return Failure(ErrorKind::TooLarge,
                 describeLowered(site) + ": the decomposition has more than " + Twine(kMaxDecomposedNodes) + " nodes")
      .at(site.node);
}

}  // namespace gradc
