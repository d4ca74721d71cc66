// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/gradients/gradient_variables.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_program.h"

using namespace llvm;

namespace gradc {
namespace {

class Declarer {
 public:
  Declarer(BlockProgram &program, uint32_t root, size_t numEarlier, GradientMaker &maker, GradientNames &names,
           GradientPlaces &places)
      : program(program), root(root), numEarlier(numEarlier), maker(maker), names(names), places(places) {}

  Error run(uint32_t block, size_t firstOp, const BlockOp *owner) {
    NameSet carried;  // read and written by the owner
    if (owner) {
      NameSet written;
      forEachVariable(owner->outputs, [&](TextId name) { written.insert(name); });
      forEachVariable(owner->inputs, [&](TextId name) {
        if (written.contains(name)) carried.insert(name);
      });
      // The owner's names may differ from those in its block, which Paddle overlooks (D-28).
      for (const std::string &name :
           stringsAttr(owner->attrs, "original_output_grad").value_or(std::vector<std::string>()))
        carried.insert(program.intern(name));
      if (numEarlier) declareArriving(block, *owner, carried);
      if (program.text(owner->type) == "recurrent_grad")  // from the following step, declared nowhere
        for (const std::string &name : stringsAttr(owner->attrs, "states").value_or(std::vector<std::string>()))
          carried.insert(names.gradient(program.intern(name)));
    }
    reserveVariables(block, firstOp);
    size_t kept = firstOp;
    for (size_t i = firstOp; i < program.blocks[block].ops.size(); ++i) {
      if (std::optional<uint32_t> inner = program.blocks[block].ops[i].subBlock)
        if (Error error = run(*inner, 0, &program.blocks[block].ops[i])) return error;
      BlockOp &op = program.blocks[block].ops[i];
      if (!isNeeded(block, op, carried)) continue;
      if (Error error = dropMissingOperands(block, i)) return error;
      declareOutputs(block, op);
      if (kept != i) program.blocks[block].ops[kept] = std::move(op);
      ++kept;
    }
    program.blocks[block].ops.resize(kept);
    return Error::success();
  }

 private:
  void reserveVariables(uint32_t block, size_t firstOp) {
    size_t most = program.blocks[block].variables.size();
    for (const BlockOp &op : ArrayRef(program.blocks[block].ops).drop_front(firstOp))
      forEachVariable(op.outputs, [&](TextId) { ++most; });
    program.blocks[block].variables.reserve(most);
  }

  bool exists(uint32_t block, TextId name) {
    const std::optional<uint32_t> declaring = program.declaringBlock(block, name);
    if (!declaring || *declaring != root || block == root || !names.isGradient(name)) return declaring.has_value();
    return program.find(root, name) - program.blocks[root].variables.data() >= static_cast<ptrdiff_t>(numEarlier);
  }

  bool isNeeded(uint32_t block, const BlockOp &op, const NameSet &carried) {
    if (!anyVariable(op.outputs, [](TextId name) { return name != kEmptyName; })) return false;
    bool readsGradient = false;
    const bool readsExisting = anyVariable(op.inputs, [&](TextId name) {
      if (!names.isGradient(name)) return false;
      readsGradient = true;
      return exists(block, name) || carried.contains(name);
    });
    return readsExisting || !readsGradient;
  }

  Error dropMissingOperands(uint32_t block, size_t index) {
    BlockOp &op = program.blocks[block].ops[index];
    if (program.text(op.type) != "sum") return Error::success();
    auto &operands = op.inputs[0].variables;
    erase_if(operands, [&](TextId name) { return !exists(block, name); });
    if (!operands.empty()) return Error::success();
    return failureAt(program, block, index, ErrorKind::EmptySum,
                     "no operand of the sum '" + program.text(op.outputs[0].variables[0]) + "' is left");
  }

  /// In a later call, gradients have other names outside a block than inside, so the block declares those that arrive.
  void declareArriving(uint32_t block, const BlockOp &owner, NameSet &carried) {
    if (program.text(owner.type) == "conditional_block_grad")
      for (TextId name : program.variables(owner.inputs, "Out")) carried.insert(names.gradient(name));
    for (TextId name : carried.names())
      if (names.isGradient(name) && !exists(block, name)) program.addVariable(block, record(block, owner, name));
  }

  void declareOutputs(uint32_t block, const BlockOp &op) {
    forEachVariable(op.outputs, [&](TextId name) {
      if (name == kEmptyName || exists(block, name)) return;
      program.addVariable(block, record(block, op, name));
      const TextId variable = maker.variableOf(name);
      if (variable.isValid()) places[variable.value] = {name, block};
    });
  }

  /// The record of a gradient, with shape and dtype of its variable.
  BlockVariable record(uint32_t block, const BlockOp &op, TextId name) {
    BlockVariable gradient = {name, kindOf(block, op), FluidType::Fp32, {}, 0};
    if (gradient.kind == FluidType::SelectedRows) gradient.lodLevel.reset();
    const TextId forward = names.stripped(name);
    const BlockVariable *variable = visibleVariable(program, block, forward);
    if (!variable) return gradient;
    if (variable->kind == FluidType::LodTensorArray) gradient.kind = FluidType::LodTensorArray;
    gradient.dtype = variable->dtype;
    gradient.shape = variable->shape;
    return gradient;
  }

  FluidType kindOf(uint32_t block, const BlockOp &op) {
    const StringRef type = program.text(op.type);
    const bool isSum = type == "sum" && !anyVariable(op.inputs, [&](TextId operand) {
                         return visibleVariable(program, block, operand)->kind != FluidType::SelectedRows;
                       });
    if (isSum) return FluidType::SelectedRows;  // AGG-14
    if (type == "write_to_array" || type == "tensor_array_to_tensor_grad") return FluidType::LodTensorArray;
    if (type == "lookup_table_v2_grad" && boolAttr(op.attrs, "is_sparse").value_or(false))
      return FluidType::SelectedRows;
    return FluidType::LodTensor;
  }

  BlockProgram &program;
  const uint32_t root;
  const size_t numEarlier;  // of the root's variables
  GradientMaker &maker;
  GradientNames &names;
  GradientPlaces &places;
};

}  // namespace

Error declareGradients(BlockProgram &program, uint32_t block, const CallBegin &begin, GradientMaker &maker,
                       GradientNames &names, GradientPlaces &places) {
  return Declarer(program, block, begin.variable, maker, names, places).run(block, begin.op, nullptr);
}

}  // namespace gradc
