// Programs as Paddle saves them: protocol buffers against the JSON of the same programs.
#include "formats/blocks/files/program_desc.h"
#include "formats/blocks/files/wire_format.h"
#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/wire_bytes.h"
#include "tests/support/drawn/dice.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::string slot(uint32_t field, const std::string &name, const std::vector<std::string> &variables) {
  std::string content = message(1, name);
  for (const std::string &variable : variables) content += message(2, variable);
  return message(field, content);
}
std::string attr(const std::string &name, int64_t type, const std::string &value) {
  return message(4, message(1, name) + number(2, type) + value);
}
std::string tensor(int64_t type, const std::vector<int64_t> &dims) {
  std::string content = number(1, type);
  for (int64_t dim : dims) content += number(2, dim);
  return content;
}
std::string variable(const std::string &name, const std::string &type, const std::string &flags = "") {
  return message(3, message(1, name) + message(2, type) + flags);
}

/// One operator with an attribute of each type, in a block within the root; packed and single numbers.
std::string small() {
  const std::string lod = number(1, 7) + message(3, message(1, tensor(6, {-1, 3})) + number(2, 1));
  const std::string rows = number(1, 8) + message(2, tensor(5, {4}));
  const std::string scopes = number(1, 11);
  const std::string complex = message(5, fixed(1, 1.5) + fixed(2, -2.0));
  std::string op = slot(1, "Y", {}) + slot(1, "X", {"x", "x"}) + slot(2, "Out", {"y"}) + message(3, "while");
  op += attr("a_int", 0, number(3, -1)) + attr("b_float", 1, fixed(4, 0.1f)) + attr("c_string", 2, message(5, "s\"ü"));
  op += attr("d_ints", 3, number(6, 1) + number(6, -2)) + attr("e_ints", 3, message(6, varint(3) + varint(400)));
  op += attr("f_floats", 4, fixed(7, 2.5f)) + attr("g_strings", 5, message(8, "p") + message(8, ""));
  op += attr("h_bool", 6, number(10, 1)) + attr("i_bools", 7, message(11, varint(1) + varint(0)));
  op += attr("sub_block", 8, number(12, 1)) + attr("j_long", 9, number(13, int64_t{1} << 40));
  op +=
      attr("k_longs", 11, number(15, 7)) + attr("l_float64s", 12, fixed(16, 0.1)) + attr("m_var", 13, message(17, "x"));
  op += attr("n_vars", 14, message(18, "x")) + attr("o_float64", 15, fixed(19, 1e-5));
  op += attr("p_scalar", 16, message(20, number(1, 3) + fixed(4, 0.5)));
  op += attr("q_scalars", 17,
             message(21, number(1, 1) + number(2, 1)) + message(21, number(1, 2) + number(3, -3)) +
                 message(21, number(1, 4) + complex));
  op += attr("op_device", 2, message(5, "gpu")) + attr("op_callstack", 5, message(8, "File \"a.py\", line 1, in f"));
  const std::string root = number(1, 0) + number(2, -1) + variable("x", lod, number(4, 1) + number(6, 1)) +
                           variable("w", rows, number(3, 1) + number(5, 1)) + variable("y", scopes) + message(4, op) +
                           number(5, -1);
  return message(1, root) + message(1, number(1, 1) + number(2, 0) + number(99, 5)) + message(4, number(1, 0));
}

constexpr StringLiteral kSmall =
    R"({"program":{"blocks":[{"forward":-1,"idx":0,"ops":[{"attrs":{"a_int":["INT",-1],"b_float":["FLOAT",0.1],)"
    R"("c_string":["STRING","s\"\u00fc"],"d_ints":["INTS",[1,-2]],"e_ints":["INTS",[3,400]],"f_floats":["FLOATS",)"
    R"([2.5]],)"
    R"("g_strings":["STRINGS",["p",""]],"h_bool":["BOOLEAN",true],"i_bools":["BOOLEANS",[true,false]],)"
    R"("j_long":["LONG",1099511627776],"k_longs":["LONGS",[7]],"l_float64s":["FLOAT64S",[0.1]],"m_var":["VAR","x"],)"
    R"("n_vars":["VARS",["x"]],"o_float64":["FLOAT64",1e-05],"op_callstack":["STRINGS",["File \"a.py\", line 1, )"
    R"(in f"]],)"
    R"("p_scalar":["SCALAR",["FLOAT64",0.5]],)"
    R"("q_scalars":["SCALARS",[["BOOLEAN",true],["LONG",-3],["COMPLEX128",[1.5,-2.0]]]],"sub_block":["BLOCK",1]},)"
    R"("in":{"X":["x","x"],"Y":[]},"in_order":["Y","X"],"out":{"Out":["y"]},"out_order":["Out"],"type":"while"}],)"
    R"("parent":-1,"vars":{"w":{"dtype":"FP32","is_parameter":true,"kind":"SELECTED_ROWS","persistable":true,)"
    R"("shape":[4],"stop_gradient":false},"x":{"dtype":"FP64","is_data":true,"is_parameter":false,"kind":"LOD_TENSOR",)"
    R"("lod_level":1,"persistable":false,"shape":[-1,3],"stop_gradient":true},"y":{"is_parameter":false,)"
    R"("kind":"STEP_SCOPES","persistable":false,"stop_gradient":false}}},{"forward":-1,"idx":1,"ops":[],"parent":0,)"
    R"("vars":{}}],"parameters":[["w",true]]}})"
    "\n";

