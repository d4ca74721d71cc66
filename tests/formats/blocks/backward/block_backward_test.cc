// Programs that contain their gradient, as graphs: what the emitted operators compute is what the gradient engine
// computes of the forward program.
#include "runtime/arrays/npz_reader.h"
#include "tests/support/blocks/array_programs.h"
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/blocks/draw_blocks.h"
#include "tests/support/blocks/program_desc_bytes.h"
#include "tests/support/drawn/dice.h"
#include "tests/support/ops/differences.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/backward/minimize.h"
#include "formats/blocks/graph/block_gradient.h"
#include "formats/blocks/program/block_attrs.h"

#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// Gradients by name.
using Gradients = std::map<std::string, Array>;

/// Of the forward program, by the gradient engine.
Expected<Gradients> engineGradients(Context &context, const BlockFile &file, std::vector<NamedArray> *bindings,
                                    const ArrayNames &values, bool holdsLost = false) {
  BlockGraphOptions options;
  options.maxIterations = 20;
  options.holdsLost = holdsLost;
  Expected<BlockGradient> asked = gradientOfCall(context, file.program, *file.call, options);
  if (!asked) return asked.takeError();
  Gradients gradients;
  if (asked->request.wrt.empty()) return gradients;
  GradientOptions gradientOptions;
  gradientOptions.unused = UnusedPolicy::None;
  Expected<GradientResult> made = buildGradient(context, asked->forward.graph, asked->request, gradientOptions);
  if (!made) return made.takeError();
  *bindings = values.empty() ? drawnBindings(asked->forward.graph, 1) : bindingsFor(asked->forward.graph, values);
  Expected<std::vector<Array>> heads = runHeads(context, made->graph, *bindings);
  if (!heads) return heads.takeError();
  size_t head = asked->forward.graph.heads().size();
  for (size_t i = 0; i < asked->wrt.size(); ++i)
    if (made->wrt[i].status != SlotStatus::None) gradients[asked->wrt[i]] = (*heads)[head++];
  return gradients;
}

/// Of the emitted program, as a graph.
Expected<Gradients> emittedGradients(Context &context, const BlockProgram &program, ArrayRef<FluidPair> pairs,
                                     std::vector<NamedArray> bindings) {
  BlockGraphOptions options;
  options.maxIterations = 20;
  std::vector<std::string> names;
  for (const FluidPair &pair : pairs) {
    if (!pair.gradient.isValid()) continue;
    options.heads.push_back(program.text(pair.gradient).str());
    names.push_back(program.text(pair.variable).str());
  }
  Gradients gradients;
  if (names.empty()) return gradients;
  Expected<BlockGraph> graph = graphOfBlocks(context, program, options);
  if (!graph) return graph.takeError();
  llvm::erase_if(bindings, [&](const NamedArray &binding) {
    const BlockName *name = graph->find(binding.name);
    return !name || !name->first.isValid();
  });
  // Of what the engine does not read, zeros may be requested.
  StringSet<> bound;
  for (const NamedArray &binding : bindings) bound.insert(binding.name);
  for (NamedArray &drawn : drawnBindings(graph->graph, 2))
    if (!bound.contains(drawn.name) && !StringRef(drawn.name).contains("@")) bindings.push_back(std::move(drawn));
  Expected<std::vector<Array>> heads = runHeads(context, graph->graph, std::move(bindings));
  if (!heads) return heads.takeError();
  for (size_t i = 0; i < names.size(); ++i) gradients[names[i]] = (*heads)[i];
  return gradients;
}

