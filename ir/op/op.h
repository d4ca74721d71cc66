// What an operator is: one `OpDef` with everything that any pass needs to know, and `NodeKind`, an operator with its
// attributes.
//
// OpDefs are constant aggregates in ops/<family>.cc, written with named fields in the order below. All functions are
// pure. They receive the NodeKind, whose `params<P>()` are the attributes parsed once per distinct list.
#pragma once

#include "ir/base/ids.h"
#include "ir/op/attr_spec.h"
#include "ir/op/attrs.h"
#include "ir/tensor/types.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace gradc {

struct OpDef;
struct BodyFlow;
struct OptimizerOps;
class Context;
class Graph;
class GradRule;
class DecomposeRule;
class ShapeInference;
class DTypeInference;
struct KernelCall;
struct PieceCall;
struct TensorRef;
struct KernelSite;
class PreparedKernel;

/// A set of input positions of a node, one bit each, of any size. The words belong to the kind.
class InputBits {
 public:
  InputBits() = default;
  explicit InputBits(llvm::ArrayRef<uint64_t> words) : words(words) {}

  bool contains(size_t input) const { return input / 64 < words.size() && (words[input / 64] >> input % 64 & 1); }
  bool isEmpty() const { return words.empty(); }

 private:
  llvm::ArrayRef<uint64_t> words;  // empty for the empty set
};

/// Interned (operator, attribute list, bodies): what a node *is* apart from its name and edges. Made by Context::kind,
/// which returns a handle; a kind owns what it points to, except the definition of a registered operator.
struct NodeKind {
  const OpDef *op = nullptr;       // null: a variable
  llvm::StringRef spelling;        // the name the file used: op->name or one of its aliases
  Attrs attrs;                     // all attributes of the file, hidden keys included
  Attrs inherited;                 // what nodes that rules emit take over: declared ones and `__annotations__`
  const void *parsed = nullptr;    // the operator's parameter struct
  llvm::ArrayRef<Graph> bodies;    // graphs the node contains; equal ones share their columns
  uint32_t nesting = 0;            // levels of bodies within bodies; 0 without any
  const BodyFlow *flow = nullptr;  // how the bodies are used; null: the operator does not interpret them
  bool draws = false;              // whether a node of this kind draws random numbers
  bool drawsInBodies = false;      // whether a node inside its bodies does, at any depth
  bool readsForm = false;          // whether its values, or those of nodes in its bodies, depend on the form it runs in
  uint32_t numInputs = 0;          // kAnyInputs for opaque operators
  uint32_t numOutputs = 1;         // hidden ones included
  uint32_t numVisible = 1;         // outputs that are heads by default
  InputBits mutated;               // inputs the operator overwrites (aux states)
  InputBits ignored;               // inputs whose contents are not read (REG-15)
  InputBits stopped;               // inputs that never carry gradient (REG-21)

  static constexpr uint32_t kAnyInputs = 0xffffffff;
  bool isVariable() const { return op == nullptr; }
  template <class P> const P &params() const { return *static_cast<const P *>(parsed); }
  bool isMutated(size_t input) const { return mutated.contains(input); }
  bool isIgnored(size_t input) const { return ignored.contains(input); }
  bool isStopped(size_t input) const { return stopped.contains(input); }
};

inline void doesNotFit() {}
/// Whether a declaration exceeds its storage: then OpRegistry::add refuses it, and as a constant it does not compile.
constexpr bool isTooLarge(bool fits) {
  if (std::is_constant_evaluated() && !fits) doesNotFit();
  return !fits;
}

/// Up to twelve names, usable in constant initialisation.
struct NameList {
  static constexpr uint32_t kMaxNames = 12;
  llvm::StringRef names[kMaxNames] = {};
  uint32_t count = 0;
  bool isTooLong = false;  // more were given

  constexpr NameList() = default;
  constexpr NameList(std::initializer_list<llvm::StringRef> list) : NameList(list.begin(), list.size()) {}
  constexpr NameList(const llvm::StringRef *list, size_t size) : isTooLong(isTooLarge(size <= kMaxNames)) {
    for (; count < size && count < kMaxNames; ++count) names[count] = list[count];
  }
  constexpr operator llvm::ArrayRef<llvm::StringRef>() const { return llvm::ArrayRef<llvm::StringRef>(names, count); }
};

