// How an operator declares its attributes: one row per key, bound to a member of a plain parameter struct.
//
//   struct PoolingParams { Dims kernel; PoolType poolType; bool globalPool; };
//   constexpr AttrSpec kPoolingAttrs[] = {
//       attr<&PoolingParams::kernel>("kernel", "()", "window size, one entry per spatial axis"),
//       attr<&PoolingParams::poolType>("pool_type", "max", "kind of pooling"),
//       required<&LayerParams::units>("num_hidden", "output features").atLeast(1),
//   };
//
// The row gives parsing, range check, default, documentation and canonical printing. Parameter structs are trivially
// destructible: text and lists point into the kind they belong to. A host that knows its attributes only at run time
// fills in rows itself: every function receives its row, and with it `user`.
// Member types: bool, int64_t, double, std::optional<int64_t>, std::optional<double>, DType, llvm::StringRef,
// Dims (`(3,3)`, `[3, 3]`, `3`, `(64L,)`, None for no elements), std::optional<Dims> (None is not `()`), OptDims
// (elements may be None), llvm::ArrayRef<double>, and any enum class E for which
// `constexpr llvm::ArrayRef<llvm::StringRef> enumNames(E)` lists the spellings in order of value.
#pragma once

#include "ir/tensor/shape.h"
#include "ir/tensor/types.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <optional>
#include <type_traits>

namespace gradc {

/// Holds parameters and their lists. Slabs are small because every kind has its own arena.
using ParamsArena = llvm::BumpPtrAllocatorImpl<llvm::MallocAllocator, 256, 256>;

/// A list whose elements may be `None`, such as the `begin` of `slice`.
using OptDims = llvm::ArrayRef<std::optional<int64_t>>;

/// Splits "(a, b,)", "[a,b]" or the bare "a" into its elements, spaces included; false when brackets do not match.
bool splitList(llvm::StringRef text, llvm::SmallVectorImpl<llvm::StringRef> &elements);

/// Parsers of single values. They return false on malformed text; lists are allocated in `arena`.
bool parseAttr(llvm::StringRef text, ParamsArena &arena, bool &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, int64_t &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, double &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, std::optional<int64_t> &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, std::optional<double> &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, DType &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, llvm::StringRef &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, Dims &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, std::optional<Dims> &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, OptDims &out);
bool parseAttr(llvm::StringRef text, ParamsArena &arena, llvm::ArrayRef<double> &out);

/// Canonical spelling, the one `diff` compares and generated nodes carry.
void printAttr(llvm::raw_ostream &os, bool value);
void printAttr(llvm::raw_ostream &os, int64_t value);
void printAttr(llvm::raw_ostream &os, double value);  // shortest text that reads back to the same double
void printAttr(llvm::raw_ostream &os, const std::optional<int64_t> &value);
void printAttr(llvm::raw_ostream &os, const std::optional<double> &value);
void printAttr(llvm::raw_ostream &os, DType value);
void printAttr(llvm::raw_ostream &os, llvm::StringRef value);
void printAttr(llvm::raw_ostream &os, Dims value);
void printAttr(llvm::raw_ostream &os, const std::optional<Dims> &value);
void printAttr(llvm::raw_ostream &os, OptDims value);
void printAttr(llvm::raw_ostream &os, llvm::ArrayRef<double> value);

struct AttrSpec {
  llvm::StringRef key;
  llvm::StringRef defaultText;  // parsed like a given value; unused when isRequired
  llvm::StringRef doc;
  llvm::StringRef typeName;  // "int", "bool", "tuple of int", "one of", …
  llvm::ArrayRef<llvm::StringRef> choices;
  double lowest = -HUGE_VAL, highest = HUGE_VAL;  // inclusive range of numbers, and of every element of a list
  bool isRequired = false;
  bool givesShape = false;  // of the output, where its operator's inputs leave it open
  bool (*parse)(const AttrSpec &self, llvm::StringRef text, ParamsArena &arena, void *params) = nullptr;
  void (*print)(const AttrSpec &self, llvm::raw_ostream &os, const void *params) = nullptr;
  bool (*isInRange)(const AttrSpec &self, const void *params) = nullptr;  // null: any value that parses
  const void *user = nullptr;  // for hosts that declare rows at run time, e.g. where the value is in the parameters

