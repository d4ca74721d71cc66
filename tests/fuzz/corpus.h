// The files that are replayed, testdata/fuzz/. docs/fuzzing.md
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace gradc::fuzz {

struct CorpusFile {
  std::string origin;  // "testdata/fuzz/no_heads.json", "testdata/fuzz/corpus.jsonl:17"
  std::string text;
};

/// Each .json in `folder`, and each line of each .jsonl, sorted. A line that is a JSON string stands for its value: a
/// file that is not JSON.
std::vector<CorpusFile> readCorpus(llvm::StringRef folder);

}  // namespace gradc::fuzz
