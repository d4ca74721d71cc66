// The call that differentiates a program, and its result, from the elements of the file. Tested by
// tests/formats/blocks/block_file_test.cc
#pragma once

#include "formats/blocks/files/block_file.h"
#include "formats/blocks/files/json_element.h"

namespace gradc {

/// Sets file.call and warns of unknown keys.
llvm::Error readCall(JsonCursor json, BlockFile &file);
/// Sets file.result.
llvm::Error readResult(JsonCursor json, BlockFile &file);

}  // namespace gradc
