// Tested by tests/formats/blocks/backward/minimize_test.cc, tests/formats/blocks/backward/append_backward_test.cc and
// tests/oracles/paddle_programs.py
#include "formats/blocks/backward/minimize.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/name_table.h"
#include "formats/blocks/tables/optimizer_forms.h"
#include "ir/base/out_of_memory.h"

#include "llvm/ADT/StringExtras.h"

#include <array>

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kOptimize = 2;  // value of op_role

class Minimizer {
 public:
  Minimizer(Context &context, FluidResult &result, const FluidOptimizer &optimizer, const OptimizerForm &form)
      : context(context), program(result.program), optimizer(optimizer), form(form) {
    for (const FluidPair &pair : result.pairs)
      if (pair.gradient.isValid()) pairs.push_back(pair);
    llvm::sort(pairs, [&](const FluidPair &a, const FluidPair &b) {
      return program.text(a.variable) < program.text(b.variable);
    });
  }

  Error run() {
    if (pairs.empty()) return Error::success();
    rate = learningRate();
    if (Error error = clip()) return error;
    if (Error error = addDecay()) return error;
    for (const FluidPair &pair : pairs) step(pair);
    if (form.type == "adamax") nextPowers();
    return Error::success();
  }

 private:
  using Clip = FluidOptimizer::Clip;
  using SlotList = SmallVector<std::pair<StringRef, SmallVector<TextId, 1>>, 12>;

  std::vector<BlockSlot> slots(const SlotList &named) {
    std::vector<BlockSlot> made;
    for (const auto &[name, variables] : named) made.push_back({program.intern(name), variables});
    return made;
  }

  /// Appends an operator for a pair. Optional slots are written even if they are empty, as Paddle's layers do.
  void append(StringRef type, const SlotList &inputs, const SlotList &outputs, ArrayRef<AttrText> attrs,
              const FluidPair &pair) {
    const std::string role = intAttrText(AttrTag::Int, kOptimize),
                      vars = stringsAttrText(AttrTag::Strings,
                                             {program.text(pair.variable).str(), program.text(pair.gradient).str()});
    SmallVector<AttrText, 12> all(attrs);
    all.push_back({"op_role", role});
    all.push_back({"op_role_var", vars});
    program.blocks[0].ops.push_back({program.intern(type), slots(inputs), slots(outputs), context.attrs(all)});
  }

  const BlockVariable &variable(TextId name) const { return *program.find(*program.declaringBlock(0, name), name); }

  /// A new variable, named as Paddle's layers name theirs: `<layer>_<k><suffix>` with the first free k.
  TextId temporary(StringRef layer, StringRef suffix, FluidType dtype, ArrayRef<int64_t> shape) {
    return declare(unused.make((layer + "_").str(), suffix), dtype, shape);
  }
  TextId declare(TextId id, FluidType dtype, ArrayRef<int64_t> shape) {
    program.addVariable(0, {id, FluidType::LodTensor, dtype, SmallVector<int64_t, 4>(shape), 0});
    return id;
  }
  /// Paddle's `full` uses up two numbers.
  TextId constant(FluidType dtype) {
    uint32_t k = 1;
    auto name = [&] { return ("fill_constant_" + Twine(k) + ".tmp_0").str(); };
    while (program.texts.find(name()).isValid()) k += 2;
    return declare(program.intern(name()), dtype, {1});
  }

  TextId persistable(StringRef name, FluidType dtype, ArrayRef<int64_t> shape, bool stopsGradient) {
    const TextId id = program.intern(name);
    BlockVariable record = {id, FluidType::LodTensor, dtype, SmallVector<int64_t, 4>(shape), 0};
    record.isPersistable = true;
    record.stopsGradient = stopsGradient;
    program.addVariable(0, std::move(record));
    return id;
  }

  TextId learningRate() {
    const TextId known = program.texts.find(optimizer.learningRate);
    if (!optimizer.learningRate.empty() && known.isValid() && program.find(0, known)) return known;
    const TextId rate =
        optimizer.learningRate.empty() ? unused.make("learning_rate_") : program.intern(optimizer.learningRate);
    return persistable(program.text(rate), dtypeOfPair(pairs[0]), {}, true);
  }