std::string errorOf(StringRef bytes) {
  TestContext context;
  Expected<BlockFile> file = readProgramDesc(context, bytes);
  return file ? "success" : describeWithNotes(file.takeError());
}

TEST(ProgramDesc, EveryFieldThatMeansSomethingIsRead) {
  TestContext context;
  EXPECT_TRUE(looksLikeProgramDesc(small()));
  EXPECT_TRUE(looksLikeBlocks(small()));
  EXPECT_EQ(text(cantFail(readBlocks(context, small()))), kSmall);
}

TEST(ProgramDesc, JsonIsNotOne) {
  EXPECT_FALSE(looksLikeProgramDesc(kSmall));
  EXPECT_FALSE(looksLikeProgramDesc("\n{\"program\":{}}"));
  EXPECT_FALSE(looksLikeProgramDesc(""));
  EXPECT_FALSE(looksLikeProgramDesc("\n"));
  EXPECT_FALSE(looksLikeProgramDesc("\n\xff\xff"));
}

TEST(ProgramDesc, ParametersComeInTheOrderInWhichOperatorsNameThem) {
  const std::string lod = number(1, 7) + message(3, message(1, tensor(6, {})));
  const std::string parameter = number(5, 1);
  const std::string root =
      number(1, 0) + number(2, -1) + variable("a", lod, parameter) + variable("b", lod, parameter + number(6, 1)) +
      variable("c", lod, parameter) + variable("d", lod, parameter) + variable("e", lod, parameter) +
      variable("y", lod) +
      message(4, message(3, "while") + slot(1, "X", {"a", "b"}) + attr("sub_block", 8, number(12, 1))) +
      message(4, message(3, "sum") + slot(1, "X", {"a"}));
  const std::string inner = number(1, 1) + number(2, 0) +
                            message(4, message(3, "f") + slot(1, "Bias", {"c"}) + slot(1, "X", {"y", "b", "e"}));
  TestContext context;
  const BlockFile file = cantFail(readBlocks(context, message(1, root) + message(1, inner)));
  std::string order;
  for (const BlockParameter &p : file.program.parameters)
    order += (file.program.text(p.name) + (p.isTrainable ? " " : "(fixed) ")).str();
  EXPECT_EQ(order, "e c b(fixed) a d ");
}

