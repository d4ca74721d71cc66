// Where in a JSON text a byte is, as a path: `nodes[17].inputs[0]`.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace gradc {

/// Path to the value that contains the byte at `offset`; empty at the root. The text has to be JSON up to there. Long
/// paths end in "…". Linear: only errors need it, so reading a file keeps nothing for it.
std::string jsonPathAt(llvm::StringRef text, size_t offset);

}  // namespace gradc
