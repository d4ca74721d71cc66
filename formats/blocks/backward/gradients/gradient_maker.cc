// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/gradients/gradient_maker.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_program.h"
#include "formats/blocks/tables/op_slots.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringLiteral kSuffix = "@GRAD";

const BlockSlot *slotOf(ArrayRef<BlockSlot> slots, TextId name) {
  auto found = find_if(slots, [&](const BlockSlot &slot) { return slot.name == name; });
  return found == slots.end() ? nullptr : &*found;
}

}  // namespace

Error GradientMaker::make(uint32_t block, uint32_t index, const NameSet &noGrad, std::optional<uint32_t> gradientBlock,
                          std::vector<BlockOp> &made) {
  const BlockOp &forward = program.blocks[block].ops[index];
  const StringRef type = program.text(forward.type);
  // Of values with a gradient, `increment` is a sum; others it counts back.
  const bool isSum = type == "increment" && anyVariable(forward.inputs, [&](TextId name) {
                       return gradc::carriesGradient(program, block, name);
                     });
  const Form &form = formOf(isSum ? program.intern("assign") : forward.type);
  if (form.state == Form::Empty) return Error::success();
  if (form.state == Form::Unknown || form.state == Form::Missing) {
    std::string written;
    forEachVariable(forward.outputs, [&](TextId name) {
      if (written.empty() && name != kEmptyName) written = ", where it writes '" + program.text(name).str() + "'";
    });
    const bool isUnknown = form.state == Form::Unknown;
    Failure failure =
        failureAt(program, block, index, isUnknown ? ErrorKind::UnknownOp : ErrorKind::NotDifferentiable,
                  (isUnknown ? "unknown operator '" + type + "'" : "'" + type + "' has no gradient operator and") +
                      " is between a loss and a parameter" + written);
    if (isUnknown) return failure;
    return std::move(failure).note("the gradient as a graph goes through it");
  }
  BlockOp op = {form.type, {}, {}, attrsOf(block, forward, program.text(form.type)), gradientBlock};
  for (const Slot &slot : form.inputs) {
    readSlot(forward, slot, op.inputs.emplace_back());
    if (slot.base.isValid() && !isGradientType(program.text(form.type)))
      if (Error error = checkNamed(block, index, slot, op.inputs.back())) return error;
    if (slot.isAuxiliary && op.inputs.back().variables.empty())
      return failureAt(program, block, index, ErrorKind::BadEntry,
                       "slot '" + program.text(slot.source) + "' has no result 0, which the gradient reads");
    if (slot.isRequired && is_contained(op.inputs.back().variables, kEmptyName))
      return failureAt(program, block, index, ErrorKind::BadEntry,
                       "slot '" + program.text(slot.source) +
                           "' names no variable for a result that the gradient reads");
  }
  if (isGradientType(type) && !readsGradient(forward))
    return failureAt(program, block, index, ErrorKind::NotDifferentiable, "it reads no gradient of an output");
  if (type == "batch_norm" || type == "batch_norm_grad") finishBatchNorm(forward, op);
  for (const Slot &slot : form.outputs) writeSlot(forward, slot, noGrad, op.outputs.emplace_back());
  if (type == "while") finishLoop(forward, op, *gradientBlock);
  if (type == "recurrent")
    if (Error error = finishRecurrent(block, index, op, *gradientBlock)) return error;
  if (!form.isEach) {
    made.push_back(std::move(op));
    return Error::success();
  }
  const SmallVector<TextId, 1> wanted = op.outputs[0].variables;
  for (TextId name : wanted) {
    op.outputs[0].variables.assign(1, name);
    made.push_back(op);
  }
  return Error::success();
}

/// For a gradient operator: whether it has a gradient to start from.
bool GradientMaker::readsGradient(const BlockOp &op) const {
  return any_of(op.inputs, [&](const BlockSlot &slot) {
    return program.text(slot.name).ends_with(kSuffix) &&
           any_of(slot.variables, [](TextId name) { return name != kEmptyName; });
  });
}

/// An operator that computes values too, such as `stack` for `unbind`, takes no `@EMPTY@`.
Error GradientMaker::checkNamed(uint32_t block, uint32_t index, const Slot &slot, const BlockSlot &made) const {
  const auto at = llvm::find(made.variables, kEmptyName);
  if (at == made.variables.end()) return Error::success();
  return failureAt(program, block, index, ErrorKind::BadEntry,
                   "slot '" + program.text(slot.base) + "' names no variable for result " +
                       Twine(at - made.variables.begin()) + ", whose gradient is an operand of '" +
                       program.text(made.name) + "' in the gradient operator");
}

