// The operators that one optimizer step consists of, and their attributes: from the options, and from the multipliers
// that a parameter carries. Tested by tests/passes/append_optimizer_test.cc
#pragma once

#include "passes/optimizer/append_optimizer.h"

namespace gradc {

class OptimizerOperators {
 public:
  /// UnknownOp for a step that the registry lacks; UnsupportedOption for an attribute that the optimizer does not
  /// have, and for a fixed rate if its rate changes with every step. The context and the options outlive the result.
  static llvm::Expected<OptimizerOperators> find(Context &context, const OptimizerOptions &options);

  /// In execution order: one, or LAMB's two.
  llvm::ArrayRef<const OpDef *> ops() const { return phases; }
  /// Whether one of them has an input of this role.
  bool read(StepRole role) const;
  /// The operators that steps consist of.
  const OptimizerOps &known() const { return *context->ops.wellKnown.optimizers; }

  /// The attributes of `op`, from `ops()` or `forHalf`, for a step of `parameter`; only those that it declares.
  /// BadAttribute for a multiplier that is not a number.
  llvm::Expected<Attrs> attrs(const OpDef &op, const Graph &graph, NodeId parameter) const;

  /// The form of operator `phase` for 16-bit parameters and a fixed rate; UnsupportedOption if there is none.
  llvm::Expected<const OpDef *> forHalf(size_t phase) const;

 private:
  OptimizerOperators(Context &context, const OptimizerOptions &options)
      : context(&context), options(&options), info(&optimizerInfo(options.kind)) {}

  llvm::Error lookUp();
  llvm::Error checkAttrs() const;
  bool isOwn(llvm::StringRef key) const;
  std::string ownAttrs() const;

  Context *context;
  const OptimizerOptions *options;
  const OptimizerInfo *info;
  const OptimizerRecipe *recipe = nullptr;
  llvm::SmallVector<const OpDef *, 2> phases;
};

}  // namespace gradc
