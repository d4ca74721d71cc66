// Files of the corpus. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/corpus.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace llvm;
using nlohmann::json;

namespace gradc::fuzz {

std::vector<CorpusFile> readCorpus(StringRef folder) {
  std::vector<std::string> paths;
  std::error_code code;
  for (sys::fs::directory_iterator at(folder, code), end; at != end && !code; at.increment(code))
    paths.push_back(at->path());
  std::sort(paths.begin(), paths.end());
  std::vector<CorpusFile> files;
  for (const std::string &path : paths) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
    if (!buffer) continue;
    const StringRef text = (*buffer)->getBuffer();
    if (StringRef(path).ends_with(".json")) files.push_back({path, text.str()});
    if (!StringRef(path).ends_with(".jsonl")) continue;
    SmallVector<StringRef, 0> lines;
    text.rtrim('\n').split(lines, '\n');
    for (size_t i = 0; i < lines.size(); ++i) {
      const StringRef line = lines[i];
      files.push_back({path + ":" + std::to_string(i + 1),
                       line.starts_with("\"") ? json::parse(line.begin(), line.end()).get<std::string>() : line.str()});
    }
  }
  return files;
}

}  // namespace gradc::fuzz