void GradientMaker::setVariable(TextId gradient, TextId variable) {
  if (gradient == kEmptyName) return;
  if (gradient.value >= variables.size()) variables.resize(names.texts.size());
  variables[gradient.value] = variable;
}

void GradientMaker::rename(TextId from, TextId to) {
  const TextId variable = variableOf(from);
  if (!variable.isValid()) return;
  setVariable(to, variable);
  setVariable(from, TextId());
}

const GradientMaker::Form &GradientMaker::formOf(TextId type) {
  if (type.value >= forms.size()) forms.resize(type.value + 1);
  if (!forms[type.value]) {
    Form form;
    if (std::optional<StringRef> text = gradientForm(program.text(type))) form = parse(program.text(type), *text);
    forms[type.value] = std::move(form);
  }
  return *forms[type.value];
}

GradientMaker::Form GradientMaker::parse(StringRef type, StringRef text) {
  Form form;
  form.state = text.empty() ? Form::Empty : text == "none" ? Form::Missing : Form::Made;
  if (form.state != Form::Made) return form;
  const GradientForm parts = parseGradientForm("", text);
  form.isEach = parts.isEach;
  form.type = program.intern(parts.type);
  for (const GradientForm::Slot &slot : parts.inputs) form.inputs.push_back(internSlot(slot));
  if (const std::optional<OpSlots> slots = slotsOfType(type))
    for (auto [slot, made] : zip(parts.inputs, form.inputs))
      for (const OpSlot &result : slots->outputs) {
        if (result.name != slot.source) continue;
        made.isAuxiliary = result.isAuxiliary;
        made.isRequired = !result.isAuxiliary && !result.isOptional && !result.isList;
      }
  for (const GradientForm::Slot &slot : parts.outputs) form.outputs.push_back(internSlot(slot));
  return form;
}

GradientMaker::Slot GradientMaker::internSlot(const GradientForm::Slot &parts) {
  Slot slot{program.intern(parts.name), program.intern(parts.source), TextId(), parts.keepsEmpty};
  if (StringRef source = parts.source; source.consume_back(kSuffix)) slot.base = program.intern(source);
  return slot;
}

void GradientMaker::readSlot(const BlockOp &forward, const Slot &slot, BlockSlot &to) {
  to.name = slot.name;
  const BlockSlot *source = slotOf(forward.inputs, slot.source);
  if (!source) source = slotOf(forward.outputs, slot.source);
  if (source) {
    to.variables = source->variables;
    return;
  }
  if (!slot.base.isValid() || !(source = slotOf(forward.outputs, slot.base))) return;
  for (TextId variable : source->variables) {
    to.variables.push_back(names.gradient(variable));
    setVariable(to.variables.back(), variable);
  }
}

void GradientMaker::writeSlot(const BlockOp &forward, const Slot &slot, const NameSet &noGrad, BlockSlot &to) {
  to.name = slot.name;
  const BlockSlot *source = slotOf(forward.inputs, slot.base.isValid() ? slot.base : slot.source);
  if (!source) return;
  if (!slot.base.isValid()) {
    to.variables = source->variables;
    return;
  }
  for (TextId variable : source->variables) {
    const TextId gradient = names.gradient(variable);
    if (!noGrad.contains(gradient)) {
      to.variables.push_back(gradient);
      setVariable(gradient, variable);
    } else if (slot.keepsEmpty) {
      to.variables.push_back(kEmptyName);
    }
  }
}

// With the moving statistics the gradients read them, too; an old program has no `ReserveSpace`.
void GradientMaker::finishBatchNorm(const BlockOp &forward, BlockOp &op) {
  const bool isAgain = program.text(forward.type) != "batch_norm",
             isTest = !isAgain && boolAttr(forward.attrs, "is_test").value_or(false);
  if (isTest || boolAttr(forward.attrs, "use_global_stats").value_or(false))
    for (const auto &[slot, source] : {std::pair("Mean", "MeanOut"), std::pair("Variance", "VarianceOut")}) {
      const ArrayRef<TextId> names =
          isAgain ? program.variables(forward.inputs, slot) : program.variables(forward.outputs, source);
      const auto at = find_if(op.inputs, [&](const BlockSlot &s) { return program.text(s.name) > slot; });
      op.inputs.insert(at, {program.intern(slot), {names.begin(), names.end()}});
    }
  const TextId reserve = program.intern("ReserveSpace");
  if (!slotOf(forward.outputs, reserve))
    erase_if(op.inputs, [&](const BlockSlot &slot) { return slot.name == reserve; });
}

