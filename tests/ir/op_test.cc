// The registry: names, aliases, suggestions.
#include "ir/op/op.h"

#include "gtest/gtest.h"

#include <array>

using namespace llvm;

namespace gradc {
namespace {

const OpDef kPool = {.name = "Pooling", .aliases = {"Pooling_v1", "pool"}};
const OpDef kRelu = {.name = "relu"};
const OpDef kClash = {.name = "another", .aliases = {"relu"}};

struct RegistryTest : ::testing::Test {
  OpRegistry registry;
  RegistryTest() {
    cantFail(registry.add(kPool));
    cantFail(registry.add(kRelu));
  }
};

TEST_F(RegistryTest, FindsByNameAndAlias) {
  EXPECT_EQ(registry.find("Pooling"), &kPool);
  EXPECT_EQ(registry.find("pool"), &kPool);
  EXPECT_EQ(registry.find("Pool"), nullptr);
  EXPECT_EQ(registry.find(""), nullptr);
}

TEST_F(RegistryTest, ANameIsGivenOnce) {
  EXPECT_EQ(toString(registry.add(kClash)), "operator 'relu' is registered twice [ambiguous_name]");
  EXPECT_EQ(registry.find("relu"), &kRelu);
}

TEST_F(RegistryTest, AllListsOperatorsOnceByName) {
  EXPECT_EQ(registry.all(), (std::vector<const OpDef *>{&kPool, &kRelu}));
}

TEST_F(RegistryTest, SuggestsTheNearest) {
  ASSERT_FALSE(registry.suggest("rely").empty());
  EXPECT_EQ(registry.suggest("rely")[0], "relu");
  EXPECT_EQ(registry.suggest("Poolin")[0], "Pooling");
  EXPECT_TRUE(registry.suggest("Convolution").empty());
}

// ---- what add refuses

std::string refusal(const OpDef &op) {
  OpRegistry registry;
  cantFail(registry.add(kRelu));
  std::string text = "success";
  if (Error error = registry.add(op)) text = toString(std::move(error));
  EXPECT_EQ(registry.all().size(), text == "success" ? 2u : 1u) << "all of its names or none";
  return text;
}

std::vector<StringRef> names(size_t count) { return std::vector<StringRef>(count, "name"); }

TEST(OpRegistry, MoreThanTwelvePortsAreRefused) {
  OpDef op = {.name = "wide"};
  op.inputs = NameList(names(12).data(), 12);
  op.outputs = NameList(names(12).data(), 12);
  EXPECT_EQ(refusal(op), "success");
  op.inputs = NameList(names(13).data(), 13);
  EXPECT_EQ(ArrayRef<StringRef>(op.inputs.names).size(), 12u);
  EXPECT_EQ(refusal(op), "operator 'wide' has more than 12 named inputs, the most an operator can declare [arity]");
  op.inputs = {};
  op.outputs = NameList(names(500).data(), 500);
  EXPECT_EQ(refusal(op), "operator 'wide' has more than 12 named outputs, the most an operator can declare [arity]");
  op.outputs = {};
  op.aliases = NameList(names(13).data(), 13);
  EXPECT_EQ(refusal(op), "operator 'wide' has more than 12 aliases, the most an operator can declare [arity]");
}

TEST(OpRegistry, REG_14_InPlacePositionsBeyondTheOperatorsAreRefused) {
  OpDef op = {.name = "inside", .inputs = {"lhs", "rhs"}};
  InplacePair pair{1, 0};
  op.inplace = pair;
  EXPECT_EQ(refusal(op), "success");
  pair = {2, 0};
  EXPECT_EQ(refusal(op), "operator 'inside' declares in-place input 2, but the number of inputs is 2 [bad_entry]");
  pair = {256, 0};  // not input 0
  EXPECT_EQ(refusal(op), "operator 'inside' declares in-place input 256, the largest position is 255 [bad_entry]");
  pair = {0, 1};
  EXPECT_EQ(refusal(op), "operator 'inside' declares in-place output 1, but the number of outputs is 1 [bad_entry]");
  // Where attributes decide how many there are, the declaration has the last word up to 255.
  op.inputs = {{}, [](const NodeKind &) { return 300u; }, true};
  for (uint32_t position : {2u, 255u}) {
    pair = {position, 0};
    EXPECT_EQ(refusal(op), "success") << position;
  }
  pair = {256, 0};
  EXPECT_EQ(refusal(op), "operator 'inside' declares in-place input 256, the largest position is 255 [bad_entry]");
  op.inplace = {};
  InputDefault row{256, "__init__", "zero", nullptr};
  op.inputDefaults = row;
  EXPECT_EQ(refusal(op), "operator 'inside' has a default for input 256, the largest position is 255 [bad_entry]");
}

TEST(OpRegistry, REG_15_SetsOfPositionsThatTakeAConditionAreRefused) {
  for (int position : {-1, 64}) {
    OpDef op = {.name = "far"};
    op.stopped = {0, position};
    EXPECT_EQ(refusal(op),
              "operator 'far' lists a position beyond 63 among its stopped inputs; such positions need a condition "
              "[bad_entry]");
  }
  OpDef op = {.name = "near"};
  op.stopped = {0, 63};
  EXPECT_EQ(refusal(op), "success");
}

TEST(OpRegistry, REG_19_AttributesNeedTheirFunctions) {
  AttrSpec row;
  row.key = "axis";
  OpDef op = {.name = "schema"};
  op.attrs = row;
  row.parse = [](const AttrSpec &, StringRef, ParamsArena &, void *) { return true; };
  const StringRef half =
      "operator 'schema' declares attribute 'axis' without functions that parse and print it [bad_attribute]";
  EXPECT_EQ(refusal(op), half);
  row.print = [](const AttrSpec &, raw_ostream &, const void *) {};
  EXPECT_EQ(refusal(op), "success");
  row.parse = nullptr;
  EXPECT_EQ(refusal(op), half);
  op.attrs = {};
  op.params.align = 24;
  EXPECT_EQ(refusal(op),
            "operator 'schema' aligns its parameters to 24 bytes, expected a power of two [bad_attribute]");
}

TEST(OpRegistry, ANameThatIsTakenLeavesNothingBehind) {
  for (auto [first, second, taken] :
       {std::array{"also", "relu", "relu"}, {"also", "also", "also"}, {"fresh", "other", "fresh"}})
    EXPECT_EQ(refusal({.name = "fresh", .aliases = {first, second}}),
              "operator '" + std::string(taken) + "' is registered twice [ambiguous_name]");
}

TEST(Op, SetsOfInputsHaveAnySize) {
  const uint64_t words[] = {1, 0, uint64_t{1} << 63};
  NodeKind kind;
  kind.mutated = InputBits(words);
  for (size_t input : {0u, 191u}) EXPECT_TRUE(kind.isMutated(input)) << input;
  for (size_t input : {1u, 32u, 63u, 64u, 190u, 192u, 65535u}) EXPECT_FALSE(kind.isMutated(input)) << input;
  EXPECT_FALSE(kind.isIgnored(0));
}

}  // namespace
}  // namespace gradc
