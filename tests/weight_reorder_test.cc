// The conversion of filters against oneDNN's own.
#include "runtime/kernels/weight_reorder.h"

#include "runtime/kernels/dnnl_step.h"
#include "runtime/kernels/threads.h"

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
      const memory::desc plain(dims, memory::data_type::f32, Tag::abcd);
      const memory::desc blocked(dims, memory::data_type::f32, Tag::ABcd16b16a);
      const std::optional<WeightReorder> reorder = WeightReorder::create(blocked, plain);
      ASSERT_TRUE(reorder) << "case " << &dims - cases;
      std::vector<float> data(plain.get_size() / sizeof(float));
      std::iota(data.begin(), data.end(), 1.0f);
      std::vector<float> found(data.size(), -2.0f);
      ThreadScope scope(threads);
      reorder->run(data.data(), found.data());
      EXPECT_EQ(found, byOneDnn(blocked, plain, data)) << "case " << &dims - cases << ", " << threads << " threads";
    }
}

TEST(WeightReorder, LeavesOtherFormatsAlone) {
  auto create = [](memory::dims dims, Tag from, Tag to) {
    return WeightReorder::create(memory::desc(dims, memory::data_type::f32, from),
                                 memory::desc(dims, memory::data_type::f32, to));
  };
  EXPECT_TRUE(create({16, 16, 3, 3}, Tag::ABcd16b16a, Tag::abcd));
  EXPECT_FALSE(create({20, 16, 3, 3}, Tag::ABcd16b16a, Tag::abcd));  // not whole blocks
  EXPECT_FALSE(create({16, 16, 3, 3}, Tag::ABcd16a16b, Tag::abcd));
  EXPECT_FALSE(create({16, 16, 3, 3}, Tag::ABcd16b16a, Tag::acdb));
  EXPECT_FALSE(create({16, 16, 3, 3}, Tag::abcd, Tag::ABcd16b16a));
}

}  // namespace
}  // namespace gradc
