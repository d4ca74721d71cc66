// Tested by tests/append_backward_test.cc and tests/paddle_programs.py
#include "formats/blocks/minimize.h"

#include "formats/blocks/block_attrs.h"
#include "formats/blocks/unused_names.h"
#include "ir/out_of_memory.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kOptimize = 2;  // value of op_role

class Minimizer {
 public:
  Minimizer(Context &context, FluidResult &result, const FluidOptimizer &optimizer)
      : context(context), program(result.program), optimizer(optimizer) {
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
    for (FluidPair &pair : pairs) step(pair);
    return Error::success();
  }

 private:
  using Type = FluidOptimizer::Type;
  using Clip = FluidOptimizer::Clip;
  using NamedSlots = std::initializer_list<std::pair<StringRef, SmallVector<TextId, 1>>>;

  std::vector<BlockSlot> slots(NamedSlots named) {
    std::vector<BlockSlot> made;
    for (const auto &[name, variables] : named) made.push_back({program.intern(name), variables});
    return made;
  }

  /// Appends an operator for a pair. Optional slots are written even if they are empty, as Paddle's layers do.
  void append(StringRef type, NamedSlots inputs, NamedSlots outputs, ArrayRef<AttrText> attrs, const FluidPair &pair) {
    const std::string role = intAttrText(AttrTag::Int, kOptimize),
                      vars = stringsAttrText(AttrTag::Strings,
                                             {program.text(pair.variable).str(), program.text(gradientOf(pair)).str()});
    SmallVector<AttrText, 12> all(attrs);
    all.push_back({"op_role", role});
    all.push_back({"op_role_var", vars});
    program.blocks[0].ops.push_back({program.intern(type), slots(inputs), slots(outputs), context.attrs(all)});
  }

  /// The gradient before clipping.
  TextId gradientOf(const FluidPair &pair) const {
    auto found = unclipped.find(pair.variable.value);
    return found == unclipped.end() ? pair.gradient : found->second;
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
    if (isValue)
      append(type, {{"Max", {}}, {"Min", {}}, {"X", {pair.gradient}}}, {{"Out", {clipped}}},
             {{"max", largest}, {"min", smallest}, {"mkldnn_data_type", float32}, {"use_mkldnn", no}}, pair);
    else append(type, {{"X", {pair.gradient}}}, {{"Out", {clipped}}}, {{"max_norm", largest}}, pair);
    unclipped[pair.variable.value] = pair.gradient;
    pair.gradient = clipped;
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

  TextId state(const FluidPair &pair, StringRef name, bool isScalar) {
    SmallVector<int64_t, 4> shape = {1};
    if (!isScalar) shape = variable(pair.variable).shape;
    return persistable((program.text(pair.variable) + "_" + name + "_0").str(), dtypeOfPair(pair), shape, false);
  }

  void step(const FluidPair &pair) {
    const TextId p = pair.variable, g = pair.gradient;
    if (optimizer.type == Type::Sgd)
      return append("sgd", {{"Grad", {g}}, {"LearningRate", {rate}}, {"MasterParam", {}}, {"Param", {p}}},
                    {{"ParamOut", {p}}}, {{"multi_precision", no}, {"use_mkldnn", no}}, pair);
    if (optimizer.type == Type::Momentum) {
      const TextId v = state(pair, "velocity", false);
      const std::string mu = floatAttrText(AttrTag::Float, optimizer.momentum), zero = floatAttrText(AttrTag::Float, 0),
                        nesterov = boolAttrText(optimizer.useNesterov), none = stringAttrText(AttrTag::String, "");
      return append("momentum",
                    {{"Grad", {g}}, {"LearningRate", {rate}}, {"MasterParam", {}}, {"Param", {p}}, {"Velocity", {v}}},
                    {{"ParamOut", {p}}, {"VelocityOut", {v}}},
                    {{"mu", mu},
                     {"multi_precision", no},
                     {"regularization_coeff", zero},
                     {"regularization_method", none},
                     {"rescale_grad", one},
                     {"use_nesterov", nesterov}},
                    pair);
    }
    const TextId m1 = state(pair, "moment1", false), m2 = state(pair, "moment2", false),
                 b1 = state(pair, "beta1_pow_acc", true), b2 = state(pair, "beta2_pow_acc", true);
    const std::string beta1 = floatAttrText(AttrTag::Float, optimizer.beta1),
                      beta2 = floatAttrText(AttrTag::Float, optimizer.beta2),
                      epsilon = floatAttrText(AttrTag::Float, optimizer.epsilon),
                      rows = intAttrText(AttrTag::Long, 1000);
    append(
        "adam",
        {{"Beta1Pow", {b1}},
         {"Beta1Tensor", {}},
         {"Beta2Pow", {b2}},
         {"Beta2Tensor", {}},
         {"EpsilonTensor", {}},
         {"Grad", {g}},
         {"LearningRate", {rate}},
         {"MasterParam", {}},
         {"Moment1", {m1}},
         {"Moment2", {m2}},
         {"Param", {p}},
         {"SkipUpdate", {}}},
        {{"Beta1PowOut", {b1}}, {"Beta2PowOut", {b2}}, {"Moment1Out", {m1}}, {"Moment2Out", {m2}}, {"ParamOut", {p}}},
        {{"beta1", beta1},
         {"beta2", beta2},
         {"epsilon", epsilon},
         {"lazy_mode", no},
         {"min_row_size_to_use_multithread", rows},
         {"multi_precision", no},
         {"use_global_beta_pow", no}},
        pair);
  }

  Context &context;
  BlockProgram &program;
  const FluidOptimizer &optimizer;
  UnusedNames unused = UnusedNames(program.texts);
  std::vector<FluidPair> pairs;          // by the parameters' names
  DenseMap<uint32_t, TextId> unclipped;  // gradients, by parameter
  TextId rate;
  const std::string no = boolAttrText(false), one = floatAttrText(AttrTag::Float, 1),
                    minusOne = intAttrText(AttrTag::Int, -1), float32 = stringAttrText(AttrTag::String, "float32");
};

}  // namespace

Expected<FluidResult> minimize(Context &context, BlockProgram program, const FluidRequest &request,
                               const FluidOptimizer &optimizer) {
  if (request.block != 0)
    return Failure(ErrorKind::UnsupportedOption, "the loss is in block " + Twine(request.block) +
                                                     ", expected the root, which gets the operators of the optimizer");
  Expected<FluidResult> result = appendBackward(context, std::move(program), request);
  if (!result) return result;
  return catchingBadAlloc("to append the optimizer", [&]() -> Expected<FluidResult> {
    if (Error error = Minimizer(context, *result, optimizer).run()) return error;
    return std::move(*result);
  });
}

}  // namespace gradc
