// Which operator a gradient operator of a program belongs to, where its operands do not tell.
#include "tests/support/blocks/array_programs.h"
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/block_gradient.h"
#include "formats/blocks/program/block_attrs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

using Shape = SmallVector<int64_t, 4>;
using Attr = std::pair<StringRef, std::string>;

std::string ints(ArrayRef<int64_t> numbers) { return intsAttrText(AttrTag::Ints, numbers); }
std::string number(int64_t value) { return intAttrText(AttrTag::Int, value); }
std::string text(StringRef value) { return stringAttrText(AttrTag::String, value); }

/// An operator type on one operand, twice, on operands of different shapes.
struct Pair {
  StringRef type;
  std::vector<Attr> attrs;
  Shape p1, a, p2, b;
  StringRef slot = "Out";
  bool hasTwoOutputs = false;
};

void setShape(BlockProgram &program, StringRef name, const Shape &shape) {
  if (const TextId id = program.texts.find(name); id.isValid()) program.find(0, id)->shape = shape;
}

/// loss = Σ a² + Σ b²
BlockProgram programOfPair(Context &context, const Pair &pair) {
  const std::string call = pair.type.str() + " X=", slot = pair.slot.str();
  auto outputs = [&](std::string name) {
    return " -> " + slot + "=" + name + (pair.hasTwoOutputs ? "," + name + "2" : "");
  };
  BlockProgram program = programOf(call + "p1" + outputs("a") + "\n" + call + "p2" + outputs("b") +
                                   "\nsquare X=a -> Out=sa\nsquare X=b -> Out=sb\nreduce_sum X=sa -> Out=la\n"
                                   "reduce_sum X=sb -> Out=lb\nelementwise_add X=la Y=lb -> Out=loss");
  for (StringRef name : {"a", "a2", "sa"}) setShape(program, name, pair.a);
  for (StringRef name : {"b", "b2", "sb"}) setShape(program, name, pair.b);
  setShape(program, "p1", pair.p1);
  setShape(program, "p2", pair.p2);
  for (StringRef name : {"la", "lb"}) setShape(program, name, {});
  SmallVector<AttrText, 4> attrs;
  for (const auto &[key, value] : pair.attrs) attrs.push_back({key, value});
  for (BlockOp &op : program.blocks[0].ops)
    op.attrs = program.text(op.type) == pair.type            ? context.attrs(attrs)
               : program.text(op.type).starts_with("reduce") ? context.attrs({{"reduce_all", boolAttrText(true)}})
                                                             : Attrs();
  return program;
}

/// The loss and the gradients of p1 and p2, of the program with its gradient; `bindings` are those of the forward
/// program.
Expected<std::vector<Array>> emittedValues(Context &context, const BlockProgram &program,
                                           std::vector<NamedArray> bindings) {
  BlockGraphOptions options;
  options.heads = {"loss", "p1@GRAD", "p2@GRAD"};
  Expected<BlockGraph> graph = graphOfBlocks(context, program, options);
  if (!graph) return graph.takeError();
  return runHeads(context, graph->graph, std::move(bindings));
}

/// Empty where the program with its gradient has the values of the gradient of the program.
std::string disagreement(Context &context, const BlockProgram &program) {
  BlockCall call;
  call.api = "append_backward";
  call.loss = "loss";
  Expected<BlockGradient> asked = gradientOfCall(context, program, call, {});
  if (!asked) return "graph: " + describeWithNotes(asked.takeError());
  Expected<GradientResult> made = buildGradient(context, asked->forward.graph, asked->request, {});
  if (!made) return "engine: " + describeWithNotes(made.takeError());
  const std::vector<NamedArray> bindings = drawnBindings(asked->forward.graph, 1);
  Expected<std::vector<Array>> expected = runHeads(context, made->graph, bindings);
  if (!expected) return "engine: " + describeWithNotes(expected.takeError());
  Expected<FluidResult> emitted = appendBackward(context, program, lossOf());
  if (!emitted) return "emission: " + describeWithNotes(emitted.takeError());
  Expected<std::vector<Array>> ours = emittedValues(context, emitted->program, bindings);
  if (!ours) return "reading: " + describeWithNotes(ours.takeError());
  for (size_t i = 0; i < 3; ++i)
    if ((*ours)[i].shape != (*expected)[i].shape || (*ours)[i].bytes != (*expected)[i].bytes)
      return "head " + std::to_string(i) + " differs";
  return "";
}

const Pair kPad = {"pad", {{"paddings", ints({1, 1})}}, {2}, {4}, {3}, {5}};

