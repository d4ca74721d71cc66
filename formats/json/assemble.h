// Turns the columns of a parsed file into Graphs: upgrade, operators, arity, canonical order, remapped attributes.
// Tested by tests/formats/json/json_reader_test.cc
#pragma once

#include "formats/json/raw_graph.h"
#include "formats/json/reader.h"

namespace gradc {

/// Consumes `file` and makes its graph, bodies first. Errors carry the byte offset of the node they concern.
llvm::Expected<LoadedGraph> assembleFile(Context &context, RawFile file);

}  // namespace gradc