// The loop's inputs have only those gradients that its gradient block computes; of its outputs' gradients, those are
// handed in that this block reads without having computed them.
void GradientMaker::finishLoop(const BlockOp &forward, BlockOp &op, uint32_t gradientBlock) {
  NameSet computed, known;
  for (const BlockOp &inner : program.blocks[gradientBlock].ops)
    forEachVariable(inner.outputs, [&](TextId name) { computed.insert(name); });
  for (TextId &name : op.outputs[0].variables)
    if (!computed.contains(name)) name = kEmptyName;
  NameSet ofOutputs;  // an earlier call may have declared them outside
  for (TextId name : program.variables(forward.outputs, "Out")) ofOutputs.insert(names.gradient(name));
  const Block &inside = program.blocks[gradientBlock];
  std::vector<TextId> read;
  for (const BlockOp &inner : inside.ops) {
    forEachVariable(inner.inputs, [&](TextId name) {
      const bool isOutside =
          program.declaringBlock(*inside.forward, name) || program.declaringBlock(*inside.parent, name);
      if ((!isOutside || ofOutputs.contains(name)) && known.insert(name)) read.push_back(name);
    });
    forEachVariable(inner.outputs, [&](TextId name) { known.insert(name); });
  }
  const TextId outputGradients = program.intern("Out@GRAD");
  for (BlockSlot &slot : op.inputs)
    if (slot.name == outputGradients) slot.variables.assign(read.begin(), read.end());
  std::vector<std::string> spelled;
  for (TextId name : read) spelled.push_back(program.text(name).str());
  op.attrs = context.withAttrs(op.attrs, {{"original_output_grad", stringsAttrText(AttrTag::Strings, spelled)}});
}

/// An array of an outer block, with a gradient, that a block or its inner blocks write or read; invalid: none.
TextId GradientMaker::outerArrayIn(uint32_t block) const {
  SmallVector<uint32_t, 4> pending = {block};
  TextId array;
  while (!pending.empty()) {
    const uint32_t inner = pending.pop_back_val();
    auto isArray = [&](TextId name) {
      const BlockVariable *record = visibleVariable(program, inner, name);
      const bool isArray = record && record->kind == FluidType::LodTensorArray && !record->stopsGradient;
      if (!isArray || *program.declaringBlock(inner, name) >= block) return false;
      array = name;
      return true;
    };
    for (const BlockOp &op : program.blocks[inner].ops) {
      if (op.subBlock) pending.push_back(*op.subBlock);
      if (program.text(op.type) == "lod_array_length") continue;
      if (anyVariable(op.inputs, isArray) || anyVariable(op.outputs, isArray)) return array;
    }
  }
  return array;
}

// Keeps the gradients that the gradient block computes; it always computes those of states.
Error GradientMaker::finishRecurrent(uint32_t block, uint32_t index, BlockOp &op, uint32_t gradientBlock) {
  const BlockOp &forward = program.blocks[block].ops[index];
  if (const TextId array = outerArrayIn(*forward.subBlock); array.isValid())
    return failureAt(program, block, index, ErrorKind::NotDifferentiable,
                     "the gradient of array '" + program.text(array) +
                         "', of a block around that of 'recurrent', is not available");
  NameSet computed;
  for (const BlockOp &inner : program.blocks[gradientBlock].ops)
    forEachVariable(inner.outputs, [&](TextId name) { computed.insert(name); });
  for (BlockSlot &slot : op.outputs) {
    StringRef source = program.text(slot.name);
    source.consume_back(kSuffix);
    for (auto [variable, gradient] : zip(program.variables(forward.inputs, source), slot.variables)) {
      const bool isState = source == "initial_states";
      if (!carriesGradient(program, block, variable) || (!isState && !computed.contains(names.gradient(variable))))
        gradient = kEmptyName;
    }
  }
  return Error::success();
}

