// The fast kernels of indexing (runtime/kernels/index/rows.cc, put_rows.cc, pick.cc): equal bits on any number of
// threads, and those of the reference kernels.
#include "tests/support/ops/fast_runs.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

void expectBitsOfReference(const Graph &graph, const Bindings &bindings) {
  for (DType type : {DType::Float32, DType::Float64}) {
    FastOptions options;
    options.run.floatAs = type;
    const NaiveRun expected = cantFail(NaiveRun::run(graph, bindings, options.run));
    for (unsigned threads : {1u, 2u, 3u}) {
      options.threads = threads;
      const FastResult found = runFast(graph, bindings, options);
      EXPECT_EQ(found.surprises, "");
      for (size_t h = 0; h < found.heads.size(); ++h)
        EXPECT_EQ(found.heads[h].values, expected.value(graph.heads()[h]).values) << h << ", threads: " << threads;
    }
  }
}

// Rows of a table, most of them of one number: threads divide them by rows, or by columns where one row has most.
TEST(RowKernels, RUN_02_SumsOfRowsHaveTheBitsOfOneThread) {
  const int64_t rows = 60, n = 300;
  const std::tuple<const char *, DimsBuffer, DimsBuffer> cases[] = {
      {"y = take(a, i); d = _backward_take(v, i) ^y; heads y, d", {rows, 300}, {n, 300}},
      {"y = take(a, i) {axis=1}; d = _backward_take(v, i) {axis=1} ^y; heads y, d", {30, rows, 10}, {30, n, 10}}};
  for (const auto &[text, data, picked] : cases) {
    TestGraph g(text);
    for (const int64_t numNumbers : {int64_t{1}, rows + 5}) {
      Bindings bindings = drawBindings(g, {{"a", data}, {"v", picked}, {"i", DimsBuffer{n}}});
      std::vector<double> &numbers = bindings["i"].values;
      for (int64_t j = 0; j < n; ++j) numbers[static_cast<size_t>(j)] = static_cast<double>(j * j % numNumbers);
      expectBitsOfReference(g, bindings);
    }
  }
}

struct Indexing {
  const char *text;
  std::vector<std::pair<StringRef, DimsBuffer>> shapes;
  /// Numbers of each row of indices: from `first`, fewer than `bound` different ones.
  struct Numbers {
    int64_t first, bound;
  };
  std::vector<Numbers> numbers;
};

// Numbers repeat, so sums have several terms, and of the rows put in one place the last is kept.
const Indexing kIndexing[] = {
    {"y = gather_nd(a, i); d = _backward_gather_nd(v, i) ^y; heads y, d",
     {{"a", {6, 10, 300}}, {"i", {2, 300}}, {"v", {300, 300}}},
     {{0, 6}, {-10, 20}}},
    {"y = gather_nd(a, i); d = _backward_gather_nd(v, i) ^y; heads y, d",
     {{"a", {6, 5000}}, {"i", {2, 70000}}, {"v", {70000}}},
     {{-6, 12}, {0, 5000}}},
    {"y = _scatter_nd(a, v, i) {reduction=add}; z = _scatter_nd(a, v, i); heads y, z",
     {{"a", {6, 10, 300}}, {"i", {2, 200}}, {"v", {200, 300}}},
     {{0, 5}, {-10, 9}}},
    {"y = _scatter_set_nd(a, v, i) {shape=(60, 1300)}; z = scatter_nd(v, i) {shape=(60, 1300)}; heads y, z",
     {{"a", {60, 1300}}, {"i", {1, 90}}, {"v", {90, 1300}}},
     {{-60, 100}}},
    {"z = scatter_nd(v, i) {shape=(2, 90001)}; heads z", {{"i", {1, 5}}, {"v", {5, 90001}}}, {{0, 2}}},
    {"y = _contrib_index_copy(a, i, v); d = _contrib_backward_index_copy(u, a, i, v) ^y; heads y, d, d:1, d:2",
     {{"a", {60, 1300}}, {"i", {90}}, {"v", {90, 1300}}, {"u", {60, 1300}}},
     {{0, 57}}},
    {"y = pick(a, i) {axis=1}; d = _backward_pick(v, i) {axis=1} ^y; heads y, d",
     {{"a", {300, 3, 200}}, {"i", {300, 200}}, {"v", {300, 200}}},
     {{-2, 7}}},
    {"y = pick(a, i) {mode=wrap}; d = _backward_pick(v, i) {mode=wrap} ^y; heads y, d",
     {{"a", {40000, 3}}, {"i", {40000}}, {"v", {40000}}},
     {{-7, 20}}},
    {"y = batch_take(a, i); heads y", {{"a", {40000, 3}}, {"i", {40000}}}, {{-2, 7}}},
    {"y = one_hot(i) {depth=30, on_value=2, off_value=-1}; heads y", {{"i", {2000}}}, {{-3, 40}}},
};

TEST(RowKernels, RUN_02_IndexingHasTheBitsOfTheReference) {
  for (const Indexing &indexing : kIndexing) {
    SCOPED_TRACE(indexing.text);
    TestGraph g(indexing.text);
    Bindings bindings = drawBindings(g, indexing.shapes);
    std::vector<double> &numbers = bindings["i"].values;
    const size_t count = numbers.size() / indexing.numbers.size();
    for (size_t j = 0; j < numbers.size(); ++j) {
      const auto &[first, bound] = indexing.numbers[j / count];
      const auto at = static_cast<int64_t>(j % count);
      numbers[j] = static_cast<double>(first + at * at * 7 % bound);
    }
    expectBitsOfReference(g, bindings);
  }
}

}  // namespace
}  // namespace gradc
