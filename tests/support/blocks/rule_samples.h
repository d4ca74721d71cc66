// A program for each operator type of Paddle's that has a gradient.
#pragma once

#include "formats/blocks/files/block_file.h"

#include <string>
#include <vector>

namespace gradc::testing {

/// A program of one operator.
struct RuleSample {
  enum Kind { Parameter, Constant, Index, Flag };     // a constant is a number without a gradient
  enum Range { AnySign, Positive, Fraction, Large };  // (−1, 1), (0.5, 1.5), (0.2, 0.8), (1.2, 2)
  struct Operand {
    std::string slot;
    std::vector<int64_t> shape;
    Kind kind = Parameter;
  };

  std::string name;  // of the test
  std::string type;
  std::vector<Operand> inputs;                                  // several of one slot follow each other
  std::vector<Operand> outputs;                                 // Parameter: the loss reads it
  std::vector<std::pair<std::string, std::string>> attrs = {};  // as a file spells them
  Range range = AnySign;                                        // of parameters
};

const std::vector<RuleSample> &ruleSamples();

/// The operator, each of its outputs times a variable, and the sum of all, `loss`, whose gradient toward the parameters
/// the call requests. Parameters are `p<k>`, float64.
BlockFile programOfSample(Context &context, const RuleSample &sample);

}  // namespace gradc::testing
