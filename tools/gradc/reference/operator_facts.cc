#include "tools/gradc/reference/operator_facts.h"

#include "drawing/table.h"
#include "passes/targets/target.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {

std::string rangeText(const AttrSpec &spec) {
  if (!spec.choices.empty()) return join(spec.choices, "|");
  bool hasLow = std::isfinite(spec.lowest), hasHigh = std::isfinite(spec.highest);
  if (hasLow && hasHigh) return formatNumber(spec.lowest) + " to " + formatNumber(spec.highest);
  if (hasLow) return "at least " + formatNumber(spec.lowest);
  return hasHigh ? "at most " + formatNumber(spec.highest) : "";
}

std::string defaultText(const AttrSpec &spec) {
  return spec.isRequired ? std::string("required") : "'" + spec.defaultText.str() + "'";
}

std::string portsText(const Ports &ports) {
  ArrayRef<StringRef> names = ports.names;
  if (ports.isVariadic) return "any number, arg0, arg1, ...";
  if (names.empty()) return ports.number ? "as many as the attributes give" : "none";
  const std::string list = join(names, ", ");
  return ports.number ? list + " (how many depends on the attributes)" : list;
}

std::string inputSetText(const OpDef &op, const InputSet &set) {
  if (set.contains) return "depends on the attributes";
  std::vector<std::string> names;
  for (uint32_t i = 0; i < 64; ++i)
    if (set.fixed >> i & 1)
      names.push_back(i < op.inputs.names.count ? op.inputs.names.names[i].str() : "#" + std::to_string(i));
  return join(names, ", ");
}

std::string gradientText(const OpDef &op, const OperatorTrials &trials, StringRef quote) {
  if (op.flags.hasNoGradient) return "none: nothing flows through it";
  if (op.flags.isStep) return "none: steps of optimizers are not differentiated";
  if (!op.isDifferentiable()) return "not available";
  const auto found = trials.gradientNodes.find(&op);
  const OperatorSet emitted = found == trials.gradientNodes.end() ? OperatorSet() : found->second;
  if (!emitted.empty() && llvm::all_of(emitted, [](const OpDef *node) { return node->flags.isZero; }))
    return op.piece ? "0 almost everywhere" : "zeros";
  const std::string source = op.gradient ? "a rule of its own" : "that of its decomposition";
  return source + (emitted.empty() ? "" : ", made of " + namesOf(emitted, quote));
}

StringRef typesText(const OpDef &op) {
  if (!op.kernel && !op.fastKernel) return "none: it cannot be executed";
  if (op.kernelTypes == kEveryType) return "all";
  if (!op.kernelTypes.contains(DType::Int32)) return "floating; 16 bits in float32";
  return op.flags.movesElements ? "all" : "floating, integers, bool; 16 bits in float32";
}

std::string targetsText(const OpDef &op) {
  NodeKind kind;
  kind.op = &op;
  std::vector<std::string> titles;
  for (const Target *target : {&kMxnetTarget, &kPrimitivesTarget})
    if (target->has(kind)) titles.push_back(target->title.str());
  const std::string text = titles.empty() ? "none" : join(titles, ", ");
  if (kMxnetTarget.has(kind)) return text;
  const bool hasRow = llvm::any_of(kMxnetTarget.rows, [&](const TargetRow &row) { return row.op == op.name; });
  return text + "; for " + kMxnetTarget.title.str() +
         (hasRow || op.decompose ? " lowered to its operators, where these can express it" : " it cannot be expressed");
}

std::vector<StringRef> notesOf(const OpDef &op) {
  struct Row {
    bool isSet;
    StringRef text;
  };
  const Row rows[] = {
      {op.flags.isBackward, "fused gradient operator; its first control dependency is the forward node"},
      {op.flags.isRandom, "draws random numbers"},
      {op.flags.isStateful, "keeps state outside its operands"},
      {op.flags.isZero, "always yields zeros"},
      {op.flags.isConstantInGradcheck, "its output counts as a constant when gradients are checked"},
      {op.impliedLoss != nullptr, "stands for a scalar loss: its gradient is that of the loss, not of its output"},
      {op.piece != nullptr, "smooth in pieces"},
      {!op.kernel && !op.fastKernel, "cannot be executed"},
  };
  std::vector<StringRef> notes;
  for (const Row &row : rows)
    if (row.isSet) notes.push_back(row.text);
  return notes;
}

}  // namespace gradc
