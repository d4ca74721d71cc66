// Old files become what MXNet 1.9.1's loader makes of them; testdata/json/old.canonical.json was compared with it.
#include "formats/json/legacy_upgrade.h"

#include "tests/support/small_ops.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

std::string fileOfVersion(StringRef node, StringRef attrs) {
  return ("{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, " + node +
          "], \"arg_nodes\": [0], \"heads\": [[1, 0, 0]]" + attrs + "}")
      .str();
}
constexpr StringLiteral kMirrored =
    R"({"op": "relu", "name": "y", "attrs": {"mirror_stage": "True"}, "inputs": [[0, 0, 0]]})";

TEST(LegacyUpgrade, IR_13_PreNnvmFile) {
  SmallContext context;
  LoadedGraph loaded = read(context, readTestFile("testdata/json/old.json"));
  EXPECT_TRUE(loaded.wasUpgraded);
  EXPECT_TRUE(loaded.warnings.empty());
  EXPECT_EQ(written(loaded.graph), readTestFile("testdata/json/old.canonical.json"));
}

TEST(LegacyUpgrade, IsIdempotent) {
  SmallContext context;
  std::string once = converted(readTestFile("testdata/json/old.json"));
  LoadedGraph again = read(context, once);
  EXPECT_FALSE(again.wasUpgraded);
  EXPECT_EQ(written(again.graph), once);
}

TEST(LegacyUpgrade, OnlyFilesThatNeededItAreStamped) {
  const std::string plain = fileOfVersion(R"({"op": "relu", "name": "y", "inputs": [[0, 0, 0]]})", "");
  EXPECT_EQ(converted(plain).find("mxnet_version"), std::string::npos);
  EXPECT_NE(converted(fileOfVersion(kMirrored, "")).find(R"("mxnet_version": ["int", 10901])"), std::string::npos);
  // Two numbers are an old spelling, but the version in the file decides what 0 means in shapes.
  std::string late = converted(fileOfVersion(R"({"op": "relu", "name": "y", "inputs": [[0, 0]]})",
                                             R"(, "attrs": {"mxnet_version": ["int", 20000]})"));
  EXPECT_NE(late.find(R"("mxnet_version": ["int", 20000])"), std::string::npos);
}

TEST(LegacyUpgrade, VersionDecidesWhatIsEvidence) {
  auto hides = [&](StringRef version) {
    return converted(fileOfVersion(kMirrored, (", \"attrs\": {\"mxnet_version\": [\"int\", " + version + "]}").str()))
               .find("__mirror_stage__") != std::string::npos;
  };
  EXPECT_TRUE(hides("10900"));
  EXPECT_FALSE(hides("10901"));
  // From 0.9.0 on a missing input is an error, not an implicit auxiliary state.
  const StringRef norm = R"({"op": "BatchNorm", "name": "bn", "inputs": [[0, 0, 0], [0, 0, 0], [0, 0, 0]]})";
  EXPECT_EQ(readError(fileOfVersion(norm, R"(, "attrs": {"mxnet_version": ["int", 900]})")).kind, ErrorKind::Arity);
  EXPECT_NE(converted(fileOfVersion(norm, R"(, "attrs": {"mxnet_version": ["int", 899]})")).find("bn_moving_var"),
            std::string::npos);
}

// A few bytes would make a million variables.
TEST(LegacyUpgrade, E_42_OperatorsOfAnyNumberOfInputsLackNone) {
  const StringRef sum = R"({"op": "sum_n", "name": "s", "param": {"num_args": "1048576"}, "inputs": [[0, 0]]})";
  EXPECT_EQ(readError(fileOfVersion(sum, "")).message, "node 's': operator 'sum_n' takes 1048576 inputs, got 1");
}

TEST(LegacyUpgrade, OldOperatorNamesKeepTheirSpelling) {
  std::string text =
      converted(fileOfVersion(R"({"op": "Pooling_v1", "name": "y", "param": {}, "inputs": [[0, 0]]})", ""));
  EXPECT_NE(text.find(R"("op": "Pooling_v1")"), std::string::npos);
  SmallContext context;
  LoadedGraph loaded = read(context, text);
  EXPECT_EQ(loaded.graph.op(NodeId(1)), context.ops.find("Pooling"));
}

TEST(LegacyUpgrade, KeysOfVariablesAndUnknownOperatorsStay) {
  std::string text = converted(fileOfVersion(
      R"({"op": "vendor", "name": "y", "attrs": {"weight_lr_mult": "2", "lr_multiplier": "3"}, "inputs": [[0, 0, 0]]})",
      ""));
  EXPECT_NE(text.find(R"("attrs": {"lr_multiplier": "3", "weight_lr_mult": "2"})"), std::string::npos) << text;
}

}  // namespace
}  // namespace gradc::testing
