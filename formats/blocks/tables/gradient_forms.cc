// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/tables/gradient_forms.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr GradientFormRow kRows[] = {
#include "formats/blocks/tables/gradient_forms.def"
};

const StringMap<StringRef> &formsByType() {
  // Never destroyed, like the table below: threads may still read it while the process exits.
  static const StringMap<StringRef> &forms = *[] {
    auto *const byType = new StringMap<StringRef>();
    for (const GradientFormRow &form : kRows) (*byType)[form.type] = form.form;
    return byType;
  }();
  return forms;
}

GradientForm::Slot parseSlot(StringRef text) {
  GradientForm::Slot slot;
  slot.keepsEmpty = text.consume_back("?");
  std::tie(slot.name, slot.source) = text.split(" = ");
  if (slot.source.empty()) slot.source = slot.name;
  return slot;
}

const StringMap<GradientForm> &formsByGradient() {
  static const StringMap<GradientForm> &forms = *[] {
    auto *const byGradient = new StringMap<GradientForm>();
    for (const GradientFormRow &form : kRows) {
      if (form.form.empty() || form.form == "none") continue;
      GradientForm parsed = parseGradientForm(form.type, form.form);
      if (parsed.type.contains("_grad")) (*byGradient)[parsed.type] = std::move(parsed);
    }
    return byGradient;
  }();
  return forms;
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

const GradientForm *formOfGradient(StringRef type) {
  auto found = formsByGradient().find(type);
  return found == formsByGradient().end() ? nullptr : &found->second;
}

std::optional<StringRef> gradientForm(StringRef type) {
  auto found = formsByType().find(type);
  if (found == formsByType().end()) return std::nullopt;
  return found->second;
}

}  // namespace gradc
