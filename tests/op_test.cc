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

TEST(Op, MasksEndAt32) {
  EXPECT_EQ(inputMask({0, 3}), 9u);
  NodeKind kind;
  kind.mutated = inputMask({31});
  EXPECT_TRUE(kind.isMutated(31));
  EXPECT_FALSE(kind.isMutated(32));
  EXPECT_FALSE(kind.isMutated(63));
}

}  // namespace
}  // namespace gradc
