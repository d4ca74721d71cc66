// Errors of bad input and bad requests: kind, message, place, notes. Broken invariants are assertions instead.
//
//   return Failure(ErrorKind::Arity, "operator 'add' takes 2 inputs, got " + Twine(n)).at(node).note("…");
//
// Messages start in lower case, have no final period, quote names, and state both what was expected and what was found.
#pragma once

#include "ir/base/ids.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace gradc {

/// Stable kinds of the error catalogue. `errorKindName` is what scripts compare, `errorRow` the row of the
/// specification (E-xx).
enum class ErrorKind : uint8_t {
  Unreachable,        // E-01
  NotDifferentiable,  // E-02
  ImplicitHead,       // E-03
  NoGraph,            // E-04
  NoLiveOutput,       // E-05
  NotRequiresGrad,    // E-06
  EmptyXs,            // E-07
  NoInputs,           // E-08
  AuxX,               // E-09
  DuplicateX,         // E-10
  DuplicateY,         // E-11
  ZerosForbidden,     // E-12
  UnsupportedOption,  // E-13
  BadType,            // E-14
  OptionConflict,     // E-15
  AlreadyMarked,      // E-16
  NotMarked,          // E-17
  BufferAlias,        // E-18
  InplaceRecorded,    // E-19
  HistoryCleared,     // E-20
  BadCallback,        // E-21
  CallbackScope,      // E-22
  HookNotLeaf,        // E-23
  HookReturned,       // E-24
  LoopScope,          // E-25
  LengthMismatch,     // E-27
  StateChanged,       // E-28
  BranchesDiffer,     // E-29
  BadMutation,        // E-30
  StaleVersion,       // E-31
  UnknownOp,          // E-32
  BadJson,            // E-33
  AmbiguousName,      // E-34
  GraphAttr,          // E-35
  MissingAttr,        // E-36
  HeadCount,          // E-37
  HeadShape,          // E-38
  HeadDType,          // E-39
  GradientCount,      // E-40
  GradientNull,       // E-41
  Arity,              // E-42
  Cycle,              // E-43
  ForeignEntry,       // E-44
  EmptySum,           // E-45
  GradCount,          // E-46
  MissingGradVar,     // E-47
  BadEntry,           // E-48
  InferConflict,      // E-50
  Storage,            // E-51
  TooManyHints,       // E-52
  BadHint,            // E-53
  BackwardAttr,       // E-55
  BackwardMatch,      // E-56
  GradShape,          // E-57
  InferMissing,       // E-58
  InplaceAttr,        // E-60
  Device,             // E-61
  DTypeWidth,         // E-63
  BindingMissing,     // E-70
  BindingMismatch,    // E-71
  BindingSurplus,     // E-72
  BadAttribute,       // REG-19: an operator attribute that does not parse or is out of range
  UnknownName,        // a name the user typed that the graph does not have
  TooLarge,           // tensors that no memory plan can hold, or that this machine has no memory for
  NotANumber,         // HOOK-09: a gradient became NaN while gradients were watched for that
  OverBudget,         // the memory plan is larger than the user allows
  BadPlan,            // the plan checker found two live entries sharing bytes
  BadTensorFile,      // a malformed NPY or NPZ file
  Usage,              // wrong flags; exit code 2
  Io,                 // a file that cannot be read or written; exit code 2
  Internal,           // a bug of gradc; exit code 70
};

/// "not_differentiable", …
llvm::StringRef errorKindName(ErrorKind kind);
/// "E-02", …; empty for kinds outside the catalogue.
llvm::StringRef errorRow(ErrorKind kind);

/// One level of nesting: a body of a node.
struct BodyStep {
  NodeId owner;
  uint32_t body = 0;  // position among the owner's bodies
  friend auto operator<=>(const BodyStep &, const BodyStep &) = default;
};

/// Where an error belongs: nowhere, a node of the current graph or of a body in it, or a byte of the input text.
struct Place {
  NodeId node;
  int64_t offset = -1;              // byte offset into the input text, -1: none
  std::vector<BodyStep> path = {};  // from the current graph down to that of `node`
};

/// What the user can request instead. Notes use the library's terms; a front end translates them for its users
/// (tools/gradc/common/render.cc).
enum class Remedy : uint8_t {
  None,
  SaveOverwritten,      // copies of overwritten values
  GiveShapes,           // more hints, or unknown shapes allowed
  GiveHeadGradient,     // for the output `subject`
  GiveOrChooseHeads,    // the same, or another policy for all
  StopGradient,         // at the node `subject`
  ChooseUnused,         // the policy for an x that no y depends on
  KeepOwnOperators,     // no lowering to the target `subject`
  StartFromParameters,  // where a checkpoint is expected
  KeepForwardHeads,     // in the emitted graph
  RunAsAnotherType,
  DrawMissingValues,
  AllowMoreSteps,  // of the loops of a program of blocks
};

struct Note {
  std::string text;
  Place place = {};
  Remedy remedy = Remedy::None;
  std::string subject = {};  // the name that the remedy is about, if it needs one
};

class GradcError : public llvm::ErrorInfo<GradcError> {
 public:
  static char ID;
  ErrorKind kind;
  std::string message;
  Place place;
  std::vector<Note> notes;

  GradcError(ErrorKind kind, std::string message) : kind(kind), message(std::move(message)) {}
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;
};

/// Builds a GradcError in one expression; converts to llvm::Error and to any llvm::Expected.
class Failure {
 public:
  Failure(ErrorKind kind, const llvm::Twine &message) : info(std::make_unique<GradcError>(kind, message.str())) {}

  Failure &&at(NodeId node) && {
    info->place.node = node;
    return std::move(*this);
  }
  Failure &&atOffset(int64_t offset) && {
    info->place.offset = offset;
    return std::move(*this);
  }
  Failure &&note(const llvm::Twine &text) && {
    info->notes.push_back({text.str(), {}});
    return std::move(*this);
  }
  Failure &&note(const llvm::Twine &text, Place place) && {
    info->notes.push_back({text.str(), place});
    return std::move(*this);
  }
  Failure &&remedy(Remedy remedy, const llvm::Twine &text, const llvm::Twine &subject = "") &&;

  operator llvm::Error() && { return llvm::Error(std::move(info)); }
  template <class T> operator llvm::Expected<T>() && { return llvm::Error(std::move(info)); }

 private:
  std::unique_ptr<GradcError> info;
};

/// Lets `edit` change the GradcError inside `error` (add a place, a note); success and other errors pass unchanged.
llvm::Error amend(llvm::Error error, llvm::function_ref<void(GradcError &)> edit);

/// "1 input", "2 inputs"; "2 axes" with the plural given.
std::string countOf(uint64_t count, llvm::StringRef noun, llvm::StringRef plural = {});

}  // namespace gradc
