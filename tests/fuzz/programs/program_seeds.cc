// Sound programs as files. Tested by tests/networks/fuzz_programs_test.cc
#include "tests/fuzz/programs/programs.h"

#include "formats/blocks/program/block_attrs.h"
#include "ops/registry.h"
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/blocks/draw_blocks.h"
#include "tests/support/blocks/rule_samples.h"

#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace gradc::fuzz {
namespace {

/// In the words of tests/support/blocks/backward_programs.h.
constexpr StringLiteral kPrograms[] = {
    "tanh X=p -> Out=a\nelementwise_mul X=a Y=p -> Out=b\nreduce_sum X=b -> Out=loss",
    "conditional_block:1 Cond=c Input=p -> Out=a Scope=s\n"
    "reduce_sum X=a -> Out=loss\n"
    "block 1 in 0\n"
    "tanh X=p -> Out=a",
    "tanh X=p -> Out=a\n"
    "conditional_block:1 Cond=c Input=a,p -> Out=a Scope=s\n"
    "elementwise_mul X=a Y=p -> Out=b\n"
    "reduce_sum X=b -> Out=loss\n"
    "block 1 in 0\n"
    "sin X=a -> Out=d\n"
    "elementwise_add X=d Y=p -> Out=a",
    "select_output Mask=c X=p -> Out=a,b\n"
    "tanh X=a -> Out=d\n"
    "select_input Mask=c X=d,b -> Out=e\n"
    "reduce_sum X=e -> Out=loss",
    "unstack X=p -> Y=a,b\nelementwise_mul X=a Y=b -> Out=d\nreduce_sum X=d -> Out=loss",
    "cast X=p -> Out=a\ntanh X=a -> Out=b\ncast X=b -> Out=d\nreduce_sum X=d -> Out=loss",
    "sum X=p,q,p -> Out=a\nassign X=a -> Out=b\ntanh X=b -> Out=b\nsum X=a,b -> Out=d\nreduce_sum X=d -> Out=loss",
    "write_to_array X=p I=i -> Out=r\nread_from_array X=r I=i -> Out=b\n"
    "lod_array_length X=r -> Out=n\nreduce_sum X=b -> Out=loss",
    "assign X=p -> Out=a\nincrement X=a -> Out=a\nscale X=a -> Out=a\nconcat X=a,p -> Out=b\n"
    "split X=b -> Out=d,e\nelementwise_max X=d Y=e -> Out=f\nreduce_mean X=f -> Out=loss",
};

constexpr StringLiteral kFiles[] = {"branch_writes_state", "given_head_of_branch", "increment_in_loop", "power",
                                    "static_rnn",          "targets_of_loop"};

void finish(Context &context, BlockProgram &program) {
  auto declare = [&](StringRef name, FluidType type, SmallVector<int64_t, 4> shape) {
    const TextId id = program.texts.find(name);
    BlockVariable *variable = id.isValid() ? program.find(0, id) : nullptr;
    if (!variable) return;
    variable->dtype = type;
    variable->shape = std::move(shape);
    variable->stopsGradient = true;
  };
  for (const char *index : {"i", "n"}) declare(index, FluidType::Int64, {1});
  declare("c", FluidType::Bool, {1});
  for (BlockOp &op : program.blocks[0].ops) {
    const StringRef type = program.text(op.type);
    if (type == "select_output") declare("c", FluidType::Int32, {1});
    if (type == "write_to_array") program.find(0, program.texts.find("r"))->kind = FluidType::LodTensorArray;
    if (type == "unstack") {
      for (const char *row : {"a", "b", "d"}) program.find(0, program.texts.find(row))->shape.clear();
      op.attrs = context.attrs({{"axis", intAttrText(AttrTag::Int, 0)}, {"num", intAttrText(AttrTag::Int, 2)}});
    }
    if (type == "concat" || type == "split") {
      program.find(0, program.texts.find("b"))->shape = {4};
      op.attrs = context.attrs({{"axis", intAttrText(AttrTag::Int, 0)}, {"num", intAttrText(AttrTag::Int, 2)}});
    }
    if (type == "cast") {
      const bool isFirst = &op == &program.blocks[0].ops.front();
      for (const char *name : {"a", "b"}) program.find(0, program.texts.find(name))->dtype = FluidType::Fp32;
      op.attrs = context.attrs({{"in_dtype", intAttrText(AttrTag::Int, isFirst ? 6 : 5)},
                                {"out_dtype", intAttrText(AttrTag::Int, isFirst ? 5 : 6)}});
    }
  }
}

BlockFile fileOf(BlockProgram program) {
  BlockFile file;
  file.program = std::move(program);
  file.call.emplace();
  file.call->api = "append_backward";
  file.call->loss = "loss";
  return file;
}

BlockFile withGradient(Context &context, const BlockFile &given) {
  FluidResult made = cantFail(appendBackward(context, BlockProgram(given.program), testing::requestOf(*given.call)));
  BlockFile file;
  file.call = given.call;
  file.result.emplace();
  for (const FluidPair &pair : made.pairs) {
    BlockResult::Row &row = file.result->rows.emplace_back();
    if (file.call->api != "gradients") row.parameter = made.program.text(pair.variable).str();
    if (pair.gradient.isValid()) row.gradient = made.program.text(pair.gradient).str();
  }
  file.program = std::move(made.program);
  return file;
}

std::vector<testing::BlockDraw> draws() {
  std::vector<testing::BlockDraw> all(6);
  for (testing::BlockDraw &draw : all) draw.numOps = 4;
  all[0].depth = 0;
  all[1].depth = 1;
  all[2].flaggedPercent = 20;
  all[3].inPlacePercent = 30;
  all[4].arrayPercent = 25;
  all[4].depth = 1;
  all[5].labelPercent = 30;
  return all;
}

}  // namespace

std::vector<std::string> programSeeds() {
  Context context;
  registerBuiltinOps(context.ops);
  std::vector<BlockFile> files;
  for (StringRef text : kPrograms) {
    files.push_back(fileOf(testing::programOf(text)));
    finish(context, files.back().program);
  }
  for (StringRef name : kFiles)
    if (auto buffer = MemoryBuffer::getFile("testdata/blocks/" + name + ".json"))
      files.push_back(cantFail(readBlocks(context, (*buffer)->getBuffer())));
  for (const auto &[i, draw] : enumerate(draws()))
    for (uint64_t seed = 1; seed <= 3; ++seed)
      files.push_back(fileOf(testing::drawBlocks(context, seed + 10 * i, draw)));
  const size_t numPlain = files.size();
  for (size_t i = 0; i < numPlain; i += 3) files.push_back(withGradient(context, files[i]));
  for (const testing::RuleSample &sample : testing::ruleSamples())
    files.push_back(testing::programOfSample(context, sample));
  std::vector<std::string> texts;
  for (const BlockFile &file : files) texts.push_back(testing::text(file));
  return texts;
}

}  // namespace gradc::fuzz
