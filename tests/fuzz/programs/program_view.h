// A program of blocks as JSON: its parts, and draws of places and names in it. Tested by
// tests/networks/fuzz_programs_test.cc
#pragma once

#include "tests/support/drawn/dice.h"

#include "llvm/ADT/StringRef.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gradc::fuzz {

/// Nothing for text that is not a program in which edits can be made. Slots are in the order of their names.
std::optional<nlohmann::json> parseProgram(llvm::StringRef text);
std::string printProgram(const nlohmann::json &file);

/// Of every text that is `from`, key or value.
void renameIn(nlohmann::json &part, const std::string &from, const std::string &to);
bool holds(const nlohmann::json &list, const nlohmann::json &value);
/// The block that an operator owns.
std::optional<int64_t> subBlockOf(const nlohmann::json &op);
size_t numOps(const nlohmann::json &file);

nlohmann::json variableOf(std::vector<int64_t> shape, llvm::StringRef type, bool stopsGradient);
nlohmann::json opOf(llvm::StringRef type, nlohmann::json in, nlohmann::json out,
                    nlohmann::json attrs = nlohmann::json::object());

/// A file that parseProgram returned, while it is edited.
class ProgramView {
 public:
  using Place = std::pair<size_t, size_t>;  // block and operator
  static constexpr const char *kEmpty = "@EMPTY@";

  ProgramView(nlohmann::json &file, testing::Dice &dice) : file(file), dice(dice) {}

  nlohmann::json &blocks() { return file["program"]["blocks"]; }
  nlohmann::json &ops(size_t block) { return blocks()[block]["ops"]; }
  nlohmann::json &vars(size_t block) { return blocks()[block]["vars"]; }
  nlohmann::json &at(Place place) { return ops(place.first)[place.second]; }
  size_t anyBlock() { return dice.below(blocks().size()); }

  /// Nested blocks as often as the root, which mostly has more operators.
  std::optional<Place> anyPlace();
  /// A name that the block sees, most likely.
  std::string anyName(size_t block);
  /// A name that means something to gradc, or a text that no name should be.
  std::string oddName();
  std::string freshName(llvm::StringRef start);
  nlohmann::json *anyVariable(size_t block);
  nlohmann::json *anyVariable() { return anyVariable(dice.chance(60) ? 0 : anyBlock()); }
  /// A list of names of the operator; null: it has none.
  nlohmann::json *anySlot(nlohmann::json &op);
  nlohmann::json number();

  nlohmann::json &file;
  testing::Dice &dice;
};

/// Adds the blocks of `part`, which reads some values of the program. The roots become one; other blocks get new
/// numbers.
void spliceProgram(ProgramView &program, nlohmann::json part);

}  // namespace gradc::fuzz
