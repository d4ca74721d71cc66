// Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/raw_graph.h"

#include "ir/graph/context.h"

using namespace llvm;

namespace gradc {

AttrsId RawTables::intern(Context &context, ArrayRef<RawAttr> pairs) {
  const StringRef bytes(reinterpret_cast<const char *>(pairs.data()), pairs.size() * sizeof(RawAttr));
  auto [at, isNew] = pairIds.try_emplace(bytes);
  if (isNew) {
    SmallVector<AttrText, 16> list;
    for (RawAttr pair : pairs) list.push_back({text(pair.key), text(pair.value)});
    at->second = add(context.attrs(list));
  }
  return at->second;
}

}  // namespace gradc
