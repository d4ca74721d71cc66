#include "tests/support/blocks/recurrent_programs.h"

#include <gtest/gtest.h>

#include "formats/blocks/graph/block_gradient.h"
#include "passes/gradient/gradient.h"

using namespace llvm;

namespace gradc::testing {

RecurrentProgram::RecurrentProgram() : ArrayProgram({3, 2}) {
  for (const char *name : {"w", "h0"}) {
    declare(name).isParameter = true;
    program.parameters.push_back({program.intern(name), true});
  }
  declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes).dtype.reset();
  steps = addBlock(program, 0u, {});
}

void RecurrentProgram::locals(const std::vector<std::string> &names) {
  for (const std::string &name : names) declare(name, {2}, FluidType::Fp64, FluidType::LodTensor, steps);
}

BlockOp &RecurrentProgram::close(const Ports &ports) {
  BlockOp &made =
      addOp(program, *program.blocks[steps].parent, "recurrent",
            {{"inputs", ports.inputs}, {"initial_states", ports.initialStates}, {"parameters", ports.parameters}},
            {{"outputs", ports.outputs}, {"step_scopes", {"scopes"}}}, steps);
  const std::string has = boolAttrText(!ports.states.empty()), ex = stringsAttrText(AttrTag::Strings, ports.exStates),
                    states = stringsAttrText(AttrTag::Strings, ports.states), reverse = boolAttrText(ports.isReverse);
  made.attrs = context.attrs({{"has_states", has}, {"ex_states", ex}, {"states", states}, {"reverse", reverse}});
  return made;
}

void RecurrentProgram::addCell(bool isReverse) {
  locals({"p", "h", "m", "a", "n", "s", "y"});
  step("elementwise_mul", {{"X", {"h"}}, {"Y", {"w"}}}, "m");
  step("elementwise_add", {{"X", {"m"}}, {"Y", {"p"}}}, "a");
  step("tanh", {{"X", {"a"}}}, "n");
  step("rnn_memory_helper", {{"X", {"n"}}}, "y");
  step("rnn_memory_helper", {{"X", {"n"}}}, "s");
  declare("y", {3, 2});
  Ports ports;
  ports.isReverse = isReverse;
  close(ports);
}

void RecurrentProgram::addLoss(const std::string &name) {
  const BlockVariable of = *program.find(0, program.texts.find(name));
  declare(name + "_2", of.shape);
  op("square", {{"X", {name}}}, name + "_2");
  sum(name + "_2", "loss");
}

NamedGradients drawnParameters(RecurrentProgram &p) {
  std::vector<std::string> names;
  for (const BlockParameter &parameter : p.program.parameters) names.push_back(p.program.text(parameter.name).str());
  NamedGradients values;
  const std::vector<Array> heads = cantFail(p.run(p.program, names));
  for (size_t i = 0; i < names.size(); ++i) values[names[i]] = doubles(heads[i]);
  return values;
}

double lossAt(RecurrentProgram &p, const NamedGradients &parameters) {
  BlockGraphOptions options;
  options.heads = {"loss"};
  options.maxIterations = 6;
  const BlockGraph graph = cantFail(graphOfBlocks(p.context, p.program, options));
  std::vector<NamedArray> given = drawnBindings(graph.graph, 1);
  for (NamedArray &array : given)
    std::copy(parameters.at(array.name).begin(), parameters.at(array.name).end(),
              reinterpret_cast<double *>(array.array.bytes.data()));
  return doubles(cantFail(runHeads(p.context, graph.graph, std::move(given)))[0])[0];
}

namespace {

/// As drawnParameters draws them.
std::vector<NamedArray> bindings(RecurrentProgram &p, const Graph &graph) {
  std::vector<std::string> names;
  for (const BlockParameter &parameter : p.program.parameters) names.push_back(p.program.text(parameter.name).str());
  BlockGraphOptions options;
  options.heads = names;
  std::vector<NamedArray> drawn = drawnBindings(cantFail(graphOfBlocks(p.context, p.program, options)).graph, 1);
  std::vector<NamedArray> used;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (NamedArray &array : drawn)
      if (graph.isVariable(NodeId(n)) && graph.name(NodeId(n)) == array.name) used.push_back(array);
  return used;
}

}  // namespace

