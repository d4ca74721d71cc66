// R1, the header is the door: what x.h declares is defined in x.cc or in x.h, and no x.cc is without x.h. Tested by
// tests/house/house_test.cc
//
// A file that only adds rows to a table needs no header: in ops/<kind>/, formats/blocks/ops/ and runtime/kernels/, and
// verb_*.cc. Its last definition is those rows, a constant or a function that returns them, and the table declares it.
// main.cc needs none either. The one header that declares what other files define is ops/kit/primitives.h, which names
// each of them.
#pragma once

#include "tests/house/tree.h"

namespace gradc::house {

/// "x.h name y.cc" for what is declared in x.h and defined in y.cc, "y.cc has no header".
std::vector<std::string> findDetachedDefinitions(const Tree &tree);

}  // namespace gradc::house