/// Empty where both have the same gradients, bit for bit or to 1e-12; else what differs.
std::string compare(const Gradients &ours, const Gradients &engine, bool &isExact) {
  std::string problem;
  for (const auto &[name, gradient] : engine) {
    const auto found = ours.find(name);
    if (found == ours.end()) {  // no gradient is one of zeros, of either sign
      Array zeros = gradient;
      std::fill(zeros.bytes.begin(), zeros.bytes.end(), 0);
      if (largestDifference(zeros.view(), gradient.view()) != 0) problem += name + " is missing; ";
      continue;
    }
    const Array &other = found->second;
    if (other.bytes == gradient.bytes) continue;
    isExact = false;
    const double worst = largestDifference(other.view(), gradient.view());
    if (!(worst <= 1e-12)) problem += name + " differs by " + std::to_string(worst) + "; ";
  }
  return problem;
}

/// Programs that are not compared, and why.
const std::map<std::string, std::string> kNotCompared = {
    {"backward_inside_cond", "the loss is in a branch, and no operator runs its gradient block"},
    {"double_grad_cond.s2", "a branch of a gradient program has no gradient program (E-02)"},
};

TEST(BlockBackward, EmittedProgramsAreTheGradient) {
  const std::vector<PaddleFile> files = paddlePrograms(".forward.json");
  if (files.empty()) GTEST_SKIP() << "no programs in " << paddleFolder();
  size_t numCompared = 0, numExact = 0;
  for (const PaddleFile &file : files) {
    const std::string name = StringRef(file.name).drop_back(StringRef(".forward.json").size()).str();
    if (kNotCompared.contains(name)) continue;
    SCOPED_TRACE(name);
    TestContext context;
    BlockFile blocks = cantFail(readBlocks(context, file.text));
    std::vector<NamedArray> arrays, bindings;
    ArrayNames values;
    if (const auto archive = paddlePrograms("/" + name + ".values.npz"); !archive.empty())
      arrays = cantFail(parseNpz(archive.front().text, name));
    for (const NamedArray &array : arrays) values[array.name] = &array;
    Expected<Gradients> engine = engineGradients(context, blocks, &bindings, values);
    if (!engine) {
      ADD_FAILURE() << describeWithNotes(engine.takeError());
      continue;
    }
    Expected<FluidResult> emitted = appendBackward(context, blocks.program, requestOf(*blocks.call));
    if (!emitted) {
      ADD_FAILURE() << describeWithNotes(emitted.takeError());
      continue;
    }
    Expected<Gradients> ours = emittedGradients(context, emitted->program, emitted->pairs, bindings);
    if (!ours) {
      ADD_FAILURE() << describeWithNotes(ours.takeError());
      continue;
    }
    bool isExact = true;
    EXPECT_EQ(compare(*ours, *engine, isExact), "");
    numExact += isExact;
    ++numCompared;
  }
  EXPECT_EQ(numCompared, files.size() - kNotCompared.size());
  EXPECT_EQ(numExact, numCompared);
}

/// Empty where appendBackward and the gradient engine agree on the gradients of a call, what Paddle leaves out held.
std::string disagreement(Context &context, const BlockFile &file) {
  std::vector<NamedArray> bindings;
  Expected<Gradients> engine = engineGradients(context, file, &bindings, {}, true);
  if (!engine) return "engine: " + describeWithNotes(engine.takeError());
  Expected<FluidResult> emitted = appendBackward(context, file.program, requestOf(*file.call));
  if (!emitted) return "emission: " + describeWithNotes(emitted.takeError());
  BlockFile written;
  written.program = BlockProgram(emitted->program);
  const std::string json = text(written);
  if (text(cantFail(readBlocks(context, json))) != json) return "the file of the emitted program differs";
  Expected<Gradients> ours = emittedGradients(context, emitted->program, emitted->pairs, bindings);
  if (!ours) return "reading: " + describeWithNotes(ours.takeError());
  bool isExact = true;
  std::string problem = compare(*ours, *engine, isExact);
  if (!problem.empty() || !emitted->lost.empty()) return problem;
  Expected<Gradients> whole = engineGradients(context, file, &bindings, {});
  return whole ? compare(*ours, *whole, isExact) : describeWithNotes(whole.takeError());
}

