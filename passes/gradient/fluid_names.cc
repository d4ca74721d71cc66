// One name per generated node. Tested by tests/passes/gradient/gradient_styles_test.cc
#include "passes/gradient/fluid_names.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kGrad = "@GRAD";
constexpr StringRef kAgain = "grad/";
constexpr uint32_t kMaxAgain = 16;

}  // namespace

FluidNames::FluidNames(GraphBuilder &builder, const Graph &base, uint32_t order)
    : builder(builder), numBase(base.numNodes()), order(order), names(base, 0) {}

std::string FluidNames::variable(Value entry) const {
  std::string name = builder.name(entry.node).str();
  return name.empty() || !entry.index ? name : name + ":" + utostr(entry.index);
}

// NAME-07: measured on three calls, `x@GRAD`, `grad/grad/x@GRAD`, `grad/grad/grad/x@GRAD`.
void FluidNames::name(NodeId n, const std::string &wanted) {
  std::string candidate = wanted;
  while (!names.add(candidate)) candidate = again(wanted, attempts[wanted]++);
  builder.setName(n, candidate, "");
}

std::string FluidNames::again(StringRef wanted, uint32_t attempt) const {
  const uint64_t times = uint64_t{std::max(order, 2u)} + attempt;
  std::string name;
  for (uint64_t i = 0; i < times && i < kMaxAgain; ++i) name += kAgain;
  name += wanted;
  if (times > kMaxAgain) name += "@" + utostr(times - kMaxAgain);
  return name;
}

void FluidNames::nameGradient(Value entry, Value gradient) {
  std::string of = variable(entry);
  if (isOpen(gradient.node) && !of.empty() && gradients.insert(of).second) name(gradient.node, of + kGrad.str());
}

void FluidNames::nameSummands(Value entry, ArrayRef<Value> summands) {
  std::string of = variable(entry);
  for (size_t k = 0; k < summands.size() && !of.empty(); ++k)
    if (isOpen(summands[k].node)) name(summands[k].node, of + "@GRAD@RENAME@block0@" + utostr(k));
}

void FluidNames::nameAddition(Value entry, NodeId n, size_t k) {
  if (std::string of = variable(entry); !of.empty()) name(n, of + "@GRAD@ADD@" + utostr(k));
}

void FluidNames::nameZero(Value entry, NodeId n) {
  if (std::string of = variable(entry); !of.empty()) name(n, of + "@ZERO");
}

void FluidNames::nameTap(Value entry, Value gradient, NodeId n) {
  nameGradient(entry, gradient);
  if (std::string of = variable(entry); !of.empty()) name(n, of + "@GRAD@TAP");
}

void FluidNames::nameRest() {
  for (uint32_t n = numBase; n < builder.numNodes(); ++n) {
    if (!isOpen(NodeId(n))) continue;
    NodeId origin = builder.origin(NodeId(n));
    if (origin.isValid())
      builder.setName(NodeId(n), names.takeNumbered((builder.name(origin) + "_backward").str()), "");
  }
}

StringRef stripGradSuffix(StringRef name) {
  for (size_t at = name.find(kGrad); at != StringRef::npos; at = name.find(kGrad, at + 1)) {
    StringRef rest = name.drop_front(at + kGrad.size());
    if (!rest.empty() && rest[0] != '@') continue;
    name = name.take_front(at);
    break;
  }
  while (name.consume_front(kAgain)) {}
  return name;
}

}  // namespace gradc
