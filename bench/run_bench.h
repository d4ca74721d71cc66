// Registers the benchmarks of execution; see bench/run_bench.cc.
#pragma once

namespace gradc::bench {

void registerSteps();

}  // namespace gradc::bench