TEST(ForwardSearch, A_19_GradientOperatorsThatReadNoOperand) {
  const Pair pairs[] = {
      kPad,
      {"tril_triu", {{"lower", boolAttrText(true)}, {"diagonal", number(0)}}, {2, 2}, {2, 2}, {3, 4}, {3, 4}},
      {"unstack", {{"axis", number(0)}, {"num", number(2)}}, {2, 3}, {3}, {2, 4}, {4}, "Y", true},
      {"label_smooth", {{"epsilon", floatAttrText(AttrTag::Float, 0.25)}}, {2, 3}, {2, 3}, {2, 4}, {2, 4}},
      {"pixel_shuffle", {{"upscale_factor", number(2)}}, {1, 4, 2, 2}, {1, 1, 4, 4}, {1, 8, 3, 2}, {1, 2, 6, 4}},
      {"pixel_unshuffle", {{"downscale_factor", number(2)}}, {1, 1, 4, 4}, {1, 4, 2, 2}, {1, 2, 6, 4}, {1, 8, 3, 2}},
      {"channel_shuffle", {{"groups", number(2)}}, {1, 4, 2, 2}, {1, 4, 2, 2}, {1, 8, 3, 2}, {1, 8, 3, 2}},
      {"floor", {}, {2}, {2}, {3}, {3}},
      {"ceil", {}, {2}, {2}, {3}, {3}},
      {"round", {}, {2}, {2}, {3}, {3}},
      {"trunc", {}, {2}, {2}, {3}, {3}},
  };
  for (const Pair &pair : pairs) {
    TestContext context;
    EXPECT_EQ(disagreement(context, programOfPair(context, pair)), "") << pair.type.str();
  }
}

/// The emitted gradient of a pair, with other names for the gradients that `pair.type` reads and writes.
BlockProgram renamedGradient(Context &context, const Pair &pair) {
  BlockProgram program = cantFail(appendBackward(context, programOfPair(context, pair), lossOf())).program;
  const std::pair<const char *, const char *> renames[] = {{"a@GRAD", "first"}, {"b@GRAD", "second"}};
  for (const auto &[from, to] : renames) {
    BlockVariable record = *program.find(0, program.texts.find(from));
    const TextId old = record.name;
    record.name = program.intern(to);
    const TextId renamed = record.name;
    program.addVariable(0, std::move(record));
    for (BlockOp &op : program.blocks[0].ops)
      for (std::vector<BlockSlot> *slots : {&op.inputs, &op.outputs})
        for (BlockSlot &slot : *slots)
          for (TextId &name : slot.variables)
            if (name == old) name = renamed;
  }
  return program;
}

TEST(ForwardSearch, A_19_OtherNamesLeaveTheGradientsWrittenThenShapes) {
  TestContext context;
  const BlockProgram forward = programOfPair(context, kPad);
  const Graph graph = cantFail(graphOfBlocks(context, forward, {})).graph;
  const std::vector<NamedArray> bindings = drawnBindings(graph, 1);
  const BlockProgram plain = cantFail(appendBackward(context, forward, lossOf())).program;
  const std::vector<Array> expected = cantFail(emittedValues(context, plain, bindings));
  BlockProgram renamed = renamedGradient(context, kPad);
  auto isEqual = [&](const BlockProgram &program) {
    Expected<std::vector<Array>> ours = emittedValues(context, program, bindings);
    if (!ours) return describeWithNotes(ours.takeError());
    for (size_t i = 0; i < 3; ++i)
      if ((*ours)[i].bytes != expected[i].bytes) return "head " + std::to_string(i) + " differs";
    return std::string();
  };
  EXPECT_EQ(isEqual(renamed), "");
}

TEST(ForwardSearch, A_19_AnOperatorThatMayBelongToSeveralIsRefused) {
  TestContext context;
  BlockProgram program = programOf("floor X=p1 -> Out=a\nfloor X=p2 -> Out=b\nfloor_grad Out@GRAD=g -> X@GRAD=h");
  BlockGraphOptions options;
  options.heads = {"h", "a", "b"};
  EXPECT_TRUE(bool(graphOfBlocks(context, program, options))) << "one shape: one gradient";
  for (StringRef name : {"p1", "a", "p2", "b", "g", "h"}) setShape(program, name, {-1});
  const Graph unknown = cantFail(graphOfBlocks(context, program, options)).graph;
  EXPECT_NE(dump(unknown).find("floor_grad"), std::string::npos) << "not known to be either";
  program.blocks[0].ops[2].inputs[0].variables[0] = program.intern("a@GRAD");
  program.addVariable(0, {program.intern("a@GRAD"), FluidType::LodTensor, FluidType::Fp64, {-1}, 0});
  EXPECT_EQ(dump(cantFail(graphOfBlocks(context, program, options)).graph).find("floor_grad"), std::string::npos)
      << "the gradient of a";
  BlockProgram twice = programOf("floor X=p1 -> Out=a\nfloor X=p2 -> Out=a\nfloor_grad Out@GRAD=a@GRAD -> X@GRAD=h");
  for (StringRef name : {"p1", "p2", "a", "a@GRAD", "h"}) setShape(twice, name, {-1});
  options.heads = {"h"};
  EXPECT_EQ(StringRef(describeWithNotes(graphOfBlocks(context, twice, options).takeError())).split(';').first,
            "[bad_entry] block 0, operator 2 (floor_grad): several operators 'floor' may be the one whose gradient it "
            "is");
}

