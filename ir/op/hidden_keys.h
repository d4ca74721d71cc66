// Keys of attributes that are hidden from operators: annotations of variables and nodes for passes, whatever their
// operator. Here, below the operators, because operators read some of them too.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace gradc {

/// `True`: the outputs never get a gradient (NG-01).
inline constexpr llvm::StringLiteral kStopMark = "__stop_gradient__";
/// The name of an operator whose values the node computes, but whose declared gradient it does not have, such as a
/// lowered loss.
inline constexpr llvm::StringLiteral kLoweredFromMark = "__lowered_from__";
/// Nodes whose gradients pass a tap; the second is on the tap as well
/// (passes/gradient/higher_order/mark_inside.h).
inline constexpr llvm::StringLiteral kTapMark = "__tap_gradient__", kRetainMark = "__retain_gradient__";
/// How many outputs gradients added to a node with bodies, one number per body.
inline constexpr llvm::StringLiteral kSavedKey = "__saved__";

/// Of variables: shape, type, storage, first value, and factors of the learning rate and of the weight decay.
inline constexpr llvm::StringLiteral kShapeKey = "__shape__", kDTypeKey = "__dtype__", kStorageKey = "__storage_type__",
                                     kInitKey = "__init__", kRateFactorKey = "__lr_mult__",
                                     kDecayFactorKey = "__wd_mult__";

/// The name that a file lists for an output of a node.
inline std::string outputNameKey(uint32_t output) { return ("__output" + llvm::Twine(output) + "_name__").str(); }

/// What generated nodes inherit (NAME-11): device and scope.
inline constexpr llvm::StringLiteral kInheritedKeys[] = {"__ctx_group__", "__profiler_scope__"};

}  // namespace gradc
