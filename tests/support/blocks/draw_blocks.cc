#include "tests/support/blocks/draw_blocks.h"

#include "tests/support/blocks/block_programs.h"
#include "tests/support/drawn/dice.h"

#include "formats/blocks/program/block_attrs.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc::testing {
namespace {

class Drawing {
 public:
  Drawing(Context &context, uint64_t seed, const BlockDraw &draw) : context(context), draw(draw), dice(seed) {}

  BlockProgram run() {
    gradc::testing::addBlock(program, std::nullopt, {});
    Names names;
    for (const char *name : {"p0", "p1", "p2"}) {
      declare(0, name, {2, 2}, FluidType::Fp64).isParameter = true;
      program.parameters.push_back({program.intern(name), true});
      names.push_back(name);
    }
    for (const char *name : {"x0", "x1"}) {
      declare(0, name, {2, 2}, FluidType::Fp64).isData = true;
      names.push_back(name);
    }
    numFixed = names.size();
    if (draw.arrayPercent) declareArrays();
    fill(0, names, draw.depth);
    for (const char *array : {"a0", "a1", "a0"})
      if (draw.arrayPercent && dice.chance(25)) elements(array, names), compute(0, names);
    const std::string last = numFixed < names.size() ? names.back() : names[0], squared = fresh(0);
    op(0, "elementwise_mul", {{"X", {last}}, {"Y", {one(names)}}}, {{"Out", {squared}}});
    declare(0, "loss", {}, FluidType::Fp64);
    op(0, "reduce_mean", {{"X", {squared}}}, {{"Out", {"loss"}}},
       {{"dim", intsAttrText(AttrTag::Longs, {0, 1})}, {"reduce_all", boolAttrText(true)}});
    return std::move(program);
  }

 private:
  using Names = std::vector<std::string>;
  using Texts = std::vector<std::pair<std::string, std::string>>;

  BlockVariable &declare(uint32_t block, const std::string &name, SmallVector<int64_t, 4> shape, FluidType type) {
    program.addVariable(block, {program.intern(name), FluidType::LodTensor, type, std::move(shape), 0});
    return *program.find(block, program.texts.find(name));
  }
  std::string fresh(uint32_t block, SmallVector<int64_t, 4> shape = {2, 2}, FluidType type = FluidType::Fp64) {
    std::string name = "v" + std::to_string(numNames++);
    BlockVariable &variable = declare(block, name, std::move(shape), type);
    variable.stopsGradient = draw.flaggedPercent && dice.chance(draw.flaggedPercent);
    return name;
  }
  std::string one(const Names &names) { return dice.one(ArrayRef(names)); }