/// Back to the declared type of the operand: `in_dtype` may be missing or say another one, and nothing else reads it.
Attrs GradientMaker::attrsOfCast(uint32_t block, const BlockOp &forward) {
  const ArrayRef<TextId> from = program.variables(forward.inputs, "X"), to = program.variables(forward.outputs, "Out");
  auto typeOf = [&](ArrayRef<TextId> operands, StringRef key) {
    const BlockVariable *variable = operands.empty() ? nullptr : visibleVariable(program, block, operands.front());
    if (variable && variable->dtype) return intAttrText(AttrTag::Int, static_cast<int64_t>(*variable->dtype));
    return forward.attrs.get(key).value_or(intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Fp32))).str();
  };
  const std::string in = typeOf(to, "out_dtype"), out = typeOf(from, "in_dtype"), role = intAttrText(AttrTag::Int, 1),
                    none = stringsAttrText(AttrTag::Strings, {});
  return context.withAttrs(forward.attrs,
                           {{"in_dtype", in}, {"op_role", role}, {"op_role_var", none}, {"out_dtype", out}});
}

Attrs GradientMaker::attrsOf(uint32_t block, const BlockOp &forward, StringRef madeType) {
  const StringRef type = program.text(forward.type);
  const TextId kind = type == "increment" ? program.texts.find(madeType) : forward.type;  // it has two gradients
  if (type == "cast") return attrsOfCast(block, forward);
  Attrs &attrs = edited[{forward.attrs.id(), kind.value}];
  if (!attrs.isEmpty()) return attrs;
  attrs = forward.attrs;
  const std::string none = stringsAttrText(AttrTag::Strings, {}), no = boolAttrText(false),
                    zero = floatAttrText(AttrTag::Float, 0), one = floatAttrText(AttrTag::Float, 1);
  auto set = [&](StringRef key, StringRef value) { attrs = context.withAttrs(attrs, {{key, value}}); };
  auto keep = [&](StringRef only) { attrs = context.withoutAttrs(attrs, [&](StringRef key) { return key != only; }); };
  if (type == "increment" && madeType == "assign") {
    attrs = context.withoutAttrs(attrs, [](StringRef key) { return key == "step"; });
  } else if (type == "increment") {
    set("step", floatAttrText(AttrTag::Float, -floatAttr(forward.attrs, "step").value_or(1)));
  } else if (type == "scale") {
    set("bias", zero);
    set("bias_after_scale", boolAttrText(true));
  } else if (madeType == "scale") {
    keep("op_device");
    attrs = context.withAttrs(attrs, {{"bias", zero},
                                      {"bias_after_scale", boolAttrText(true)},
                                      {"scale", type == "sign" ? zero : one},
                                      {"use_mkldnn", no}});
  } else if (type == "conditional_block") {
    keep("is_scalar_condition");
    set("skip_eager_deletion_vars", none);
  } else if (type == "while") {
    set("skip_eager_deletion_vars", none);
  } else if (type == "unbind") {
    set("use_mkldnn", no);
  } else if (madeType == "concat") {
    set("use_quantizer", no);
  }
  set("op_role", intAttrText(AttrTag::Int, 1));
  if (type != "conditional_block") set("op_role_var", none);
  return attrs;
}

void renameTakenGradients(BlockProgram &program, uint32_t block, size_t firstOp, IdMap<TextId> to, const NameSet &kept,
                          GradientNames &names, GradientMaker &maker) {
  UnusedNames unused(program.texts);
  for (BlockOp &op : MutableArrayRef(program.blocks[block].ops).drop_front(firstOp)) {
    NameSet replaced;
    forEachVariable(op.inputs, [&](TextId &name) {
      auto found = to.find(name.value);
      if (found == to.end()) return;
      if (op.subBlock) replaced.insert(name);
      name = found->second;
    });
    forEachVariable(op.outputs, [&](TextId &name) {
      if (!names.isGradient(name) || !program.find(block, name) || kept.contains(name)) return;
      const TextId taken = name;
      if (replaced.contains(taken)) {  // a state of a loop has one name before and behind it
        name = to.find(taken.value)->second;
        return;
      }
      name = unused.make((program.text(taken) + "_").str());
      to[taken.value] = name;
    });
  }
  for (auto [from, name] : to) maker.rename(TextId(from), name);
}

}  // namespace gradc
