// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/gradients/gradient_seeds.h"

#include "formats/blocks/program/block_attrs.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kBackward = 1, kLoss = 256;  // values of op_role

std::string dtypeText(const BlockVariable &variable) {
  return intAttrText(AttrTag::Int, static_cast<int64_t>(variable.dtype.value_or(FluidType::Fp32)));
}

BlockOp seed(Context &context, BlockProgram &program, StringRef type, TextId from, TextId gradient,
             ArrayRef<AttrText> own, int64_t role) {
  const std::string roleText = intAttrText(AttrTag::Int, role), none = stringsAttrText(AttrTag::Strings, {});
  SmallVector<AttrText, 12> attrs(own);
  attrs.push_back({"op_role", roleText});
  attrs.push_back({"op_role_var", none});
  BlockOp op = {program.intern(type), {}, {{program.intern("Out"), {gradient}}}, context.attrs(attrs)};
  if (from.isValid()) op.inputs.push_back({program.intern("X"), {from}});
  return op;
}

/// Gradient operators that look at axes of the gradient they are given, and of which Paddle's fail where the loss has
/// several and the seed has one.
bool needsAxes(StringRef type) {
  return StringSwitch<bool>(type)
      .Cases("argsort", "flip", "kthvalue", "roll", "slice", "split", "strided_slice", "top_k_v2", "transpose2", true)
      .Cases("conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "depthwise_conv2d", "unbind", "unstack", true)
      .Default(false);
}

}  // namespace

BlockOp makeLossSeed(Context &context, BlockProgram &program, GradientNames &names, uint32_t block, TextId loss) {
  bool hasAxes = false;
  for (BlockOp &op : reverse(program.blocks[block].ops))
    if (anyVariable(op.outputs, [&](TextId name) { return name == loss; })) {
      op.attrs = context.withAttrs(op.attrs, {{"op_role", intAttrText(AttrTag::Int, kLoss)}});
      hasAxes = needsAxes(program.text(op.type));
      break;
    }
  // Paddle has [1] for every shape that is not [] (D-24), which serves where no axes are read.
  const BlockVariable &variable = *program.find(block, loss);
  SmallVector<int64_t, 4> shape = variable.shape;
  if (any_of(shape, [](int64_t size) { return size < 0; })) return makeOnes(context, program, names, block, loss);
  if (!hasAxes && !shape.empty() && all_of(shape, [](int64_t size) { return size == 1; })) shape.assign(1, 1);
  const std::string dtype = dtypeText(variable), no = boolAttrText(false), place = intAttrText(AttrTag::Int, -1),
                    sizes = intsAttrText(AttrTag::Longs, shape), text = stringAttrText(AttrTag::String, ""),
                    one = floatAttrText(AttrTag::Float, 1);
  return seed(context, program, "fill_constant", TextId(), names.gradient(loss),
              {{"dtype", dtype},
               {"force_cpu", no},
               {"place_type", place},
               {"shape", sizes},
               {"str_value", text},
               {"use_mkldnn", no},
               {"value", one}},
              kBackward | kLoss);
}

BlockOp makeOnes(Context &context, BlockProgram &program, GradientNames &names, uint32_t block, TextId target) {
  const std::string dtype = dtypeText(*program.find(block, target)), one = floatAttrText(AttrTag::Float, 1);
  return seed(context, program, "fill_any_like", target, names.gradient(target), {{"dtype", dtype}, {"value", one}},
              kBackward);
}

BlockOp makeHeadCopy(Context &context, BlockProgram &program, TextId head, TextId gradient) {
  return seed(context, program, "assign", head, gradient, {}, kBackward);
}

}  // namespace gradc
