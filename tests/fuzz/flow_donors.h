// Loops, branches and calls whose bodies run, as donors: no conformance sample has a body. Tested by
// tests/networks/fuzz_corpus_test.cc
#pragma once

#include "tests/fuzz/sketch.h"

namespace gradc::fuzz {

/// Valid graphs, fully inferred; each body reads all its inputs.
std::vector<GraphSketch> flowDonors();

}  // namespace gradc::fuzz
