// Large programs of blocks: what reads, differentiates and writes them takes time in proportion to their operators and
// blocks (CLI-06).
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/program_desc_bytes.h"
#include "tests/support/runs/linear_time.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/files/program_desc.h"
#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/blocks/program/block_attrs.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

class Builder {
 public:
  Builder() {
    program.blocks.emplace_back();
    declare(0, "p").isParameter = true;
    program.parameters.push_back({program.intern("p"), true});
    declare(0, "go").dtype = FluidType::Bool;
  }

  BlockVariable &declare(uint32_t block, const std::string &name) {
    program.addVariable(block, {program.intern(name), FluidType::LodTensor, FluidType::Fp64, {1}});
    return *program.find(block, program.texts.find(name));
  }
  void op(uint32_t block, StringRef type, const SlotNames &inputs, const std::string &out) {
    if (out != "p") declare(block, out);
    addOp(program, block, type, inputs, {{"Out", {out}}});
  }
  BlockProgram lossOf(const std::string &x) {
    op(0, "reduce_sum", {{"X", {x}}}, "loss");
    return std::move(program);
  }

  BlockProgram program;
};

BlockProgram chain(uint32_t n) {
  Builder made;
  std::string x = "p";
  for (uint32_t k = 0; k < n; ++k) {
    const std::string y = "y" + std::to_string(k);
    if (k % 2) made.op(0, "elementwise_mul", {{"X", {x}}, {"Y", {"p"}}}, y);
    else made.op(0, "tanh", {{"X", {x}}}, y);
    x = y;
  }
  return made.lossOf(x);
}

/// y = tanh(x) * p in a branch of its own, n times.
BlockProgram branches(uint32_t n) {
  Builder made;
  std::string x = "p";
  for (uint32_t k = 0; k < n; ++k) {
    const std::string number = std::to_string(k), y = "y" + number, scope = "scope" + number;
    const uint32_t inner = addBlock(made.program, 0, {});
    made.declare(0, y);
    made.program.addVariable(0, {made.program.intern(scope), FluidType::StepScopes});
    made.op(inner, "tanh", {{"X", {x}}}, "t" + number);
    addOp(made.program, inner, "elementwise_mul", {{"X", {"t" + number}}, {"Y", {"p"}}}, {{"Out", {y}}});
    addOp(made.program, 0, "conditional_block", {{"Cond", {"go"}}, {"Input", {x, "p"}}},
          {{"Out", {y}}, {"Scope", {scope}}}, inner);
    x = y;
  }
  return made.lossOf(x);
}

/// Programs that are large in one way each.
BlockProgram manyParameters(uint32_t n) {
  Builder made;
  std::string x = "p";
  for (uint32_t k = 0; k < n; ++k) {
    const std::string number = std::to_string(k), p = "p" + number, y = "y" + number;
    made.declare(0, p).isParameter = true;
    made.program.parameters.push_back({made.program.intern(p), true});
    made.op(0, "elementwise_mul", {{"X", {x}}, {"Y", {p}}}, y);
    x = y;
  }
  return made.lossOf(x);
}

/// One operator with n variables in a slot, each of which an operator yields.
BlockProgram manySlots(uint32_t n) {
  Builder made;
  std::vector<std::string> terms;
  for (uint32_t k = 0; k < n; ++k) {
    terms.push_back("y" + std::to_string(k));
    made.op(0, "tanh", {{"X", {"p"}}}, terms.back());
  }
  made.declare(0, "all");
  addOp(made.program, 0, "sum", {{"X", terms}}, {{"Out", {"all"}}});
  return made.lossOf("all");
}

/// Every operator overwrites the variable that it reads.
BlockProgram oneName(uint32_t n) {
  Builder made;
  made.op(0, "tanh", {{"X", {"p"}}}, "y");
  for (uint32_t k = 1; k < n; ++k) addOp(made.program, 0, "tanh", {{"X", {"y"}}}, {{"Out", {"y"}}});
  return made.lossOf("y");
}

