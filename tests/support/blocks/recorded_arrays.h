// Values that tests/oracles/paddle_record.py has recorded.
#pragma once

#include "runtime/arrays/npy.h"

#include "llvm/ADT/StringRef.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace gradc::testing {

/// `{"shape": [2], "values": [1, 2]}`, of float64 unless `dtype` is float32, int32 or int64.
Array recordedArray(const nlohmann::json &of);
/// The files of a folder of recordings, without `.json`, sorted.
std::vector<std::string> recordedNames(llvm::StringRef folder);

}  // namespace gradc::testing
