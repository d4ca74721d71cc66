// The compact test vectors (§24) through the command line: testdata/vectors/V_<nn>.json, one file per vector.
//
//   about   what the vector is
//   graph   a graph file
//   cases   each with
//     grad     arguments of `gradc grad`, applied one after another, each to what the one before emitted
//     append   nodes put on top of what the first one emitted, the last of them its head; inputs are "@<head>" or names
//     inputs   by variable: a number (one element), a list, or {shape, dtype, values}
//     run      arguments of `gradc run` (default: --dtype float64)
//     runs     how often; each run adds onto the gradients of the one before
//     expect   by key of --outputs; every gradient that comes out has to be there
//              without expect nothing is run
//     count    by operator: how many nodes of it are emitted
//     types    by variable: the type of its gradient as emitted with --shape
//     error    the kind of error of `gradc grad`, in place of all that
#include "tests/support/tool.h"

#include "runtime/arrays/elements.h"
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz_reader.h"
#include "runtime/arrays/npz_writer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <map>

using namespace llvm;

namespace gradc::testing {
namespace {

const std::string kFolder = "testdata/vectors";

std::vector<std::string> listVectors() {
  std::vector<std::string> names;
  std::error_code code;
  for (sys::fs::directory_iterator at(kFolder, code), end; at != end && !code; at.increment(code))
    if (sys::path::extension(at->path()) == ".json") names.push_back(sys::path::stem(at->path()).str());
  llvm::sort(names);
  return names;
}

json::Value parse(StringRef text) {
  Expected<json::Value> value = json::parse(text);
  if (!value) report_fatal_error(value.takeError());
  return std::move(*value);
}

std::string print(const json::Value &value) {
  std::string text;
  raw_string_ostream(text) << value;
  return text;
}

/// A number, a list of numbers, or an object that says more.
struct Tensor {
  std::vector<int64_t> shape;
  DType dtype = DType::Float64;
  std::vector<double> values;

  explicit Tensor(const json::Value &value) {
    const json::Object *object = value.getAsObject();
    const json::Value &list = object ? *object->get("values") : value;
    if (const json::Array *numbers = list.getAsArray())
      for (const json::Value &number : *numbers) values.push_back(*number.getAsNumber());
    else values.push_back(*list.getAsNumber());
    shape = {static_cast<int64_t>(values.size())};
    if (!object) return;
    if (std::optional<StringRef> name = object->getString("dtype")) dtype = *parseDType(*name);
    if (const json::Array *dims = object->getArray("shape")) {
      shape.clear();
      for (const json::Value &dim : *dims) shape.push_back(*dim.getAsInteger());
    }
  }

  Array array() const {
    Array result{dtype, shape, std::vector<char>(values.size() * dtypeBytes(dtype))};
    TensorRef ref = result.ref();
    for (size_t i = 0; i < values.size(); ++i) writeElement(ref, static_cast<int64_t>(i), values[i]);
    return result;
  }
};

/// One case, run in a folder of its own.
class VectorCase {
 public:
  VectorCase(const json::Object &graph, const json::Object &step) : step(step) {
    folder.write("0.json", print(json::Value(json::Object(graph))));
  }

  void check() {
    if (!differentiate()) return;
    checkCounts();
    checkTypes();
    if (!step.getObject("expect")) return;
    std::vector<NamedArray> inputs;
    for (const auto &[name, value] : *step.getObject("inputs")) inputs.push_back({name.str(), Tensor(value).array()});
    std::vector<NamedArray> outputs;
    const int64_t runs = step.getInteger("runs").value_or(1);
    for (int64_t i = 0; i < runs; ++i) {
      std::vector<NamedArray> bindings = inputs;
      for (const NamedArray &output : outputs)
        if (StringRef(output.name).contains("_grad")) bindings.push_back(output);
      outputs = run(bindings);
    }
    checkValues(outputs);
  }

 private:
  /// Files 1.json, 2.json, …; false when that is the end of it.
  bool differentiate() {
    for (const json::Value &arguments : *step.getArray("grad")) {
      std::string from = std::to_string(numEmitted) + ".json", to = std::to_string(numEmitted + 1) + ".json";
      ToolResult result = folder.run(("grad " + from + " -o " + to + " " + *arguments.getAsString()).str());
      if (std::optional<StringRef> kind = step.getString("error")) {
        EXPECT_EQ(result.code, 1);
        EXPECT_TRUE(StringRef(result.err).split('\n').first.ends_with("[" + kind->str() + "]")) << result.err;
        return false;
      }
      EXPECT_EQ(result.code, 0) << result.err;
      if (result.code) return false;
      ++numEmitted;
      if (const json::Array *nodes = step.getArray("append"); nodes && numEmitted == 1) append(*nodes);
    }
    return true;
  }

