// Operators only for tests: forms of rules that no built-in operator has, and rules that are wrong on purpose.
//
//   test_split3(x)         three outputs, thirds of x along axis 0, none hidden
//   test_part(x)           x through an operator without gradient
//   test_forgetful(x, y)   x * y; its rule answers only for x
//   test_square(x)         x², with the hidden output 2x that its gradient reads
//   test_accumulate(x, s)  x + s; overwrites s with that sum
//   test_scale(x, s)       x · s; overwrites s with s + 1, and its gradient needs the old s
//   test_ratio(x, y)       two outputs, x / y and x * y; gradient in primitives
//   test_sine, test_cosine closed under differentiation
//   test_cast(x; dtype)    x in another type
#pragma once

#include "ir/graph/context.h"

namespace gradc::testing {

void registerTestOps(OpRegistry &registry);

}  // namespace gradc::testing
