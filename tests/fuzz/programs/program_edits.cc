// A file is edited as JSON, so that it can be wrong in every way. Tested by tests/networks/fuzz_programs_test.cc
#include "tests/fuzz/programs/program_edits.h"

#include "tests/fuzz/draw_values.h"
#include "tests/fuzz/programs/program_view.h"

#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/tables/op_slots.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;
using nlohmann::json;

namespace gradc::fuzz {
namespace {

constexpr size_t kManyOps = 60;

class ProgramEditor : public ProgramView {
 public:
  ProgramEditor(json &file, ArrayRef<std::string> seeds, Dice &dice) : ProgramView(file, dice), seeds(seeds) {}

  void edit() {
    switch (dice.below(26)) {
      case 0: return dropOp();
      case 1: return duplicateOp();
      case 2: return swapOps();
      case 3: return renameVariable();
      case 4: return equalNames();
      case 5: return replaceOperand(kEmpty);
      case 6:
      case 7: return replaceOperand(anyName(anyBlock()));
      case 8: return replaceOperand(dice.chance(50) ? oddName() : "nowhere");
      case 9: return changeNumber();
      case 10: return changeSlot();
      case 11:
      case 12:
      case 13: return changeAttribute();
      case 14: return otherOperator();
      case 15: return changeShape();
      case 16: return changeType();
      case 17:
      case 18: return changeFlags();
      case 19: return changeBlocks();
      case 20: return changeCall();
      case 21: return insertOp();
      case 22: return wrap(false);
      case 23: return wrap(true);
      case 24: return writeAgain();
      case 25: return declareInside();
    }
  }

 private:
  void dropOp() {
    if (const auto place = anyPlace()) ops(place->first).erase(place->second);
  }

  void duplicateOp() {
    const auto place = anyPlace();
    if (!place || (subBlockOf(at(*place)) && !dice.chance(5))) return;
    json copy = at(*place);
    json &list = ops(place->first);
    list.insert(list.begin() + place->second + dice.below(list.size() - place->second), std::move(copy));
  }

  void swapOps() {
    const auto place = anyPlace();
    if (place) std::swap(at(*place), ops(place->first)[dice.below(ops(place->first).size())]);
  }

  void renameVariable() {
    const std::string from = anyName(anyBlock()), to = dice.chance(70) ? oddName() : freshName("n");
    renameIn(file["program"], from, to);
    if (file.contains("call")) renameIn(file["call"], from, to);
  }

  /// Two variables of one block become one.
  void equalNames() {
    const size_t block = anyBlock();
    const std::string from = anyName(block), to = anyName(block);
    if (from == to) return;
    renameIn(file["program"], from, to);
    if (file.contains("call")) renameIn(file["call"], from, to);
  }

  void replaceOperand(const std::string &name) {
    const auto place = anyPlace();
    json *slot = place ? anySlot(at(*place)) : nullptr;
    if (!slot) return;
    if (slot->empty()) slot->push_back(name);
    else (*slot)[dice.below(slot->size())] = dice.chance(50) && name != kEmpty ? anyName(place->first) : name;
  }

  void changeSlot() {
    const auto place = anyPlace();
    if (!place) return;
    json &op = at(*place);
    json *slot = anySlot(op);
    if (!slot) return;
    switch (dice.below(5)) {
      case 0: slot->push_back(dice.chance(30) ? std::string(kEmpty) : anyName(place->first)); break;
      case 1: slot->clear(); break;
      case 2:
        if (!slot->empty()) slot->erase(dice.below(slot->size()));
        break;
      case 3:
        if (!slot->empty()) slot->push_back((*slot)[dice.below(slot->size())]);
        break;
      default: {
        json &slots = op[dice.chance(50) ? "in" : "out"];
        if (slots.empty()) return;
        auto found = slots.begin();
        std::advance(found, dice.below(slots.size()));
        if (dice.chance(50)) slots.erase(found);
        else slots[dice.chance(50) ? "X" : "Y"] = *found;
      }
    }
  }

  void changeValue(json &value) {
    constexpr double kReals[] = {0, -0.0, 1, -1, 0.5, 2, 1e30, -1e300, 1e-320};
    if (value.is_boolean()) value = !value.get<bool>();
    else if (value.is_number_integer()) value = number();
    else if (value.is_number() && dice.chance(80)) value = kReals[dice.below(std::size(kReals))];
    else if (value.is_number()) value = dice.chance(50) ? "nan" : "-inf";
    else if (value.is_string()) value = dice.chance(50) ? oddName() : anyName(0);
    else if (value.is_array() && !value.empty() && dice.chance(60)) changeValue(value[dice.below(value.size())]);
    else if (value.is_array() && !value.empty() && dice.chance(50)) value.erase(dice.below(value.size()));
    else if (value.is_array()) value.push_back(value.empty() ? number() : json(value[0]));
  }