  FluidType dtypeOfPair(const FluidPair &pair) const { return variable(pair.variable).dtype.value_or(FluidType::Fp32); }

  Error clip() {
    if (optimizer.clip == Clip::None) return Error::success();
    for (const FluidPair &pair : pairs)
      if (optimizer.clip != Clip::Value && variable(pair.gradient).kind == FluidType::SelectedRows)
        return Failure(ErrorKind::UnsupportedOption, "the gradient of parameter '" + program.text(pair.variable) +
                                                         "' has kind SELECTED_ROWS, for which norms are not supported");
    if (optimizer.clip == Clip::GlobalNorm) {
      clipByGlobalNorm();
      return Error::success();
    }
    for (FluidPair &pair : pairs) clipOne(pair);
    return Error::success();
  }

  void clipOne(FluidPair &pair) {
    const std::string largest = floatAttrText(AttrTag::Float, optimizer.clipMax),
                      smallest = floatAttrText(AttrTag::Float, optimizer.clipMin);
    const bool isValue = optimizer.clip == Clip::Value;
    const StringRef type = isValue ? "clip" : "clip_by_norm";
    const TextId clipped = temporary(type, ".tmp_0", dtypeOfPair(pair), variable(pair.gradient).shape);
    const TextId whole = std::exchange(pair.gradient, clipped);  // Paddle names the clipped one in `op_role_var`
    if (isValue)
      append(type, {{"Max", {}}, {"Min", {}}, {"X", {whole}}}, {{"Out", {clipped}}},
             {{"max", largest}, {"min", smallest}, {"mkldnn_data_type", float32}, {"use_mkldnn", no}}, pair);
    else append(type, {{"X", {whole}}}, {{"Out", {clipped}}}, {{"max_norm", largest}}, pair);
  }

  // Multiplies each gradient by max / max(max, global norm), in place.
  void clipByGlobalNorm() {
    const FluidType dtype = dtypeOfPair(pairs[0]);
    const FluidPair &last = pairs.back();
    SmallVector<TextId, 1> squares;
    for (const FluidPair &pair : pairs) {
      squares.push_back(temporary("squared_l2_norm", ".tmp_0", dtype, {1}));
      append("squared_l2_norm", {{"X", {pair.gradient}}}, {{"Out", {squares.back()}}}, {}, pair);
    }
    const TextId total = temporary("add_n", ".tmp_0", dtype, {1}), norm = temporary("sqrt", ".tmp_0", dtype, {1});
    const TextId largest = constant(dtype);
    program.find(0, largest)->stopsGradient = true;
    const TextId denominator = temporary("elementwise_max", "", dtype, {1}),
                 factor = temporary("elementwise_div", "", dtype, {1});
    append("sum", {{"X", squares}}, {{"Out", {total}}}, {{"mkldnn_data_type", float32}, {"use_mkldnn", no}}, last);
    append("sqrt", {{"X", {total}}}, {{"Out", {norm}}}, {{"use_cudnn", no}, {"use_mkldnn", no}}, last);
    const std::string shape = intsAttrText(AttrTag::Longs, {1}),
                      value = floatAttrText(AttrTag::Float, optimizer.clipMax),
                      spelled = stringAttrText(AttrTag::String, spell(optimizer.clipMax)),
                      type = intAttrText(AttrTag::Int, static_cast<int64_t>(dtype)),
                      place = intAttrText(AttrTag::Int, -1);
    append("fill_constant", {{"ShapeTensor", {}}, {"ShapeTensorList", {}}, {"ValueTensor", {}}}, {{"Out", {largest}}},
           {{"dtype", type},
            {"force_cpu", no},
            {"place_type", place},
            {"shape", shape},
            {"str_value", spelled},
            {"use_mkldnn", no},
            {"value", value}},
           last);
    binary("elementwise_max", largest, norm, denominator, last);
    binary("elementwise_div", largest, denominator, factor, last);
    for (const FluidPair &pair : pairs) binary("elementwise_mul", pair.gradient, factor, pair.gradient, pair);
  }

