// One walk over the operators. For each gradient it keeps the names of its arrivals since the last sum, and every place
// that uses the name of the gradient itself: these are renamed when a second arrival makes the first one a mere part.
// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/gradients/sum_gradients.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_edits.h"

using namespace llvm;

namespace gradc {
namespace {

/// A use of a name: an argument of an operator in the list, or of a sum that is not in it yet.
struct NamePlace {
  uint32_t op, slot, argument;
  bool isOutput, isSum;
};

struct Arrivals {
  TextId gradient;
  SmallVector<TextId, 1> names;      // since the last sum, which counts as one
  SmallVector<NamePlace, 2> places;  // of the name of the gradient itself since its first arrival
  uint32_t numRenamed = 0;
  Attrs latest;  // attributes of the latest writer after the first
};

class Summer {
 public:
  Summer(Context &context, std::vector<BlockOp> &ops, GradientNames &names, uint32_t forwardBlock,
         const NameSet &handed, const NameSet &addedUp, const SumOptions &options)
      : context(context), ops(ops), names(names), forwardBlock(forwardBlock), handed(handed), addedUp(addedUp),
        options(options) {}

  void run() {
    if (options.style == SumStyle::Operator) return runByOperators();
    for (uint32_t i = 0; i < ops.size(); ++i) {
      readInputs(i);
      writeOutputs(i);
    }
    for (Arrivals &known : arrivals) addUp(known, ops.size());
    insertBefore(ops, std::move(sums));
  }

 private:
  /// Empty for a gradient that is used for the first time.
  Arrivals &arrivalsOf(TextId gradient) {
    auto [entry, isNew] = positions.try_emplace(gradient.value, static_cast<uint32_t>(arrivals.size()));
    if (isNew) arrivals.emplace_back().gradient = gradient;
    return arrivals[entry->second];
  }

  bool isSummed(TextId name) const { return names.isGradient(name) && !addedUp.contains(name); }

  void readInputs(uint32_t i) {
    for (uint32_t s = 0; s < ops[i].inputs.size(); ++s)
      for (uint32_t a = 0; a < ops[i].inputs[s].variables.size(); ++a) {
        const TextId name = ops[i].inputs[s].variables[a];
        if (!isSummed(name)) continue;
        Arrivals &known = arrivalsOf(name);
        addUp(known, i);
        if (!known.names.empty()) known.places.push_back({i, s, a, false, false});
      }
  }

  void writeOutputs(uint32_t i) {
    const OperandNames inputs(ops[i].inputs);
    for (uint32_t s = 0; s < ops[i].outputs.size(); ++s)
      for (uint32_t a = 0; a < ops[i].outputs[s].variables.size(); ++a) {
        TextId &name = ops[i].outputs[s].variables[a];
        if (isSummed(name)) writeOutput(ops[i], inputs, name, {i, s, a, true, false});
      }
  }

  void writeOutput(const BlockOp &op, const OperandNames &inputs, TextId &name, const NamePlace &place) {
    Arrivals &known = arrivalsOf(name);
    const bool isInPlace = inputs.contains(name);
    if (isInPlace && known.names.empty() && (names.texts.text(op.type) == "while_grad" || handed.contains(name)))
      return beginInPlace(known, op, place);
    if (isInPlace || known.names.empty()) {
      if (!isInPlace) known.names.push_back(name);
      if (!known.names.empty()) known.places.push_back(place);
      return;
    }
    if (known.names.size() == 1) {
      known.names[0] = nextName(known);
      for (const NamePlace &place : known.places) argumentAt(place) = known.names[0];
      known.places.clear();
    }
    name = nextName(known);
    known.names.push_back(name);
    known.latest = op.attrs;
  }

  /// For a state that nothing reads after a loop, the result of the loop's gradient is the first arrival. So is what an
  /// operator computes from a gradient handed to the block, which keeps its name.
  void beginInPlace(Arrivals &known, const BlockOp &op, const NamePlace &place) {
    known.names.push_back(known.gradient);
    known.places.push_back(place);
    if (handed.contains(known.gradient)) return;
    if (indexed != place.op) {
      indexed = place.op;
      inputPlaces.clear();
      for (uint32_t s = 0; s < op.inputs.size(); ++s)
        for (uint32_t a = 0; a < op.inputs[s].variables.size(); ++a)
          inputPlaces[op.inputs[s].variables[a].value].push_back({place.op, s, a, false, false});
    }
    known.places.append(inputPlaces[known.gradient.value]);
  }

