// The conversion of filters against oneDNN's own.
#include "runtime/kernels/dnnl/weight_reorder.h"

#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/dnnl/dnnl_step.h"

#include <gtest/gtest.h>

#include <numeric>

namespace gradc {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

std::vector<float> byOneDnn(const memory::desc &from, const memory::desc &to, std::vector<float> &data) {
  std::vector<float> result(to.get_size() / sizeof(float), -1.0f);
  memory source(from, dnnlEngine(), data.data()), target(to, dnnlEngine(), result.data());
  dnnl::stream stream(dnnlEngine());
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
  return result;
}

TEST(WeightReorder, RUN_02_AgreesWithOneDnnToTheBit) {
  const memory::dims cases[] = {{32, 16, 3, 3}, {16, 48, 3, 3}, {16, 32, 1, 1}, {48, 32, 5, 3}, {16, 16, 2, 1}};
  for (const memory::dims &dims : cases)
    for (unsigned threads : {1u, 3u}) {
      SCOPED_TRACE(::testing::Message() << "case " << &dims - cases << ", " << threads << " threads");
      const memory::desc plain(dims, memory::data_type::f32, Tag::abcd);
      const memory::desc tiles(dims, memory::data_type::f32, Tag::ABcd16b16a);
      const std::optional<WeightReorder> reorder = WeightReorder::create(dims);
      ASSERT_TRUE(reorder);
      std::vector<float> data(plain.get_size() / sizeof(float));
      std::iota(data.begin(), data.end(), 1.0f);
      std::vector<float> found(data.size(), -2.0f);
      withThreads(threads, [&] { reorder->toPlain(data.data(), found.data()); });
      EXPECT_EQ(found, byOneDnn(tiles, plain, data));
      std::vector<float> back(data.size(), -2.0f);
      withThreads(threads, [&] { reorder->toTiles(found.data(), back.data()); });
      EXPECT_EQ(back, data);
    }
}

TEST(WeightReorder, WholeTilesOnly) {
  auto exists = [](std::vector<int64_t> dims) { return WeightReorder::create(dims).has_value(); };
  EXPECT_TRUE(exists({16, 32, 3, 3}));
  EXPECT_FALSE(exists({20, 16, 3, 3}));
  EXPECT_FALSE(exists({16, 8, 3, 3}));
  EXPECT_FALSE(exists({16, 16, 3}));
}

}  // namespace
}  // namespace gradc