/// n arrays of one element each.
BlockProgram manyArrays(uint32_t n) {
  Builder made;
  made.program.addVariable(0, {made.program.intern("i"), FluidType::LodTensor, FluidType::Int64, {1}});
  TestContext context;
  addOp(made.program, 0, "fill_constant", {}, {{"Out", {"i"}}}).attrs =
      context.attrs({{"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64))},
                     {"shape", intsAttrText(AttrTag::Longs, {1})},
                     {"value", floatAttrText(AttrTag::Float, 0)}});
  std::string x = "p";
  for (uint32_t k = 0; k < n; ++k) {
    const std::string number = std::to_string(k), array = "a" + number, y = "y" + number;
    made.program.addVariable(0, {made.program.intern(array), FluidType::LodTensorArray, FluidType::Fp64, {1}});
    addOp(made.program, 0, "write_to_array", {{"X", {x}}, {"I", {"i"}}}, {{"Out", {array}}});
    made.op(0, "read_from_array", {{"X", {array}}, {"I", {"i"}}}, y);
    x = y;
  }
  return made.lossOf(x);
}

using Maker = BlockProgram (*)(uint32_t);

double secondsToEmit(Maker make, uint32_t n) {
  const BlockProgram program = make(n);
  return secondsOf([&] {
    TestContext context;
    EXPECT_EQ(cantFail(appendBackward(context, BlockProgram(program), lossOf())).pairs.size(), 1u);
  });
}

double secondsToRead(Maker make, uint32_t n) {
  TestContext context;
  const BlockProgram program = cantFail(appendBackward(context, make(n), lossOf())).program;
  BlockGraphOptions options;
  options.heads = {"p@GRAD"};
  return secondsOf([&] { EXPECT_TRUE(cantFail(graphOfBlocks(context, program, options)).find("p@GRAD")); });
}

double secondsAsAFile(Maker make, uint32_t n) {
  BlockFile file;
  file.program = make(n);
  return secondsOf([&] {
    TestContext context;
    const std::string json = text(file);
    EXPECT_EQ(cantFail(readBlocks(context, json)).program.blocks.size(), file.program.blocks.size());
  });
}

struct Axis {
  const char *name;
  uint32_t n;
  Maker make;
};
constexpr Axis kAxes[] = {{"ManyParameters", 1000, manyParameters},
                          {"ManySlots", 1000, manySlots},
                          {"OneName", 1000, oneName},
                          {"ManyArrays", 500, manyArrays}};

class BlockAxes : public ::testing::TestWithParam<Axis> {};

TEST_P(BlockAxes, CLI_06_Gradient) {
  expectLinear(GetParam().n, [&](uint32_t n) {
    const BlockProgram program = GetParam().make(n);
    return secondsOf([&] {
      TestContext context;
      cantFail(appendBackward(context, BlockProgram(program), lossOf()));
    });
  });
}

TEST_P(BlockAxes, CLI_06_AsAGraph) {
  expectLinear(GetParam().n, [&](uint32_t n) {
    TestContext context;
    const BlockProgram program = cantFail(appendBackward(context, GetParam().make(n), lossOf())).program;
    BlockGraphOptions options;
    options.heads = {GetParam().make == manyParameters ? "p0@GRAD" : "p@GRAD"};
    return secondsOf([&] { cantFail(graphOfBlocks(context, program, options)); });
  });
}

TEST_P(BlockAxes, CLI_06_AsAFile) {
  expectLinear(GetParam().n, [&](uint32_t n) { return secondsAsAFile(GetParam().make, n); });
}

INSTANTIATE_TEST_SUITE_P(Cells, BlockAxes, ::testing::ValuesIn(kAxes),
                         [](const ::testing::TestParamInfo<Axis> &info) { return info.param.name; });

TEST(BlockScale, CLI_06_ManyHeadsAsAGraph) {
  expectLinear(1000, [](uint32_t n) {
    TestContext context;
    const BlockProgram program = chain(n);
    BlockGraphOptions options;
    for (uint32_t k = 0; k < n; ++k) options.heads.push_back("y" + std::to_string(k));
    return secondsOf([&] { cantFail(graphOfBlocks(context, program, options)); });
  });
}

TEST(BlockScale, CLI_06_GradientOfManyOperators) {
  expectLinear(4000, [](uint32_t n) { return secondsToEmit(chain, n); });
}

TEST(BlockScale, CLI_06_GradientOfManyBlocks) {
  expectLinear(1000, [](uint32_t n) { return secondsToEmit(branches, n); });
}

TEST(BlockScale, CLI_06_ManyOperatorsAsAGraph) {
  expectLinear(2000, [](uint32_t n) { return secondsToRead(chain, n); });
}

TEST(BlockScale, CLI_06_ManyBlocksAsAGraph) {
  expectLinear(700, [](uint32_t n) { return secondsToRead(branches, n); });
}

TEST(BlockScale, CLI_06_FilesOfManyBlocks) {
  expectLinear(1000, [](uint32_t n) { return secondsAsAFile(branches, n); });
}

/// One operator with n slots, listed from the last to the first.
std::string slotsInReverse(uint32_t n) {
  std::string slots, order;
  for (uint32_t k = 0; k < n; ++k) {
    const std::string comma = k ? ", " : "";
    slots += comma + "\"S" + std::to_string(k) + "\": [\"x\"]";
    order += comma + "\"S" + std::to_string(n - 1 - k) + "\"";
  }
  return R"({"program": {"blocks": [{"idx": 0, "parent": -1, "forward": -1, "vars": {"x": {"kind": "LOD_TENSOR", )"
         R"("dtype": "FP64", "shape": [1], "persistable": false,
      "stop_gradient": false, "is_parameter": false}}, "ops": [{"type": "mine", "in": {)" +
         slots + R"(}, "in_order": [)" + order +
         R"(], "out": {}, "out_order": [], "attrs": {}}]}], "parameters": []}})";
}

TEST(BlockScale, CLI_06_FilesWithManySlots) {
  for (bool isJson : {true, false}) {
    SCOPED_TRACE(isJson ? "JSON" : "protocol buffer");
    expectLinear(2000, [&](uint32_t n) {
      const std::string json = slotsInReverse(n), file = isJson ? json : programDescOf(json);
      return secondsOf([&] {
        TestContext context;
        const BlockFile read = cantFail(isJson ? readBlocks(context, file) : readProgramDesc(context, file));
        EXPECT_EQ(read.program.blocks[0].ops[0].inputs.size(), n);
      });
    });
  }
}

TEST(BlockScale, CLI_06_AHundredThousandBlocksAndAMillionOperators) {
  for (const auto &[make, n] :
       {std::pair<Maker, uint32_t>(branches, 100'000), std::pair<Maker, uint32_t>(chain, 1'000'000)}) {
    TestContext context;
    Expected<FluidResult> made = appendBackward(context, make(n), lossOf());
    ASSERT_TRUE(!!made) << describeWithNotes(made.takeError());
    EXPECT_EQ(pairsOf(*made), "p=p@GRAD ");
  }
}

}  // namespace
}  // namespace gradc
