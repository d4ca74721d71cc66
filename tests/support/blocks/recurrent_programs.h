// Programs with `recurrent`, as Paddle's StaticRNN builds them, and their gradients both ways.
#pragma once

#include "tests/support/blocks/array_programs.h"

#include "formats/blocks/backward/append_backward.h"

#include <map>

namespace gradc::testing {

/// Parameters `p` of three rows, `w` and `h0`.
struct RecurrentProgram : ArrayProgram {
  explicit RecurrentProgram();

  /// Declares names of the step block, of shape (2,) and float64.
  void locals(const std::vector<std::string> &names);
  void step(llvm::StringRef type, const SlotNames &in, const std::string &out, llvm::ArrayRef<AttrText> attrs = {}) {
    op(type, in, out, attrs, steps);
  }

  struct Ports {
    std::vector<std::string> inputs = {"p"}, initialStates = {"h0"}, exStates = {"h"}, states = {"s"}, outputs = {"y"},
                             parameters = {"w"};
    bool isReverse = false;
  };
  /// Adds the operator to the block that the step block is in.
  BlockOp &close(const Ports &ports);
  BlockOp &close() { return close(Ports()); }

  /// n = tanh(h · w + p), which is the output y and the next state s.
  void addCell(bool isReverse = false);
  /// loss = sum(name²)
  void addLoss(const std::string &name);

  uint32_t steps;
};

/// Gradients of `loss` with respect to parameters, by name.
using NamedGradients = std::map<std::string, std::vector<double>>;
/// By the gradient engine, from the forward program.
llvm::Expected<NamedGradients> engineGradients(RecurrentProgram &p);
/// From the program that appendBackward makes, as a graph. The program goes to `made`.
llvm::Expected<NamedGradients> emittedGradients(RecurrentProgram &p, BlockProgram *made = nullptr);
/// The values that both use.
NamedGradients drawnParameters(RecurrentProgram &p);
/// `loss` of the forward program at these parameters.
double lossAt(RecurrentProgram &p, const NamedGradients &parameters);

/// The emitted program read again has the bits of the gradient engine; to 1e-14 where sums of three have another order.
/// Both are the central differences of the forward program.
void expectBothWays(RecurrentProgram &p, const std::string &what, bool isExact = true);

}  // namespace gradc::testing
