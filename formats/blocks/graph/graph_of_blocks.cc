// Blocks from the innermost out. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/graph/graph_of_blocks.h"

#include "formats/blocks/arrays/size_operands.h"
#include "formats/blocks/arrays/stacked_arrays.h"
#include "formats/blocks/graph/block_body.h"
#include "formats/blocks/tables/gradient_forms.h"
#include "formats/blocks/tables/op_slots.h"
#include "ir/base/out_of_memory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace gradc {
namespace {

/// By the type of the forward operator; nothing for others.
std::optional<BlockOwner> ownerOfBlock(StringRef type) {
  return StringSwitch<std::optional<BlockOwner>>(type)
      .Case("while", BlockOwner::Loop)
      .Case("conditional_block", BlockOwner::Branch)
      .Case("recurrent", BlockOwner::Recurrent)
      .Default(std::nullopt);
}

/// The blocks with a meaning: the root, and those that operators of such blocks run. Others are ignored, among them
/// gradient blocks of gradient blocks.
class Blocks {
 public:
  Blocks(Context &context, const BlockProgram &program, const BlockGraphOptions &options)
      : all(context, program, options), states(program.blocks.size()) {
    const size_t numBlocks = program.blocks.size();
    all.bodies.resize(numBlocks);
    all.readers.resize(numBlocks);
    all.owners.resize(numBlocks);
    all.gradients.resize(numBlocks);
    for (const std::string &name : options.noGrad)
      if (const TextId id = program.texts.find(name); id.isValid()) all.noGrad.insert(id.value);
    for (const std::string &name : ArrayRef(options.heads).drop_back(options.numSeeds))
      if (const TextId id = program.texts.find(name); id.isValid()) all.heads.insert(id.value);
    all.owners[0].isRun = true;
    for (uint32_t i = 0; i < numBlocks; ++i)
      for (size_t at = 0; at < program.blocks[i].ops.size(); ++at) findOwned(i, at);
  }

  /// Names of the root that are arrays in the program before they became tensors.
  void noteArrays(const BlockProgram &given) {
    for (const BlockVariable &variable : given.blocks[0].variables)
      if (variable.kind == FluidType::LodTensorArray) all.arrays.insert(variable.name.value);
  }

  Expected<BlockGraph> root() {
    if (Error error = read(0)) return error;
    Expected<BlockGraph> root = all.readers[0]->root();
    if (root)
      for (size_t i = 1; i < all.bodies.size(); ++i)
        root->origins.ops.push_back(all.bodies[i] ? std::move(all.bodies[i]->ops) : std::vector<uint32_t>());
    return root;
  }

 private:
  enum class State : uint8_t { Unread, Begun, Done };

  void findOwned(uint32_t block, size_t at) {
    const BlockOp &op = all.program.blocks[block].ops[at];
    const StringRef type = all.program.text(op.type);
    all.hasGradientOps |= isGradientType(type);
    if (!all.owners[block].isRun || !op.subBlock) return;
    const std::optional<uint32_t> forward = all.program.blocks[*op.subBlock].forward;
    BlockReaders::Owner &owner = all.owners[*op.subBlock];
    StringRef forwardType = type;
    const bool isGradient = forwardType.consume_back("_grad");
    const std::optional<BlockOwner> kind = ownerOfBlock(forwardType);
    if (!kind) return;
    if (!isGradient) owner = {block, at, *kind, true};
    if (!isGradient || !forward || *forward == block) return;
    const BlockReaders::Owner &other = all.owners[*forward];
    if (!other.isRun || all.program.blocks[*forward].forward || other.kind != *kind) return;
    owner = {block, at, BlockOwner::Branch, true};
    all.gradients[*forward].push_back(*op.subBlock);
  }

  /// Reads a block after those that its operators run, which must be complete. Recursion is as deep as blocks are
  /// nested.
  Error read(uint32_t block) {
    all.readers[block] = std::make_unique<BlockReader>(all, block);
    for (const BlockOp &op : all.program.blocks[block].ops)
      if (op.subBlock && all.owners[*op.subBlock].isRun && !all.program.blocks[*op.subBlock].forward)
        if (Error error = complete(*op.subBlock)) return error;
    return all.readers[block]->readOps();
  }

