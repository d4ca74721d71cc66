// What an operator is: one `OpDef` with everything any pass asks of it, and `NodeKind`, an operator with its attributes.
//
// OpDefs are constant aggregates in ops/<family>.cc, written with named fields in the order below. All functions are
// pure. They receive the NodeKind, whose `params<P>()` are the attributes parsed once per distinct list.
#pragma once

#include "ir/attr_spec.h"
#include "ir/ids.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cassert>
#include <initializer_list>
#include <new>
#include <vector>

namespace gradc {

struct OpDef;
class Graph;
class GradRule;
class DecomposeRule;
class ShapeInference;
class DTypeInference;
struct KernelCall;
struct PieceCall;
struct TensorRef;

/// A set of input positions of a node: one bit each, of any number. The words belong to the Context of the kind.
class InputBits {
 public:
  InputBits() = default;
  explicit InputBits(llvm::ArrayRef<uint64_t> words) : words(words) {}

  bool contains(size_t input) const { return input / 64 < words.size() && (words[input / 64] >> input % 64 & 1); }
  bool isEmpty() const { return words.empty(); }

 private:
  llvm::ArrayRef<uint64_t> words;  // none without members
};

/// Interned (operator, attribute list, bodies): what a node *is* apart from its name and edges.
struct NodeKind {
  const OpDef *op = nullptr;    // null: a variable
  llvm::StringRef spelling;     // the name the file used: op->name or one of its aliases
  AttrsId attrs;                // everything the file says, hidden keys included
  const void *parsed = nullptr; // the operator's parameter struct
  llvm::ArrayRef<Graph> bodies; // graphs the node contains; equal ones share their columns
  uint32_t nesting = 0;         // levels of bodies within bodies; 0 without any
  uint32_t numInputs = 0;       // kAnyInputs for opaque operators
  uint32_t numOutputs = 1;      // hidden ones included
  uint32_t numVisible = 1;      // outputs that are heads by default
  InputBits mutated;            // inputs the operator overwrites (aux states)
  InputBits ignored;            // inputs whose contents are not read (REG-15)
  InputBits stopped;            // inputs that never carry gradient (REG-21)

  static constexpr uint32_t kAnyInputs = 0xffffffff;
  bool isVariable() const { return op == nullptr; }
  template <class P> const P &params() const { return *static_cast<const P *>(parsed); }
  bool isMutated(size_t input) const { return mutated.contains(input); }
  bool isIgnored(size_t input) const { return ignored.contains(input); }
  bool isStopped(size_t input) const { return stopped.contains(input); }
};

/// Up to twelve names, usable in constant initialisation.
struct NameList {
  llvm::StringRef names[12] = {};
  uint32_t count = 0;

  constexpr NameList() = default;
  constexpr NameList(std::initializer_list<llvm::StringRef> list) {
    for (llvm::StringRef name : list) names[count++] = name;
  }
  constexpr operator llvm::ArrayRef<llvm::StringRef>() const { return llvm::ArrayRef<llvm::StringRef>(names, count); }
};

/// Listed names and how many of them a node has. Without `number`, all listed. With `isVariadic`, `number` counts the
/// inputs and they are called arg0, arg1, ….
struct Ports {
  NameList names;
  uint32_t (*number)(const NodeKind &) = nullptr;
  bool isVariadic = false;

  constexpr Ports() = default;
  constexpr Ports(std::initializer_list<llvm::StringRef> list) : names(list) {}
  constexpr Ports(NameList names, uint32_t (*number)(const NodeKind &), bool isVariadic = false)
      : names(names), number(number), isVariadic(isVariadic) {}
};

/// Listed positions below 64, or a condition that depends on the attributes and is asked once for every input of a kind.
struct InputSet {
  uint64_t fixed = 0;
  bool (*contains)(const NodeKind &, size_t input) = nullptr;