  void op(uint32_t block, const std::string &type, const SlotNames &inputs, const SlotNames &outputs,
          const Texts &texts = {}, std::optional<uint32_t> subBlock = std::nullopt) {
    BlockOp &made = addOp(program, block, type, inputs, outputs, subBlock);
    SmallVector<AttrText, 4> attrs;
    for (const auto &[key, value] : texts) attrs.push_back({key, value});
    made.attrs = context.attrs(attrs);
  }
  void constant(uint32_t block, const std::string &name, double value, FluidType type = FluidType::Fp64) {
    op(block, "fill_constant", {}, {{"Out", {name}}},
       {{"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(type))},
        {"shape", intsAttrText(AttrTag::Longs, {1})},
        {"value", floatAttrText(AttrTag::Float, value)}});
  }

  /// Two arrays of elements that are zeros at first.
  void declareArrays() {
    declare(0, "none", {2, 2}, FluidType::Fp64).stopsGradient = true;
    op(0, "fill_zeros_like", {{"X", {"x0"}}}, {{"Out", {"none"}}});
    for (const char *array : {"a0", "a1"}) declare(0, array, {2, 2}, FluidType::Fp64).kind = FluidType::LodTensorArray;
    for (int i = 0; i < 6; ++i) {
      const std::string index = "i" + std::to_string(i);
      declare(0, index, {1}, FluidType::Int64).stopsGradient = true;
      constant(0, index, i, FluidType::Int64);
      if (i < 3) indexes.push_back(index);
      for (const char *array : {"a0", "a1"})
        op(0, "write_to_array", {{"X", {"none"}}, {"I", {index}}}, {{"Out", {array}}});
    }
  }

  void element(uint32_t block, Names &names) {
    const std::string array = dice.chance(70) ? "a0" : "a1", index = one(indexes);
    if (block == 0 && dice.chance(20) && !is_contained(moved, index)) {
      moved.push_back(index);
      op(0, "increment", {{"X", {index}}}, {{"Out", {index}}}, {{"step", floatAttrText(AttrTag::Float, 1)}});
    }
    if (dice.chance(50)) op(block, "write_to_array", {{"X", {one(names)}}, {"I", {index}}}, {{"Out", {array}}});
    else op(block, "read_from_array", {{"X", {array}}, {"I", {index}}}, {{"Out", {result(block, names)}}});
  }

  /// Two rows of the whole array, whose six elements are concatenated.
  void elements(const std::string &array, Names &names) {
    const std::string all = fresh(0, {12, 2});
    op(0, "tensor_array_to_tensor", {{"X", {array}}}, {{"Out", {all}}}, {{"axis", intAttrText(AttrTag::Int, 0)}});
    const int64_t first = static_cast<int64_t>(dice.below(5));
    op(0, "slice", {{"Input", {all}}}, {{"Out", {result(0, names)}}},
       {{"axes", intsAttrText(AttrTag::Ints, {0})},
        {"starts", intsAttrText(AttrTag::Ints, {first})},
        {"ends", intsAttrText(AttrTag::Ints, {first + 2})}});
  }

  /// Operators on the names that are there; those that the block declares are added.
  void fill(uint32_t block, Names &names, uint32_t depth) {
    const size_t number = draw.numOps / 2 + dice.below(draw.numOps) + 1;
    for (size_t i = 0; i < number; ++i) {
      if (depth && dice.chance(12)) loop(block, names, depth);
      else if (depth && dice.chance(12)) branch(block, names, depth);
      else if (draw.arrayPercent && dice.chance(draw.arrayPercent)) element(block, names);
      else if (draw.labelPercent && dice.chance(draw.labelPercent)) labelled(block, names);
      else compute(block, names);
    }
  }

  /// The operators of a loop's body; `index` counts on between two of them.
  void fillCounting(uint32_t block, Names &names, uint32_t depth, const std::string &index) {
    auto count = [&] {
      op(block, "increment", {{"X", {index}}}, {{"Out", {index}}}, {{"step", floatAttrText(AttrTag::Float, 1)}});
    };
    const size_t at = dice.below(3);
    if (at == 0) count();
    fill(block, names, depth);
    if (at == 1) count(), fill(block, names, depth);
    if (at == 2) count();
  }

  /// A variable for the scopes of an operator with a block, of which a file says its kind alone.
  std::string freshScopes(uint32_t block) {
    const std::string name = fresh(block, {}, FluidType::Fp64);
    BlockVariable &variable = *program.find(block, program.texts.find(name));
    variable.kind = FluidType::StepScopes;
    variable.dtype.reset();
    variable.lodLevel.reset();
    return name;
  }

  /// What an operator writes, `of` being an operand that it may overwrite.
  std::string result(uint32_t block, Names &names, const std::string &of) {
    const bool mayOverwrite = draw.inPlacePercent && is_contained(ArrayRef(names).drop_front(numFixed), of);
    if (mayOverwrite && dice.chance(draw.inPlacePercent)) return of;
    return result(block, names);
  }

  std::string result(uint32_t block, Names &names) {
    if (dice.chance(draw.rewritePercent) && names.size() > numFixed)
      return names[numFixed + dice.below(names.size() - numFixed)];
    names.push_back(fresh(block));
    return names.back();
  }

  void compute(uint32_t block, Names &names) {
    static const std::vector<std::string> unary = {"tanh", "sin", "cos", "sigmoid", "relu", "assign", "exp"};
    static const std::vector<std::string> binary = {"elementwise_add", "elementwise_sub", "elementwise_mul",
                                                    "matmul_v2"};
    const std::string a = one(names), b = one(names);
    if (dice.chance(50)) {
      const std::string type = one(unary), bounded = type == "exp" ? fresh(block) : a;
      if (type == "exp") op(block, "tanh", {{"X", {a}}}, {{"Out", {bounded}}});
      return op(block, type, {{"X", {bounded}}}, {{"Out", {result(block, names, bounded)}}});
    }
    if (dice.chance(15))
      return op(block, "scale", {{"X", {a}}}, {{"Out", {result(block, names, a)}}},
                {{"scale", floatAttrText(AttrTag::Float, dice.uniform(-1, 1))},
                 {"bias", floatAttrText(AttrTag::Float, 0.5)},
                 {"bias_after_scale", boolAttrText(true)}});
    const std::string raw = fresh(block);  // and then small again
    op(block, one(binary), {{"X", {a}}, {"Y", {b}}}, {{"Out", {raw}}});
    op(block, "tanh", {{"X", {raw}}}, {{"Out", {result(block, names)}}});
  }

  /// A loss per element with a computed label, or an interpolation with computed weights.
  void labelled(uint32_t block, Names &names) {
    auto fraction = [&] {
      const std::string name = fresh(block);
      op(block, "sigmoid", {{"X", {one(names)}}}, {{"Out", {name}}});
      return name;
    };
    const std::string label = fraction(), raw = fresh(block);
    switch (dice.below(4)) {
      case 0: op(block, "bce_loss", {{"X", {fraction()}}, {"Label", {label}}}, {{"Out", {raw}}}); break;
      case 1:
        op(block, "kldiv_loss", {{"X", {one(names)}}, {"Target", {label}}}, {{"Loss", {raw}}},
           {{"reduction", stringAttrText(AttrTag::String, "none")}});
        break;
      case 2:
        op(block, "sigmoid_cross_entropy_with_logits", {{"X", {one(names)}}, {"Label", {label}}}, {{"Out", {raw}}});
        break;
      default: op(block, "lerp", {{"X", {one(names)}}, {"Y", {one(names)}}, {"Weight", {label}}}, {{"Out", {raw}}});
    }
    op(block, "tanh", {{"X", {raw}}}, {{"Out", {result(block, names)}}});
  }

  /// What the operators of a block read and write of the names around it, each once.
  std::pair<Names, Names> traffic(uint32_t inner) {
    Names read, written;
    auto note = [&](ArrayRef<BlockSlot> slots, Names &to) {
      for (const BlockSlot &slot : slots)
        for (TextId name : slot.variables)
          if (const std::string text = program.text(name).str(); !program.find(inner, name) && !is_contained(to, text))
            to.push_back(text);
    };
    for (const BlockOp &each : program.blocks[inner].ops) note(each.inputs, read), note(each.outputs, written);
    return {read, written};
  }

  // while (i < n) { … i = i + 1 }
  void loop(uint32_t block, Names &names, uint32_t depth) {
    const std::string i = fresh(block, {1}), n = fresh(block, {1}), go = fresh(block, {1}, FluidType::Bool);
    constant(block, i, 0);
    constant(block, n, static_cast<double>(dice.below(4)));
    std::string index;
    if (draw.arrayPercent) {
      index = fresh(block, {1}, FluidType::Int64);
      program.find(block, program.texts.find(index))->stopsGradient = true;
      constant(block, index, static_cast<double>(dice.below(2)), FluidType::Int64);
      if (dice.chance(30)) op(block, "write_to_array", {{"X", {one(names)}}, {"I", {index}}}, {{"Out", {"a0"}}});
    }
    op(block, "less_than", {{"X", {i}}, {"Y", {n}}}, {{"Out", {go}}});
    const uint32_t inner = gradc::testing::addBlock(program, block, {});
    Names inside = names;
    if (!index.empty()) indexes.push_back(index);
    const size_t numIndexes = indexes.size();
    if (!index.empty()) fillCounting(inner, inside, depth - 1, index);
    else fill(inner, inside, depth - 1);
    indexes.resize(numIndexes);
    if (!index.empty() && dice.chance(50)) indexes.pop_back();  // else it is used behind the loop too
    if (dice.chance(70) && names.size() > numFixed)             // mostly something is carried
      op(inner, "assign", {{"X", {inside.back()}}}, {{"Out", {names[numFixed + dice.below(names.size() - numFixed)]}}});
    op(inner, "increment", {{"X", {i}}}, {{"Out", {i}}}, {{"step", floatAttrText(AttrTag::Float, 1)}});
    op(inner, "less_than", {{"X", {i}}, {"Y", {n}}}, {{"Out", {go}}});
    auto [read, written] = traffic(inner);
    for (const std::string &name : written)
      if (name != go && !is_contained(read, name)) read.push_back(name);
    llvm::erase(read, go);
    const std::string scopes = freshScopes(block);
    op(block, "while", {{"Condition", {go}}, {"X", read}}, {{"Out", written}, {"StepScopes", {scopes}}}, {}, inner);
  }

  void branch(uint32_t block, Names &names, uint32_t depth) {
    const std::string sum = fresh(block, {1}), limit = fresh(block, {1}), go = fresh(block, {1}, FluidType::Bool);
    op(block, "reduce_sum", {{"X", {one(names)}}}, {{"Out", {sum}}},
       {{"dim", intsAttrText(AttrTag::Longs, {0, 1})}, {"reduce_all", boolAttrText(true)}});
    constant(block, limit, dice.uniform(-1, 1));
    op(block, "less_than", {{"X", {sum}}, {"Y", {limit}}}, {{"Out", {go}}});
    const uint32_t inner = gradc::testing::addBlock(program, block, {});
    Names inside = names;
    const size_t numIndexes = indexes.size();
    fill(inner, inside, depth - 1);
    indexes.resize(numIndexes);
    if (names.size() > numFixed)
      op(inner, "assign", {{"X", {inside.back()}}}, {{"Out", {names[numFixed + dice.below(names.size() - numFixed)]}}});
    auto [read, written] = traffic(inner);
    const std::string scope = freshScopes(block);
    op(block, "conditional_block", {{"Cond", {go}}, {"Input", read}}, {{"Out", written}, {"Scope", {scope}}},
       {{"is_scalar_condition", boolAttrText(true)}}, inner);
  }

  Context &context;
  const BlockDraw draw;
  Dice dice;
  BlockProgram program;
  size_t numFixed = 0;  // names that nothing overwrites
  size_t numNames = 0;
  Names indexes;  // of elements
  Names moved;    // indexes that were counted on in the root
};

}  // namespace

BlockProgram drawBlocks(Context &context, uint64_t seed, const BlockDraw &draw) {
  return Drawing(context, seed, draw).run();
}

}  // namespace gradc::testing
