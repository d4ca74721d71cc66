// From the parser's events to RawGraph columns, one graph object at a time. What needs the whole graph (ids in range,
// operators, the upgrade) is left to formats/json/reader.cc. Tested by tests/formats/json/json_reader_test.cc
#pragma once

#include "formats/json/events.h"
#include "formats/json/graph_attrs.h"
#include "formats/json/raw_graph.h"
#include "ir/base/error.h"

#include "llvm/ADT/StringSet.h"

#include <array>
#include <memory>

namespace gradc {

/// A stack of contexts says which arrays and objects are open; the innermost one handles each event. Graph objects nest
/// (`subgraphs`), so what belongs to one graph is in a Frame. Nothing is allocated per node.
class GraphParser final : public JsonEvents {
 public:
  enum class In : uint8_t {
    Nothing,
    Graph,
    Nodes,
    Node,
    Attrs,
    Inputs,
    Input,
    Deps,
    Subgraphs,
    ArgNodes,
    RowPtr,
    Heads,
    Head,
    GraphAttrs,
    GraphAttr,  // the value of a graph attribute
    AttrValue,  // a node attribute that is not a string
    Ignored,    // the value of an unknown key
  };

  enum class Field : uint8_t {
    Nodes,
    ArgNodes,
    RowPtr,
    Heads,
    GraphAttrs,  // the last one of a graph; those of a node follow
    Op,
    Name,
    Param,
    Attr,
    Attrs,
    Inputs,
    ControlDeps,
    Subgraphs,
    BackwardSource,
    Unknown,
  };

  /// At most `maxNesting` graphs are nested in each other.
  GraphParser(Context &context, llvm::StringRef text, uint32_t maxNesting);
  /// The graphs of the text, or the first error.
  llvm::Expected<RawFile> run();

 private:
  /// A graph under construction and the node being read.
  struct Frame {
    RawGraph graph;
    uint32_t seenFields = 0;  // of the graph, by Field
    RawNode node;
    uint32_t seenNodeFields = 0;
    std::array<llvm::SmallVector<RawAttr, 8>, 3> pairs;  // of `param`, `attr` and `attrs`, in the order of the file
    llvm::StringSet<> unknownKeys, unknownNodeKeys;
  };

  bool onLiteral(llvm::StringRef literal) override;
  bool onInteger(int64_t value) override;
  bool onNegativeZero() override;
  bool onOtherNumber(llvm::StringRef spelled) override;
  bool onString(llvm::StringRef value) override;
  bool onKey(llvm::StringRef key) override;
  bool onOpen(char bracket) override;
  bool onClose(char bracket) override;
  bool onSyntaxError(size_t at, llvm::StringRef explanation) override;

  In current() const { return stack.back(); }
  bool enter(In context) { return stack.push_back(context), true; }
  bool leave() { return stack.pop_back(), true; }
  bool beginGraph();
  bool endGraph();
  bool beginNode();
  bool endNode();
  bool selectField(llvm::StringRef key, bool isNode);
  bool openField(JsonToken found, char bracket);
  bool addEntryNumber(int64_t value);
  bool endEntry();
  bool addNodeId(int64_t value);
  bool beginAttr(llvm::StringRef key);
  bool addAttr(llvm::StringRef value);
  AttrsId internAttrs();
  bool collect(In context, char bracket);
  bool endCollected();
  bool checkGraphAttr(bool isFine);

  int64_t offset() const { return position - text.data(); }
  int64_t tokenBegin(JsonToken found) const { return jsonTokenBegin(text, offset(), found); }
  bool fail(ErrorKind kind, int64_t at, const llvm::Twine &message);
  bool unexpected(JsonToken found);
  bool isUnknown(JsonToken found) { return field == Field::Unknown || unexpected(found); }
  bool lacksField(bool isNode);
  std::string expectation() const;
  std::string nodeLabel() const;

  Context &ctx;
  llvm::StringRef text;
  const char *position = nullptr;  // one past the last byte that the parser has seen
  uint32_t maxNesting;
  RawFile file;
  StrId originKey;

  llvm::SmallVector<In, 64> stack;
  std::vector<std::unique_ptr<Frame>> frames;
  Frame *top = nullptr;
  Field field = Field::Unknown;  // whose value comes next
  StrId attrKey;                 // of the node attribute whose value comes next
  std::string graphAttrKey;
  int64_t entry[3] = {};
  uint32_t entryLength = 0;
  uint32_t attrsSerial = 0;          // of the attribute object being read
  std::vector<uint32_t> lastSerial;  // by StrId: the attribute object that had this key last
  JsonText collected;                // value of an AttrValue or Ignored context
  GraphAttrReader graphAttr;
  std::unique_ptr<GradcError> error;
};

}  // namespace gradc
