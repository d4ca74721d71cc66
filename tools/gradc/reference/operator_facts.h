// What the operator reference says about a definition, in words. Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/reference/operator_trials.h"

#include "ir/op/op.h"

#include <string>
#include <vector>

namespace gradc {

/// "at least 0", "-1 to 3", "avg|max": the values that an attribute may have; empty if its type says enough.
std::string rangeText(const AttrSpec &spec);
/// "required" or the default, as a file spells it.
std::string defaultText(const AttrSpec &spec);
/// "data, weight, bias (how many depends on the attributes)".
std::string portsText(const Ports &ports);
/// Names of the inputs in the set, or that it depends on the attributes. Empty: no input.
std::string inputSetText(const OpDef &op, const InputSet &set);
/// Where the gradient comes from, and the operators that it is made of by the trials, their names between `quote`s.
std::string gradientText(const OpDef &op, const OperatorTrials &trials, llvm::StringRef quote = "`");
/// Element types the reference kernel computes in.
llvm::StringRef typesText(const OpDef &op);
/// The targets that have the operator, and what becomes of it for MXNet 1.9.1 if that is not among them.
std::string targetsText(const OpDef &op);
/// "smooth in pieces", "draws random numbers", …
std::vector<llvm::StringRef> notesOf(const OpDef &op);

}  // namespace gradc
