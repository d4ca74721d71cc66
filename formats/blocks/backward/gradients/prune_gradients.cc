// Tested by tests/formats/blocks/backward/append_backward_test.cc
#include "formats/blocks/backward/gradients/prune_gradients.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_edits.h"
#include "formats/blocks/program/block_program.h"

using namespace llvm;

namespace gradc {
namespace {

bool allIn(ArrayRef<BlockSlot> slots, const NameSet &set) {
  return !anyVariable(slots, [&](TextId name) { return !set.contains(name); });
}

bool isRemovable(const BlockOp &op, NameSet &noGrad, const NameSet &targetGradients, GradientNames &names) {
  if (allIn(op.outputs, noGrad)) return true;  // rule A
  bool readsGradient = false, readsWanted = false;
  forEachVariable(op.inputs, [&](TextId name) {
    if (!names.isGradient(name)) return;
    readsGradient = true;
    readsWanted |= !noGrad.contains(name);
  });
  if (!readsGradient || readsWanted) return false;  // rule B
  forEachVariable(op.outputs, [&](TextId name) {
    if (!targetGradients.contains(name)) noGrad.insert(name);
  });
  return true;
}

/// The operators as a graph of their values; each write of a name is a new value. To find the operators that may go, it
/// follows values from the heads: operators that read no known value.
class Connections {
 public:
  Connections(const std::vector<BlockOp> &ops, const NameSet &known) : nodes(ops.size()) {
    NameSet seen = known;
    for (uint32_t i = 0; i < ops.size(); ++i) {
      bool isHead = true;
      forEachVariable(ops[i].inputs, [&](TextId name) {
        isHead &= !seen.contains(name);
        read(i, name);
      });
      if (isHead) heads.push_back(i);
      forEachVariable(ops[i].outputs, [&](TextId name) {
        seen.insert(name);
        latest[name.value] = addValue();
        nodes[i].outputs.push_back(latest[name.value]);
      });
    }
  }

  std::vector<bool> unconnected() {
    std::vector<bool> isUnconnected(nodes.size());
    size_t number = 0;
    for (uint32_t head : heads) {
      const std::vector<uint32_t> group = followers(head);
      for (uint32_t i : group) isUnconnected[i] = true;
      number += group.size();
    }
    if (number == nodes.size()) isUnconnected.assign(nodes.size(), false);
    return isUnconnected;
  }

 private:
  struct Node {
    SmallVector<uint32_t, 3> inputs, outputs;  // values
    uint32_t visitedFrom = kNone;
  };
  struct Value {
    SmallVector<uint32_t, 2> readers;
    uint32_t readyFrom = kNone;
  };
  static constexpr uint32_t kNone = 0xffffffff;

  uint32_t addValue() {
    values.emplace_back();
    return static_cast<uint32_t>(values.size() - 1);
  }

  void read(uint32_t i, TextId name) {
    auto [entry, isNew] = latest.try_emplace(name.value, static_cast<uint32_t>(values.size()));
    if (isNew) addValue();
    nodes[i].inputs.push_back(entry->second);
    values[entry->second].readers.push_back(i);
  }

  /// The operators that depend only on the head's inputs, the head included; nothing if one on the way also reads
  /// another value. An operator that depends only on one head belongs to no other, so all calls together are linear.
  std::vector<uint32_t> followers(uint32_t head) {
    for (uint32_t input : nodes[head].inputs) values[input].readyFrom = head;
    std::vector<uint32_t> group = {head};
    nodes[head].visitedFrom = head;
    for (size_t next = 0; next < group.size(); ++next) {
      const Node &node = nodes[group[next]];
      if (node.inputs.empty() || any_of(node.inputs, [&](uint32_t v) { return values[v].readyFrom != head; }))
        return {};
      for (uint32_t output : node.outputs) {
        values[output].readyFrom = head;
        for (uint32_t reader : values[output].readers)
          if (nodes[reader].visitedFrom != head) {
            nodes[reader].visitedFrom = head;
            group.push_back(reader);
          }
      }
    }
    return group;
  }

