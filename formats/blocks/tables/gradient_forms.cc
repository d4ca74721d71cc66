// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/tables/gradient_forms.h"

#include "ir/base/sorted_table.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr GradientFormRow kRows[] = {
#include "formats/blocks/tables/gradient_forms.def"
};

/// The type of the gradient operator in the text of a form; empty if it serves forward as well.
constexpr std::string_view gradientType(std::string_view form) {
  constexpr std::string_view kEach = "each ";
  if (form.starts_with(kEach)) form.remove_prefix(kEach.size());
  const std::string_view type = form.substr(0, form.find(": "));
  return type.find("_grad") == type.npos ? std::string_view() : type;
}

/// The rows by type, and by the type of their gradient operator.
constexpr SortedTable kByType(kRows, [](const GradientFormRow &row) { return std::string_view(row.type); });
constexpr SortedTable kByGradient(kRows, [](const GradientFormRow &row) { return gradientType(row.form); });

GradientForm::Slot parseSlot(StringRef text) {
  GradientForm::Slot slot;
  slot.keepsEmpty = text.consume_back("?");
  std::tie(slot.name, slot.source) = text.split(" = ");
  if (slot.source.empty()) slot.source = slot.name;
  return slot;
}

}  // namespace

ArrayRef<GradientFormRow> gradientFormRows() { return kRows; }

GradientForm parseGradientForm(StringRef forward, StringRef text) {
  GradientForm form;
  form.forward = forward;
  form.isEach = text.consume_front("each ");
  auto [type, slots] = text.split(": ");
  auto [inputs, outputs] = slots.split(" -> ");
  form.type = type;
  for (StringRef slot : split(inputs, ", ")) form.inputs.push_back(parseSlot(slot));
  for (StringRef slot : split(outputs, ", ")) form.outputs.push_back(parseSlot(slot));
  return form;
}

bool isGradientType(StringRef type) { return kByGradient.find(type) != nullptr; }

std::optional<GradientForm> formOfGradient(StringRef type) {
  const GradientFormRow *row = kByGradient.find(type);
  if (!row) return std::nullopt;
  return parseGradientForm(row->type, row->form);
}

std::optional<StringRef> gradientForm(StringRef type) {
  const GradientFormRow *row = kByType.find(type);
  if (!row) return std::nullopt;
  return row->form;
}

}  // namespace gradc
