// The JSON file of a block program: read, written byte for byte, errors with their place.
#include "tests/support/blocks/block_programs.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

constexpr StringLiteral kSmall =
    R"({"call":{"api":"append_backward","checkpoints":null,"current_block":0,"loss":"y","loss_block":0,)"
    R"("no_grad_set":["w"],"parameter_list":null,"prior_backward_calls":0},"case":"small","program":{"blocks":[)"
    R"({"forward":-1,"idx":0,"ops":[{"attrs":{"axis":["INT",-1],"op_callstack":["STRINGS",["  File \"a.py\", line )"
    R"(1, in f",)"
    R"("    y"]],"scale":["FLOAT",1e-05],"sub_block":["BLOCK",1]},"in":{"X":["x"],"Y":["w","@EMPTY@"]},)"
    R"("in_order":["Y","X"],"out":{"Out":["y"]},"out_order":["Out"],"type":"while"}],"parent":-1,"vars":{)"
    R"("w":{"dtype":"FP32","is_parameter":true,"kind":"LOD_TENSOR","lod_level":0,"persistable":true,"shape":[2,)"
    R"(-1],"stop_gradient":false},)"
    R"("x":{"dtype":"INT64","is_data":true,"is_parameter":false,"kind":"SELECTED_ROWS","persistable":false,)"
    R"("shape":[],"stop_gradient":true},)"
    R"("y":{"is_parameter":false,"kind":"STEP_SCOPES","persistable":false,"stop_gradient":false}}},)"
    R"({"forward":-1,"idx":1,"ops":[],"parent":0,"vars":{}}],"parameters":[["w",true]]},"result":[["w",null]]})"
    "\n";

std::string errorOf(StringRef text) {
  TestContext context;
  return describeWithNotes(readBlocks(context, text).takeError());
}

std::string replaced(StringRef from, StringRef to) {
  std::string text = kSmall.str();
  const size_t at = text.find(from.str());
  if (at == std::string::npos) return "not found";
  return text.replace(at, from.size(), to.str());
}

TEST(BlockFile, IR_11_EveryPartIsRead) {
  TestContext context;
  const BlockFile file = cantFail(readBlocks(context, kSmall));
  const BlockProgram &program = file.program;
  ASSERT_EQ(program.blocks.size(), 2u);
  EXPECT_EQ(program.blocks[1].parent, 0u);
  EXPECT_EQ(program.blocks[0].parent, std::nullopt);
  const BlockOp &op = program.blocks[0].ops[0];
  EXPECT_EQ(program.text(op.type), "while");
  EXPECT_EQ(op.subBlock, 1u);
  EXPECT_EQ(kSmall.substr(static_cast<size_t>(op.offset)).substr(0, 8), "{\"attrs\"");
  ASSERT_EQ(op.inputs.size(), 2u);
  EXPECT_EQ(program.text(op.inputs[0].name), "Y") << "in the order of in_order";
  EXPECT_EQ(op.inputs[0].variables[1], kEmptyName);
  EXPECT_EQ(program.variables(op.inputs, "X").size(), 1u);
  EXPECT_TRUE(program.variables(op.inputs, "Z").empty());
  const BlockVariable &w = *program.find(0, program.texts.find("w"));
  EXPECT_TRUE(w.isParameter && w.isPersistable && !w.stopsGradient && !w.isData);
  EXPECT_EQ(w.dtype, FluidType::Fp32);
  EXPECT_EQ(ArrayRef(w.shape), ArrayRef<int64_t>({2, -1}));
  const BlockVariable &x = *program.find(0, program.texts.find("x"));
  EXPECT_TRUE(x.isData && x.stopsGradient);
  EXPECT_EQ(x.kind, FluidType::SelectedRows);
  EXPECT_EQ(program.find(0, program.texts.find("y"))->dtype, std::nullopt);
  ASSERT_EQ(program.parameters.size(), 1u);
  EXPECT_TRUE(program.parameters[0].isTrainable);
  ASSERT_TRUE(file.call);
  EXPECT_EQ(file.call->loss, "y");
  EXPECT_EQ(file.call->noGradSet, BlockCall::Names{"w"});
  EXPECT_EQ(file.call->parameterList, std::nullopt);
  ASSERT_EQ(file.result->rows.size(), 1u);
  EXPECT_EQ(file.result->rows[0].parameter, "w");
  EXPECT_EQ(file.result->rows[0].gradient, std::nullopt);
  EXPECT_TRUE(file.warnings.empty());
}