  std::vector<Node> nodes;
  std::vector<Value> values;
  IdMap<uint32_t> latest;  // the value a name has now
  std::vector<uint32_t> heads;
};

BlockOp zerosLike(Context &context, NameTable &texts, TextId like, TextId to) {
  const Attrs zero = context.attrs({{"dtype", intAttrText(AttrTag::Int, -1)},
                                    {"op_role", intAttrText(AttrTag::Int, 1)},
                                    {"op_role_var", stringsAttrText(AttrTag::Strings, {})},
                                    {"value", floatAttrText(AttrTag::Float, 0)}});
  return {texts.intern("fill_any_like"), {{texts.intern("X"), {like}}}, {{texts.intern("Out"), {to}}}, zero};
}

/// Inserts zeros before an operator for the gradients that it reads and `isMissing` accepts.
void fillBefore(Context &context, std::vector<BlockOp> &ops, GradientNames &names, ShapeOfGradient like,
                function_ref<bool(const BlockOp &op, TextId name)> isMissing) {
  std::vector<std::pair<size_t, TextId>> missing;  // before which operator
  for (size_t i = 0; i < ops.size(); ++i)
    forEachVariable(ops[i].inputs, [&](TextId name) {
      if (names.isGradient(name) && isMissing(ops[i], name)) missing.push_back({i, name});
    });
  std::vector<std::pair<size_t, BlockOp>> zeros;
  for (auto [i, name] : missing) zeros.push_back({i, zerosLike(context, names.texts, like(name), name)});
  insertBefore(ops, std::move(zeros));
}

}  // namespace

void removeCutOps(Context &context, std::vector<BlockOp> &ops, NameSet &noGrad, const NameSet &targetGradients,
                  GradientNames &names, ShapeOfGradient like) {
  erase_if(ops, [&](const BlockOp &op) { return isRemovable(op, noGrad, targetGradients, names); });
  fillBefore(context, ops, names, like, [&](const BlockOp &, TextId name) { return noGrad.contains(name); });
}

/// False for an operator that reads gradients of which none exists: it is dropped in the end.
static bool isComputed(const BlockOp &op, const NameSet &computed, GradientNames &names) {
  bool readsGradient = false, readsComputed = false;
  forEachVariable(op.inputs, [&](TextId name) {
    if (!names.isGradient(name)) return;
    readsGradient = true;
    readsComputed |= computed.contains(name);
  });
  return readsComputed || !readsGradient;
}

void fillUncomputed(Context &context, std::vector<BlockOp> &ops, const NameSet &known, bool isInside,
                    GradientNames &names, ShapeOfGradient like) {
  NameSet computed = known;
  const BlockOp *seen = ops.data();  // operators before it are in `computed`
  fillBefore(context, ops, names, like, [&](const BlockOp &op, TextId name) {
    for (; seen != &op; ++seen)
      if (isInside || isComputed(*seen, computed, names))
        forEachVariable(seen->outputs, [&](TextId output) { computed.insert(output); });
    const bool isNeeded =
        isInside || op.subBlock || (names.texts.text(op.type) != "sum" && isComputed(op, computed, names));
    return isNeeded && computed.insert(name);
  });
}

static void fillStepStates(Context &context, const BlockOp &recurrent, std::vector<BlockOp> &ops,
                           GradientNames &names) {
  NameSet computed;
  for (const BlockOp &op : ops) forEachVariable(op.outputs, [&](TextId name) { computed.insert(name); });
  for (const std::string &text : stringsAttr(recurrent.attrs, "ex_states").value_or(std::vector<std::string>())) {
    const TextId state = names.texts.intern(text), gradient = names.gradient(state);
    if (computed.insert(gradient)) ops.push_back(zerosLike(context, names.texts, state, gradient));
  }
}

void fillLostStates(Context &context, const BlockProgram &program, uint32_t body, const BlockOp &loop,
                    std::vector<BlockOp> &ops, GradientNames &names) {
  if (program.text(loop.type) == "recurrent") return fillStepStates(context, loop, ops, names);
  if (program.text(loop.type) != "while") return;
  NameSet computed, arriving;  // gradients for the preceding step, and those that this one reads
  for (const BlockOp &op : ops) {
    forEachVariable(op.inputs, [&](TextId name) {
      if (!computed.contains(name)) arriving.insert(name);
    });
    forEachVariable(op.outputs, [&](TextId name) { computed.insert(name); });
  }
  const NameSet given(program.variables(loop.inputs, "X"));
  std::vector<BlockOp> dropped;
  for (TextId state : program.variables(loop.outputs, "Out")) {
    if (!carriesGradient(program, body, state) || !given.contains(state)) continue;
    const TextId gradient = names.gradient(state);
    if (!computed.contains(gradient)) ops.push_back(zerosLike(context, names.texts, gradient, gradient));
    else if (!arriving.contains(gradient)) dropped.push_back(zerosLike(context, names.texts, gradient, gradient));
  }
  ops.insert(ops.begin(), std::make_move_iterator(dropped.begin()), std::make_move_iterator(dropped.end()));
}

/// Whether an operator reads no known value and none that one before it computes.
static bool hasHead(const std::vector<BlockOp> &ops, const NameSet &known) {
  NameSet computed;
  for (const BlockOp &op : ops) {
    if (!anyVariable(op.inputs, [&](TextId name) { return known.contains(name) || computed.contains(name); }))
      return true;
    forEachVariable(op.outputs, [&](TextId name) { computed.insert(name); });
  }
  return false;
}

void removeUnconnectedOps(std::vector<BlockOp> &ops, const NameSet &known) {
  if (!hasHead(ops, known)) return;
  const std::vector<bool> isUnconnected = Connections(ops, known).unconnected();
  size_t kept = 0;
  for (size_t i = 0; i < ops.size(); ++i)
    if (!isUnconnected[i]) {
      if (kept != i) ops[kept] = std::move(ops[i]);
      ++kept;
    }
  ops.resize(kept);
}

void emptyLostBlocks(BlockProgram &program, size_t first, uint32_t kept) {
  std::vector<bool> isOwned(program.blocks.size());
  for (uint32_t block = 0; block < program.blocks.size(); ++block) {
    if (block >= first && block != kept && !isOwned[block]) program.blocks[block].ops.clear();
    for (const BlockOp &op : program.blocks[block].ops)
      if (op.subBlock) isOwned[*op.subBlock] = true;
  }
}

}  // namespace gradc