  static std::string spell(double value) {
    const std::string tagged = floatAttrText(AttrTag::Float64, value);
    return StringRef(tagged).split(',').second.drop_back().str();
  }

  void binary(StringRef type, TextId x, TextId y, TextId out, const FluidPair &pair) {
    append(type, {{"X", {x}}, {"Y", {y}}}, {{"Out", {out}}},
           {{"Scale_out", one},
            {"Scale_x", one},
            {"Scale_y", one},
            {"axis", minusOne},
            {"mkldnn_data_type", float32},
            {"use_mkldnn", no},
            {"use_quantizer", no}},
           pair);
  }

  std::optional<double> argument(StringRef name) const {
    const auto at = optimizer.arguments.find(name.str());
    return at == optimizer.arguments.end() ? std::nullopt : std::optional(at->second);
  }
  /// Momentum computes L2 decay itself.
  bool isDecayOwn() const { return form.type == "momentum" && argument("weight_decay"); }

  // Adds the gradient of the decay, coefficient·p or coefficient·sign(p), to each gradient, in place.
  Error addDecay() {
    const std::optional<double> l1 = argument("l1_decay"), l2 = argument("weight_decay");
    if (!form.isRegularized || isDecayOwn() || (!l1 && !l2)) return Error::success();
    for (const FluidPair &pair : pairs) {
      if (variable(pair.gradient).kind == FluidType::SelectedRows)
        return Failure(ErrorKind::UnsupportedOption, "the gradient of parameter '" + program.text(pair.variable) +
                                                         "' has kind SELECTED_ROWS, for which decay is not supported");
      TextId of = pair.variable;
      auto generated = [&] {
        return temporary("_generated_var", "", dtypeOfPair(pair), variable(pair.variable).shape);
      };
      if (l1) {
        const TextId sign = generated();
        append("sign", {{"X", {of}}}, {{"Out", {sign}}}, {}, pair);
        of = sign;
      }
      const TextId decay = generated();
      scale(of, l1 ? *l1 : *l2, decay, pair);
      append("sum", {{"X", {pair.gradient, decay}}}, {{"Out", {pair.gradient}}},
             {{"mkldnn_data_type", float32}, {"use_mkldnn", no}}, pair);
    }
    return Error::success();
  }

  void scale(TextId x, double factor, TextId out, const FluidPair &pair) {
    const std::string number = floatAttrText(AttrTag::Float, factor), zero = floatAttrText(AttrTag::Float, 0),
                      yes = boolAttrText(true);
    append("scale", {{"ScaleTensor", {}}, {"X", {x}}}, {{"Out", {out}}},
           {{"bias", zero}, {"bias_after_scale", yes}, {"scale", number}, {"use_mkldnn", no}}, pair);
  }

  TextId state(const FluidPair &pair, const OptimizerForm::State &state) {
    SmallVector<int64_t, 4> shape = {1};
    if (!state.isScalar) shape = variable(pair.variable).shape;
    return persistable((program.text(pair.variable) + "_" + state.suffix + "_0").str(), dtypeOfPair(pair), shape,
                       false);
  }

  static std::string spell(const OptimizerForm::Attr &attr, double value) {
    switch (attr.kind) {
      case OptimizerForm::Attr::Kind::Float: return floatAttrText(AttrTag::Float, value);
      case OptimizerForm::Attr::Kind::Floats: return floatsAttrText(AttrTag::Floats, value);
      case OptimizerForm::Attr::Kind::Flag: return boolAttrText(value != 0);
      case OptimizerForm::Attr::Kind::Rows: return intAttrText(AttrTag::Long, static_cast<int64_t>(value));
    }
    llvm_unreachable("a kind");
  }