Expected<NamedGradients> engineGradients(RecurrentProgram &p) {
  BlockCall call;
  call.api = "append_backward";
  call.loss = "loss";
  BlockGraphOptions options;
  options.maxIterations = 6;
  Expected<BlockGradient> problem = gradientOfCall(p.context, p.program, call, options);
  if (!problem) return problem.takeError();
  GradientOptions gradientOptions;
  gradientOptions.unused = UnusedPolicy::None;
  Expected<GradientResult> made = buildGradient(p.context, problem->forward.graph, problem->request, gradientOptions);
  if (!made) return made.takeError();
  Expected<std::vector<Array>> heads = runHeads(p.context, made->graph, bindings(p, problem->forward.graph));
  if (!heads) return heads.takeError();
  NamedGradients gradients;
  size_t head = problem->forward.graph.heads().size();
  for (size_t i = 0; i < problem->wrt.size(); ++i)
    if (made->wrt[i].status != SlotStatus::None) gradients[problem->wrt[i]] = doubles((*heads)[head++]);
  return gradients;
}

Expected<NamedGradients> emittedGradients(RecurrentProgram &p, BlockProgram *to) {
  FluidRequest request;
  request.targets = {"loss"};
  Expected<FluidResult> made = appendBackward(p.context, BlockProgram(p.program), request);
  if (!made) return made.takeError();
  BlockGraphOptions options;
  options.maxIterations = 6;
  std::vector<std::string> names;
  for (const FluidPair &pair : made->pairs) {
    options.heads.push_back(made->program.text(pair.gradient).str());
    names.push_back(made->program.text(pair.variable).str());
  }
  if (to) *to = BlockProgram(made->program);
  Expected<BlockGraph> graph = graphOfBlocks(p.context, made->program, options);
  if (!graph) return graph.takeError();
  Expected<std::vector<Array>> heads = runHeads(p.context, graph->graph, bindings(p, graph->graph));
  if (!heads) return heads.takeError();
  NamedGradients gradients;
  for (size_t i = 0; i < names.size(); ++i) gradients[names[i]] = doubles((*heads)[i]);
  return gradients;
}

/// Of two gradients that arrive under one name in a step, Paddle's operator keeps one.
static void expectListedOnce(const BlockProgram &program) {
  for (const Block &block : program.blocks)
    for (const BlockOp &op : block.ops) {
      if (program.text(op.type) != "recurrent") continue;
      std::vector<std::string> listed = stringsAttr(op.attrs, "states").value_or(std::vector<std::string>());
      for (TextId name : program.variables(op.outputs, "outputs")) listed.push_back(program.text(name).str());
      std::sort(listed.begin(), listed.end());
      EXPECT_EQ(std::adjacent_find(listed.begin(), listed.end()), listed.end());
    }
}

void expectBothWays(RecurrentProgram &p, const std::string &what, bool isExact) {
  SCOPED_TRACE(what);
  BlockProgram made;
  Expected<NamedGradients> engine = engineGradients(p), emitted = emittedGradients(p, &made);
  ASSERT_TRUE(bool(engine)) << describeWithNotes(engine.takeError());
  ASSERT_TRUE(bool(emitted)) << describeWithNotes(emitted.takeError());
  expectListedOnce(made);
  const NamedGradients at = drawnParameters(p);
  for (const auto &[name, gradient] : *emitted) engine->try_emplace(name, gradient.size());
  size_t numOthers = 0;
  for (const auto &[name, gradient] : *engine)
    for (size_t i = 0; i < gradient.size(); ++i) {
      numOthers += gradient[i] != 0;
      const double ours = emitted->contains(name) ? emitted->at(name)[i] : 0;
      if (isExact) EXPECT_EQ(ours, gradient[i]) << name << i;
      else EXPECT_NEAR(ours, gradient[i], 1e-14) << name << i;
      NamedGradients up = at, down = at;
      up[name][i] += 1e-6, down[name][i] -= 1e-6;
      EXPECT_NEAR(gradient[i], (lossAt(p, up) - lossAt(p, down)) / 2e-6, 1e-8) << name << i;
    }
  EXPECT_NE(numOthers, 0u);
}

}  // namespace gradc::testing
