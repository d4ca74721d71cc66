// From the columns of a parsed file to Graphs: upgrade, operators, arity, canonical order, attributes that follow.
// Tested by tests/json_reader_test.cc
#pragma once

#include "formats/json/raw.h"
#include "formats/json/reader.h"

namespace gradc {

/// Makes the graph of `file`, which is used up, its bodies first. Errors carry the byte offset of the node they are about.
llvm::Expected<LoadedGraph> assembleFile(Context &context, RawFile file);

}  // namespace gradc