  void step(const FluidPair &pair) {
    SlotList inputs = {
        {"Grad", {pair.gradient}}, {"LearningRate", {rate}}, {"MasterParam", {}}, {"Param", {pair.variable}}};
    SlotList outputs = {{"ParamOut", {pair.variable}}};
    std::vector<std::string> outs;  // owns the slots' names
    outs.reserve(form.states.size());
    for (const OptimizerForm::State &each : form.states) {
      const TextId name = state(pair, each);
      inputs.push_back({each.slot, {name}});
      if (!each.isReadOnly) outputs.push_back({outs.emplace_back((each.slot + "Out").str()), {name}});
    }
    for (StringRef slot : form.emptySlots) inputs.push_back({slot, {}});
    llvm::sort(inputs, llvm::less_first());
    llvm::sort(outputs, llvm::less_first());
    SmallVector<std::pair<StringRef, std::string>, 12> spelled;
    for (const OptimizerForm::Attr &attr : form.attrs)
      spelled.push_back({attr.key, spell(attr, argument(attr.argument).value_or(attr.value))});
    if (form.type == "momentum") {
      spelled.push_back(
          {"regularization_coeff", floatAttrText(AttrTag::Float, isDecayOwn() ? *argument("weight_decay") : 0)});
      spelled.push_back({"regularization_method", stringAttrText(AttrTag::String, isDecayOwn() ? "l2_decay" : "")});
    }
    SmallVector<AttrText, 12> attrs;
    for (const auto &[key, value] : spelled) attrs.push_back({key, value});
    append(form.type, inputs, outputs, attrs, pair);
  }

  /// β₁ᵗ for the next step, which Paddle's other optimizers compute in their operator.
  void nextPowers() {
    for (const FluidPair &pair : pairs) {
      const TextId power = program.intern((program.text(pair.variable) + "_beta1_pow_acc_0").str());
      scale(power, argument("beta1").value_or(0.9), power, pair);
    }
  }

  Context &context;
  BlockProgram &program;
  const FluidOptimizer &optimizer;
  const OptimizerForm &form;
  UnusedNames unused = UnusedNames(program.texts);
  std::vector<FluidPair> pairs;  // by the parameters' names
  TextId rate;
  const std::string no = boolAttrText(false), one = floatAttrText(AttrTag::Float, 1),
                    minusOne = intAttrText(AttrTag::Int, -1), float32 = stringAttrText(AttrTag::String, "float32");
};

/// Names the arguments that the optimizer has.
Error checkArguments(const FluidOptimizer &optimizer, const OptimizerForm &form) {
  std::vector<std::string> known;
  for (const OptimizerForm::Attr &attr : form.attrs)
    if (!attr.argument.empty()) known.push_back(attr.argument.str());
  if (form.isRegularized) llvm::append_range(known, std::array<std::string, 2>{"weight_decay", "l1_decay"});
  for (const auto &[name, value] : optimizer.arguments)
    if (!is_contained(known, name))
      return Failure(ErrorKind::UnsupportedOption,
                     "optimizer " + form.name + " has no argument '" + name + "', expected " + join(known, ", "));
  if (form.isRegularized && optimizer.arguments.count("weight_decay") && optimizer.arguments.count("l1_decay"))
    return Failure(ErrorKind::UnsupportedOption, "both 'weight_decay' and 'l1_decay' are given, expected one of them");
  return Error::success();
}

}  // namespace

Expected<FluidResult> minimize(Context &context, BlockProgram program, const FluidRequest &request,
                               const FluidOptimizer &optimizer) {
  if (request.block != 0)
    return Failure(ErrorKind::UnsupportedOption, "the loss is in block " + Twine(request.block) +
                                                     ", expected the root, which gets the operators of the optimizer");
  const OptimizerForm *form = findOptimizer(optimizer.name);
  if (!form)
    return Failure(ErrorKind::UnsupportedOption,
                   "optimizer '" + optimizer.name + "' is not supported, expected " + optimizerNames());
  if (Error error = checkArguments(optimizer, *form)) return error;
  Expected<FluidResult> result = appendBackward(context, std::move(program), request);
  if (!result) return result;
  return catchingBadAlloc("to append the optimizer", [&]() -> Expected<FluidResult> {
    if (Error error = Minimizer(context, *result, optimizer, *form).run()) return error;
    return std::move(*result);
  });
}

}  // namespace gradc