  TextId nextName(Arrivals &known) {
    const char *where = options.style == SumStyle::Operator ? "@RENAME@" : "@RENAME@block";
    return names.texts.intern(
        (names.texts.text(known.gradient) + where + Twine(forwardBlock) + "@" + Twine(known.numRenamed++)).str());
  }

  TextId &argumentAt(const NamePlace &place) {
    BlockOp &op = place.isSum ? sums[place.op].second : ops[place.op];
    return (place.isOutput ? op.outputs : op.inputs)[place.slot].variables[place.argument];
  }

  /// Does nothing if at most one has arrived since the last sum.
  void addUp(Arrivals &known, size_t before) {
    if (known.names.size() < 2) return;
    if (known.names.size() > options.pairwiseLimit)
      addSum(before, "sum", {BlockSlot{names.texts.intern("X"), known.names}}, known.gradient, known.latest);
    else addPairwise(known, before);
    known.names.assign(1, known.gradient);
    known.places.push_back({static_cast<uint32_t>(sums.size() - 1), 0, 0, true, true});
  }

  void addPairwise(const Arrivals &known, size_t before) {
    TextId left = known.names[0];
    for (size_t i = 1; i < known.names.size(); ++i) {
      const bool isLast = i + 1 == known.names.size();
      const TextId result =
          isLast ? known.gradient : names.texts.intern((names.texts.text(known.gradient) + "@ADD@" + Twine(i)).str());
      addSum(before, "grad_add",
             {BlockSlot{names.texts.intern("X"), {left}}, BlockSlot{names.texts.intern("Y"), {known.names[i]}}}, result,
             known.latest);
      left = result;
    }
  }

  void addSum(size_t before, StringRef type, std::vector<BlockSlot> inputs, TextId result, const Attrs &latest) {
    const std::string mkldnnDataType = stringAttrText(AttrTag::String, "float32"), useMkldnn = boolAttrText(false),
                      role = intAttrText(AttrTag::Int, 1), roleVar = stringsAttrText(AttrTag::Strings, {});
    SmallVector<AttrText, 5> attrs = {
        {"mkldnn_data_type", mkldnnDataType}, {"op_role", role}, {"op_role_var", roleVar}, {"use_mkldnn", useMkldnn}};
    if (std::optional<StringRef> device = latest.get("op_device")) attrs.push_back({"op_device", *device});  // AGG-15
    sums.push_back({before, BlockOp{names.texts.intern(type),
                                    std::move(inputs),
                                    {{names.texts.intern("Out"), {result}}},
                                    context.attrs(attrs)}});
  }

  /// Every writer of a gradient with several writers gets a separate name, and the sum follows the last of them. The
  /// number of the block is the unique id in the names.
  void runByOperators() {
    for (uint32_t i = 0; i < ops.size(); ++i)
      for (uint32_t s = 0; s < ops[i].outputs.size(); ++s)
        for (uint32_t a = 0; a < ops[i].outputs[s].variables.size(); ++a) {
          const TextId name = ops[i].outputs[s].variables[a];
          const bool isInPlace = anyVariable(ops[i].inputs, [&](TextId input) { return input == name; });
          if (isSummed(name) && !isInPlace) arrivalsOf(name).places.push_back({i, s, a, true, false});
        }
    for (Arrivals &known : arrivals) {
      if (known.places.size() < 2) continue;
      for (const NamePlace &place : known.places) {
        known.names.push_back(nextName(known));
        argumentAt(place) = known.names.back();
      }
      const uint32_t last = known.places.back().op;
      addSum(last + 1, "sum", {BlockSlot{names.texts.intern("X"), known.names}}, known.gradient, ops[last].attrs);
    }
    llvm::stable_sort(sums, llvm::less_first());
    insertBefore(ops, std::move(sums));
  }

  Context &context;
  std::vector<BlockOp> &ops;
  GradientNames &names;
  const uint32_t forwardBlock;
  const NameSet &handed, &addedUp;
  const SumOptions &options;
  IdMap<uint32_t> positions;                     // of gradients among the arrivals
  std::vector<Arrivals> arrivals;                // in the order in which gradients are first used
  std::vector<std::pair<size_t, BlockOp>> sums;  // before the operators at these positions
  std::optional<uint32_t> indexed;               // the operator
  IdMap<SmallVector<NamePlace, 1>> inputPlaces;  // whose inputs these are, by name
};

}  // namespace

void sumGradients(Context &context, std::vector<BlockOp> &ops, GradientNames &names, uint32_t forwardBlock,
                  const NameSet &handed, const NameSet &addedUp, const SumOptions &options) {
  Summer(context, ops, names, forwardBlock, handed, addedUp, options).run();
}

}  // namespace gradc
