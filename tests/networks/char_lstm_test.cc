// A character-level LSTM written as a loop, trained by the tool: the losses are those of the unrolled network and of
// the operator RNN, and the parameters of loop and unrolled network the same bytes.
#include "tests/support/tool.h"

#include "gtest/gtest.h"

namespace gradc::testing {
namespace {

TEST(CharLstm, A_19_LoopUnrolledAndFusedTrainAlike) {
  ScratchFolder folder;
  for (const char *name : {"loop.json", "fused.json", "loop.npz", "fused.npz", "text.npz"})
    folder.write(name, readText(std::string("testdata/char_lstm/") + name));
  const ToolResult flat = folder.run("opt --passes unroll loop.json --shape data=16,16 -o flat.json");
  ASSERT_EQ(flat.code, 0) << flat.err;
  EXPECT_EQ(flat.err, "") << "no loop is kept";
  EXPECT_EQ(folder.read("flat.json").find("_foreach\""), std::string::npos);
  auto train = [&](const std::string &network, const std::string &values) {
    const ToolResult result =
        folder.run("train " + network + ".json --data text.npz --inputs " + values + ".npz --batch 16 --epochs 4 " +
                   "--optimizer adam --lr 0.01 --backend reference -o " + network + ".trained.npz");
    EXPECT_EQ(result.code, 0) << network << ": " << result.err;
    return result.out;
  };
  const std::string lines = train("loop", "loop");
  EXPECT_EQ(train("flat", "loop"), lines);
  EXPECT_EQ(folder.read("flat.trained.npz"), folder.read("loop.trained.npz"));
  EXPECT_NE(folder.read("loop.trained.npz"), "");
  EXPECT_EQ(train("fused", "fused"), lines) << "to the digits that are printed";
  EXPECT_NE(lines.find("epoch 1: loss 3.4726"), std::string::npos) << lines;
  EXPECT_NE(lines.find("epoch 4: loss 2.6177"), std::string::npos) << lines;
}

}  // namespace
}  // namespace gradc::testing
