// Programs that Paddle 2.6.2 has differentiated and run (testdata/paddle, made by tests/oracles/paddle_record.py): what
// appendBackward adds is what Paddle adds, operator for operator, and has the values that Paddle computed.
#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/blocks/recorded_arrays.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/graph_of_blocks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// Paddle hands out the gradient of an array's element once more than gradc, which adds up those of all readers: other
/// operators with the same values.
constexpr StringLiteral kAddedUp[] = {"gru_cells", "lstm_cells_both_ways", "simple_cells_of_lengths"};

class PaddleValues : public ::testing::TestWithParam<std::string> {};

TEST_P(PaddleValues, A_19_TheGradientIsPaddlesProgramAndHasItsValues) {
  TestContext context;
  const auto buffer = cantFail(errorOrToExpected(MemoryBuffer::getFile("testdata/paddle/" + GetParam() + ".json")));
  const BlockFile file = cantFail(readBlocks(context, buffer->getBuffer()));
  const auto recorded = nlohmann::json::parse(file.others.at("recorded"));
  const nlohmann::json after = {{"program", recorded["program"]}, {"result", recorded["result"]}};
  const BlockFile expected = cantFail(readBlocks(context, after.dump()));

  FluidResult made = cantFail(appendBackward(context, BlockProgram(file.program), requestOf(*file.call)));
  BlockFile emitted;
  emitted.result.emplace();
  std::vector<std::string> heads;
  for (const FluidPair &pair : made.pairs) {
    BlockResult::Row &row = emitted.result->rows.emplace_back();
    if (file.call->api != "gradients") row.parameter = made.program.text(pair.variable).str();
    if (!pair.gradient.isValid()) continue;
    row.gradient = made.program.text(pair.gradient).str();
    heads.push_back(*row.gradient);
  }
  emitted.program = std::move(made.program);
  if (!is_contained(kAddedUp, GetParam())) {
    EXPECT_EQ(text(emitted), text(expected));
  }

  BlockGraphOptions options;
  options.heads = heads;
  const Graph graph = cantFail(graphOfBlocks(context, emitted.program, options)).graph;
  std::vector<NamedArray> bindings;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)))
      bindings.push_back(
          {graph.name(NodeId(n)).str(), recordedArray(recorded["given"].at(graph.name(NodeId(n)).str()))});
  const std::vector<Array> values = cantFail(runHeads(context, graph, std::move(bindings)));
  ASSERT_EQ(values.size(), heads.size());
  ASSERT_FALSE(heads.empty());
  for (auto [name, value] : zip(heads, values))
    EXPECT_LE(largestDifference(value.view(), recordedArray(recorded["gradients"].at(name)).view()), 1e-9) << name;
}

INSTANTIATE_TEST_SUITE_P(Recorded, PaddleValues, ::testing::ValuesIn(recordedNames("testdata/paddle")),
                         [](const auto &test) { return test.param; });

}  // namespace
}  // namespace gradc