  constexpr InputSet() = default;
  constexpr InputSet(std::initializer_list<int> positions) {
    for (int position : positions) {
      assert(position >= 0 && position < 64 && "further positions take a condition");
      fixed |= uint64_t{1} << position;
    }
  }
  constexpr InputSet(bool (*contains)(const NodeKind &, size_t input)) : contains(contains) {}
};

/// The output may share the input's memory. `isIdentity`: its bytes are equal, so any number of readers may share.
struct InplacePair {
  uint8_t input;
  uint8_t output;
  bool isIdentity = false;
};

/// What the values of an input may be; `run --init` and gradcheck draw from it.
enum class Domain : uint8_t { Any, Positive, Probability, ClassIndex, Length };

/// The parameter struct of an operator, type-erased.
struct ParamsType {
  size_t size = 0, align = 1;
  void (*construct)(void *) = nullptr;
};
template <class P> constexpr ParamsType paramsOf() {
  static_assert(std::is_trivially_destructible_v<P>, "parameters live in the Context's arena");
  return {sizeof(P), alignof(P), [](void *at) { new (at) P(); }};
}

struct OpFlags {
  bool isBackward = false;   // fused gradient operator: control dep 0 is its forward node (TIsBackward)
  bool isRandom = false;     // draws numbers: never merged, never recomputed without its key
  bool isStateful = false;   // reads or writes state outside its operands
  bool isZero = false;       // yields zeros whatever its inputs (ZERO-02)
  bool isOpaque = false;     // unknown operator: loads, shows, round-trips, nothing else
  bool hasIntegerKernel = false;  // the kernel computes in integer types too; others refuse them before running
  bool holdsOutput = false;  // gradcheck treats the output as a constant (BlockGrad, losses)
  bool isOwn = false;        // MXNet 1.9.1 has no such operator; `--dialect mxnet` needs lowerToMxnet or refuses
  bool hasNoGradient = false;  // nothing flows through it by definition (comparison, shape_array): inputs get none
};

/// Extra attributes a variable gets when it is made for an input of this operator by a legacy file (prelu's gamma).
struct InputDefault {
  uint8_t input;
  llvm::StringRef key, value;
  bool (*applies)(const NodeKind &) = nullptr;
};

struct OpDef {
  llvm::StringRef name;
  NameList aliases = {};
  llvm::StringRef summary = {};              // one line, then the formula; shown by `gradc ops NAME`
  Ports inputs = {};
  Ports outputs = {"output"};
  uint32_t (*visibleOutputs)(const NodeKind &) = nullptr;  // default: all
  llvm::ArrayRef<AttrSpec> attrs = {};
  ParamsType params = {};
  llvm::Error (*check)(void *params) = nullptr;  // relations between attributes; may fill derived members
  void (*shape)(ShapeInference &) = nullptr;   // both ways; null: E-58 when something is still unknown at the end
  void (*dtype)(DTypeInference &) = nullptr;   // null: all inputs and outputs share one type (REG-22)
  llvm::ArrayRef<InplacePair> inplace = {};
  InputSet ignored = {};
  InputSet mutated = {};
  InputSet stopped = {};
  OpFlags flags = {};
  llvm::ArrayRef<Domain> domains = {};         // per input; missing ones are Domain::Any
  llvm::ArrayRef<InputDefault> inputDefaults = {};
  void (*gradient)(GradRule &) = nullptr;
  void (*decompose)(DecomposeRule &) = nullptr;       // the same values in simpler operators
  void (*lowerToMxnet)(DecomposeRule &) = nullptr;    // own operators only: how MXNet 1.9.1 says it
  void (*kernel)(const KernelCall &) = nullptr;       // reference kernel, float64 and float32 at least
  void (*piece)(const PieceCall &) = nullptr;         // piecewise smooth operators: value on the piece active at base
  /// Scalar loss this operator stands for (value in float64); gradcheck differentiates it. Inputs only.
  double (*impliedLoss)(const KernelCall &) = nullptr;
  /// Bytes of scratch for these operands; null: none.
  size_t (*workspace)(const NodeKind &, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<TensorRef> out) = nullptr;
  const void *user = nullptr;  // data of a host that added the operator
};

/// Whether two kinds are one operator with equal declared attributes, defaults filled in; other attributes may differ.
bool haveSameParameters(const NodeKind &a, const NodeKind &b);
/// "kernel=(2,2), pad=(0,0)": the declared attributes, defaults filled in.
std::string describeParameters(const NodeKind &kind);

/// Operators passes must be able to make without naming them.
struct WellKnownOps {
  const OpDef *zerosLike = nullptr;        // zeros_like(x)
  const OpDef *onesLike = nullptr;         // ones_like(x)
  const OpDef *zerosPlaceholder = nullptr; // _zeros_without_dtype(): zero gradient of a hidden output
  const OpDef *copy = nullptr;             // _copy(x)
  const OpDef *identityLike = nullptr;     // _identity_with_attr_like_rhs(x, y): x, with y's shape and type
  const OpDef *sum = nullptr;              // ElementWiseSum(x0, …), attribute num_args
  const OpDef *add = nullptr;              // _grad_add(x, y)
};

/// The operators a Context knows, by name and alias. Filled once, before graphs are built.
class OpRegistry {
 public:
  /// Adds `op`, which must outlive the registry; a name already taken is an error.
  llvm::Error add(const OpDef &op);
  const OpDef *find(llvm::StringRef name) const;
  /// Registered names within edit distance 2 (or sharing a prefix), nearest first, at most three.
  std::vector<llvm::StringRef> suggest(llvm::StringRef name) const;
  /// Sorted by name, aliases not repeated.
  std::vector<const OpDef *> all() const;

  WellKnownOps wellKnown;

 private:
  struct Row {
    llvm::StringRef name;
    const OpDef *op;
  };
  std::vector<Row> rows;  // sorted by name
};

}  // namespace gradc