  void changeAttribute() {
    const auto place = anyPlace();
    if (!place) return;
    json &attrs = at(*place)["attrs"];
    if (attrs.empty() || dice.chance(5)) {
      attrs[dice.chance(50) ? "axis" : "bogus"] = json::array({"INT", number()});
      return;
    }
    auto found = attrs.begin();
    std::advance(found, dice.below(attrs.size()));
    if (dice.chance(12)) return void(attrs.erase(found));
    json &value = *found;
    if (!value.is_array() || value.size() != 2) return;
    constexpr const char *kTags[] = {"INT", "LONG", "FLOAT", "BOOLEAN", "INTS", "LONGS", "FLOATS", "STRING", "FLOAT64"};
    if (dice.chance(8)) value[0] = kTags[dice.below(std::size(kTags))];
    else changeValue(value[1]);
  }

  void changeNumber() {
    const auto place = anyPlace();
    if (!place) return;
    for (json &value : at(*place)["attrs"])
      if (value.is_array() && value.size() == 2 && (value[1].is_number() || value[1].is_array()) && dice.chance(40))
        changeValue(value[1]);
  }

  /// A type whose slots have the same names, most likely.
  void otherOperator() {
    const auto place = anyPlace();
    if (!place) return;
    static const std::vector<const BlockOpRow *> rows = allBlockOps();
    json &op = at(*place);
    for (int attempt = 0; attempt < 60; ++attempt) {
      const StringRef type = rows[dice.below(rows.size())]->type;
      const std::optional<OpSlots> slots = slotsOfType(type);
      const bool isAlike =
          slots &&
          all_of(slots->inputs,
                 [&](const OpSlot &slot) { return slot.isOptional || op["in"].contains(slot.name.str()); }) &&
          all_of(op["in"].items(),
                 [&](const auto &slot) {
                   return any_of(slots->inputs, [&](const OpSlot &known) { return known.name == slot.key(); });
                 }) &&
          all_of(op["out"].items(), [&](const auto &slot) {
            return any_of(slots->outputs, [&](const OpSlot &known) { return known.name == slot.key(); });
          });
      if (isAlike || dice.chance(1)) {
        op["type"] = type.str();
        return;
      }
    }
    op["type"] = dice.chance(50) ? "some_operator" : op["type"].get<std::string>() + "_grad";
  }

  void changeShape() {
    json *variable = anyVariable();
    if (!variable || !variable->contains("shape") || !(*variable)["shape"].is_array()) return;
    json &shape = (*variable)["shape"];
    if (!shape.empty() && dice.chance(40)) {
      // One length, wherever it appears.
      const json from = shape[dice.below(shape.size())], to = drawDim(dice);
      for (json &block : blocks())
        for (json &other : block["vars"])
          if (other.contains("shape") && other["shape"].is_array())
            for (json &dim : other["shape"])
              if (dim == from) dim = to;
      return;
    }
    switch (dice.below(5)) {
      case 0: shape.push_back(drawDim(dice)); break;
      case 1:
        if (!shape.empty()) shape.erase(dice.below(shape.size()));
        break;
      case 2:
        if (!shape.empty()) shape[dice.below(shape.size())] = number();
        break;
      case 3: shape = drawShape(dice); break;
      default:
        if (!shape.empty()) shape[dice.below(shape.size())] = -1;
    }
  }

  void changeType() {
    constexpr const char *kTypes[] = {"FP32", "FP64", "FP16", "INT64", "INT32", "BOOL", "UINT8", "BF16", "COMPLEX64"};
    constexpr const char *kKinds[] = {"LOD_TENSOR", "SELECTED_ROWS", "LOD_TENSOR_ARRAY", "STEP_SCOPES", "RAW"};
    json *variable = anyVariable();
    if (!variable) return;
    const std::string to = kTypes[dice.below(std::size(kTypes))];
    if (dice.chance(20)) (*variable)["kind"] = kKinds[dice.below(std::size(kKinds))];
    else if (dice.chance(5)) variable->erase("dtype"), variable->erase("shape"), variable->erase("lod_level");
    else if (dice.chance(50)) (*variable)["dtype"] = to;
    else {
      const json from = variable->value("dtype", json());
      for (json &block : blocks())
        for (json &other : block["vars"])
          if (other.value("dtype", json()) == from) other["dtype"] = dice.chance(95) ? json(to) : from;
    }
  }