/// Listed names and how many of them a node has. Without `number`, all listed ones. With `isVariadic`, `number` counts
/// the inputs and they are named arg0, arg1, ….
struct Ports {
  NameList names;
  uint32_t (*number)(const NodeKind &) = nullptr;
  bool isVariadic = false;

  constexpr Ports() = default;
  constexpr Ports(std::initializer_list<llvm::StringRef> list) : names(list) {}
  constexpr Ports(NameList names, uint32_t (*number)(const NodeKind &) = nullptr, bool isVariadic = false)
      : names(names), number(number), isVariadic(isVariadic) {}
};

/// Listed positions below 64, or a condition that depends on the attributes and is evaluated once for each input of a
/// kind.
struct InputSet {
  uint64_t fixed = 0;
  bool (*contains)(const NodeKind &, size_t input) = nullptr;
  bool isTooFar = false;  // a listed position is out of range; it needs a condition

  constexpr InputSet() = default;
  constexpr InputSet(std::initializer_list<int> positions) {
    for (int position : positions) {
      const bool fits = position >= 0 && position < 64;
      isTooFar |= isTooLarge(fits);
      if (fits) fixed |= uint64_t{1} << position;
    }
  }
  constexpr InputSet(bool (*contains)(const NodeKind &, size_t input)) : contains(contains) {}
};

/// Whether something holds for the nodes of an operator: for all of them, for none, or as their attributes decide.
struct KindCondition {
  bool fixed = false;
  bool (*holds)(const NodeKind &) = nullptr;

  constexpr KindCondition() = default;
  constexpr KindCondition(bool fixed) : fixed(fixed) {}
  constexpr KindCondition(bool (*holds)(const NodeKind &)) : holds(holds) {}
  bool operator()(const NodeKind &kind) const { return holds ? holds(kind) : fixed; }
};

/// The output may share the input's memory. `isIdentity`: its bytes are equal, so any number of readers may share.
struct InplacePair {
  static constexpr uint32_t kMaxPosition = 255;
  uint32_t input;
  uint32_t output;
  bool isIdentity = false;
};

/// What the values of an input may be; initial values and gradcheck are drawn from it.
enum class Domain : uint8_t { Any, Positive, Probability, ClassIndex, Length, WithinOne, AboveOne, Index };
/// Whether values are integers that select or count elements; kernels truncate to them.
constexpr bool isWholeNumber(Domain domain) {
  return domain == Domain::ClassIndex || domain == Domain::Length || domain == Domain::Index;
}

/// Domains by input, Any for those that are not listed; or a function, if they depend on the attributes.
struct InputDomains {
  llvm::ArrayRef<Domain> fixed = {};
  Domain (*at)(const NodeKind &, size_t input) = nullptr;

  constexpr InputDomains() = default;
  constexpr InputDomains(llvm::ArrayRef<Domain> fixed) : fixed(fixed) {}
  template <size_t N> constexpr InputDomains(const Domain (&list)[N]) : fixed(list) {}
  constexpr InputDomains(Domain (*at)(const NodeKind &, size_t input)) : at(at) {}
};

/// The parameter struct of an operator, type-erased. A host may lay it out at run time.
struct ParamsType {
  size_t size = 0, align = 1;
  void (*construct)(const OpDef &, void *at) = nullptr;  // null: the bytes are zero
};
template <class P> constexpr ParamsType paramsOf() {
  static_assert(std::is_trivially_destructible_v<P>, "parameters live in the arena of their kind");
  return {sizeof(P), alignof(P), [](const OpDef &, void *at) { new (at) P(); }};
}

struct OpFlags {
  bool isBackward = false;             // fused gradient operator: control dep 0 is its forward node (TIsBackward)
  bool isRandom = false;               // may draw numbers: NodeKind::draws
  bool isStateful = false;             // reads or writes state outside its operands
  bool isSum = false;                  // adds up its inputs, at least one
  bool isZero = false;                 // yields zeros whatever its inputs (ZERO-02)
  bool isOpaque = false;               // unknown operator: loads, shows, round-trips, nothing else
  bool isConstantInGradcheck = false;  // gradcheck treats the output as a constant (BlockGrad, losses)
  bool isStep = false;         // a step of an optimizer: requesting its gradient is an error, although it decomposes
  bool isElementwise = false;  // element i of each output comes from elements i of its inputs, all of one shape
  bool movesElements = false;  // outputs hold elements of inputs of the same type, bit for bit, or zeros
  bool hasNoGradient = false;  // nothing flows through it by definition (comparison, shape_array): inputs get none
};

