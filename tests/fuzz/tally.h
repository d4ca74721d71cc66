// How often each operator was reached, summed over processes.
#pragma once

#include "ir/op/op.h"

#include "llvm/ADT/StringMap.h"

#include <array>
#include <cstdint>
#include <string>

namespace gradc::fuzz {

enum class Reached : uint8_t { Inferred, Run, Differentiated };

class Tally {
 public:
  void count(const OpDef &op, Reached what) { ++counts[op.name][static_cast<size_t>(what)]; }
  /// Lists the operator, whatever its counts.
  void list(const OpDef &op) { counts[op.name]; }
  uint64_t of(llvm::StringRef op, Reached what) const {
    const auto found = counts.find(op);
    return found == counts.end() ? 0 : found->second[static_cast<size_t>(what)];
  }
  /// One line per operator: name and the three counts. Adds to the lines already in the file.
  bool addTo(const std::string &path) const;
  /// False if there is no such file, or it is not a tally.
  bool read(const std::string &path);

 private:
  llvm::StringMap<std::array<uint64_t, 3>> counts;
};

}  // namespace gradc::fuzz
