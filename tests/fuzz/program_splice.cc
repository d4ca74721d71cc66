// The roots become one; the other blocks get new numbers. Tested by tests/fuzz_programs_test.cc
#include "tests/fuzz/program_splice.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using nlohmann::json;

namespace gradc::fuzz {

void spliceProgram(ProgramView &program, json part) {
  const size_t offset = program.blocks().size() - 1;  // the roots become one
  const std::string ending = "_" + std::to_string(offset) + "_" + std::to_string(program.vars(0).size());
  json &theirs = part["program"]["blocks"];
  std::vector<std::string> names;
  for (const json &block : theirs)
    for (const auto &variable : block["vars"].items()) names.push_back(variable.key());
  json call = part.value("call", json());
  for (const std::string &name : names) {
    std::string to = name + ending;
    // What the part is given is some value of the same shape and type, most likely.
    const json record = theirs[0]["vars"].value(name, json());
    const bool isWritten = any_of(theirs[0]["ops"], [&](const json &op) {
      return any_of(op["out"], [&](const json &slot) { return holds(slot, name); });
    });
    for (int attempt = 0; attempt < 8 && !isWritten && record.is_object(); ++attempt) {
      const std::string other = program.anyName(0);
      if (!program.vars(0).contains(other) ||
          program.vars(0)[other].value("shape", json()) != record.value("shape", json()) ||
          program.vars(0)[other].value("dtype", json()) != record.value("dtype", json()))
        continue;
      if (program.dice.chance(70)) to = other;
      break;
    }
    renameIn(part["program"], name, to);
    renameIn(call, name, to);
  }
  for (auto &variable : theirs[0]["vars"].items())
    if (!program.vars(0).contains(variable.key())) program.vars(0)[variable.key()] = variable.value();
  for (size_t b = 0; b < theirs.size(); ++b) {
    for (json &op : theirs[b]["ops"])
      if (const std::optional<int64_t> inner = subBlockOf(op))
        op["attrs"]["sub_block"][1] = *inner + static_cast<int64_t>(offset);
    if (b == 0) continue;
    for (const char *link : {"parent", "forward"})
      if (const json value = theirs[b].value(link, json()); value.is_number_integer() && value.get<int64_t>() > 0)
        theirs[b][link] = value.get<int64_t>() + static_cast<int64_t>(offset);
    theirs[b]["idx"] = program.blocks().size();
    program.blocks().push_back(theirs[b]);
  }
  for (json &op : theirs[0]["ops"]) program.ops(0).push_back(std::move(op));
  for (json &parameter : part["program"]["parameters"])
    program.file["program"]["parameters"].push_back(std::move(parameter));
  program.file.erase("result");
  if (call.is_object() && program.dice.chance(60)) program.file["call"] = std::move(call);
}

}  // namespace gradc::fuzz
