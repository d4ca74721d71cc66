// A host that uses OpenMP loads gradc as a plugin, runs it and unloads it, several times.
#include <gtest/gtest.h>

#include <atomic>
#include <dlfcn.h>
#include <omp.h>
#include <thread>
#include <vector>

namespace {

constexpr const char *kPlugin = "tests/host/libgradc_plugin.so";

using Run = size_t (*)(int, unsigned, double *, size_t);

void checkOwnLoops() {
  std::atomic<int> singles{0}, iterations{0};
#pragma omp parallel num_threads(3)
  {
#pragma omp single
    ++singles;
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 1000; ++i) ++iterations;
  }
  EXPECT_EQ(singles, 1);
  EXPECT_EQ(iterations, 1000);
}

std::vector<double> runPlugin(unsigned threads) {
  void *plugin = dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(plugin) << dlerror();
  if (!plugin) return {};
  const Run run = reinterpret_cast<Run>(dlsym(plugin, "gradcPluginRun"));
  std::vector<double> values(10000);
  values.resize(run(0, threads, values.data(), values.size()));
  EXPECT_EQ(dlclose(plugin), 0);
  EXPECT_FALSE(dlopen(kPlugin, RTLD_LAZY | RTLD_NOLOAD)) << "it is still there";
  return values;
}

TEST(PluginHost, RunsAndUnloads) {
  omp_set_num_threads(3);
  checkOwnLoops();
  const std::vector<double> first = runPlugin(2);
  EXPECT_EQ(first.size(), 1u + 32 * 16 * 9);
  for (int round = 0; round < 3; ++round) {
    checkOwnLoops();
    EXPECT_EQ(omp_get_max_threads(), 3);
    EXPECT_EQ(runPlugin(2), first);
  }
  std::vector<double> elsewhere;
  std::thread([&] { elsewhere = runPlugin(2); }).join();
  EXPECT_EQ(elsewhere, first);
}

}  // namespace