/// The same of the gradients of `loss`.
std::string disagreement(Context &context, BlockProgram program) {
  BlockFile file;
  file.program = std::move(program);
  file.call.emplace();
  file.call->api = "append_backward";
  file.call->loss = "loss";
  return disagreement(context, file);
}

/// Empty where the engine's gradients of a call are central differences of the sum of its targets.
std::string wrongDifferences(Context &context, const BlockFile &file) {
  std::vector<NamedArray> bindings;
  Expected<Gradients> engine = engineGradients(context, file, &bindings, {});
  if (!engine) return "engine: " + describeWithNotes(engine.takeError());
  BlockGraphOptions options;
  options.maxIterations = 20;
  options.heads = targetsOf(*file.call);
  const Graph graph = cantFail(graphOfBlocks(context, file.program, options)).graph;
  auto sum = [&] {
    std::vector<NamedArray> read;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (graph.isVariable(NodeId(n)))
        for (const NamedArray &binding : bindings)
          if (binding.name == graph.name(NodeId(n))) read.push_back(binding);
    double total = 0;
    for (Array &head : cantFail(runHeads(context, graph, std::move(read))))
      for (double element : elements(head)) total += element;
    return total;
  };
  std::string problem;
  for (auto &[name, gradient] : *engine)
    for (NamedArray &binding : bindings) {
      if (binding.name != name) continue;
      const std::vector<double> expected = differences(elements(binding.array), 1e-5, sum);
      double largest = 0, worst = 0;
      for (auto [ours, theirs] : zip(elements(gradient), expected)) {
        largest = std::max(largest, std::abs(theirs));
        worst = std::max(worst, std::abs(ours - theirs));
      }
      constexpr double kRounding = 1e-9;  // of a sum near 10, divided by the step
      if (!(worst <= 1e-6 * largest + kRounding)) problem += name + " is " + std::to_string(worst) + " off; ";
    }
  return problem;
}

/// The program as it comes back from its file, which must be written again byte for byte, and as a protocol buffer,
/// which must hold the same but for the order of parameters. Nothing where a file differs.
std::optional<BlockProgram> fromFiles(Context &context, const BlockProgram &program) {
  auto sorted = [](BlockFile file) {
    llvm::sort(file.program.parameters, [&](const BlockParameter &a, const BlockParameter &b) {
      return file.program.text(a.name) < file.program.text(b.name);
    });
    return text(file);
  };
  BlockFile file;
  file.program = BlockProgram(program);
  const std::string json = text(file);
  BlockFile read = cantFail(readBlocks(context, json));
  if (text(read) != json) return std::nullopt;
  if (sorted(cantFail(readBlocks(context, programDescOf(json)))) != sorted(std::move(file))) return std::nullopt;
  return std::move(read.program);
}

/// Of a drawn program, which has been in files.
std::string disagreement(uint64_t seed, const BlockDraw &draw) {
  TestContext context;
  std::optional<BlockProgram> program = fromFiles(context, drawBlocks(context, seed, draw));
  return program ? disagreement(context, std::move(*program)) : "its files differ";
}

