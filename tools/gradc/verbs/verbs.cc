// `gradc --help` and `gradc help VERB`. Tested by tests/tools/cli_test.cc
#include "tools/gradc/verbs/verbs.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr const Verb *kVerbs[] = {&kGrad,    &kInfer,  &kPlan, &kRun, &kTrain, &kGradcheck,
                                  &kConvert, &kVerify, &kShow, &kOpt, &kOps,   &kDiff};
constexpr size_t kWidth = 80;

/// Fills the words of `text` into lines of kWidth columns, all but the first indented; the cursor is at `column`.
void printWrapped(raw_ostream &os, StringRef text, size_t indent, size_t column) {
  SmallVector<StringRef, 32> words;
  text.split(words, ' ', -1, false);
  for (StringRef word : words) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      os << '\n';
      os.indent(static_cast<unsigned>(indent));
      column = indent;
    } else if (column > indent) {
      os << ' ';
      ++column;
    }
    os << word;
    column += word.size();
  }
  os << '\n';
}

void printFlag(raw_ostream &os, const Flag &flag) {
  constexpr size_t kIndent = 26;
  std::string left = "  " + std::string(flag.name == "output" ? "-o, " : "") + "--" + flag.name.str();
  if (!flag.value.empty()) left += (flag.name == "output" ? " " : "=") + flag.value.str();
  os << left;
  size_t column = left.size();
  if (column + 2 > kIndent) {
    os << '\n';
    column = 0;
  }
  os.indent(static_cast<unsigned>(kIndent - column));
  printWrapped(os, flag.help, kIndent, kIndent);
}

void printIndentedLines(raw_ostream &os, StringRef lines) {
  SmallVector<StringRef, 8> list;
  lines.split(list, '\n', -1, false);
  for (StringRef line : list) os << "  " << line << '\n';
}

}  // namespace

ArrayRef<const Verb *> allVerbs() { return kVerbs; }

Expected<const Verb *> findVerb(StringRef name) {
  std::vector<StringRef> names;
  for (const Verb *verb : kVerbs) {
    if (verb->name == name) return verb;
    names.push_back(verb->name);
  }
  Failure failure(ErrorKind::Usage, "unknown verb '" + name + "'");
  std::string close = joinMatches(closeMatches(name, names), "");
  if (!close.empty()) return std::move(failure).note("did you mean " + close + "?");
  return std::move(failure).note("the verbs are " + llvm::join(names, ", ") + "; `gradc --help` explains them");
}

void printHelp(raw_ostream &os) {
  os << "gradc: an ahead-of-time gradient compiler.\n\n"
        "Reads a neural network (a symbol JSON graph of MXNet or NNVM, or a program of\n"
        "Paddle), emits the graph that computes its gradients, and runs it.\n\n"
        "usage: gradc VERB [FLAGS] [FILE]\n\n";
  for (const Verb *verb : kVerbs) os << "  " << left_justify(verb->name, 12) << verb->summary << '\n';
  os << "\nTry:\n"
        "  gradc show model.json                        what is in this file?\n"
        "  gradc grad model.json -o train.json          its gradient graph\n"
        "  gradc gradcheck model.json --shape data=8,1,28,28 --init 1\n"
        "                                               are the gradients right?\n"
        "  gradc run train.json --shape data=8,1,28,28 --init 1 --train --outputs step.npz\n"
        "                                               one training step\n"
        "  gradc plan train.json --shape data=8,1,28,28 --report\n"
        "                                               how much memory does it need?\n\n"
        "`gradc help VERB` explains a verb and its flags, `gradc --version` prints the\n"
        "version. A FILE of `-`, or none, is standard input. Results go to standard output\n"
        "or to `-o FILE`; messages to standard error.\n"
        "Exit codes: 0 done or equal; 1 input or request rejected, graphs differ, check\n"
        "failed; 2 wrong usage or unreadable file; 70 a bug in gradc.\n";
}

void printHelp(raw_ostream &os, const Verb &verb) {
  os << "gradc " << verb.name << ": " << verb.summary << "\n\nusage: gradc " << verb.name << " [FLAGS] "
     << verb.arguments << "\n\n";
  SmallVector<StringRef, 4> paragraphs;
  verb.description.split(paragraphs, '\n', -1, false);
  for (StringRef paragraph : paragraphs) {
    printWrapped(os, paragraph, 0, 0);
    os << '\n';
  }
  os << "Flags:\n";
  for (StringRef name : verb.flags) printFlag(os, *findFlag(name));
  os << "\nExamples:\n";
  printIndentedLines(os, verb.examples);
}

}  // namespace gradc
