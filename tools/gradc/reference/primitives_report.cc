// The list of primitives, and what every other operator ends in. Tested by tests/tools/golden_test.cc
#include "tools/gradc/reference/primitives_report.h"

#include "tools/gradc/reference/operator_trials.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

std::string gradientText(const OpDef &op, const OperatorTrials &trials) {
  if (op.flags.hasNoGradient) return "none: nothing flows through it";
  auto found = trials.gradient.find(&op);
  if (found == trials.gradient.end() || found->second.empty()) return "the head gradient alone, or nothing";
  return namesOf(found->second);
}

void printList(raw_ostream &os, ArrayRef<const OpDef *> operators, const OperatorTrials &trials) {
  os << "| operator | formula | gradient made of | ONNX opset 18 | C |\n|---|---|---|---|---|\n";
  for (const OpDef *op : operators)
    if (op->primitive)
      os << "| `" << op->name << "` | " << markdownCell(op->summary) << " | " << gradientText(*op, trials) << " | "
         << markdownCell(op->primitive.onnx) << " | `" << markdownCell(op->primitive.c) << "` |\n";
}

}  // namespace

void printPrimitives(raw_ostream &os, Context &context) {
  const OperatorTrials trials(context);
  const std::vector<const OpDef *> all = context.ops.all();
  const auto number = llvm::count_if(all, [](const OpDef *op) { return bool(op->primitive); });
  os << "# Primitives\n\nWritten by `gradc ops --primitives`. Operators decompose until only these " << number
     << " are left, and what\nno primitives express, which is listed at the end.\n\n";
  printList(os, all, trials);
  os << "\n## What the other operators end in\n\n| operator | primitives |\n|---|---|\n";
  std::string irreducible;
  for (const OpDef *op : all) {
    if (op->primitive) continue;
    if (!op->irreducible.empty())
      irreducible += "| `" + op->name.str() + "` | " + markdownCell(op->irreducible) + " |\n";
    else os << "| `" << op->name << "` | " << trials.endsIn(*op) << " |\n";
  }
  if (!irreducible.empty()) os << "\n## Not reducible\n\n| operator | why |\n|---|---|\n" << irreducible;
}

}  // namespace gradc