TEST(ProgramDesc, E_33_MalformedBytesNameThePlace) {
  const std::string root = number(1, 0) + number(2, -1);
  auto withOp = [&](const std::string &op) { return message(1, root + message(4, message(3, "f") + op)); };
  EXPECT_EQ(errorOf("\x0a"), "[bad_json] malformed protocol buffer at byte 1: a number is cut off");
  EXPECT_EQ(errorOf("\x0a\x05\x08"), "[bad_json] malformed protocol buffer at byte 2: expected 5 bytes, found 1");
  EXPECT_EQ(errorOf("\x0b"), "[bad_json] malformed protocol buffer at byte 1: a field has the wire type 3");
  EXPECT_EQ(errorOf(std::string("\x00\x00", 2)),
            "[bad_json] malformed protocol buffer at byte 1: a field has the number 0");
  EXPECT_EQ(errorOf("\x08" + std::string(10, '\xff')),
            "[bad_json] malformed protocol buffer at byte 11: a number has more than 64 bits");
  EXPECT_EQ(errorOf(number(1, 3)), "[bad_json] block 0: expected a block in field 1, found a number");
  EXPECT_EQ(errorOf(message(1, number(1, 3))), "[bad_json] block 0: its number is 3");
  EXPECT_EQ(errorOf(message(1, number(1, 0) + number(2, int64_t{1} << 40))),
            "[bad_json] block 0: it is linked to block 1099511627776");
  EXPECT_EQ(errorOf(message(1, root + message(3, message(1, "x")))), "[bad_json] block 0: variable 'x' has no type");
  EXPECT_EQ(errorOf(message(1, root + variable("x", number(1, 16)))), "[bad_json] block 0: a variable has the type 16");
  EXPECT_EQ(errorOf(message(1, root + variable("x", number(1, 17)) + variable("x", number(1, 17)))),
            "[bad_json] block 0: declares 'x' twice");
  EXPECT_EQ(errorOf(message(1, root + message(3, message(1, "\xff") + message(2, number(1, 17))))),
            "[bad_json] block 0: the name of a variable is not UTF-8");
  EXPECT_EQ(errorOf(message(1, root + message(4, ""))), "[bad_json] block 0, operator 0: it has no type");
  EXPECT_EQ(errorOf(withOp(slot(1, "X", {}) + slot(1, "X", {}))),
            "[bad_json] block 0, operator 0: slot 'X' is there twice");
  EXPECT_EQ(errorOf(withOp(message(1, message(2, "x")))), "[bad_json] block 0, operator 0: a slot has no name");
  EXPECT_EQ(errorOf(withOp(attr("a", 18, ""))), "[bad_json] block 0, operator 0: attribute 'a' has the type 18");
  EXPECT_EQ(errorOf(withOp(attr("a", 0, fixed(4, 1.0f)))),
            "[bad_json] block 0, operator 0: attribute 'a' has no value of its type INT");
  EXPECT_EQ(errorOf(withOp(attr("a", 1, fixed(4, 1.0)))),
            "[bad_json] malformed protocol buffer at byte 28: field 4 has another wire type");
  EXPECT_EQ(errorOf(withOp(attr("sub_block", 8, number(12, -4)))),
            "[bad_json] block 0, operator 0: attribute 'sub_block' is -4");
  EXPECT_EQ(errorOf(withOp(attr("sub_block", 8, number(12, 1) + number(12, -4)))),
            "[bad_json] block 0, operator 0: attribute 'sub_block' is -4")
      << "the last of several";
  EXPECT_EQ(errorOf(withOp(attr("a", 16, message(20, number(1, 9))))),
            "[bad_json] block 0, operator 0: a scalar has the type 9");
  EXPECT_EQ(errorOf(withOp(slot(1, "X", {"x"}))), "[foreign_entry] block 0, operator 0 (f): slot 'X' names 'x', which "
                                                  "neither this block nor one around it declares");
}

TEST(ProgramDesc, E_33_NoChangeOfBytesCrashes) {
  const std::string whole = small();
  for (size_t size = 0; size < whole.size(); ++size) (void)errorOf(StringRef(whole).take_front(size));
  Dice dice(1);
  for (int i = 0; i < 3000; ++i) {
    std::string changed = whole;
    for (size_t k = dice.below(3) + 1; k-- > 0;) changed[dice.below(changed.size())] = static_cast<char>(dice.next());
    (void)errorOf(changed);
  }
}

// The order of parameters is not in Paddle's file. It is found again where operators read all of them.
TEST(ProgramDesc, EveryProgramOfPaddleIsItsJson) {
  const std::vector<PaddleFile> files = paddlePrograms(".forward.pb"), texts = paddlePrograms(".forward.json");
  if (files.empty()) GTEST_SKIP() << "no programs in " << paddleFolder();
  ASSERT_EQ(files.size(), texts.size());
  for (size_t i = 0; i < files.size(); ++i) {
    TestContext context;
    BlockFile expected = cantFail(readBlocks(context, texts[i].text));
    expected.call.reset();
    expected.others.clear();
    Expected<BlockFile> read = readBlocks(context, files[i].text);
    if (!read) {
      ADD_FAILURE() << files[i].name << ": " << describeWithNotes(read.takeError());
      continue;
    }
    EXPECT_EQ(text(*read) == text(expected), files[i].name != "unused_param.forward.pb") << files[i].name;
    auto byName = [&](BlockProgram &program) {
      std::sort(program.parameters.begin(), program.parameters.end(),
                [&](const BlockParameter &a, const BlockParameter &b) {
                  return program.text(a.name) < program.text(b.name);
                });
    };
    byName(expected.program);
    byName(read->program);
    EXPECT_EQ(text(*read), text(expected)) << files[i].name;
  }
}

}  // namespace
}  // namespace gradc
