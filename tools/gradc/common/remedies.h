// How a user of the command line follows the advice in a note of the library. Tested by testdata/cli and
// tests/tools/cli_test.cc
#pragma once

#include "ir/base/error.h"

namespace gradc {

/// The note's text or, if it carries a remedy, the text that names the flag.
std::string noteText(const Note &note);

}  // namespace gradc