/// A loop of two steps, or a branch that is taken. Beside t, which its block writes, slot `Out` names `more`.
BlockProgram programThatNamesMore(Context &context, bool isLoop, const std::string &read, const std::string &more) {
  const std::string owner =
      isLoop ? "while:1 Condition=cgo X=ci,cn,t" + read + " -> Out=ci,cgo,t" + more + " StepScopes=scopes\n"
             : "conditional_block:1 Cond=cgo Input=t" + read + " -> Out=t" + more + " Scope=scopes\n";
  const std::string count = isLoop ? "increment X=ci -> Out=ci\nless_than X=ci Y=cn -> Out=cgo\n" : "";
  BlockProgram program = programOf("fill_constant -> Out=ci\nfill_constant -> Out=cn\nless_than X=ci Y=cn -> Out=cgo\n"
                                   "sigmoid X=p -> Out=t\nsin X=p -> Out=s\ncos X=p -> Out=u\nexp X=p -> Out=v\n" +
                                   owner +
                                   "elementwise_mul X=t Y=s -> Out=ts\nelementwise_mul X=u Y=v -> Out=uv\n"
                                   "elementwise_mul X=ts Y=uv -> Out=all\nreduce_mean X=all -> Out=loss\n"
                                   "block 1 in 0\nelementwise_mul X=t Y=s -> Out=a\nassign X=a -> Out=t\n" +
                                   count);
  auto variable = [&](StringRef name) -> BlockVariable & { return *program.find(0, program.texts.find(name)); };
  for (const char *name : {"ci", "cn", "cgo"}) variable(name).shape = {1};
  variable("cgo").dtype = FluidType::Bool;
  variable("scopes").kind = FluidType::StepScopes;
  for (Block &block : program.blocks)
    for (BlockOp &op : block.ops)
      op.attrs = context.attrs({{"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Fp64))},
                                {"is_scalar_condition", boolAttrText(true)},
                                {"reduce_all", boolAttrText(true)},
                                {"shape", intsAttrText(AttrTag::Longs, {1})},
                                {"step", floatAttrText(AttrTag::Float, 1)},
                                {"value", floatAttrText(AttrTag::Float, &op == &program.blocks[0].ops[1] ? 2 : 0)}});
  return program;
}

TEST(BlockBackward, D_28_AnOutputThatABlockDoesNotWriteKeepsItsValue) {
  for (const bool isLoop : {true, false})
    for (const auto &[read, more] : {std::pair(",s", ",s"), {",s,u", ",s,u"}, {",s", ",v"}, {",s,u", ",s,u,v"}}) {
      TestContext context;
      EXPECT_EQ(disagreement(context, programThatNamesMore(context, isLoop, read, more)), "")
          << (isLoop ? "loop" : "branch") << " with" << more;
    }
}

TEST(BlockBackward, D_28_SlotsOfALoopMayLackWhatItsBlockUses) {
  for (const char *lacking : {"", "s", "t"}) {
    TestContext context;
    BlockProgram program = programThatNamesMore(context, true, ",s", "");
    BlockOp &owner = program.blocks[0].ops[7];
    for (BlockSlot &slot : StringRef(lacking) == "t" ? owner.outputs : owner.inputs)
      erase_if(slot.variables, [&](TextId name) { return program.text(name) == lacking; });
    EXPECT_EQ(disagreement(context, program), "") << "without '" << lacking << "'";
  }
}

TEST(BlockBackward, D_28_SlotsOfABranchMayLackWhatItsBlockUses) {
  for (const char *lacking : {"", "s", "t"}) {
    TestContext context;
    BlockProgram program = programThatNamesMore(context, false, ",s", "");
    BlockOp &owner = program.blocks[0].ops[7];
    for (std::vector<BlockSlot> *slots : {&owner.inputs, &owner.outputs})
      for (BlockSlot &slot : *slots)
        erase_if(slot.variables, [&](TextId name) { return program.text(name) == lacking; });
    EXPECT_EQ(disagreement(context, program), "") << "without '" << lacking << "'";
  }
}

TEST(BlockBackward, A_19_WhatHasNoGradientInPaddleHasNoneInGraphs) {
  const std::pair<const char *, double> gradients[] = {{"elementwise_mod X=p Y=q -> Out=a", 1},
                                                       {"share_data X=p -> Out=a", 1},
                                                       {"clip_by_norm X=p -> Out=a", 1},
                                                       {"assign X=p -> Out=a", 2}};
  for (const auto &[op, expected] : gradients) {
    TestContext context;
    BlockFile file;
    file.program = programOf(std::string(op) + "\nelementwise_add X=a Y=p -> Out=b\nreduce_sum X=b -> Out=loss");
    for (BlockOp &o : file.program.blocks[0].ops) o.attrs = context.attrs({{"reduce_all", boolAttrText(true)}});
    file.call.emplace().api = "append_backward";
    file.call->loss = "loss";
    std::vector<NamedArray> bindings;
    Gradients gradient = cantFail(engineGradients(context, file, &bindings, {}));
    EXPECT_EQ(doubles(gradient.at("p")), std::vector<double>(2, expected)) << op;
    EXPECT_EQ(disagreement(context, file.program), "") << op;
  }
}

/// Operators behind those of the root that overwrite what these have written, and `loss2`, which is made of it.
void appendOverwriting(Context &context, BlockProgram &program, uint64_t seed, ArrayRef<std::string> names) {
  Dice dice(seed);
  auto declare = [&](const std::string &name, SmallVector<int64_t, 4> shape) {
    program.addVariable(0, {program.intern(name), FluidType::LodTensor, FluidType::Fp64, std::move(shape), 0});
    return name;
  };
  for (int k = 0; k < 4; ++k) {
    const std::string &a = dice.one(names), &b = dice.one(names);
    const std::string product = declare("more" + std::to_string(k), {2, 2});
    addOp(program, 0, "elementwise_mul", {{"X", {a}}, {"Y", {b}}}, {{"Out", {product}}});
    if (k < 3) addOp(program, 0, "sin", {{"X", {product}}}, {{"Out", {a}}});
  }
  addOp(program, 0, "reduce_mean", {{"X", {"more3"}}}, {{"Out", {declare("loss2", {})}}}).attrs =
      context.attrs({{"reduce_all", boolAttrText(true)}});
}

/// Empty where a second call, on a program that has gone on and overwritten what the first one's gradients read, gives
/// the gradient of the second loss, and leaves that of the first one as it was.
std::string secondDisagreement(uint64_t seed, const BlockDraw &draw) {
  TestContext context;
  BlockFile first, second;
  first.program = drawBlocks(context, seed, draw);
  std::vector<std::string> names;
  for (const BlockOp &op : first.program.blocks[0].ops)
    for (const BlockSlot &slot : op.outputs)
      for (TextId name : slot.variables) {
        const BlockVariable &variable = *first.program.find(0, name);
        if (variable.dtype == FluidType::Fp64 && variable.shape.size() == 2)
          names.push_back(first.program.text(name).str());
      }
  second.program = BlockProgram(first.program);
  appendOverwriting(context, second.program, seed, names);
  for (BlockFile *file : {&first, &second}) file->call.emplace().api = "append_backward";
  first.call->loss = "loss";
  second.call->loss = "loss2";
  std::vector<NamedArray> bindings, laterBindings;
  Expected<Gradients> engine = engineGradients(context, first, &bindings, {});
  if (!engine) return "engine: " + describeWithNotes(engine.takeError());
  Expected<Gradients> laterEngine = engineGradients(context, second, &laterBindings, {});
  if (!laterEngine) return "engine: " + describeWithNotes(laterEngine.takeError());
  Expected<FluidResult> emitted = appendBackward(context, std::move(first.program), requestOf(*first.call));
  if (!emitted) return "emission: " + describeWithNotes(emitted.takeError());
  appendOverwriting(context, emitted->program, seed, names);
  second.call->priorCalls = 1;
  Expected<FluidResult> later = appendBackward(context, std::move(emitted->program), requestOf(*second.call));
  if (!later) return "second emission: " + describeWithNotes(later.takeError());
  std::string problem;
  bool isExact = true;
  for (auto [pairs, expected, given] :
       {std::tuple(&emitted->pairs, &*engine, &bindings), std::tuple(&later->pairs, &*laterEngine, &laterBindings)}) {
    Expected<Gradients> ours = emittedGradients(context, later->program, *pairs, *given);
    if (!ours) return "reading: " + describeWithNotes(ours.takeError());
    problem += compare(*ours, *expected, isExact);
  }
  return problem;
}

/// GRADC_BLOCK_PROGRAMS: how many of each kind.
size_t numDrawn() {
  const char *text = std::getenv("GRADC_BLOCK_PROGRAMS");
  return text ? std::strtoul(text, nullptr, 10) : 100;
}

TEST(BlockBackward, DrawnStraightProgramsAreTheGradient) {
  for (uint64_t seed = 0; seed < numDrawn(); ++seed)
    EXPECT_EQ(disagreement(seed, {.numOps = 12, .depth = 0}), "") << "seed " << seed;
}

TEST(BlockBackward, DrawnNestedProgramsAreTheGradient) {
  for (uint64_t seed = 0; seed < numDrawn(); ++seed)
    EXPECT_EQ(disagreement(seed, {.numOps = 6, .depth = 2}), "") << "seed " << seed;
}

/// A drawn program and a call for the gradients of two flagged targets, with respect to parameters and to variables
/// that nothing marks as data.
BlockFile drawnCall(Context &context, uint64_t seed, const BlockDraw &draw) {
  BlockFile file;
  file.program = drawBlocks(context, seed, draw);
  std::vector<std::string> values;
  for (const BlockOp &op : file.program.blocks[0].ops)
    for (const BlockSlot &slot : op.outputs)
      for (TextId name : slot.variables)
        if (const BlockVariable &variable = *file.program.find(0, name);
            variable.dtype == FluidType::Fp64 && variable.shape.size() == 2)
          values.push_back(file.program.text(name).str());
  Dice dice(seed);
  BlockCall &call = file.call.emplace();
  call.api = "gradients";
  call.targets = {"loss", dice.one(ArrayRef(values))};
  call.inputs = {"p0", "p1", "p2", "x0", "x1"};
  for (const std::string &target : call.targets)
    file.program.find(0, file.program.texts.find(target))->stopsGradient = true;
  for (const char *name : {"x0", "x1"}) file.program.find(0, file.program.texts.find(name))->isData = false;
  return file;
}

TEST(BlockBackward, A_19_DrawnLabelsFlaggedTargetsAndVariables) {
  size_t numLost = 0;
  for (uint64_t seed = 0; seed < numDrawn(); ++seed)
    for (const BlockDraw &draw : {BlockDraw{.numOps = 10, .depth = 0, .labelPercent = 20},
                                  BlockDraw{.numOps = 4, .depth = 2, .labelPercent = 20},
                                  BlockDraw{.numOps = 4, .depth = 1, .inPlacePercent = 20}}) {
      TestContext context;
      const BlockFile file = drawnCall(context, seed, draw);
      EXPECT_EQ(disagreement(context, file), "") << "depth " << draw.depth << ", seed " << seed;
      EXPECT_EQ(wrongDifferences(context, file), "") << "depth " << draw.depth << ", seed " << seed;
      numLost += !cantFail(appendBackward(context, file.program, requestOf(*file.call))).lost.empty();
    }
  EXPECT_GE(numLost, numDrawn() / 2);
}

TEST(BlockBackward, IR_12_DrawnProgramsWithArrays) {
  size_t numCompared = 0;
  for (uint64_t seed = 0; seed < numDrawn(); ++seed)
    for (const BlockDraw &draw : {BlockDraw{.numOps = 12, .depth = 0, .arrayPercent = 25},
                                  BlockDraw{.numOps = 6, .depth = 1, .arrayPercent = 40},
                                  BlockDraw{.numOps = 6, .depth = 2, .inPlacePercent = 10, .arrayPercent = 25}}) {
      const std::string problem = disagreement(seed, draw);
      if (StringRef(problem).contains("a branch reads it")) continue;
      EXPECT_EQ(problem, "") << "depth " << draw.depth << ", seed " << seed;
      ++numCompared;
    }
  EXPECT_GE(numCompared, 2 * numDrawn());
  EXPECT_EQ(disagreement(1114, {.numOps = 6, .depth = 2, .inPlacePercent = 10, .arrayPercent = 25}), "")
      << "a counter that nothing on the path reads once values have names of their own";
}

TEST(BlockBackward, AGG_10_DrawnProgramsThatWorkInPlace) {
  for (uint64_t seed = 0; seed < numDrawn(); ++seed) {
    EXPECT_EQ(disagreement(seed, {.numOps = 12, .depth = 0, .inPlacePercent = 40}), "") << "straight, seed " << seed;
    EXPECT_EQ(disagreement(seed, {.numOps = 6, .depth = 2, .inPlacePercent = 40}), "") << "nested, seed " << seed;
  }
}

TEST(BlockBackward, D_28_DrawnProgramsThatOverwriteFlaggedValues) {
  for (uint64_t seed = 0; seed < numDrawn(); ++seed)
    EXPECT_EQ(disagreement(seed, {.numOps = 12, .depth = 0, .flaggedPercent = 25, .inPlacePercent = 10}), "")
        << "seed " << seed;
}

TEST(BlockBackward, D_28_DrawnNestedProgramsWithFlags) {
  constexpr BlockDraw kSmall = {.numOps = 2, .depth = 1, .flaggedPercent = 25, .inPlacePercent = 10},
                      kNested = {.numOps = 6, .depth = 2, .flaggedPercent = 25, .inPlacePercent = 10};
  for (uint64_t seed = 0; seed < numDrawn(); ++seed) EXPECT_EQ(disagreement(seed, kNested), "") << "seed " << seed;
  for (uint64_t seed : {249, 399, 552, 637, 714, 773, 855, 2258, 2469, 3420, 3573, 4314})
    EXPECT_EQ(disagreement(seed, kNested), "") << "nested, seed " << seed;
  EXPECT_EQ(disagreement(6831, kNested), "") << "a flagged name with other values is unflagged";
  EXPECT_EQ(disagreement(5714, {.numOps = 6, .depth = 2, .flaggedPercent = 45, .inPlacePercent = 30}), "")
      << "a flag before a value that is renamed";
  EXPECT_EQ(disagreement(637, kNested), "") << "a loop on such a value";
  for (uint64_t seed : {465, 679, 922, 2023, 2590, 3680})
    EXPECT_EQ(disagreement(seed, kSmall), "") << "small, seed " << seed;
}

TEST(BlockBackward, NG_08_ABranchWhoseGradientIsDroppedLeavesAnEmptyBlock) {
  for (uint64_t seed : {27, 34})
    EXPECT_EQ(disagreement(seed, {.numOps = 6, .depth = 2, .flaggedPercent = 25, .inPlacePercent = 10}), "")
        << "seed " << seed;
}

TEST(BlockBackward, NAME_07_ASecondCallOnAProgramThatOverwritesValues) {
  for (uint64_t seed = 0; seed < numDrawn(); ++seed) {
    EXPECT_EQ(secondDisagreement(seed, {.numOps = 8, .depth = 0}), "") << "straight, seed " << seed;
    EXPECT_EQ(secondDisagreement(seed, {.numOps = 6, .depth = 2}), "") << "nested, seed " << seed;
  }
}

TEST(BlockBackward, NAME_07_ASecondCallWhereALoopInALoopWorksInPlace) {
  for (uint64_t seed : {1630, 9048})
    EXPECT_EQ(secondDisagreement(seed, {.numOps = 6, .depth = 2}), "") << "seed " << seed;
}

TEST(BlockBackward, D_28_DrawnProgramsWithABranchInABranchThatLeavesAName) {
  for (uint64_t seed : {3339, 9866}) EXPECT_EQ(disagreement(seed, {.numOps = 6, .depth = 2}), "") << "seed " << seed;
}

}  // namespace
}  // namespace gradc
