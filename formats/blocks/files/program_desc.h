// Paddle's own file of a program: `ProgramDesc` of framework.proto as a protocol buffer (`__model__`, `.pdmodel`).
// Tested by tests/formats/blocks/program_desc_test.cc
#pragma once

#include "formats/blocks/files/block_file.h"

namespace gradc {

/// True for bytes that begin with a ProgramDesc whose first block is block 0.
bool looksLikeProgramDesc(llvm::StringRef bytes);

/// Reads the program. Parameters are in the order in which operators first read them; those of one operator are
/// weights, then biases, then those with stop_gradient, which are not trainable. The rest follows in the file's order.
/// Attributes that do not affect what is computed are left out: op_namescope, op_device, with_quant_attr, struct_name.
/// Unknown fields are skipped.
///
/// Linear. Errors: BadJson (E-33) for bytes that are not such a message, missing required fields, names that are not
/// UTF-8 and values of unknown types, naming block, operator, attribute or variable; those of verifyBlocks.
llvm::Expected<BlockFile> readProgramDesc(Context &context, llvm::StringRef bytes);

}  // namespace gradc