TEST(BlockFile, IR_14_WritingWhatWasReadGivesTheSameBytes) {
  TestContext context;
  EXPECT_EQ(text(cantFail(readBlocks(context, kSmall))), kSmall);
  // Any order of keys and any spaces are read, one is written.
  const std::string bare =
      R"( { "blocks" : [ {"vars": {"ü": {"kind":"RAW"}}, "ops": [ {"out":{}, "type":"a\u00fc"} ] } ] } )";
  const std::string canonical = text(cantFail(readBlocks(context, bare)));
  EXPECT_EQ(canonical,
            R"({"program":{"blocks":[{"forward":-1,"idx":0,"ops":[{"attrs":{},"in":{},"in_order":[],"out":{},)"
            R"("out_order":[],"type":"a\u00fc"}],"parent":-1,"vars":{"\u00fc":{"is_parameter":false,"kind":"RAW",)"
            R"("persistable":false,"stop_gradient":false}}}],"parameters":[]}})"
            "\n");
  EXPECT_EQ(text(cantFail(readBlocks(context, canonical))), canonical);
  // The attribute that is a block is in the order of the others.
  const std::string nested = R"({"blocks": [{"ops": [{"type": "a", "in": {}, "out": {}, "attrs":
      {"sub_c": ["INT", 7], "sub_block": ["BLOCK", 1], "sub_a": ["INT", 1]}}]}, {"idx": 1, "parent": 0, "ops": []}]})";
  EXPECT_NE(text(cantFail(readBlocks(context, nested)))
                .find(R"({"sub_a":["INT",1],"sub_block":["BLOCK",1],"sub_c":["INT",7]})"),
            std::string::npos);
}

TEST(BlockFile, IR_14_EveryProgramOfPaddleRoundTrips) {
  const std::vector<PaddleFile> files = paddlePrograms("ward.json");
  if (files.empty()) GTEST_SKIP() << "no programs in " << paddleFolder();
  size_t numWithout = 0;
  for (const PaddleFile &file : files) {
    TestContext context;
    Expected<BlockFile> read = readBlocks(context, file.text);
    if (!read) {
      EXPECT_EQ(describeWithNotes(read.takeError()), "[bad_json] the file has no program: its key is null; at program")
          << file.name;
      ++numWithout;
      continue;
    }
    EXPECT_EQ(text(*read), file.text) << file.name;
    EXPECT_TRUE(read->warnings.empty()) << file.name;
  }
  EXPECT_EQ(files.size(), 148u);
  EXPECT_EQ(numWithout, 1u) << "the one that Paddle could not differentiate";
}

TEST(BlockFile, E_33_MalformedFilesNameThePlace) {
  const std::string at = "; at program.blocks[0].ops[0]";
  EXPECT_EQ(errorOf(""), "[bad_json] the input is empty, expected a program");
  EXPECT_EQ(errorOf("[]"), "[bad_json] expected an object with a program, found an array");
  EXPECT_EQ(errorOf("{}"), "[bad_json] the file has no key 'program'");
  EXPECT_EQ(errorOf("{\"program\":{}}"), "[bad_json] the program has no key 'blocks'");
  EXPECT_EQ(errorOf("{\"program\":[]}"), "[bad_json] expected an object for 'program', found an array; at program");
  EXPECT_EQ(errorOf("{\"program\":{\"blocks\":3}}"),
            "[bad_json] expected a list for 'blocks', found a number; at program.blocks");
  EXPECT_EQ(errorOf("{\"program\":{\"blocks\":[]}}"), "[bad_json] the program has no block, expected a root");
  EXPECT_EQ(errorOf("{\"program\":{\"blocks\":[{}],\"blocks\":[]}}"),
            "[bad_json] the object has the key 'blocks' twice; at program");
  EXPECT_EQ(errorOf("{\"blocks\":[{}],\"program\":{\"blocks\":[]}}"),
            "[bad_json] the file has two programs; at program");
  EXPECT_EQ(errorOf("{\"program\":{\"program\":3,\"blocks\":[{\"program\":[],\"blocks\":{}}]}}"), "success")
      << "unknown keys";
  EXPECT_EQ(errorOf("{\"program\":null}"), "[bad_json] the file has no program: its key is null; at program");
  EXPECT_EQ(
      errorOf(replaced("\"prior_backward_calls\":0", "\"prior_backward_calls\":-2")),
      "[bad_json] 'prior_backward_calls' of 'call' is -2, expected 0 to 2147483647; at call.prior_backward_calls");
  EXPECT_EQ(errorOf(replaced("\"loss_block\":0", "\"loss_block\":4294967296")),
            "[bad_json] 'loss_block' of 'call' is 4294967296, expected 0 to 2147483647; at call.loss_block");
  EXPECT_EQ(errorOf(replaced("\"idx\":1", "\"idx\":7")), "[bad_json] 'idx' of block 1 is 7; at program.blocks[1].idx");
  EXPECT_EQ(errorOf(replaced("\"ops\":[]", "\"ops\":{}")),
            "[bad_json] expected a list for 'ops' of block 1, found an object; at program.blocks[1].ops");
  EXPECT_EQ(errorOf(replaced("[\"x\"]", "\"x\"")),
            "[bad_json] expected a list of names for slot 'X' of block 0, operator 0 (while), found a string" + at +
                ".in.X");
  EXPECT_EQ(errorOf(replaced("[\"x\"]", "[7]")),
            "[bad_json] expected a name in slot 'X' of block 0, operator 0 (while), found a number" + at + ".in.X[0]");
  EXPECT_EQ(errorOf(replaced("[\"Y\",\"X\"]", "[\"Y\",\"Y\"]")),
            "[bad_json] the order of slots of block 0, operator 0 (while) has 'Y', expected each of its slots once" +
                at + ".in_order[1]");
  EXPECT_EQ(errorOf(replaced("[\"Y\",\"X\"]", "[\"Y\"]")),
            "[bad_json] the order of slots of block 0, operator 0 (while) lists 1 of them, expected 2" + at +
                ".in_order");
  EXPECT_EQ(errorOf(replaced("[\"INT\",-1]", "[\"INT\",\"a\"]")),
            "[bad_json] expected [type, value] for attribute 'axis' of block 0, operator 0 (while), found a value that "
            "does not fit INT" +
                at + ".attrs.axis[1]");
  EXPECT_EQ(
      errorOf(replaced("[\"INT\",-1]", "[\"INT3\",1]")),
      "[bad_json] expected [type, value] for attribute 'axis' of block 0, operator 0 (while), found the type 'INT3'" +
          at + ".attrs.axis[0]");
  EXPECT_EQ(errorOf(replaced("\"axis\"", "\"scale\"")),
            "[bad_json] the object has the key 'scale' twice" + at + ".attrs");
  EXPECT_EQ(errorOf(replaced(",\"type\":\"while\"", "")), "[bad_json] block 0, operator 0 has no 'type'" + at);
  EXPECT_EQ(errorOf(replaced("FP32", "FP33")),
            "[bad_json] 'dtype' of variable 'w' of block 0 is 'FP33', which is not a type; at "
            "program.blocks[0].vars.w.dtype");
  EXPECT_EQ(errorOf(replaced("\"vars\":{}", "\"vars\":{\"a\":{},\"a\":{}}")),
            "[bad_json] block 1 declares 'a' twice; at program.blocks[1].vars");
  EXPECT_EQ(
      errorOf(replaced("[\"BLOCK\",1]", "[\"BLOCK\",2]")),
      "[bad_json] block 0, operator 0 (while): owns block 2, expected a child of its own block without another owner; "
      "created at File \"a.py\", line 1, in f: y" +
          at);
  EXPECT_EQ(errorOf(replaced("append_backward", "backward")),
            "[bad_json] 'api' of 'call' is 'backward', expected append_backward, gradients or minimize; at call");
  EXPECT_EQ(
      errorOf(replaced("[[\"w\",null]]", "[[\"w\"]]")),
      "[bad_json] expected a gradient's name, null or a pair [parameter, gradient] in 'result', found an array; at "
      "result[0]");
  EXPECT_EQ(errorOf(StringRef(kSmall).drop_back(3)).substr(0, 27), "[bad_json] malformed JSON: ");
}

