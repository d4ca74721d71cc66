// Streams the canonical form. Tested by tests/formats/blocks/block_file_test.cc
#include "formats/blocks/files/block_writer.h"

#include "formats/blocks/program/json_stream.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class BlockWriter {
 public:
  BlockWriter(raw_ostream &os, const BlockProgram &program) : os(os), program(program) {}

  void writeFile(const BlockFile &file);

 private:
  void writeProgram();
  void writeBlock(uint32_t index);
  void writeVariable(const BlockVariable &variable);
  void writeOp(const BlockOp &op);
  void writeAttrs(const BlockOp &op);
  void writeSlots(StringRef key, ArrayRef<BlockSlot> slots);
  void writeOrder(StringRef key, ArrayRef<BlockSlot> slots);
  void writeCall(const BlockCall &call);
  void writeResult(const BlockResult &result);

  void link(StringRef key, std::optional<uint32_t> block) { json.key(key).number(block ? int64_t{*block} : -1); }
  void names(StringRef key, const std::optional<BlockCall::Names> &names);
  void flush() {
    constexpr size_t kFull = 1 << 16;
    if (text.size() >= kFull) os << text, text.clear();
  }

  raw_ostream &os;
  const BlockProgram &program;
  std::string text;
  JsonStream json{text};
};

void BlockWriter::names(StringRef key, const std::optional<BlockCall::Names> &list) {
  json.key(key);
  if (!list) {
    json.null();
    return;
  }
  json.open('[');
  for (const std::string &name : *list) json.string(name);
  json.close(']');
}

void BlockWriter::writeSlots(StringRef key, ArrayRef<BlockSlot> slots) {
  SmallVector<const BlockSlot *, 8> sorted;
  for (const BlockSlot &slot : slots) sorted.push_back(&slot);
  llvm::sort(sorted,
             [&](const BlockSlot *a, const BlockSlot *b) { return program.text(a->name) < program.text(b->name); });
  json.key(key).open('{');
  for (const BlockSlot *slot : sorted) {
    json.key(program.text(slot->name)).open('[');
    for (TextId name : slot->variables) json.string(program.text(name));
    json.close(']');
  }
  json.close('}');
}

void BlockWriter::writeOrder(StringRef key, ArrayRef<BlockSlot> slots) {
  json.key(key).open('[');
  for (const BlockSlot &slot : slots) json.string(program.text(slot.name));
  json.close(']');
}

void BlockWriter::writeAttrs(const BlockOp &op) {
  json.key("attrs").open('{');
  bool owesStack = op.callstack.isValid(), owesBlock = op.subBlock.has_value();
  auto writeOwed = [&](StringRef before) {
    if (owesStack && (before.empty() || before > "op_callstack")) {
      json.key("op_callstack").open('[').string("STRINGS").raw(program.text(op.callstack)).close(']');
      owesStack = false;
    }
    if (owesBlock && (before.empty() || before > "sub_block")) {
      json.key("sub_block").open('[').string("BLOCK").number(*op.subBlock).close(']');
      owesBlock = false;
    }
  };
  for (const AttrText &pair : op.attrs.pairs()) {
    writeOwed(pair.key);
    json.key(pair.key).raw(pair.value);
  }
  writeOwed("");
  json.close('}');
}

void BlockWriter::writeOp(const BlockOp &op) {
  json.open('{');
  writeAttrs(op);
  writeSlots("in", op.inputs);
  writeOrder("in_order", op.inputs);
  writeSlots("out", op.outputs);
  writeOrder("out_order", op.outputs);
  json.key("type").string(program.text(op.type));
  json.close('}');
  flush();
}

void BlockWriter::writeVariable(const BlockVariable &variable) {
  json.key(program.text(variable.name)).open('{');
  if (variable.dtype) json.key("dtype").string(fluidTypeName(*variable.dtype));
  if (variable.isData) json.key("is_data").boolean(true);
  json.key("is_parameter").boolean(variable.isParameter);
  json.key("kind").string(fluidTypeName(variable.kind));
  if (variable.lodLevel) json.key("lod_level").number(*variable.lodLevel);
  json.key("persistable").boolean(variable.isPersistable);
  if (variable.dtype) json.key("shape").numbers(variable.shape);
  json.key("stop_gradient").boolean(variable.stopsGradient);
  json.close('}');
  flush();
}

