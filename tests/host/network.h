// The workload of the hosts in this folder: a small network trained in float32 and float64, whose convolutions and
// products run in the libraries below the fast kernels.
#pragma once

#include <vector>

/// Runs `steps` steps of one session. The gradient of the first filter and the loss, as doubles; empty on an error.
std::vector<double> runNetwork(bool isDouble, unsigned threads, int steps);
