// Names of generated nodes (§18).
//
// In the unique style (NAME-09) a regular name is `<user's name><marker>…`, with a marker no user name contains; then
// distinct user names and suffixes give distinct names and nothing needs checking. Whether user names are distinct and
// free of markers is found by one pass over 64-bit hashes in cache-sized buckets. Where that fails (a gradient graph
// differentiated again, duplicate names), every name goes through one set of hashes instead. A hash collision only adds
// a counter to a name that did not need one, the same one on every run.
#pragma once

#include "passes/gradient/gradient.h"

#include "ir/graph_builder.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallString.h"

namespace gradc {

class Namer {
 public:
  /// Takes the names of `base` as given.
  Namer(GraphBuilder &builder, const Graph &base, NamingStyle style);

  /// Names `n` part1 + part2; in the unique style with "_1", "_2", … behind it when the name is taken. part1 is the name
  /// of a base node and part2 starts with a marker, or the name is checked.
  void name(NodeId n, llvm::StringRef part1, llvm::StringRef part2);
  /// Names the nodes [first, last) after their forward node: `<base>_backward`, or `<base>_backward_<k>` for several
  /// (NAME-01). Nodes that have a name keep it.
  void nameBackward(uint32_t first, uint32_t last, NodeId forward);

  NamingStyle style() const { return namingStyle; }

 private:
  /// Hashes by their top bits; `isClean` when all differ and no name contains a marker.
  void bucketBaseNames(const Graph &base);
  bool hasDuplicates() const;
  bool isTakenByBase(uint64_t hash) const;
  /// From here on every name is checked against every name given so far.
  void checkEverything();
  bool insert(uint64_t hash);
  void grow();
  bool claim(llvm::StringRef name);

  GraphBuilder &builder;
  NamingStyle namingStyle;
  uint32_t numBase;
  bool isRegular = false;                       // regular names need no check
  std::vector<uint64_t> hashes;                 // of the base names, bucket by bucket
  std::vector<uint32_t> bucketBegin;
  std::vector<uint64_t> table;                  // open addressing, 0: empty
  size_t count = 0;
  llvm::DenseMap<uint64_t, uint64_t> lastCounter;  // by half the hash of a name that was taken
  llvm::SmallString<64> scratch, candidate;
};

}  // namespace gradc
