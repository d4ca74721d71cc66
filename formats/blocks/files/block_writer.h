// Writes the file of a block program. Tested by tests/formats/blocks/block_file_test.cc
#pragma once

#include "formats/blocks/files/block_file.h"

#include "llvm/Support/raw_ostream.h"

namespace gradc {

/// Canonical: keys sorted, no spaces. Reproduces a canonical file that `readBlocks` read byte for byte.
void writeBlocks(llvm::raw_ostream &os, const BlockFile &file);

}  // namespace gradc