TEST(BlockFile, E_33_NoPrefixIsAProgramAndNoneCrashes) {
  for (size_t size = 0; size + 2 < kSmall.size(); ++size) EXPECT_NE(errorOf(kSmall.substr(0, size)), "success") << size;
}

TEST(BlockFile, ArgumentsOfAnOptimizer) {
  constexpr StringLiteral
      backward = R"("api":"append_backward","checkpoints":null,"current_block":0,"loss":"y","loss_block":0,)"
                 R"("no_grad_set":["w"],"parameter_list":null,)",
      arguments = R"({"centered":true,"rho":0.90})";
  auto minimized = [&](StringRef given) {
    return replaced(
        backward,
        (R"("api":"minimize","current_block":0,"loss":"y","optimizer":"RMSProp","optimizer_arguments":)" + given + ",")
            .str());
  };
  TestContext context;
  const BlockFile file = cantFail(readBlocks(context, minimized(arguments)));
  EXPECT_EQ(file.call->optimizerArguments->at("rho"), "0.90") << "as it is spelled";
  EXPECT_EQ(text(file), minimized(arguments));
  EXPECT_EQ(errorOf(minimized(R"({"rho":"0.9"})")),
            "[bad_json] expected a number or a truth value for 'rho' of 'optimizer_arguments', found a string; at "
            "call.optimizer_arguments.rho");
  EXPECT_EQ(errorOf(minimized("[]")),
            "[bad_json] expected an object for 'optimizer_arguments', found an array; at call.optimizer_arguments");
}

TEST(BlockFile, ABlockLinkedToItselfIsTheGradientOfNone) {
  TestContext context;
  const std::string linked = replaced("\"forward\":-1,\"idx\":1", "\"forward\":1,\"idx\":1");
  EXPECT_EQ(cantFail(readBlocks(context, linked)).program.blocks[1].forward, std::nullopt)
      << "as gradient merge leaves it";
}

TEST(BlockFile, UnknownKeysAreTold) {
  TestContext context;
  const BlockFile file =
      cantFail(readBlocks(context, replaced("\"axis\":[\"INT\",-1],", "").insert(1, "\"more\":[{\"a\":[]}],")));
  EXPECT_EQ(file.others.at("more"), "[{\"a\":[]}]") << "keys of the file are kept";
  const BlockFile other =
      cantFail(readBlocks(context, replaced("\"type\":\"while\"", "\"type\":\"while\",\"color\":3")));
  EXPECT_EQ(other.warnings, std::vector<std::string>{"key 'color' of block 0, operator 0 is ignored"});
}

}  // namespace
}  // namespace gradc
