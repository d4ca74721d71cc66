// The table of remedies.
#include "tools/gradc/common/remedies.h"

using namespace llvm;

namespace gradc {
namespace {

// `*` is the subject. A switch, not an array: the compiler reports a remedy that has no row.
constexpr StringRef rowOf(Remedy remedy) {
  switch (remedy) {
    case Remedy::None: return "";
    case Remedy::SaveOverwritten: return "--overwritten save keeps a copy of what the gradient needs";
    case Remedy::GiveShapes:
      return "give more shapes (--shape NAME=2,3); infer and plan can also leave some unknown (--partial)";
    case Remedy::GiveHeadGradient: return "give a head gradient with --seed *=NAME";
    case Remedy::GiveOrChooseHeads: return "give one with --seed *=NAME, or choose another --heads policy";
    case Remedy::StopGradient: return "stop the gradient there with --stop *, or request other variables";
    case Remedy::ChooseUnused: return "--unused none leaves it out, --unused zeros gives it a gradient of zeros";
    case Remedy::KeepOwnOperators: return "emit the graph without --dialect *";
    case Remedy::StartFromParameters:
      return "only a checkpoint written by training can be resumed; a file of parameters only provides initial "
             "values: --inputs";
    case Remedy::KeepForwardHeads: return "emit it with --emit combined";
    case Remedy::RunAsAnotherType: return "run it as another type: --dtype float32";
    case Remedy::DrawMissingValues: return "--init SEED fills what is not given";
    case Remedy::AllowMoreSteps:
      return "--max-iterations N, given where a program is read or a graph is run, allows more";
  }
  return "";
}

}  // namespace

std::string noteText(const Note &note) {
  if (note.remedy == Remedy::None) return note.text;
  const auto [before, after] = rowOf(note.remedy).split('*');
  const bool namesSubject = rowOf(note.remedy).contains('*');
  return (before + (namesSubject ? StringRef(note.subject) : StringRef()) + after).str();
}

}  // namespace gradc