  void append(const json::Array &extra) {
    json::Value file = parse(folder.read("1.json"));
    json::Object &graph = *file.getAsObject();
    json::Array &nodes = *graph.getArray("nodes");
    const json::Array heads = *graph.getArray("heads");
    std::map<std::string, json::Value> entries;
    for (const json::Value &value : extra) {
      json::Object node = *value.getAsObject();
      json::Array inputs;
      for (const json::Value &input : *node.getArray("inputs")) {
        StringRef name = *input.getAsString();
        size_t position = 0;
        inputs.push_back(name.consume_front("@") && !name.getAsInteger(10, position) ? heads[position]
                                                                                     : entries.at(name.str()));
      }
      node["inputs"] = std::move(inputs);
      entries.insert_or_assign(node.getString("name")->str(), json::Array{static_cast<int64_t>(nodes.size()), 0, 0});
      nodes.push_back(std::move(node));
    }
    // The lists over heads no longer fit.
    for (StringRef key : {"attrs", "node_row_ptr"}) graph.erase(key);
    json::Array newHeads;
    newHeads.push_back(json::Array{static_cast<int64_t>(nodes.size()) - 1, 0, 0});
    graph["heads"] = std::move(newHeads);
    folder.write("1.json", print(file));
  }

  std::string last() const { return std::to_string(numEmitted) + ".json"; }

  void checkCounts() {
    const json::Object *counts = step.getObject("count");
    if (!counts) return;
    json::Value file = parse(folder.read(last()));
    for (const auto &[op, expected] : *counts) {
      int64_t count = llvm::count_if(*file.getAsObject()->getArray("nodes"), [&, &name = op](const json::Value &node) {
        return node.getAsObject()->getString("op") == StringRef(name);
      });
      EXPECT_EQ(count, *expected.getAsInteger()) << op.str();
    }
  }

  void checkTypes() {
    const json::Object *types = step.getObject("types");
    if (!types) return;
    json::Value file = parse(folder.read(last()));
    const json::Object &graph = *file.getAsObject();
    const json::Object &attrs = *graph.getObject("attrs");
    // Typed lists: ["list_str", [...]].
    const json::Array &of = *(*attrs.getArray("grad_of"))[1].getAsArray(),
                      &codes = *(*attrs.getArray("dtype"))[1].getAsArray();
    for (size_t i = 0; i < of.size(); ++i) {
      std::optional<StringRef> expected = types->getString(*of[i].getAsString());
      if (!expected) continue;
      const json::Array &head = *(*graph.getArray("heads"))[i].getAsArray();
      const json::Value &first = (*graph.getArray("node_row_ptr"))[static_cast<size_t>(*head[0].getAsInteger())];
      const int64_t code = *codes[static_cast<size_t>(*first.getAsInteger() + *head[1].getAsInteger())].getAsInteger();
      EXPECT_EQ(code, static_cast<int64_t>(*parseDType(*expected))) << of[i].getAsString()->str();
    }
  }

  std::vector<NamedArray> run(const std::vector<NamedArray> &bindings) {
    {
      std::error_code code;
      raw_fd_ostream os(folder.path() + "/in.npz", code);
      cantFail(writeNpz(os, bindings));
    }
    StringRef flags = step.getString("run").value_or("--dtype float64");
    ToolResult result =
        folder.run(("run " + last() + " --backend reference --inputs in.npz --outputs out.npz " + flags).str());
    EXPECT_EQ(result.code, 0) << result.err;
    if (result.code) return {};
    return cantFail(parseNpz(folder.read("out.npz"), "out.npz"));
  }

  void checkValues(std::vector<NamedArray> &outputs) {
    const json::Object &expect = *step.getObject("expect");
    size_t numFound = 0;
    for (NamedArray &output : outputs) {
      const json::Value *value = expect.get(output.name);
      EXPECT_TRUE(value || !StringRef(output.name).contains("_grad")) << output.name << " was not asked for";
      if (!value) continue;
      ++numFound;
      Tensor expected(*value);
      EXPECT_EQ(output.array.shape, expected.shape) << output.name;
      EXPECT_EQ(dtypeName(output.array.dtype).str(), dtypeName(expected.dtype).str()) << output.name;
      if (output.array.shape != expected.shape) continue;
      for (size_t i = 0; i < expected.values.size(); ++i)
        EXPECT_NEAR(readElement(output.array.ref(), static_cast<int64_t>(i)), expected.values[i],
                    step.getNumber("tolerance").value_or(1e-14))
            << output.name << "[" << i << "]";
    }
    EXPECT_EQ(numFound, expect.size());
  }

  const json::Object &step;
  ScratchFolder folder;
  int numEmitted = 0;
};

class Vectors : public ::testing::TestWithParam<std::string> {};

TEST_P(Vectors, ThroughTheCommandLine) {
  json::Value file = parse(readText(kFolder + "/" + GetParam() + ".json"));
  const json::Array &cases = *file.getAsObject()->getArray("cases");
  ASSERT_FALSE(cases.empty());
  for (const json::Value &step : cases) {
    SCOPED_TRACE(print(step));
    VectorCase(*file.getAsObject()->getObject("graph"), *step.getAsObject()).check();
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Vectors, ::testing::ValuesIn(listVectors()),
                         [](const ::testing::TestParamInfo<std::string> &info) { return info.param; });

TEST(VectorFiles, AreFound) { EXPECT_GE(listVectors().size(), 25u); }

}  // namespace
}  // namespace gradc::testing
