// Tested by tests/formats/blocks/block_file_test.cc
#include "formats/blocks/files/call_reader.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using Names = BlockCall::Names;

Error readString(JsonCursor json, const Twine &what, std::string &to) {
  Expected<StringRef> text = json.string(what);
  if (!text) return text.takeError();
  to = text->str();
  return Error::success();
}

/// The number of a block or of calls.
Error readNumber(JsonCursor json, StringRef key, int64_t &to) {
  Expected<int64_t> number = json.integer("a number for a key of 'call'");
  if (!number) return number.takeError();
  if (*number < 0 || *number > int64_t{INT32_MAX})
    return Failure(ErrorKind::BadJson,
                   "'" + key + "' of 'call' is " + Twine(*number) + ", expected 0 to " + Twine(INT32_MAX))
        .atOffset(json.offset());
  to = *number;
  return Error::success();
}

/// JSON null leaves the string unset.
Error readOptional(JsonCursor json, const Twine &what, std::optional<std::string> &to) {
  if (json.isNull()) return Error::success();
  return readString(json, what, to.emplace());
}

Error readNames(JsonCursor json, const Twine &what, Names &to) {
  return json.forEachElement(what, [&](JsonCursor name) { return readString(name, what, to.emplace_back()); });
}

Error readNames(JsonCursor json, const Twine &what, std::optional<Names> &to) {
  if (json.isNull()) return Error::success();
  return readNames(json, what, to.emplace());
}

Error readArguments(JsonCursor json, std::map<std::string, std::string> &to) {
  return json.forEachMember("an object for 'optimizer_arguments'", [&](StringRef name, JsonCursor value) -> Error {
    const bool isTruth = value.kind() == JsonToken::Literal && !value.isNull();
    if (value.kind() != JsonToken::Number && !isTruth)
      return value.failure("a number or a truth value for '" + name + "' of 'optimizer_arguments'");
    to[name.str()] = value.spelled().str();
    return Error::success();
  });
}

/// `{"x": [-0.1, 0.1]}`.
Error readClips(JsonCursor json, std::map<std::string, std::array<std::string, 2>> &to) {
  return json.forEachMember("an object for 'error_clip'", [&](StringRef name, JsonCursor value) -> Error {
    const std::string what = ("two numbers, from least to largest, for '" + name + "' of 'error_clip'").str();
    double bounds[2] = {};
    size_t number = 0;
    if (Error bad = value.forEachElement(what, [&](JsonCursor bound) -> Error {
          if (number == 2 || bound.kind() != JsonToken::Number || !to_float(bound.spelled(), bounds[number]))
            return bound.failure(what);
          to[name.str()][number++] = bound.spelled().str();
          return Error::success();
        }))
      return bad;
    return number == 2 && bounds[0] <= bounds[1] ? Error::success() : value.failure(what);
  });
}

Error readField(BlockCall &call, StringRef key, JsonCursor value, bool &isKnown) {
  constexpr StringLiteral kNames = "a list of names for a key of 'call'", kText = "a string for a key of 'call'";
  if (key == "api") return readString(value, kText, call.api);
  if (key == "current_block") return readNumber(value, key, call.currentBlock);
  if (key == "prior_backward_calls") return readNumber(value, key, call.priorCalls);
  if (key == "loss") return readString(value, kText, call.loss);
  if (key == "loss_block") return readNumber(value, key, call.lossBlock.emplace());
  if (key == "optimizer") return readString(value, kText, call.optimizer.emplace());
  if (key == "optimizer_arguments") return readArguments(value, call.optimizerArguments.emplace());
  if (key == "parameter_list") return readNames(value, kNames, call.parameterList);
  if (key == "checkpoints") return readNames(value, kNames, call.checkpoints);
  if (key == "error_clip") return readClips(value, call.errorClips);
  if (key == "no_grad_set") return readNames(value, kNames, call.noGradSet);
  if (key == "targets") return readNames(value, kNames, call.targets);
  if (key == "inputs") return readNames(value, kNames, call.inputs);
  if (key == "target_gradients") {
    if (value.isNull()) return Error::success();
    call.targetGradients.emplace();
    return value.forEachElement(
        kNames, [&](JsonCursor name) { return readOptional(name, kNames, call.targetGradients->emplace_back()); });
  }
  isKnown = false;
  return Error::success();
}

}  // namespace

Error readCall(JsonCursor json, BlockFile &file) {
  BlockCall &call = file.call.emplace();
  Error error = json.forEachMember("an object for 'call'", [&](StringRef key, JsonCursor value) -> Error {
    bool isKnown = true;
    if (Error bad = readField(call, key, value, isKnown)) return bad;
    if (!isKnown) file.warnOfKey(key, "'call'");
    return Error::success();
  });
  if (error) return error;
  if (call.api != "append_backward" && call.api != "gradients" && call.api != "minimize")
    return Failure(ErrorKind::BadJson,
                   "'api' of 'call' is '" + call.api + "', expected append_backward, gradients or minimize")
        .atOffset(json.offset());
  if (call.api == "gradients" && !call.errorClips.empty())
    return Failure(ErrorKind::BadJson, "'error_clip' of 'call' does not apply to gradients, expected append_backward")
        .atOffset(json.offset());
  return Error::success();
}

Error readResult(JsonCursor json, BlockFile &file) {
  constexpr StringLiteral kWhat = "a gradient's name, null or a pair [parameter, gradient] in 'result'";
  BlockResult &result = file.result.emplace();
  return json.forEachElement("a list for 'result'", [&](JsonCursor row) -> Error {
    BlockResult::Row &to = result.rows.emplace_back();
    if (row.kind() != JsonToken::Array) return readOptional(row, kWhat, to.gradient);
    size_t number = 0;
    if (Error bad = row.forEachElement(kWhat, [&](JsonCursor part) -> Error {
          if (++number > 2) return row.failure(kWhat);
          return number == 1 ? readString(part, kWhat, to.parameter.emplace()) : readOptional(part, kWhat, to.gradient);
        }))
      return bad;
    return number == 2 ? Error::success() : row.failure(kWhat);
  });
}

}  // namespace gradc
