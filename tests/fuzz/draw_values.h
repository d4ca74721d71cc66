// Attribute values, shapes and types for the grammar: mostly ones that work, sometimes ones that bite.
#pragma once

#include "ir/op/attr_spec.h"
#include "tests/support/drawn/dice.h"

#include <string>
#include <vector>

namespace gradc::fuzz {

using testing::Dice;

/// Plausible: small values within the declared range. Boundary: at its ends. Hostile: anything a file can say.
enum class Temper : uint8_t { Plausible, Boundary, Hostile };
Temper drawTemper(Dice &dice);

std::string drawValue(Dice &dice, const AttrSpec &spec, Temper temper);
/// A value of no attribute in particular.
std::string drawGarbage(Dice &dice);

/// Small, so that kernels take no time.
int64_t drawDim(Dice &dice);
std::vector<int64_t> drawShape(Dice &dice);
int64_t drawHostileInt(Dice &dice);
/// A type name or code, mostly a floating one.
std::string drawDType(Dice &dice);

}  // namespace gradc::fuzz