void BlockWriter::writeBlock(uint32_t index) {
  const Block &block = program.blocks[index];
  json.open('{');
  link("forward", block.forward);
  json.key("idx").number(index);
  json.key("ops").open('[');
  for (const BlockOp &op : block.ops) writeOp(op);
  json.close(']');
  link("parent", block.parent);
  json.key("vars").open('{');
  std::vector<uint32_t> sorted(block.variables.size());
  for (uint32_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
  llvm::sort(sorted, [&](uint32_t a, uint32_t b) {
    return program.text(block.variables[a].name) < program.text(block.variables[b].name);
  });
  for (uint32_t i : sorted) writeVariable(block.variables[i]);
  json.close('}').close('}');
  flush();
}

void BlockWriter::writeProgram() {
  json.key("program").open('{').key("blocks").open('[');
  for (uint32_t i = 0; i < program.blocks.size(); ++i) writeBlock(i);
  json.close(']').key("parameters").open('[');
  for (const BlockParameter &parameter : program.parameters) {
    json.open('[').string(program.text(parameter.name)).boolean(parameter.isTrainable).close(']');
    flush();
  }
  json.close(']').close('}');
}

void BlockWriter::writeCall(const BlockCall &call) {
  const bool isBackward = call.api == "append_backward", isGradients = call.api == "gradients";
  json.key("call").open('{').key("api").string(call.api);
  if (isBackward) names("checkpoints", call.checkpoints);
  json.key("current_block").number(call.currentBlock);
  if (!call.errorClips.empty()) {
    json.key("error_clip").open('{');
    for (const auto &[name, bounds] : call.errorClips) {
      json.key(name).open('[');
      for (const std::string &bound : bounds) json.raw(bound);
      json.close(']');
    }
    json.close('}');
  }
  if (isGradients) names("inputs", call.inputs);
  else json.key("loss").string(call.loss);
  if (isBackward && call.lossBlock) json.key("loss_block").number(*call.lossBlock);
  if (isBackward || isGradients) names("no_grad_set", call.noGradSet);
  if (call.optimizer) json.key("optimizer").string(*call.optimizer);
  if (call.optimizerArguments) {
    json.key("optimizer_arguments").open('{');
    for (const auto &[name, value] : *call.optimizerArguments) json.key(name).raw(value);
    json.close('}');
  }
  if (isBackward) names("parameter_list", call.parameterList);
  json.key("prior_backward_calls").number(call.priorCalls);
  if (isGradients) {
    json.key("target_gradients");
    if (!call.targetGradients) {
      json.null();
    } else {
      json.open('[');
      for (const std::optional<std::string> &name : *call.targetGradients) name ? json.string(*name) : json.null();
      json.close(']');
    }
    names("targets", call.targets);
  }
  json.close('}');
}

void BlockWriter::writeResult(const BlockResult &result) {
  json.key("result").open('[');
  for (const BlockResult::Row &row : result.rows) {
    if (row.parameter) json.open('[').string(*row.parameter);
    row.gradient ? json.string(*row.gradient) : json.null();
    if (row.parameter) json.close(']');
  }
  json.close(']');
}

void BlockWriter::writeFile(const BlockFile &file) {
  std::vector<StringRef> keys = {"program"};
  if (file.call) keys.push_back("call");
  if (file.result) keys.push_back("result");
  for (const auto &[key, value] : file.others) keys.push_back(key);
  llvm::sort(keys);
  json.open('{');
  for (StringRef key : keys) {
    if (key == "program") writeProgram();
    else if (key == "call" && file.call) writeCall(*file.call);
    else if (key == "result" && file.result) writeResult(*file.result);
    else json.key(key).raw(file.others.at(key.str()));
  }
  json.close('}');
  os << text << '\n';
}

}  // namespace

void writeBlocks(raw_ostream &os, const BlockFile &file) { BlockWriter(os, file.program).writeFile(file); }

}  // namespace gradc
