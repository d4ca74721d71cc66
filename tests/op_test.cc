// The registry: names, aliases, suggestions.
#include "ir/op.h"

#include "gtest/gtest.h"

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
