// Tallies in files. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/tally.h"

#include <fstream>
#include <map>

using namespace llvm;

namespace gradc::fuzz {

bool Tally::read(const std::string &path) {
  std::ifstream file(path);
  if (!file) return false;
  std::string name;
  std::array<uint64_t, 3> row;
  while (file >> name >> row[0] >> row[1] >> row[2])
    for (size_t i = 0; i < row.size(); ++i) counts[name][i] += row[i];
  return file.eof();
}

bool Tally::addTo(const std::string &path) const {
  Tally all = *this;
  all.read(path);
  std::map<std::string, std::array<uint64_t, 3>> sorted;
  for (const auto &row : all.counts) sorted[row.first().str()] = row.second;
  std::ofstream file(path);
  for (const auto &[name, row] : sorted) file << name << ' ' << row[0] << ' ' << row[1] << ' ' << row[2] << '\n';
  return bool(file.flush());
}

}  // namespace gradc::fuzz
