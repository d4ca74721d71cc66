// The table of error kinds. Tested by tests/ir/error_test.cc
#include "ir/base/error.h"

#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace gradc {
namespace {

struct KindRow {
  StringRef name;
  StringRef row;
};

// A switch, not an array: the compiler reports a kind that has no row.
constexpr KindRow kindRow(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Unreachable: return {"unreachable", "E-01"};
    case ErrorKind::NotDifferentiable: return {"not_differentiable", "E-02"};
    case ErrorKind::ImplicitHead: return {"implicit_head", "E-03"};
    case ErrorKind::NoGraph: return {"no_graph", "E-04"};
    case ErrorKind::NoLiveOutput: return {"no_live_output", "E-05"};
    case ErrorKind::NotRequiresGrad: return {"not_requires_grad", "E-06"};
    case ErrorKind::EmptyXs: return {"empty_xs", "E-07"};
    case ErrorKind::NoInputs: return {"no_inputs", "E-08"};
    case ErrorKind::AuxX: return {"aux_x", "E-09"};
    case ErrorKind::DuplicateX: return {"duplicate", "E-10"};
    case ErrorKind::DuplicateY: return {"duplicate", "E-11"};
    case ErrorKind::ZerosForbidden: return {"option_conflict", "E-12"};
    case ErrorKind::UnsupportedOption: return {"unsupported_option", "E-13"};
    case ErrorKind::BadType: return {"bad_type", "E-14"};
    case ErrorKind::OptionConflict: return {"option_conflict", "E-15"};
    case ErrorKind::AlreadyMarked: return {"already_marked", "E-16"};
    case ErrorKind::NotMarked: return {"not_marked", "E-17"};
    case ErrorKind::BufferAlias: return {"buffer_alias", "E-18"};
    case ErrorKind::InplaceRecorded: return {"inplace_recorded", "E-19"};
    case ErrorKind::HistoryCleared: return {"history_cleared", "E-20"};
    case ErrorKind::BadCallback: return {"bad_callback", "E-21"};
    case ErrorKind::CallbackScope: return {"callback_scope", "E-22"};
    case ErrorKind::HookNotLeaf: return {"bad_hook", "E-23"};
    case ErrorKind::HookReturned: return {"bad_hook", "E-24"};
    case ErrorKind::LoopScope: return {"loop_scope", "E-25"};
    case ErrorKind::LengthMismatch: return {"control_flow_attr", "E-27"};
    case ErrorKind::StateChanged: return {"control_flow_attr", "E-28"};
    case ErrorKind::BranchesDiffer: return {"control_flow_attr", "E-29"};
    case ErrorKind::BadMutation: return {"bad_mutation", "E-30"};
    case ErrorKind::StaleVersion: return {"stale_version", "E-31"};
    case ErrorKind::UnknownOp: return {"unknown_op", "E-32"};
    case ErrorKind::BadJson: return {"bad_json", "E-33"};
    case ErrorKind::AmbiguousName: return {"ambiguous_name", "E-34"};
    case ErrorKind::GraphAttr: return {"graph_attr", "E-35"};
    case ErrorKind::MissingAttr: return {"missing_attr", "E-36"};
    case ErrorKind::HeadCount: return {"head_count", "E-37"};
    case ErrorKind::HeadShape: return {"head_shape", "E-38"};
    case ErrorKind::HeadDType: return {"head_dtype", "E-39"};
    case ErrorKind::GradientCount: return {"bad_gradient_rule", "E-40"};
    case ErrorKind::GradientNull: return {"bad_gradient_rule", "E-41"};
    case ErrorKind::Arity: return {"arity", "E-42"};
    case ErrorKind::Cycle: return {"cycle", "E-43"};
    case ErrorKind::ForeignEntry: return {"foreign_entry", "E-44"};
    case ErrorKind::EmptySum: return {"empty_sum", "E-45"};
    case ErrorKind::GradCount: return {"grad_count", "E-46"};
    case ErrorKind::MissingGradVar: return {"missing_grad_var", "E-47"};
    case ErrorKind::BadEntry: return {"bad_entry", "E-48"};
    case ErrorKind::InferConflict: return {"infer_conflict", "E-50"};
    case ErrorKind::Storage: return {"storage", "E-51"};
    case ErrorKind::TooManyHints: return {"too_many_hints", "E-52"};
    case ErrorKind::BadHint: return {"bad_hint", "E-53"};
    case ErrorKind::BackwardAttr: return {"backward_attr", "E-55"};
    case ErrorKind::BackwardMatch: return {"backward_match", "E-56"};
    case ErrorKind::GradShape: return {"grad_shape", "E-57"};
    case ErrorKind::InferMissing: return {"infer_missing", "E-58"};
    case ErrorKind::InplaceAttr: return {"inplace_attr", "E-60"};
    case ErrorKind::Device: return {"device", "E-61"};
    case ErrorKind::DTypeWidth: return {"dtype", "E-63"};
    case ErrorKind::BindingMissing: return {"binding", "E-70"};
    case ErrorKind::BindingMismatch: return {"binding", "E-71"};
    case ErrorKind::BindingSurplus: return {"binding", "E-72"};
    case ErrorKind::BadAttribute: return {"bad_attribute", ""};
    case ErrorKind::UnknownName: return {"unknown_name", ""};
    case ErrorKind::TooLarge: return {"too_large", ""};
    case ErrorKind::OverBudget: return {"over_budget", ""};
    case ErrorKind::BadPlan: return {"bad_plan", ""};
    case ErrorKind::BadTensorFile: return {"bad_tensor_file", ""};
    case ErrorKind::Usage: return {"usage", ""};
    case ErrorKind::Io: return {"io", ""};
    case ErrorKind::NotANumber: return {"not_a_number", ""};
    case ErrorKind::Internal: return {"internal", ""};
  }
  return {"internal", ""};
}

}  // namespace

char GradcError::ID = 0;

StringRef errorKindName(ErrorKind kind) { return kindRow(kind).name; }
StringRef errorRow(ErrorKind kind) { return kindRow(kind).row; }

void GradcError::log(raw_ostream &os) const {
  os << message << " [" << errorKindName(kind) << "]";
  for (const Note &note : notes) os << "\nnote: " << note.text;
}

Failure &&Failure::remedy(Remedy remedy, const Twine &text, const Twine &subject) && {
  Note &note = info->notes.emplace_back();
  note.text = text.str();
  note.remedy = remedy;
  note.subject = subject.str();
  return std::move(*this);
}

std::error_code GradcError::convertToErrorCode() const { return inconvertibleErrorCode(); }

Error amend(Error error, function_ref<void(GradcError &)> edit) {
  return handleErrors(std::move(error), [&](std::unique_ptr<GradcError> info) -> Error {
    edit(*info);
    return Error(std::move(info));
  });
}

std::string countOf(uint64_t count, StringRef noun, StringRef plural) {
  if (count == 1) return ("1 " + noun).str();
  return (Twine(count) + " " + (plural.empty() ? noun + "s" : Twine(plural))).str();
}

}  // namespace gradc
