// Tested by tests/runtime/params_test.cc
#include "runtime/arrays/archive.h"

#include "runtime/arrays/npz_reader.h"
#include "runtime/arrays/params.h"

using namespace llvm;

namespace gradc {

Expected<std::vector<NamedArray>> openArchive(std::shared_ptr<const MemoryBuffer> file, StringRef place,
                                              std::vector<std::string> &notes) {
  if (isParams(file->getBuffer())) return openParams(std::move(file), place, notes);
  return openNpz(std::move(file), place);
}

}  // namespace gradc
