// The verbs of gradc: one row each, with the help that teaches it and the function that does it.
// Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/common/tool.h"

namespace gradc {

struct Verb {
  llvm::StringRef name;
  llvm::StringRef arguments;    // after the flags, for the usage line
  llvm::StringRef summary;      // one line
  llvm::StringRef description;  // paragraphs, wrapped at 80 columns
  llvm::StringRef examples;     // one command per line
  llvm::ArrayRef<llvm::StringRef> flags;
  uint32_t minFiles, maxFiles;
  bool writesGraph = false;                          // --output is FILE in another form, and may replace it
  bool takesOperators = false;                       // names of operators, in place of files
  llvm::Expected<int> (*run)(Tool &tool) = nullptr;  // the exit code: 0, or 1 for "differs", "check failed"
};

extern const Verb kGrad, kInfer, kPlan, kRun, kTrain, kGradcheck, kConvert, kVerify, kShow, kOpt, kOps, kDiff;

/// In the order `gradc --help` lists them.
llvm::ArrayRef<const Verb *> allVerbs();
/// Usage with "did you mean" for an unknown one.
llvm::Expected<const Verb *> findVerb(llvm::StringRef name);

void printHelp(llvm::raw_ostream &os);
void printHelp(llvm::raw_ostream &os, const Verb &verb);

}  // namespace gradc