  constexpr AttrSpec atLeast(double low) const {
    AttrSpec copy = *this;
    copy.lowest = low;
    return copy;
  }
  constexpr AttrSpec atMost(double high) const {
    AttrSpec copy = *this;
    copy.highest = high;
    return copy;
  }
  constexpr AttrSpec givingShape() const {
    AttrSpec copy = *this;
    copy.givesShape = true;
    return copy;
  }
};

namespace detail {

template <class T> struct MemberOf;
template <class C, class T> struct MemberOf<T C::*> {
  using Class = C;
  using Type = T;
};

template <class T> constexpr llvm::StringRef attrTypeName() {
  if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) return "one of";
  else if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_same_v<T, int64_t>) return "int";
  else if constexpr (std::is_same_v<T, double>) return "float";
  else if constexpr (std::is_same_v<T, std::optional<int64_t>>) return "int or None";
  else if constexpr (std::is_same_v<T, std::optional<double>>) return "float or None";
  else if constexpr (std::is_same_v<T, DType>) return "dtype";
  else if constexpr (std::is_same_v<T, Dims>) return "tuple of int";
  else if constexpr (std::is_same_v<T, std::optional<Dims>>) return "tuple of int or None";
  else if constexpr (std::is_same_v<T, OptDims>) return "tuple of int or None";
  else if constexpr (std::is_same_v<T, llvm::ArrayRef<double>>) return "tuple of float";
  else return "string";
}

template <class T> bool parseMember(llvm::StringRef text, ParamsArena &arena, T &out) {
  if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) {
    llvm::ArrayRef<llvm::StringRef> names = enumNames(T{});
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == text.trim()) {
        out = static_cast<T>(i);
        return true;
      }
    return false;
  } else {
    return parseAttr(text, arena, out);
  }
}

/// NaN is a number where no range is stated: `float('nan')` in Python is saved as `nan`.
template <class T> bool isMemberInRange(const AttrSpec &spec, const T &value) {
  const bool isBounded = spec.lowest > -HUGE_VAL || spec.highest < HUGE_VAL;
  auto inside = [&](double number) { return !isBounded || (number >= spec.lowest && number <= spec.highest); };
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
    return inside(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, std::optional<int64_t>> || std::is_same_v<T, std::optional<double>>) {
    // As in MXNet, NaN is refused where None is a value.
    return !value || (*value == *value && inside(static_cast<double>(*value)));
  } else if constexpr (std::is_same_v<T, Dims> || std::is_same_v<T, llvm::ArrayRef<double>>) {
    return llvm::all_of(value, [&](auto element) { return inside(static_cast<double>(element)); });
  } else if constexpr (std::is_same_v<T, std::optional<Dims>>) {
    return !value || isMemberInRange(spec, *value);
  } else {
    return true;
  }
}

template <auto Member> constexpr AttrSpec makeAttr() {
  using Class = typename MemberOf<decltype(Member)>::Class;
  using Type = typename MemberOf<decltype(Member)>::Type;
  AttrSpec spec;
  spec.typeName = attrTypeName<Type>();
  if constexpr (std::is_enum_v<Type> && !std::is_same_v<Type, DType>) spec.choices = enumNames(Type{});
  spec.parse = [](const AttrSpec &, llvm::StringRef text, ParamsArena &arena, void *params) {
    return parseMember(text, arena, static_cast<Class *>(params)->*Member);
  };
  spec.print = [](const AttrSpec &, llvm::raw_ostream &os, const void *params) {
    const Type &value = static_cast<const Class *>(params)->*Member;
    if constexpr (std::is_enum_v<Type> && !std::is_same_v<Type, DType>)
      os << enumNames(Type{})[static_cast<size_t>(value)];
    else printAttr(os, value);
  };
  spec.isInRange = [](const AttrSpec &self, const void *params) {
    return isMemberInRange(self, static_cast<const Class *>(params)->*Member);
  };
  return spec;
}

}  // namespace detail

/// An attribute with a default, spelled as a file would spell it.
template <auto Member> constexpr AttrSpec attr(llvm::StringRef key, llvm::StringRef defaultText, llvm::StringRef doc) {
  AttrSpec spec = detail::makeAttr<Member>();
  spec.key = key;
  spec.defaultText = defaultText;
  spec.doc = doc;
  return spec;
}

/// An attribute every node must give.
template <auto Member> constexpr AttrSpec required(llvm::StringRef key, llvm::StringRef doc) {
  AttrSpec spec = attr<Member>(key, "", doc);
  spec.isRequired = true;
  return spec;
}

}  // namespace gradc