  void changeFlags() {
    json *variable = anyVariable();
    if (!variable) return;
    constexpr const char *kFlags[] = {"stop_gradient", "stop_gradient", "stop_gradient",
                                      "persistable",   "is_data",       "is_parameter"};
    const char *flag = kFlags[dice.below(std::size(kFlags))];
    const json value = variable->value(flag, json(false));
    (*variable)[flag] = !(value.is_boolean() && value.get<bool>());
    json &parameters = file["program"]["parameters"];
    if (dice.chance(20)) parameters.push_back({anyName(0), dice.chance(80)});
    else if (dice.chance(10) && !parameters.empty()) parameters.erase(dice.below(parameters.size()));
  }

  void changeBlocks() {
    json &block = blocks()[anyBlock()];
    const auto other = static_cast<int64_t>(dice.below(blocks().size() + 2)) - 1;
    switch (dice.below(4)) {
      case 0: block["parent"] = other; break;
      case 1: block["forward"] = other; break;
      case 2: {
        const auto place = anyPlace();
        if (place) at(*place)["attrs"]["sub_block"] = json::array({"BLOCK", other});
        break;
      }
      default:
        blocks().push_back({{"idx", blocks().size()},
                            {"parent", 0},
                            {"forward", -1},
                            {"vars", json::object()},
                            {"ops", json::array()}});
    }
  }

  void changeCall() {
    json call = file.value("call", json::object());
    if (!call.is_object()) call = json::object();
    auto names = [&] {
      json list = json::array();
      for (size_t i = 1 + dice.below(2); i-- > 0;) list.push_back(anyName(0));
      return list;
    };
    switch (dice.below(9)) {
      case 0: file.erase("call"), file.erase("result"); return;
      case 1: call["loss"] = anyName(dice.chance(80) ? 0 : anyBlock()); break;
      case 2: call["no_grad_set"] = names(); break;
      case 3: call = {{"api", "gradients"}, {"targets", names()}, {"inputs", names()}}; break;
      case 4:
        call = {{"api", "gradients"}, {"targets", names()}, {"inputs", names()}};
        call["target_gradients"] = json::array();
        for (size_t i = 0; i < call["targets"].size(); ++i)
          call["target_gradients"].push_back(dice.chance(40) ? json(anyName(0)) : json());
        break;
      case 5: call["api"] = "minimize", call["optimizer"] = dice.chance(50) ? "SGD" : "Momentum"; break;
      case 6: call["parameter_list"] = names(); break;
      case 7: call["prior_backward_calls"] = dice.chance(80) ? json(dice.below(3)) : number(); break;
      default: call["current_block"] = call["loss_block"] = anyBlock(); break;
    }
    if (!call.contains("api")) call["api"] = "append_backward", call["loss"] = anyName(0);
    file["call"] = call;
    file.erase("result");
  }

  /// An operator of a seed's on names that are here.
  void insertOp() {
    const std::optional<json> donor = parseProgram(dice.one(seeds));
    const json &from = (*donor)["program"]["blocks"][0];
    if (from["ops"].empty()) return;
    const size_t block = anyBlock();
    json op = from["ops"][dice.below(from["ops"].size())];
    if (subBlockOf(op)) return;
    for (const char *side : {"in", "out"})
      for (json &slot : op[side])
        for (json &name : slot) {
          const bool isKept = side[0] == 'o' && dice.chance(60) && from["vars"].contains(name.get<std::string>());
          if (!isKept) {
            name = anyName(block);
            continue;
          }
          const std::string fresh = freshName("v");
          vars(block)[fresh] = from["vars"][name.get<std::string>()];
          name = fresh;
        }
    json &list = ops(block);
    list.insert(list.begin() + dice.below(list.size() + 1), std::move(op));
  }