/// Attributes of a variable that the reader of a legacy file adds for an input of this operator (prelu's gamma).
struct InputDefault {
  uint32_t input;
  llvm::StringRef key, value;
  bool (*applies)(const NodeKind &) = nullptr;
};

/// How hosts express a primitive, an operator that others decompose to and that does not decompose itself.
struct Primitive {
  llvm::StringRef onnx;  // in operators of ONNX opset 18, about six at most
  llvm::StringRef c;     // as a statement or loop of plain C

  explicit constexpr operator bool() const { return !onnx.empty(); }
};

/// New bodies for a node: input i of body b was input was[b][i] of the old one, and each body that computes may have
/// that many more heads.
struct NewBodies {
  llvm::ArrayRef<Graph> bodies;
  llvm::ArrayRef<std::vector<uint32_t>> was;
  size_t numAdded = 0;
};

struct OpDef {
  llvm::StringRef name;
  NameList aliases = {};
  llvm::StringRef summary = {};  // one line, then the formula; shown by `gradc ops NAME`
  Ports inputs = {};
  Ports outputs = {"output"};
  uint32_t (*visibleOutputs)(const NodeKind &) = nullptr;  // default: all
  llvm::ArrayRef<AttrSpec> attrs = {};
  ParamsType params = {};
  /// Relations between attributes; may fill derived members.
  llvm::Error (*check)(const OpDef &, void *params) = nullptr;
  /// How the operator uses its bodies (ir/graph/body_flow.h); checks them against the attributes. BadAttribute.
  llvm::Expected<BodyFlow> (*flow)(const NodeKind &) = nullptr;
  /// The kind of a node with other bodies, whose attributes follow them; null if no attributes do. Added heads become
  /// visible outputs: of a loop, stacked ones before its states; otherwise the last ones.
  llvm::Expected<std::shared_ptr<const NodeKind>> (*rebody)(Context &, const NodeKind &, const NewBodies &) = nullptr;
  void (*shape)(ShapeInference &) = nullptr;  // both ways; null: E-58 when something is still unknown at the end
  void (*dtype)(DTypeInference &) = nullptr;  // null: all inputs and outputs share one type (REG-22)
  llvm::ArrayRef<InplacePair> inplace = {};
  InputSet ignored = {};
  InputSet mutated = {};
  InputSet stopped = {};
  OpFlags flags = {};
  bool (*draws)(const NodeKind &) = nullptr;  // of random operators, by their attributes; null: always
  /// Whether its kernels compute other values in training than in inference (KernelCall::isTraining).
  KindCondition readsForm = {};
  DTypeSet kernelTypes = kFloatingTypes;  // types the kernel computes in; its first operand has one of them
  InputDomains domains = {};
  llvm::ArrayRef<InputDefault> inputDefaults = {};
  void (*gradient)(GradRule &) = nullptr;
  /// The form of the same gradients in graphs made for a host, where `gradient` emits another. Only inference uses it.
  void (*hostGradient)(GradRule &) = nullptr;
  void (*decompose)(DecomposeRule &) = nullptr;  // the same values in simpler operators
  Primitive primitive = {};                      // of operators without a decomposition
  llvm::StringRef irreducible = {};              // why it is neither primitive nor decomposed
  void (*kernel)(const KernelCall &) = nullptr;  // reference kernel
  /// Makes fast kernels (runtime/kernels/core/prepared_kernel.h) of an operator that a host added, for non-empty
  /// row-major tensors; those of built-in operators are in runtime/kernels/table.h. An operator may have only fast
  /// kernels.
  std::unique_ptr<PreparedKernel> (*fastKernel)(const KernelSite &) = nullptr;
  void (*piece)(const PieceCall &) = nullptr;  // piecewise smooth operators: value on the piece active at base
  /// Scalar loss whose gradient this operator has (value in float64); gradcheck differentiates it. Only reads inputs.
  double (*impliedLoss)(const KernelCall &) = nullptr;
  /// Whether its gradient is that of the implied loss: it does not read the head gradient, so a scale that the head
  /// gradient has must be applied again.
  KindCondition ignoresHead = {};
  /// Bytes of scratch for these operands; null: none.
  size_t (*workspace)(const NodeKind &, llvm::ArrayRef<TensorRef> in, llvm::ArrayRef<TensorRef> out) = nullptr;
  /// Data of the host that added the operator; every function above can reach it, as `op.user` or through the kind.
  const void *user = nullptr;

