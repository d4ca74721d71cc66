// MXNet's files of parameters (`.params`: mx.nd.save, save_parameters), both ways, after MXNet 1.9.1's
// src/ndarray/ndarray.cc: a list of arrays, then a list of their names. Tested by tests/runtime/params_test.cc
#pragma once

#include "runtime/arrays/npy.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MemoryBuffer.h"

namespace gradc {

/// Whether bytes begin as such a file does.
bool isParams(llvm::StringRef bytes);

/// Arrays in the order of the file, without elements, which stay in it; every length is checked. Names lose the
/// prefixes `arg:` and `aux:`. Row-sparse and CSR arrays are read as dense ones, and `notes` says which. BadTensorFile
/// with the position in the file; also for arrays without name or value, and for two of one name.
llvm::Expected<std::vector<NamedArray>> openParams(std::shared_ptr<const llvm::MemoryBuffer> file,
                                                   llvm::StringRef place, std::vector<std::string> &notes);

/// Writes arrays as MXNet 1.9.1 does, with the prefix `aux:` for those that are auxiliary states and `arg:` for the
/// others. UnsupportedOption, with nothing written, for a dtype that MXNet lacks, and for an array without dimensions
/// or elements, which it takes for one without a value.
llvm::Error writeParams(llvm::raw_ostream &os, llvm::ArrayRef<NamedArray> arrays,
                        llvm::function_ref<bool(llvm::StringRef)> isAux);

}  // namespace gradc