  /// A few operators become the block of a branch or of a loop.
  void wrap(bool isLoop) {
    const size_t block = anyBlock();
    json &list = ops(block);
    if (list.empty()) return;
    const size_t first = dice.below(list.size()),
                 last = first + 1 + dice.below(std::min<size_t>(3, list.size() - first));
    json moved = json::array();
    json read = json::array(), written = json::array();
    for (size_t i = first; i < last; ++i) {
      if (subBlockOf(list[i])) return;
      for (const auto &[side, names] : {std::pair("in", &read), std::pair("out", &written)})
        for (const json &slot : list[i][side])
          for (const json &name : slot)
            if (name != kEmpty && !holds(*names, name)) names->push_back(name);
      moved.push_back(list[i]);
    }
    const std::string go = freshName("go"), scopes = freshName("scopes");
    const size_t outer =
        isLoop || dice.chance(10) ? block : 0;  // the condition of a branch is given, as only the root's can be
    vars(outer)[go] = variableOf({1}, "BOOL", true);
    vars(block)[scopes] = {{"kind", "STEP_SCOPES"}, {"persistable", false}, {"stop_gradient", true}};
    const auto inner = static_cast<int64_t>(blocks().size());
    json made = json::array();
    const json owned = {{"sub_block", {"BLOCK", inner}}, {"is_test", {"BOOLEAN", false}}};
    if (!isLoop) {
      vars(outer)[go]["is_data"] = true;
      json attrs = owned;
      attrs["is_scalar_condition"] = {"BOOLEAN", true};
      made.push_back(
          opOf("conditional_block", {{"Cond", {go}}, {"Input", read}}, {{"Out", written}, {"Scope", {scopes}}}, attrs));
    } else {
      const std::string i = freshName("i"), n = freshName("n");
      for (const std::string &name : {i, n}) {
        vars(block)[name] = variableOf({1}, "FP32", true);
        made.push_back(opOf("fill_constant", json::object(), {{"Out", {name}}},
                            {{"dtype", {"INT", 5}},
                             {"shape", {"LONGS", {1}}},
                             {"value", {"FLOAT", name == n ? static_cast<double>(dice.below(4)) : 0.}}}));
      }
      const json test = opOf("less_than", {{"X", {i}}, {"Y", {n}}}, {{"Out", {go}}}, {{"axis", {"INT", -1}}});
      made.push_back(test);
      moved.push_back(opOf("increment", {{"X", {i}}}, {{"Out", {i}}}, {{"step", {"FLOAT", 1.0}}}));
      moved.push_back(test);
      for (const json &name : written)
        if (!holds(read, name)) read.push_back(name);
      read.push_back(i), read.push_back(n);
      written.push_back(i), written.push_back(go);
      made.push_back(
          opOf("while", {{"Condition", {go}}, {"X", read}}, {{"Out", written}, {"StepScopes", {scopes}}}, owned));
    }
    json result = json::array();
    for (size_t i = 0; i < list.size(); ++i) {
      if (i == first)
        for (json &op : made) result.push_back(std::move(op));
      if (i < first || i >= last) result.push_back(std::move(list[i]));
    }
    list = std::move(result);
    blocks().push_back(
        {{"idx", inner}, {"parent", block}, {"forward", -1}, {"vars", json::object()}, {"ops", std::move(moved)}});
  }

  /// A result goes to a name that has a value, in place most likely.
  void writeAgain() {
    const auto place = anyPlace();
    if (!place || at(*place)["out"].empty()) return;
    json &op = at(*place);
    json &slot = *op["out"].begin();
    if (slot.empty()) return;
    const bool isInPlace = dice.chance(50) && !op["in"].empty() && !op["in"].begin()->empty();
    const json to = isInPlace ? (*op["in"].begin())[0] : json(anyName(place->first));
    const json from = slot[0];
    slot[0] = to;
    // What reads the result reads it there, most likely.
    if (!from.is_string() || !dice.chance(70)) return;
    for (size_t i = place->second + 1; i < ops(place->first).size(); ++i)
      for (json &names : ops(place->first)[i]["in"])
        for (json &name : names)
          if (name == from) name = to;
  }

  /// A block declares a name of an outer one.
  void declareInside() {
    const size_t block = anyBlock();
    const std::string name = anyName(block);
    if (block == 0 || vars(block).contains(name)) return;
    for (const json &outer : blocks())
      if (outer["vars"].contains(name)) {
        vars(block)[name] = outer["vars"][name];
        return;
      }
  }

  ArrayRef<std::string> seeds;
};

void setChoice(json &file, Dice &dice) { file["fuzz_choice"] = dice.below(1u << 30); }

}  // namespace

std::string editedProgram(StringRef text, ArrayRef<std::string> seeds, Dice &dice) {
  std::optional<json> file = parseProgram(text);
  if (!file || dice.chance(3)) file = parseProgram(dice.one(seeds));
  if (dice.chance(30)) setChoice(*file, dice);
  ProgramEditor editor(*file, seeds, dice);
  if (numOps(*file) < kManyOps && dice.chance(15))
    if (std::optional<json> part = parseProgram(dice.one(seeds)); part && numOps(*part) < kManyOps)
      spliceProgram(editor, std::move(*part));
  for (size_t i = 1 + dice.below(3); i-- > 0;) editor.edit();
  return printProgram(*file);
}

std::string joinedPrograms(StringRef left, StringRef right, Dice &dice) {
  std::optional<json> file = parseProgram(left), part = parseProgram(right);
  if (!file || !part) return left.str();
  setChoice(*file, dice);
  ProgramView view(*file, dice);
  spliceProgram(view, std::move(*part));
  return printProgram(*file);
}

}  // namespace gradc::fuzz
