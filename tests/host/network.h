// What the hosts of this folder run: a small network trained in float32 and float64, with convolutions and products by the
// libraries below the fast kernels.
#pragma once

#include <vector>

/// Runs `steps` steps of one session. The gradient of the first filter and the loss, as doubles; empty on an error.
std::vector<double> runNetwork(bool isDouble, unsigned threads, int steps);
