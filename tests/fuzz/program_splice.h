// Two programs of blocks as one. Tested by tests/fuzz_programs_test.cc
#pragma once

#include "tests/fuzz/program_view.h"

namespace gradc::fuzz {

/// Adds the blocks of `part`, which reads some values of the program.
void spliceProgram(ProgramView &program, nlohmann::json part);

}  // namespace gradc::fuzz
