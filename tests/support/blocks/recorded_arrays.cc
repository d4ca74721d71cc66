#include "tests/support/blocks/recorded_arrays.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <nlohmann/json.hpp>

using namespace llvm;

namespace gradc::testing {

template <class T> static void fill(Array &array, const nlohmann::json &of) {
  const std::vector<T> values = of["values"];
  array.bytes.resize(values.size() * sizeof(T));
  for (auto [i, value] : enumerate(values)) array.ref().as<T>()[i] = value;
}

Array recordedArray(const nlohmann::json &of) {
  const std::string type = of.value("dtype", "float64");
  Array array{*parseDType(type), {}, {}};
  for (int64_t size : of["shape"]) array.shape.push_back(size);
  if (type == "int32") fill<int32_t>(array, of);
  else if (type == "int64") fill<int64_t>(array, of);
  else if (type == "float32") fill<float>(array, of);
  else fill<double>(array, of);
  return array;
}

std::vector<std::string> recordedNames(StringRef folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (sys::fs::directory_iterator at(folder, error), end; at != end && !error; at.increment(error))
    names.push_back(sys::path::stem(at->path()).str());
  llvm::sort(names);
  return names;
}

}  // namespace gradc::testing
