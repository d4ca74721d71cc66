// Central differences: the only ones in the tests.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace gradc::testing {

/// (f(at + step · direction) − f(at − step · direction)) / (2 · step), where `f` reads `at`, which is restored
/// afterwards.
llvm::Expected<double> differenceAlong(llvm::MutableArrayRef<double> at, llvm::ArrayRef<double> direction, double step,
                                       llvm::function_ref<llvm::Expected<double>()> f);
/// The same along every single element.
std::vector<double> differences(llvm::MutableArrayRef<double> at, double step, llvm::function_ref<double()> f);

/// The largest distance of an element of `found` from that of `expected`, relative to the largest of `expected`;
/// infinity for different sizes, and where elements that are not finite differ.
double relativeDistance(llvm::ArrayRef<double> found, llvm::ArrayRef<double> expected);

}  // namespace gradc::testing
