// Paddle's file of a program: `ProgramDesc` of framework.proto as a protocol buffer (`__model__`, `.pdmodel`).
//
// Unknown fields are skipped, and so are attributes that do not affect what is computed: op_namescope, op_device,
// with_quant_attr, struct_name. Tested by tests/formats/blocks/program_desc_test.cc
#pragma once

#include "formats/blocks/files/block_file.h"

namespace gradc {

/// True for bytes that begin with a ProgramDesc whose first block is block 0.
bool looksLikeProgramDesc(llvm::StringRef bytes);

/// Parameters are in the order in which operators first read them; those of one operator are weights, then biases, then
/// those with stop_gradient, which are not trainable. BadJson (E-33), naming block, operator, attribute or variable,
/// for bytes that are not such a message, missing required fields, names that are not UTF-8 and values of unknown
/// types; errors of verifyBlocks. Linear.
llvm::Expected<BlockFile> readProgramDesc(Context &context, llvm::StringRef bytes);

}  // namespace gradc
