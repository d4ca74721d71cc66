// Columns over the texts of a table. Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/program/gradient_names.h"

#include "passes/gradient/naming.h"

using namespace llvm;

namespace gradc {

TextId GradientNames::gradient(TextId name) {
  if (name == kEmptyName) return kEmptyName;
  if (name.value >= gradients.size()) gradients.resize(texts.size());
  if (!gradients[name.value].isValid()) {
    const TextId gradient = texts.intern((texts.text(name) + "@GRAD").str());
    gradients[name.value] = gradient;
    if (gradient.value >= variables.size()) variables.resize(texts.size());
    if (stripGradSuffix(texts.text(gradient)) == texts.text(name)) variables[gradient.value] = name;
  }
  return gradients[name.value];
}

bool GradientNames::isGradient(TextId name) {
  if (name.value >= isGradientName.size()) isGradientName.resize(texts.size());
  Answer &answer = isGradientName[name.value];
  if (answer == Answer::Unknown) answer = texts.text(name).contains("@GRAD") ? Answer::Yes : Answer::No;
  return answer == Answer::Yes;
}

TextId GradientNames::stripped(TextId name) {
  if (name.value < variables.size() && variables[name.value].isValid()) return variables[name.value];
  return texts.intern(stripGradSuffix(texts.text(name)));
}

}  // namespace gradc
