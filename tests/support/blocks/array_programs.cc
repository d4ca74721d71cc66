#include "tests/support/blocks/array_programs.h"

#include "tests/support/blocks/backward_programs.h"
#include "tests/support/ops/differences.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc::testing {

Expected<std::vector<Array>> ArrayProgram::run(const BlockProgram &of, std::vector<std::string> heads,
                                               int64_t maxIterations) {
  BlockGraphOptions options;
  options.heads = std::move(heads);
  options.maxIterations = maxIterations;
  Expected<BlockGraph> graph = graphOfBlocks(context, of, options);
  if (!graph) return graph.takeError();
  return runHeads(context, graph->graph, drawnBindings(graph->graph, 1));
}

std::string failureOf(ArrayProgram &p, std::vector<std::string> heads) {
  Expected<std::vector<Array>> made = p.run(p.program, std::move(heads));
  return made ? "success" : describeWithNotes(made.takeError());
}

std::vector<double> doubles(const Array &array) {
  const auto *first = reinterpret_cast<const double *>(array.bytes.data());
  return {first, first + array.bytes.size() / sizeof(double)};
}

void addLoop(ArrayProgram &p) {
  p.array("a");
  p.number("i", 0);
  p.number("n", 3);
  p.declare("go", {1}, FluidType::Bool);
  p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  p.op("write_to_array", {{"X", {"p"}}, {"I", {"i"}}}, "a");
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go");
  const uint32_t body = addBlock(p.program, 0u, {});
  for (const char *name : {"r", "m", "h"}) p.declare(name, {2}, FluidType::Fp64, FluidType::LodTensor, body);
  p.op("read_from_array", {{"X", {"a"}}, {"I", {"i"}}}, "r", {}, body);
  p.op("elementwise_mul", {{"X", {"r"}}, {"Y", {"p"}}}, "m", {}, body);
  p.op("tanh", {{"X", {"m"}}}, "h", {}, body);
  p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, 1)}}, body);
  p.op("write_to_array", {{"X", {"h"}}, {"I", {"i"}}}, "a", {}, body);
  p.op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, "go", {}, body);
  addOp(p.program, 0, "while", {{"Condition", {"go"}}, {"X", {"i", "n", "a", "p"}}},
        {{"Out", {"i", "a", "go"}}, {"StepScopes", {"scopes"}}}, body);
  for (const char *name : {"last", "l"}) p.declare(name);
  p.op("read_from_array", {{"X", {"a"}}, {"I", {"i"}}}, "last");
  p.declare("loss", {});
  p.op("reduce_mean", {{"X", {"last"}}}, "loss", {{"reduce_all", boolAttrText(true)}});
}

double worstDifference(ArrayProgram &p, const BlockProgram &emitted) {
  BlockGraphOptions options;
  options.heads = {"loss", "p@GRAD"};
  options.maxIterations = 4;
  Expected<BlockGraph> read = graphOfBlocks(p.context, emitted, options);
  if (!read) {
    ADD_FAILURE() << describeWithNotes(read.takeError());
    return INFINITY;
  }
  const BlockGraph &graph = *read;
  std::vector<NamedArray> drawn = drawnBindings(graph.graph, 1);
  const std::vector<double> gradient = doubles(cantFail(runHeads(p.context, graph.graph, drawn))[1]);
  const auto moved = llvm::find_if(drawn, [](const NamedArray &binding) { return binding.name == "p"; });
  if (moved == drawn.end()) return gradient.empty() ? 0 : INFINITY;
  return relativeDistance(gradient, differences(elements(moved->array), 1e-6, [&] {
                            return doubles(cantFail(runHeads(p.context, graph.graph, drawn))[0])[0];
                          }));
}

Expected<FluidResult> emit(ArrayProgram &p) {
  FluidRequest request;
  request.targets = {"loss"};
  return appendBackward(p.context, BlockProgram(p.program), request);
}

bool isAddedUp(ArrayProgram &p) {
  Expected<FluidResult> emitted = emit(p);
  if (!emitted) {
    ADD_FAILURE() << describeWithNotes(emitted.takeError());
    return false;
  }
  const FluidResult &made = *emitted;
  std::vector<double> losses;
  for (const BlockProgram *each : {static_cast<const BlockProgram *>(&p.program), &made.program}) {
    Expected<std::vector<Array>> loss = p.run(*each, {"loss"});
    if (loss) losses.push_back(doubles(loss->front()).front());
    else ADD_FAILURE() << describeWithNotes(loss.takeError());
  }
  EXPECT_EQ(losses.front(), losses.back()) << "the value of the forward program" << dump(made.program, 0);
  EXPECT_LE(worstDifference(p, made.program), 1e-8) << dump(made.program, 0);
  bool isAddedUp = false;
  for (uint32_t block = 0; block < made.program.blocks.size(); ++block)
    isAddedUp |= StringRef(dump(made.program, block)).contains("@ELEMENT@");
  return isAddedUp;
}

}  // namespace gradc::testing