  /// Whether it has a gradient: its rule's, or that of its decomposition.
  bool isDifferentiable() const { return gradient || (decompose && !flags.isStep); }
  /// Whether the operator has an attribute of that name.
  bool declares(llvm::StringRef key) const;
};

/// Whether two kinds are one operator with equal declared attributes, defaults filled in; other attributes may differ.
bool haveSameParameters(const NodeKind &a, const NodeKind &b);
/// "kernel=(2,2), pad=(0,0)": the declared attributes, defaults filled in.
std::string describeParameters(const NodeKind &kind);
Domain domainOf(const NodeKind &kind, size_t input);
/// Listed name of an input or output: "weight", "arg3", "output".
std::string inputName(const NodeKind &kind, size_t index);
std::string outputName(const NodeKind &kind, size_t index);
/// `in operator op(name="n", k="v", …)`, the end of every attribute error.
std::string describeAttrs(llvm::StringRef opName, llvm::StringRef nodeName, const Attrs &attrs);

/// Operators that passes must be able to make without naming them, or their attributes: functions yield kinds of
/// nodes.
struct WellKnownOps {
  using Kind = llvm::Expected<std::shared_ptr<const NodeKind>>;

  const OpDef *zerosLike = nullptr;                    // zeros_like(x)
  const OpDef *onesLike = nullptr;                     // ones_like(x)
  const OpDef *zerosPlaceholder = nullptr;             // _zeros_without_dtype(): zero gradient of a hidden output
  const OpDef *copy = nullptr;                         // _copy(x)
  const OpDef *identityLike = nullptr;                 // _identity_with_attr_like_rhs(x, y): x, with y's shape and type
  const OpDef *sum = nullptr;                          // ElementWiseSum(x0, …)
  const OpDef *add = nullptr;                          // _grad_add(x, y)
  const OpDef *tap = nullptr;                          // _gradient_tap(x): GradientRequest::taps
  Kind (*sumOf)(Context &, size_t count) = nullptr;    // `sum` of that many operands
  Kind (*scaled)(Context &, double factor) = nullptr;  // _mul_scalar(x)
  /// The kind of a node that adds stacks of a loop that may end early, in the rows of executed steps alone: it reads
  /// the number of steps, then `count` stacks of `length` rows, or of any number if that is kUnknownDim. Null: stacks
  /// are added whole.
  Kind (*sumOfRows)(Context &, size_t count, int64_t length) = nullptr;
  std::shared_ptr<const OptimizerOps> optimizers;  // ir/op/optimizer_ops.h
};

/// Operators that split a tensor into rows and stack rows, for passes that unroll loops, as kinds of nodes. A row
/// is an element of axis 0.
struct RowOps {
  using Kind = WellKnownOps::Kind;

  /// All rows of x, with or without the axis: SliceChannel(x).
  Kind (*split)(Context &, int64_t count, bool dropsAxis) = nullptr;
  /// Rows without the axis as one tensor: stack(x0, …).
  Kind (*stack)(Context &, size_t count) = nullptr;
  /// One number throughout: _full().
  Kind (*full)(Context &, Dims shape, DType type, int64_t value) = nullptr;
};

/// The operators a Context knows, by name and alias. Filled once, before graphs are built.
class OpRegistry {
 public:
  /// Adds `op`, which must outlive the registry, under all of its names or none. Errors: a name already taken (E-34),
  /// more than twelve ports or aliases (E-42), a position that cannot be declared or that the operator does not have
  /// (E-48), attributes that cannot be read, printed or stored (BadAttribute).
  llvm::Error add(const OpDef &op);
  const OpDef *find(llvm::StringRef name) const;
  /// Registered names within an edit distance of 1 + size / 4, nearest first, at most three.
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
