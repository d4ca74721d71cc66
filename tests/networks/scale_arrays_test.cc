// Many arrays: files of them, and sessions whose variables and heads are in the caller's memory (CLI-06).
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz_reader.h"
#include "runtime/arrays/npz_writer.h"
#include "runtime/session/session.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "ir/graph/graph_builder.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::vector<NamedArray> arrays(uint32_t n) {
  std::vector<NamedArray> list;
  for (uint32_t i = 0; i < n; ++i) list.push_back({"x" + std::to_string(i), floats({2}, {1, 2})});
  return list;
}

/// y<i> = exp(x<i>), all of them heads.
Graph manyHeads(Context &context, uint32_t n) {
  GraphBuilder builder(context);
  std::vector<Value> heads;
  const KindRef exp = cantFail(context.kind(*context.ops.find("exp"), Attrs()));
  for (uint32_t i = 0; i < n; ++i) {
    heads.push_back(Value{builder.addKind(exp, {builder.addVariable("x" + std::to_string(i), Attrs())}, NodeId())});
    builder.setName(heads.back().node, "y", std::to_string(i));
  }
  return cantFail(std::move(builder).freeze(heads, {})).graph;
}

TEST(ScaleArrays, CLI_06_FilesOfManyArrays) {
  expectLinear(500, [](uint32_t n) {
    const std::vector<NamedArray> list = arrays(n);
    return secondsOf([&] {
      std::string bytes;
      raw_string_ostream os(bytes);
      cantFail(writeNpz(os, list));
      EXPECT_EQ(cantFail(parseNpz(os.str(), "file")).size(), n);
    });
  });
}

TEST(ScaleArrays, CLI_06_SessionsOfManyBoundArrays) {
  expectLinear(1000, [](uint32_t n) {
    TestContext context;
    const Graph graph = manyHeads(context, n);
    SessionOptions options;
    options.exec.backend = Backend::Reference;
    return secondsOf([&] {
      Session session = cantFail(Session::create(context, graph, arrays(n), options));
      cantFail(session.run(0));
      EXPECT_EQ(cantFail(session.outputs()).size(), n);
    });
  });
}

TEST(ScaleArrays, CLI_06_SessionsOfManyHeadsInTheCallersMemory) {
  expectLinear(1000, [](uint32_t n) {
    TestContext context;
    const Graph graph = manyHeads(context, n);
    std::vector<Array> memory(n, floats({2}, {0, 0})), other(n, floats({2}, {0, 0}));
    SessionOptions options;
    options.exec.backend = Backend::Reference;
    for (uint32_t i = 0; i < n; ++i) options.headMemory.push_back({i, memory[i].view()});
    return secondsOf([&] {
      Session session = cantFail(Session::create(context, graph, arrays(n), options));
      for (uint32_t i = 0; i < n; ++i) cantFail(session.bindHead(i, other[i].view()));
      cantFail(session.run(0));
    });
  });
}

}  // namespace
}  // namespace gradc
