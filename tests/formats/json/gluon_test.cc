// A network that gluon exports: its fused LSTM packs the parameters of layers and directions with _rnn_param_concat,
// and leaves the input size of the first layer open. Values are those of MXNet 1.9.1, recorded in testdata/gluon.
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz_reader.h"
#include "tests/support/tool.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>

namespace gradc::testing {
namespace {

std::map<std::string, std::vector<float>> arraysOf(const ScratchFolder &folder, const std::string &file) {
  std::map<std::string, std::vector<float>> arrays;
  for (NamedArray &named : llvm::cantFail(parseNpz(folder.read(file), file))) {
    const TensorRef tensor = named.array.ref();
    arrays[named.name].assign(tensor.as<const float>(), tensor.as<const float>() + tensor.size());
  }
  return arrays;
}

TEST(Gluon, INF_04_AnLstmOfTwoDirectionsAsMxnetComputesIt) {
  ScratchFolder folder;
  for (const char *name : {"lstm_bidirectional.json", "lstm_bidirectional.inputs.npz", "lstm_bidirectional.mxnet.npz"})
    folder.write(name, readText(std::string("testdata/gluon/") + name));
  const ToolResult emitted = folder.run("grad lstm_bidirectional.json --wrt all --shape data=3,2,4 --seed "
                                        "lstm0_rnn0_output=hg -o train.json");
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  const ToolResult ran = folder.run("run train.json --train --inputs lstm_bidirectional.inputs.npz --outputs out.npz");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto found = arraysOf(folder, "out.npz"), expected = arraysOf(folder, "lstm_bidirectional.mxnet.npz");
  EXPECT_EQ(expected.size(), 18u);
  for (const auto &[name, values] : expected) {
    ASSERT_TRUE(found.count(name)) << name;
    ASSERT_EQ(found.at(name).size(), values.size()) << name;
    float largest = 0;
    for (float value : values) largest = std::max(largest, std::abs(value));
    EXPECT_GT(largest, 0) << name;
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found.at(name)[i], values[i], 2e-6 * largest) << name;
  }
}

}  // namespace
}  // namespace gradc::testing
