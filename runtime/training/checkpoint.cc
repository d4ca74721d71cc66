// Checkpoints both ways. Tested by tests/runtime/checkpoint_test.cc
#include "runtime/training/checkpoint.h"

#include "ir/base/error.h"
#include "runtime/executor/bindings.h"
#include "runtime/executor/buffer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cstring>
#include <list>

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kPrefix = "gradc.";

struct RunNumber {
  StringRef key;
  uint64_t RunState::*member;
  StringRef meaning;  // for messages; empty: not compared here
};
// `graph` comes last: a difference in a number the user chose explains more.
constexpr RunNumber kNumbers[] = {
    {"gradc.step", &RunState::step, ""},
    {"gradc.batch", &RunState::batch, "batch size"},
    {"gradc.examples", &RunState::examples, "number of examples"},
    {"gradc.seed", &RunState::seed, "seed"},
    {"gradc.is_shuffled", &RunState::isShuffled, "shuffling"},
    {"gradc.shuffle", &RunState::shuffle, "seed of the shuffling"},
    {"gradc.graph", &RunState::graph, ""},
};

Array numberArray(uint64_t value) {
  Array array{DType::UInt64, {}, std::vector<char>(sizeof value)};
  std::memcpy(array.bytes.data(), &value, sizeof value);
  return array;
}

class Taking {
 public:
  Taking(ArrayRef<NamedArray> checkpoint, StringRef place) : checkpoint(checkpoint), place(place) {
    for (const NamedArray &named : checkpoint) byName[named.name] = &named;
  }

  Expected<uint64_t> run(ArrayRef<LastingArray> arrays, const RunState &expected) {
    Expected<RunState> found = readNumbers();
    if (!found) return found.takeError();
    if (Error error = checkArrays(arrays)) return error;
    if (Error error = checkNumbers(*found, expected)) return error;
    std::vector<TensorRef> sources;  // all of them, before the first is copied
    for (const LastingArray &array : arrays) {
      Expected<TensorRef> source = read(*byName[array.name]);
      if (!source) return source.takeError();
      sources.push_back(*source);
    }
    for (size_t i = 0; i < arrays.size(); ++i) copyBytes(sources[i], arrays[i].memory);
    return found->step;
  }

 private:
  Failure fail(const Twine &what) const {
    return Failure(ErrorKind::BindingMismatch, "checkpoint '" + place + "' " + what);
  }

  /// The elements. They stay until the object is gone.
  Expected<TensorRef> read(const NamedArray &named) {
    if (!named.archived && named.array.view().bytes() == named.array.bytes.size()) return named.array.view();
    kept.push_back(named);
    if (Error error = readElements(kept.back())) return error;
    return kept.back().array.ref();
  }

  Expected<RunState> readNumbers() {
    RunState state;
    for (const RunNumber &number : kNumbers) {
      StringMap<const NamedArray *>::const_iterator at = byName.find(number.key);
      if (at == byName.end())
        return fail("has no '" + number.key + "'")
            .remedy(Remedy::StartFromParameters,
                    "only a checkpoint written by training can be resumed; a file of parameters only provides initial "
                    "values");
      const Array &array = at->second->array;
      if (array.dtype != DType::UInt64 || array.view().bytes() != sizeof(uint64_t))
        return fail("has a '" + number.key + "' that is " + describeTensor(ShapeRef(array.shape), array.dtype) +
                    ", expected one uint64");
      Expected<TensorRef> element = read(*at->second);
      if (!element) return element.takeError();
      std::memcpy(&(state.*number.member), element->data, sizeof(uint64_t));
    }
    return state;
  }

  Error checkArrays(ArrayRef<LastingArray> arrays) const {
    StringMap<char> known;
    for (const LastingArray &array : arrays) {
      known[array.name] = 0;
      StringMap<const NamedArray *>::const_iterator at = byName.find(array.name);
      if (at == byName.end()) return ofAnother().note("it has no '" + array.name + "'");
      const Array &found = at->second->array;
      if (found.dtype == array.memory.dtype && Dims(found.shape) == array.memory.shape) continue;
      return ofAnother().note("its '" + array.name + "' is " +
                              describeTensor(ShapeRef(Dims(found.shape)), found.dtype) + ", expected " +
                              describeTensor(ShapeRef(array.memory.shape), array.memory.dtype));
    }
    std::vector<StringRef> surplus;
    for (const NamedArray &named : checkpoint)
      if (!known.count(named.name) && !StringRef(named.name).starts_with(kPrefix)) surplus.push_back(named.name);
    if (surplus.empty()) return Error::success();
    return ofAnother().note("it also has " + quotedList(surplus));
  }

  Failure ofAnother() const { return fail("is of another network or optimizer"); }

  Error checkNumbers(const RunState &found, const RunState &expected) const {
    for (const RunNumber &number : kNumbers)
      if (!number.meaning.empty() && found.*number.member != expected.*number.member)
        return fail("was made with " + number.meaning + " " + Twine(found.*number.member) + ", this run has " +
                    Twine(expected.*number.member));
    if (found.graph != expected.graph)
      return ofAnother().note("the arrays are the same, operators or attributes are not");
    return Error::success();
  }

  ArrayRef<NamedArray> checkpoint;
  StringRef place;
  StringMap<const NamedArray *> byName;
  std::list<NamedArray> kept;  // with the elements of arrays that were archived
};

}  // namespace

bool isRunNumber(StringRef name) {
  return llvm::any_of(kNumbers, [&](const RunNumber &number) { return number.key == name; });
}

std::vector<NamedArray> runNumbers(const RunState &run) {
  std::vector<NamedArray> arrays;
  for (const RunNumber &number : kNumbers) arrays.push_back({number.key.str(), numberArray(run.*number.member)});
  return arrays;
}

Expected<uint64_t> takeCheckpoint(ArrayRef<NamedArray> checkpoint, ArrayRef<LastingArray> arrays,
                                  const RunState &expected, StringRef place) {
  return Taking(checkpoint, place).run(arrays, expected);
}

}  // namespace gradc
