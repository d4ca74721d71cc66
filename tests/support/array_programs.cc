#include "tests/support/array_programs.h"

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

}  // namespace gradc::testing
