// Sessions on several threads of a host at once. The one to run under the thread sanitizer.
#include "tests/host/network.h"

#include <gtest/gtest.h>

#include <thread>

namespace {

TEST(SessionsHost, RUN_02_SideBySideTheyGiveTheSameBits) {
  for (bool isDouble : {false, true})
    for (unsigned threads : {1u, 2u, 3u, 8u, 17u}) {
      const std::vector<double> alone = runNetwork(isDouble, threads, 2);
      ASSERT_FALSE(alone.empty());
      std::vector<double> beside[3];
      std::vector<std::thread> callers;
      for (std::vector<double> &values : beside)
        callers.emplace_back([&values, isDouble, threads] { values = runNetwork(isDouble, threads, 5); });
      for (std::thread &caller : callers) caller.join();
      for (const std::vector<double> &values : beside) EXPECT_EQ(values, alone) << threads;
      EXPECT_EQ(runNetwork(isDouble, threads, 2), alone) << threads << ", after other work";
    }
}

}  // namespace
