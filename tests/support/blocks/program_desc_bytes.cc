#include "tests/support/blocks/program_desc_bytes.h"

#include "tests/support/blocks/wire_bytes.h"

#include "formats/blocks/program/fluid_types.h"

#include <nlohmann/json.hpp>

namespace gradc::testing {
namespace {

using Json = nlohmann::json;

/// A type of attributes: its number, the field of its values, and how one is written.
struct AttrForm {
  const char *name;
  int64_t type;
  uint32_t field;
  enum { Integer, Single, Double, Text } value;
};
constexpr AttrForm kForms[] = {
    {"INT", 0, 3, AttrForm::Integer},      {"FLOAT", 1, 4, AttrForm::Single},
    {"STRING", 2, 5, AttrForm::Text},      {"INTS", 3, 6, AttrForm::Integer},
    {"FLOATS", 4, 7, AttrForm::Single},    {"STRINGS", 5, 8, AttrForm::Text},
    {"BOOLEAN", 6, 10, AttrForm::Integer}, {"BOOLEANS", 7, 11, AttrForm::Integer},
    {"BLOCK", 8, 12, AttrForm::Integer},   {"LONG", 9, 13, AttrForm::Integer},
    {"LONGS", 11, 15, AttrForm::Integer},  {"FLOAT64S", 12, 16, AttrForm::Double},
    {"FLOAT64", 15, 19, AttrForm::Double},
};

std::string oneValue(const AttrForm &form, const Json &value) {
  switch (form.value) {
    case AttrForm::Single: return fixed(form.field, value.get<float>());
    case AttrForm::Double: return fixed(form.field, value.get<double>());
    case AttrForm::Text: return message(form.field, value.get<std::string>());
    case AttrForm::Integer: break;
  }
  return number(form.field, value.is_boolean() ? value.get<bool>() : value.get<int64_t>());
}

std::string attribute(const std::string &name, const Json &typed) {
  for (const AttrForm &form : kForms) {
    if (typed[0] != form.name) continue;
    std::string content = message(1, name) + number(2, form.type);
    if (!typed[1].is_array()) return message(4, content + oneValue(form, typed[1]));
    for (const Json &value : typed[1]) content += oneValue(form, value);
    return message(4, content);
  }
  return "";
}

std::string variable(const std::string &name, const Json &record) {
  const int64_t kind = static_cast<int64_t>(*parseFluidType(record["kind"].get<std::string>()));
  std::string type = number(1, kind);
  if (record.contains("dtype")) {
    std::string tensor = number(1, static_cast<int64_t>(*parseFluidType(record["dtype"].get<std::string>())));
    for (const Json &size : record["shape"]) tensor += number(2, size.get<int64_t>());
    const bool isRows = record["kind"] == "SELECTED_ROWS", isArray = record["kind"] == "LOD_TENSOR_ARRAY";
    std::string leveled = message(1, tensor);
    if (record.contains("lod_level")) leveled += number(2, record["lod_level"].get<int64_t>());
    type += isRows ? message(2, tensor) : message(isArray ? 4 : 3, leveled);
  }
  std::string content = message(1, name) + message(2, type);
  const std::pair<const char *, uint32_t> flags[] = {
      {"persistable", 3}, {"is_data", 4}, {"is_parameter", 5}, {"stop_gradient", 6}};
  for (const auto &[key, field] : flags)
    if (record.value(key, false)) content += number(field, 1);
  return message(3, content);
}

std::string op(const Json &record) {
  std::string content;
  for (const auto &[field, key] : {std::pair(1, "in"), std::pair(2, "out")})
    for (const Json &slot : record[std::string(key) + "_order"]) {
      std::string names = message(1, slot.get<std::string>());
      for (const Json &name : record[key][slot.get<std::string>()]) names += message(2, name.get<std::string>());
      content += message(static_cast<uint32_t>(field), names);
    }
  content += message(3, record["type"].get<std::string>());
  for (const auto &[name, typed] : record["attrs"].items()) content += attribute(name, typed);
  return message(4, content);
}

}  // namespace

std::string programDescOf(const std::string &json) {
  std::string bytes;
  const Json file = Json::parse(json);
  for (const Json &block : file["program"]["blocks"]) {
    std::string content = number(1, block["idx"].get<int64_t>()) + number(2, block["parent"].get<int64_t>());
    for (const auto &[name, record] : block["vars"].items()) content += variable(name, record);
    for (const Json &each : block["ops"]) content += op(each);
    bytes += message(1, content + number(5, block["forward"].get<int64_t>()));
  }
  return bytes;
}

}  // namespace gradc::testing
