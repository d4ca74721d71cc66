// Loops, branches and calls whose bodies run, as donors: no conformance sample has a body. Tested by tests/fuzz_corpus_test.cc
#pragma once

#include "tests/fuzz/sketch.h"

namespace gradc::fuzz {

/// Right graphs, fully inferred; each body reads all that it is given.
std::vector<GraphSketch> flowDonors();

}  // namespace gradc::fuzz