  /// A block is complete when its gradient blocks are: they determine which of its values are saved.
  Error complete(uint32_t block) {
    if (states[block] == State::Done) return Error::success();
    if (states[block] == State::Begun)
      return Failure(ErrorKind::BadJson, "block " + Twine(block) + " and its gradient block contain each other");
    states[block] = State::Begun;
    if (Error error = read(block)) return error;
    for (uint32_t gradient : all.gradients[block])
      if (Error error = complete(gradient)) return error;
    Expected<BlockBody> body = all.readers[block]->body();
    if (!body) return body.takeError();
    all.bodies[block] = std::make_unique<BlockBody>(std::move(*body));
    all.readers[block].reset();
    states[block] = State::Done;
    return Error::success();
  }

  BlockReaders all;
  std::vector<State> states;
};

/// The types and slots of the forward operators of gradient operators that the program has no text of. A gradient
/// operator whose forward operator is missing is recomputed under them.
std::vector<StringRef> missingForwardTexts(const BlockProgram &program) {
  std::vector<StringRef> missing;
  auto add = [&](StringRef text) {
    if (!program.texts.find(text).isValid()) missing.push_back(text);
  };
  DenseSet<uint32_t> seen;  // types
  for (const Block &block : program.blocks)
    for (const BlockOp &op : block.ops) {
      if (!seen.insert(op.type.value).second) continue;
      const std::optional<GradientForm> form = formOfGradient(program.text(op.type));
      if (!form) continue;
      add(form->forward);
      for (const FormSlots::Slot &slot : slotsOf(*form).inputs) add(slot.source);
    }
  return missing;
}

}  // namespace

std::optional<BlockOrigins::Op> BlockOrigins::find(const BlockProgram &program, const Place &place) const {
  uint32_t block = 0;
  auto opOf = [&](NodeId n) { return n.value < ops[block].size() ? ops[block][n.value] : kNone; };
  for (const BodyStep &step : place.path) {
    const uint32_t owner = opOf(step.owner);
    if (owner == kNone) return std::nullopt;
    const BlockOp &op = program.blocks[block].ops[owner];
    const bool isSteps = StringSwitch<bool>(program.text(op.type))
                             .Cases("recurrent", "recurrent_grad", "while_grad", true)
                             .Default(false);
    const uint32_t body = isSteps ? 0 : 1;  // others begin with a test
    if (!op.subBlock || step.body != body || ops[*op.subBlock].empty()) return Op{block, owner};
    block = *op.subBlock;
  }
  const uint32_t op = place.node.isValid() ? opOf(place.node) : kNone;
  return op == kNone ? std::nullopt : std::optional(Op{block, op});
}

const BlockName *BlockGraph::find(StringRef name) const {
  const auto at = positions.find(name);
  return at == positions.end() ? nullptr : &names[at->second];
}

Expected<BlockGraph> graphOfBlocks(Context &context, const BlockProgram &program, const BlockGraphOptions &options) {
  return catchingBadAlloc("to make a graph of the program", [&]() -> Expected<BlockGraph> {
    if (Error error = verifyBlocks(program)) return error;
    if (Error error = verifySlots(program)) return error;
    Expected<std::optional<BlockProgram>> stacked = withStackedArrays(context, program, options.maxIterations);
    if (!stacked) return stacked.takeError();
    std::optional<BlockProgram> changed = std::move(*stacked);
    if (std::optional<BlockProgram> sized = withKnownSizes(context, changed ? *changed : program))
      changed = std::move(*sized);
    if (const std::vector<StringRef> missing = missingForwardTexts(program); !missing.empty()) {
      if (!changed) changed.emplace(program);
      for (StringRef text : missing) changed->intern(text);
    }
    Blocks blocks(context, changed ? *changed : program, options);
    blocks.noteArrays(program);
    return blocks.root();
  });
}

}  // namespace gradc
