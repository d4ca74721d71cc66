// Columns over the texts of a table. Tested by tests/append_backward_test.cc
#include "formats/blocks/gradient_names.h"

#include "passes/gradient/fluid_names.h"

using namespace llvm;

namespace gradc {

TextId GradientNames::gradient(TextId name) {
  if (name.value >= gradients.size()) gradients.resize(texts.size());
  if (!gradients[name.value].isValid()) {
    const TextId gradient = texts.intern((texts.text(name) + "@GRAD").str());
    gradients[name.value] = gradient;
  }
  return gradients[name.value];
}

bool GradientNames::isGradient(TextId name) {
  if (name.value >= isGradientName.size()) isGradientName.resize(texts.size());
  Answer &answer = isGradientName[name.value];
  if (answer == Answer::Unknown) answer = texts.text(name).contains("@GRAD") ? Answer::Yes : Answer::No;
  return answer == Answer::Yes;
}

TextId GradientNames::stripped(TextId name) { return texts.intern(stripGradSuffix(texts.text(name))); }

}  // namespace gradc
