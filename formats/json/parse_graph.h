// The parser's event handler: from SAX events to RawGraph columns, one graph object at a time.
//
// A stack of contexts says which array or object is open; each event is handled by the innermost one. Graph objects
// nest
// (`subgraphs`), so what belongs to one graph lives in a Frame. Nothing is allocated per node. What needs the whole
// graph (ids in range, operators, the upgrade) is left to formats/json/assemble.h. Tested by
// tests/formats/json/json_reader_test.cc
#pragma once

#include "formats/json/events.h"
#include "formats/json/graph_attrs.h"
#include "formats/json/json_text.h"
#include "formats/json/raw_graph.h"
#include "ir/base/error.h"

#include "llvm/ADT/StringSet.h"

#include <memory>
#include <optional>

namespace gradc {

class JsonHandler final : public JsonEvents {
 public:
  /// The reader of the text keeps `position` one past the last byte that the parser has seen.
  JsonHandler(Context &context, llvm::StringRef text, const char *const &position, uint32_t maxNesting);

  bool onLiteral(llvm::StringRef literal) override;
  bool onInteger(int64_t value) override;
  bool onNegativeZero() override;
  bool onOtherNumber(llvm::StringRef spelled) override;
  bool onString(llvm::StringRef value) override;
  bool onKey(llvm::StringRef key) override;
  bool onOpen(char bracket) override;
  bool onClose(char bracket) override;
  bool onSyntaxError(size_t offset, llvm::StringRef explanation) override;

  /// The file, or the first error.
  llvm::Expected<RawFile> finish();

 private:
  using Found = JsonToken;
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
    None,
    Nodes,
    ArgNodes,
    RowPtr,
    Heads,
    GraphAttrs,  // of a graph
    Op,
    Name,
    Param,
    Attr,
    Attrs,
    Inputs,
    ControlDeps,
    Subgraphs,
    BackwardSource,  // of a node
    Unknown,
  };
  /// A graph under construction and the node being read.
  struct Frame {
    RawGraph graph;
    uint32_t seenFields = 0;  // of the graph, by Field
    RawNode node;
    uint32_t seenNodeFields = 0;
    llvm::SmallVector<RawAttr, 16> pairs;    // attributes in the order of the file
    llvm::SmallVector<Field, 16> spellings;  // of each pair: Param, Attr or Attrs
    llvm::StringSet<> unknownKeys, unknownNodeKeys;
  };

  In current() const { return stack.back(); }
  bool enter(In context);
  bool leave();
  bool beginGraph();
  bool endGraph();
  bool beginNode();
  bool endNode();
  bool openGraphField(char bracket);
  bool openNodeField(char bracket);
  static Field nodeField(llvm::StringRef key);
  static Field graphField(llvm::StringRef key);
  bool selectField(Field known, llvm::StringRef key);
  bool addEntryNumber(int64_t value);
  bool endEntry();
  bool addNodeId(int64_t value);
  bool beginAttr(llvm::StringRef key);
  bool addAttr(llvm::StringRef value);
  bool takeOrigin(llvm::StringRef value);
  AttrsId internAttrs();
  bool keep(In context, char bracket);
  bool finishKept();
  bool checkGraphAttr(bool isFine);

  int64_t offset() const { return position - text.data(); }
  int64_t tokenBegin(Found found) const { return jsonTokenBegin(text, offset(), found); }
  bool fail(ErrorKind kind, int64_t offset, const llvm::Twine &message);
  bool unexpected(Found found);
  std::string expectation() const;
  std::string nodeLabel() const;

  Context &ctx;
  llvm::StringRef text;
  const char *const &position;
  uint32_t maxNesting;
  RawFile file;
  StrId originKey;

  llvm::SmallVector<In, 64> stack;
  std::vector<std::unique_ptr<Frame>> frames;
  Frame *top = nullptr;
  Field field = Field::None;  // whose value comes next
  StrId attrKey;              // of the node attribute whose value comes next
  std::string graphAttrKey;
  int64_t entry[3] = {};
  uint32_t entryLength = 0;
  uint32_t attrsSerial = 0;          // of the attribute object being read
  std::vector<uint32_t> lastSerial;  // by StrId: the attribute object that had this key last
  JsonText kept;                     // value of an AttrValue or Ignored context
  GraphAttrReader graphAttr;
  std::unique_ptr<GradcError> error;
};

}  // namespace gradc
