// Tested by tests/networks/fuzz_programs_test.cc
#include "tests/fuzz/programs/program_view.h"

#include "tests/fuzz/draw_values.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;
using nlohmann::json;

namespace gradc::fuzz {
namespace {

bool isNames(const json &slots) {
  return slots.is_object() && all_of(slots.items(), [](const auto &slot) {
           return slot.value().is_array() && all_of(slot.value(), [](const json &name) { return name.is_string(); });
         });
}

bool isOp(const json &op) {
  return op.is_object() && op.contains("type") && op["type"].is_string() && op.contains("in") && isNames(op["in"]) &&
         op.contains("out") && isNames(op["out"]) && op.contains("attrs") && op["attrs"].is_object();
}

bool isBlock(const json &block) {
  return block.is_object() && block.contains("vars") && block["vars"].is_object() && block.contains("ops") &&
         block["ops"].is_array() && all_of(block["ops"], isOp) &&
         all_of(block["vars"].items(), [](const auto &variable) { return variable.value().is_object(); });
}

}  // namespace

std::optional<json> parseProgram(StringRef text) {
  json file = json::parse(text.begin(), text.end(), nullptr, false);
  if (!file.is_object() || !file.contains("program") || !file["program"].is_object()) return std::nullopt;
  json &program = file["program"];
  if (!program.contains("blocks") || !program["blocks"].is_array() || program["blocks"].empty() ||
      !all_of(program["blocks"], isBlock))
    return std::nullopt;
  if (!program.contains("parameters") || !program["parameters"].is_array()) program["parameters"] = json::array();
  for (json &block : program["blocks"])
    for (json &op : block["ops"]) op.erase("in_order"), op.erase("out_order");
  return file;
}

std::string printProgram(const json &file) { return file.dump(-1, ' ', true, json::error_handler_t::replace); }

void renameIn(json &part, const std::string &from, const std::string &to) {
  if (part.is_string() && part.get_ref<const std::string &>() == from) part = to;
  if (part.is_object() && part.contains(from)) {
    json value = part[from];
    part.erase(from);
    if (!part.contains(to)) part[to] = std::move(value);
  }
  if (part.is_structured())
    for (json &inner : part) renameIn(inner, from, to);
}

bool holds(const json &list, const json &value) { return std::find(list.begin(), list.end(), value) != list.end(); }

std::optional<int64_t> subBlockOf(const json &op) {
  const json &attrs = op["attrs"];
  if (!attrs.contains("sub_block") || !attrs["sub_block"].is_array() || attrs["sub_block"].size() != 2 ||
      !attrs["sub_block"][1].is_number_integer())
    return std::nullopt;
  return attrs["sub_block"][1].get<int64_t>();
}

json variableOf(std::vector<int64_t> shape, StringRef type, bool stopsGradient) {
  return {{"kind", "LOD_TENSOR"}, {"dtype", type.str()},   {"shape", std::move(shape)},     {"lod_level", 0},
          {"persistable", false}, {"is_parameter", false}, {"stop_gradient", stopsGradient}};
}

json opOf(StringRef type, json in, json out, json attrs) {
  return {{"type", type.str()}, {"in", std::move(in)}, {"out", std::move(out)}, {"attrs", std::move(attrs)}};
}

size_t numOps(const json &file) {
  size_t number = 0;
  for (const json &block : file["program"]["blocks"]) number += block["ops"].size();
  return number;
}

std::optional<ProgramView::Place> ProgramView::anyPlace() {
  std::vector<Place> all, nested;
  for (size_t b = 0; b < blocks().size(); ++b)
    for (size_t o = 0; o < ops(b).size(); ++o) (b ? nested : all).push_back({b, o});
  if (!nested.empty() && (all.empty() || dice.chance(50))) all = nested;
  if (all.empty()) return std::nullopt;
  return all[dice.below(all.size())];
}

std::string ProgramView::anyName(size_t block) {
  std::vector<std::string> names;
  for (size_t depth = 0; depth < 64; ++depth) {
    for (const auto &variable : vars(block).items()) names.push_back(variable.key());
    const json &parent = blocks()[block].contains("parent") ? blocks()[block]["parent"] : json();
    if (!parent.is_number_integer() || parent.get<int64_t>() < 0 ||
        parent.get<int64_t>() >= static_cast<int64_t>(block))
      break;
    block = static_cast<size_t>(parent.get<int64_t>());
  }
  return names.empty() ? "x" : names[dice.below(names.size())];
}

std::string ProgramView::oddName() {
  const std::string name = anyName(anyBlock());
  const std::string names[] = {"",
                               kEmpty,
                               name + "@GRAD",
                               name + "@COPY@0",
                               name + "@COPY@1",
                               name + "@GRAD@RENAME@block0@0",
                               "grad/" + name + "@GRAD",
                               name + "," + name,
                               "#0",
                               "\xc3\xa9\n",
                               "loss@GRAD",
                               std::string(kEmpty) + "@GRAD"};
  return names[dice.below(std::size(names))];
}

std::string ProgramView::freshName(StringRef start) {
  for (size_t k = 0;; ++k) {
    std::string name = start.str() + std::to_string(k);
    if (all_of(blocks(), [&](const json &block) { return !block["vars"].contains(name); })) return name;
  }
}

json *ProgramView::anyVariable(size_t block) {
  json &all = vars(block);
  if (all.empty()) return nullptr;
  auto found = all.begin();
  std::advance(found, dice.below(all.size()));
  return &*found;
}

json *ProgramView::anySlot(json &op) {
  json &slots = op[dice.chance(65) || op["out"].empty() ? "in" : "out"];
  if (slots.empty()) return nullptr;
  auto found = slots.begin();
  std::advance(found, dice.below(slots.size()));
  return &*found;
}

json ProgramView::number() {
  if (dice.chance(50)) return static_cast<int64_t>(dice.below(5)) - 1;
  return drawHostileInt(dice);
}

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
