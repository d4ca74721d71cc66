// A host that uses OpenMP for itself: its loops compute what they say, with as many threads, before, between and around
// what gradc runs.
#include "tests/host/network.h"

#include <gtest/gtest.h>

#include <atomic>
#include <omp.h>

namespace {

void checkOwnLoops() {
  std::atomic<int> singles{0}, iterations{0}, sections{0};
  int team = 0;
#pragma omp parallel num_threads(4)
  {
#pragma omp single
    {
      ++singles;
      team = omp_get_num_threads();
    }
#pragma omp for schedule(dynamic, 7)
    for (int i = 0; i < 1000; ++i) ++iterations;
#pragma omp sections
    {
#pragma omp section
      ++sections;
#pragma omp section
      ++sections;
    }
  }
  EXPECT_EQ(singles, 1);
  EXPECT_EQ(team, 4);
  EXPECT_EQ(iterations, 1000);
  EXPECT_EQ(sections, 2);
  int64_t sum = 0;
#pragma omp parallel for num_threads(4) reduction(+ : sum)
  for (int i = 0; i < 1000; ++i) sum += i;
  EXPECT_EQ(sum, 499500);
}

TEST(OpenMPHost, ComputesAsWithoutGradc) {
  omp_set_num_threads(4);
  checkOwnLoops();
  for (unsigned threads : {1u, 2u, 3u, 8u})
    for (bool isDouble : {false, true}) {
      EXPECT_FALSE(runNetwork(isDouble, threads, 2).empty());
      EXPECT_EQ(omp_get_max_threads(), 4);
      checkOwnLoops();
    }
}

TEST(OpenMPHost, RegionsOfTheHostAroundSessions) {
  for (bool isDouble : {false, true}) {
    const std::vector<double> alone = runNetwork(isDouble, 3, 2);
    ASSERT_FALSE(alone.empty());
    std::vector<double> inside[2];
#pragma omp parallel num_threads(2)
    inside[omp_get_thread_num()] = runNetwork(isDouble, 3, 2);
    for (const std::vector<double> &values : inside) EXPECT_EQ(values, alone);
  }
}

}  // namespace
