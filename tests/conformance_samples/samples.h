// The samples on which the conformance suite runs each operator: one list per family. A new operator adds rows to one.
//
// A row is complete with an operator and input shapes. Inputs are drawn from the domain the operator declares for them,
// by default numbers of both signs away from 0. `orders` is how often the result is differentiated.
#pragma once

#include <cstdint>
#include <vector>

namespace gradc::testing {

struct Sample {
  const char *op;
  const char *attrs;                         // as in the inline form: "kernel=(2,2), pad=(1,1)"
  std::vector<std::vector<int64_t>> inputs;  // shapes
  uint32_t orders = 3;
  double low = 0, high = 0;  // all inputs are drawn from [low, high] instead, if high > low
  int classes = 3;           // of inputs that hold class numbers or indices
  bool isTraining = true;
};

std::vector<Sample> elementwiseSamples();
std::vector<Sample> shapeSamples();
std::vector<Sample> layerSamples();
std::vector<Sample> poolingSamples();
std::vector<Sample> lossSamples();
std::vector<Sample> visionSamples();
std::vector<Sample> movementSamples();
std::vector<Sample> extremaSamples();
std::vector<Sample> sequenceSamples();
std::vector<Sample> optimizerSamples();
std::vector<Sample> orderingSamples();
std::vector<Sample> indexingSamples();
std::vector<Sample> networkSamples();
std::vector<Sample> rnnSamples();
std::vector<Sample> ctcSamples();
std::vector<Sample> randomSamples();
/// All of them, in this order.
std::vector<Sample> allSamples();

}  // namespace gradc::testing
