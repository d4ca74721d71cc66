// The operators with which Paddle's optimizers take a step: their states, slots and attributes, one row for each
// optimizer. Tested by tests/formats/blocks/backward/minimize_test.cc
#pragma once

#include "formats/blocks/program/fluid_types.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace gradc {

struct OptimizerForm {
  /// A state of a parameter: the operator reads `slot` and, unless it is read only, writes `<slot>Out`.
  struct State {
    llvm::StringLiteral slot, suffix;
    bool isScalar = false, isReadOnly = false;
  };
  /// An attribute. Its value is that of an argument of the optimizer, by default `value`.
  struct Attr {
    enum class Kind : uint8_t { Float, Floats, Flag, Rows };
    llvm::StringLiteral key;
    Kind kind = Kind::Flag;
    double value = 0;
    llvm::StringLiteral argument = "";  // empty: none
  };

  llvm::StringLiteral name;  // as Paddle's class
  llvm::StringLiteral type;  // of the operator
  llvm::ArrayRef<State> states = {};
  llvm::ArrayRef<llvm::StringLiteral> emptySlots = {};  // optional inputs, which Paddle writes without variables
  llvm::ArrayRef<Attr> attrs = {};
  /// Whether `weight_decay` and `l1_decay` add to the gradients.
  bool isRegularized = true;
};

/// By the name of Paddle's class, in any case; null for others.
const OptimizerForm *findOptimizer(llvm::StringRef name);
/// "SGD, Momentum, …", for messages.
std::string optimizerNames();

}  // namespace gradc
