// How a user of the command line asks for what a note of the library advises. Tested by testdata/cli and
// tests/cli_test.cc
#pragma once

#include "ir/error.h"

namespace gradc {

/// The note's text, or, if its remedy is one, the text that names the flag.
std::string noteText(const Note &note);

}  // namespace gradc