TEST(ForwardSearch, A_19_ASecondGradientOfTwoPools) {
  TestContext context;
  BlockProgram program = programOf("pool2d X=p1 -> Out=a\npool2d X=p2 -> Out=b\nsquare X=a -> Out=sa\nsquare X=b -> "
                                   "Out=sb\nelementwise_add X=sa Y=sb -> Out=s\nreduce_sum X=s -> Out=loss");
  for (StringRef name : {"p1", "p2"}) setShape(program, name, {1, 1, 2, 2});
  for (StringRef name : {"a", "b", "sa", "sb", "s"}) setShape(program, name, {1, 1, 1, 1});
  for (BlockOp &op : program.blocks[0].ops)
    op.attrs = context.attrs({{"ksize", ints({2, 2})},
                              {"paddings", ints({0, 0})},
                              {"pooling_type", text("max")},
                              {"reduce_all", boolAttrText(true)},
                              {"strides", ints({2, 2})}});
  BlockProgram first = cantFail(appendBackward(context, program, gradientsOf({"loss"}, {"p1", "p2"}))).program;
  for (const char *seed : {"s1", "s2"})
    first.addVariable(0, {first.intern(seed), FluidType::LodTensor, FluidType::Fp64, {1, 1, 2, 2}, 0});
  FluidRequest request = gradientsOf({"p1@GRAD", "p2@GRAD"}, {"p1", "p2"});
  request.targetGradients = {"s1", "s2"};
  request.priorCalls = 1;
  const FluidResult second = cantFail(appendBackward(context, first, request));
  BlockGraphOptions options;
  for (const FluidPair &pair : second.pairs) options.heads.push_back(second.program.text(pair.gradient).str());
  const Graph graph = cantFail(graphOfBlocks(context, second.program, options)).graph;
  std::vector<NamedArray> bindings = drawnBindings(graph, 1);
  const std::map<std::string, std::vector<double>> given = {
      {"p1", {1, 2, 3, 4}}, {"p2", {8, 7, 6, 5}}, {"s1", {1, 2, 3, 10}}, {"s2", {20, 5, 6, 7}}};
  for (NamedArray &binding : bindings)
    if (auto at = given.find(binding.name); at != given.end())
      for (size_t i = 0; i < at->second.size(); ++i)
        std::memcpy(binding.array.bytes.data() + i * sizeof(double), &at->second[i], sizeof(double));
  // The gradient of a² is 2a at the maximum; that of its product with a seed is twice the seed there, zero elsewhere.
  const std::vector<Array> heads = cantFail(runHeads(context, graph, bindings));
  EXPECT_EQ(doubles(heads[0]), (std::vector<double>{0, 0, 0, 20}));
  EXPECT_EQ(doubles(heads[1]), (std::vector<double>{40, 0, 0, 0}));
}

TEST(ForwardSearch, A_19_ManyOperatorsOnOneOperand) {
  TestContext context;
  std::string program;
  std::string terms;
  for (int i = 0; i < 200; ++i) {
    const std::string k = std::to_string(i);
    program += "reshape2 X=p1 -> Out=r" + k + " XShape=x" + k + "\nsquare X=r" + k + " -> Out=q" + k + "\n";
    terms += (i ? ",q" : "q") + k;
  }
  BlockProgram made = programOf(program + "sum X=" + terms +
                                " -> Out=s\nelementwise_mul X=s Y=p2 -> Out=t\n"
                                "reduce_sum X=t -> Out=loss");
  for (BlockOp &op : made.blocks[0].ops)
    op.attrs = context.attrs({{"reduce_all", boolAttrText(true)}, {"shape", ints({2})}});
  for (int i = 0; i < 200; ++i) setShape(made, "x" + std::to_string(i), {0, 2});
  EXPECT_EQ(disagreement(context, made), "");
}

}  // namespace
}  // namespace gradc
