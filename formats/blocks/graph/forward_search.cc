// Tested by tests/formats/blocks/backward/block_backward_test.cc
#include "formats/blocks/graph/forward_search.h"

#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/Hashing.h"

using namespace llvm;

namespace gradc {
namespace {

/// Candidates that are looked at for one name.
constexpr size_t kMost = 64;

/// Whether a slot's values identify the forward operator. In a loop, names of moving statistics mean those before the
/// step.
bool isKey(const FormSlots::Slot &slot) {
  return !slot.isGradient && slot.name != "MeanOut" && slot.name != "VarianceOut";
}

StringRef withoutCalls(StringRef name) {
  while (name.consume_front("grad/")) {}
  return name;
}

/// The operand that a gradient is named after, without the marks of later calls: "x@GRAD" of
/// "grad/x@GRAD@GRAD@RENAME@block0@1". Empty: the name is not that of a gradient.
StringRef operandOf(StringRef gradient) {
  constexpr StringLiteral suffix = "@GRAD";
  const size_t end = gradient.rfind(suffix);
  if (end == StringRef::npos) return {};
  const StringRef rest = gradient.substr(end + suffix.size());
  return rest.empty() || rest.starts_with("@RENAME@") ? withoutCalls(gradient.take_front(end)) : StringRef();
}

hash_code keyOf(TextId type, ArrayRef<Value> values) {
  hash_code code = hash_value(type.value);
  for (Value v : values) code = hash_combine(code, v.node.value, v.index);
  return code;
}

uint64_t namedKey(hash_code key, StringRef operand) { return hash_combine(key, operand); }

ArrayRef<TextId> namesIn(const BlockProgram &program, const BlockOp &op, StringRef slot) {
  for (ArrayRef<BlockSlot> opSlots : {ArrayRef(op.inputs), ArrayRef(op.outputs)})
    for (const BlockSlot &candidate : opSlots)
      if (program.text(candidate.name) == slot) return candidate.variables;
  return {};
}

}  // namespace

Value ForwardSearch::valueOf(BlockReader &in, TextId name) {
  if (name == kEmptyName) return Value();
  auto own = in.positions.find({in.index, name.value});
  if (own == in.positions.end() && !in.isGradient())
    if (std::optional<uint32_t> block = in.program.declaringBlock(in.index, name))
      own = in.positions.find({*block, name.value});
  return own == in.positions.end() ? Value() : in.states[own->second].last;
}

ArrayRef<Value> ForwardSearch::valuesIn(const BlockReader &in, uint32_t op, StringRef slot) {
  const BlockReader::OpRecord &known = in.records[op];
  for (const auto &[opSlots, values] :
       {std::pair(&in.op(op).inputs, &known.inputs), std::pair(&in.op(op).outputs, &known.outputs)}) {
    size_t first = 0;
    for (const BlockSlot &candidate : *opSlots) {
      if (in.program.text(candidate.name) == slot) return ArrayRef(*values).slice(first, candidate.variables.size());
      first += candidate.variables.size();
    }
  }
  return {};
}

void ForwardSearch::add(BlockReader &reader, size_t at, const FormSlots &slots) {
  const BlockOp &op = reader.op(at);
  const uint32_t number = static_cast<uint32_t>(at);
  std::vector<Value> values;
  for (const FormSlots::Slot &slot : slots.inputs)
    if (isKey(slot)) append_range(values, valuesIn(reader, number, slot.source));
  const hash_code key = keyOf(op.type, values);
  reader.recordsByKey[static_cast<uint64_t>(key)].push_back(number);
  for (ArrayRef<FormSlots::Slot> formSlots : {ArrayRef(slots.inputs), ArrayRef(slots.outputs)})
    for (const FormSlots::Slot &slot : formSlots) {
      if (!slot.isGradient) continue;
      for (TextId name : namesIn(reader.program, op, slot.source)) {
        if (name == kEmptyName) continue;
        std::vector<uint32_t> &named = reader.recordsByKey[namedKey(key, withoutCalls(reader.program.text(name)))];
        if (named.empty() || named.back() != number) named.push_back(number);
      }
    }
}

/// Visits the gradients that the operator reads, then those that it writes, each with its slot and position.
template <typename Visit> void ForwardSearch::forEachGradient(Visit visit) const {
  for (const auto &[formSlots, opSlots] :
       {std::pair(&slots.inputs, &op().inputs), std::pair(&slots.outputs, &op().outputs)})
    for (const FormSlots::Slot &slot : *formSlots) {
      if (!slot.isGradient) continue;
      for (auto [i, name] : enumerate(reader.program.variables(*opSlots, slot.name)))
        if (name != kEmptyName) visit(slot, i, name);
    }
}

Expected<ForwardSearch::Found> ForwardSearch::find() {
  if (reader.isGradient() && reader.forwardReader()) {
    Expected<Found> found = findIn(*reader.forwardReader(), true);
    if (!found || found->in) return found;
  }
  return findIn(reader, false);
}

/// False if the operands cannot be values of that block.
bool ForwardSearch::readKey(bool isForwardBlock) {
  key.clear();
  for (const FormSlots::Slot &slot : slots.inputs) {
    if (!isKey(slot)) continue;
    for (TextId name : reader.program.variables(op().inputs, slot.name)) {
      if (isForwardBlock && reader.positions.contains({reader.index, name.value})) return false;
      const bool isAtStep = isForwardBlock && name != kEmptyName;
      key.push_back(isAtStep ? reader.forwardValue(name).value_or(Value()) : valueOf(reader, name));
    }
  }
  return true;
}

Expected<ForwardSearch::Found> ForwardSearch::findIn(BlockReader &in, bool isForwardBlock) {
  const TextId type = reader.program.texts.find(forwardType);
  if (!type.isValid() || !readKey(isForwardBlock)) return Found();
  const hash_code hash = keyOf(type, key);
  std::optional<Match> best;
  bool isTied = false;
  auto consider = [&](uint64_t listKey) {
    const auto list = in.recordsByKey.find(listKey);
    if (list == in.recordsByKey.end()) return;
    for (uint32_t candidate : reverse(ArrayRef(list->second).take_back(kMost))) {
      if (!isCandidate(in, candidate) || (best && best->op == candidate)) continue;
      const Match other = match(in, candidate);
      const auto rank = [](const Match &m) { return std::pair(m.numNames, m.shapes); };
      if (!best || rank(other) > rank(*best)) {
        best = other;
        isTied = false;
      } else if (rank(other) == rank(*best) && !haveOneGradient(in, *best, other)) {
        isTied = true;
      }
    }
  };
  size_t numGradients = 0;
  forEachGradient([&](const FormSlots::Slot &, size_t, TextId) { ++numGradients; });
  forEachGradient([&](const FormSlots::Slot &, size_t, TextId name) {
    const StringRef operand = operandOf(reader.program.text(name));
    const bool isDecided = best && best->numNames == numGradients;
    if (!operand.empty() && !isDecided) consider(namedKey(hash, operand));
  });
  const bool readsOperands = any_of(key, [](Value v) { return v.isValid(); });
  if (!best) consider(static_cast<uint64_t>(hash));
  if (!best) return Found();
  // Without a name or an operand in common, it must be an operator with the same gradient: of a row, with the same
  // shapes.
  if (!best->numNames && !readsOperands && (best->shapes != Shapes::Equal || !findBlockOp(forwardType))) return Found();
  if (isTied)
    return failureAt(reader.program, reader.index, at, ErrorKind::BadEntry,
                     "several operators '" + forwardType + "' may be the one whose gradient it is")
        .note(
            "it is found by what the gradient operator reads, by the names of gradients ('y@GRAD' belongs to 'y'), and "
            "by declared shapes");
  return Found{&in, best->op};
}

bool ForwardSearch::isCandidate(BlockReader &in, uint32_t candidate) const {
  const BlockOp &known = in.op(candidate);
  if (reader.program.text(known.type) != forwardType) return false;
  std::vector<Value> theirs;
  for (const FormSlots::Slot &slot : slots.inputs) {
    if (!isKey(slot)) continue;
    ArrayRef<Value> values = valuesIn(in, candidate, slot.source);
    if (values.size() != reader.program.variables(op().inputs, slot.name).size()) return false;
    append_range(theirs, values);
  }
  if (theirs != key) return false;
  for (const AttrText &attr : known.attrs.pairs()) {
    const std::optional<StringRef> here = op().attrs.get(attr.key);
    if (here && *here != attr.value && !attr.key.starts_with("op_")) return false;
  }
  return true;
}

ForwardSearch::Match ForwardSearch::match(BlockReader &in, uint32_t candidate) const {
  Match made = {candidate, 0, Shapes::Equal};
  forEachGradient([&](const FormSlots::Slot &slot, size_t i, TextId gradient) {
    ArrayRef<TextId> names = namesIn(reader.program, in.op(candidate), slot.source);
    if (i >= names.size() || names[i] == kEmptyName) {
      made.shapes = Shapes::Different;
      return;
    }
    const StringRef operand = operandOf(reader.program.text(gradient));
    made.numNames += !operand.empty() && operand == withoutCalls(reader.program.text(names[i]));
    made.shapes = std::min(made.shapes, compareShapes(gradient, in, names[i]));
  });
  return made;
}

ForwardSearch::Shapes ForwardSearch::compareShapes(TextId gradient, BlockReader &in, TextId operand) const {
  const BlockVariable *of = visibleVariable(reader.program, reader.index, gradient),
                      *with = visibleVariable(reader.program, in.index, operand);
  if (!of || !with || !of->dtype || !with->dtype) return Shapes::Unknown;
  if (of->shape.size() != with->shape.size()) return Shapes::Different;
  Shapes result = Shapes::Equal;
  for (auto [a, b] : zip(of->shape, with->shape)) {
    if (a < 0 || b < 0) result = Shapes::Unknown;
    else if (a != b) return Shapes::Different;
  }
  return result;
}

/// Whether two candidates of one rank have the same gradient. What Paddle's operator computes depends on nothing but
/// what it reads, and on shapes; a second gradient is derived from the first one, which reads more.
bool ForwardSearch::haveOneGradient(BlockReader &in, const Match &a, const Match &b) const {
  if (a.shapes == Shapes::Equal && findBlockOp(forwardType)) return true;
  return in.records[a.op].inputs == in.records[b.op].inputs;
}

}  // namespace gradc
