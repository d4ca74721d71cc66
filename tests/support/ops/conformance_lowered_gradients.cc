// Lowering and differentiating in either order. Tested by tests/ops/conformance_test.cc
#include "tests/support/ops/conformance.h"

#include "ir/base/error.h"
#include "passes/lowering/lower_to.h"
#include "runtime/arrays/elements.h"
#include "runtime/session/session.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

using Heads = std::vector<Array>;

// Kinks and ties, and where exponentials, powers and squares overflow.
constexpr double kMagnitudes[] = {0, 1, 3, 100, 1e4};
constexpr size_t kNumMagnitudes = std::size(kMagnitudes);

// Values of the sample's variables. In most rounds a tensor has one magnitude, with all combinations of signs, so that
// tolerances are in proportion to it; in the last two every tensor has all points.
class Rounds {
 public:
  explicit Rounds(const Orders &orders) : names(orders.variables.front()), base(orders.bindings) {
    size_t fewest = 4;
    for (const std::string &name : names) fewest = std::min(fewest, base.at(name).values.size());
    numMagnitudes = names.size() > 1 ? kNumMagnitudes * kNumMagnitudes : kNumMagnitudes;
    if (fewest < 4) numFlips = names.size() > 1 ? 4 : 2;
  }

  size_t number() const { return numMagnitudes * numFlips + 2; }

  Bindings operator[](size_t round) const {
    Bindings bindings = base;
    const size_t at = round / numFlips, flip = round % numFlips;
    for (size_t i = 0; i < names.size(); ++i) {
      std::vector<double> &values = bindings[names[i]].values;
      for (size_t k = 0; k < values.size(); ++k) {
        size_t magnitude = (i % 2 ? at / kNumMagnitudes : at) % kNumMagnitudes;
        if (at >= numMagnitudes) magnitude = (k * 3 / 2 + i * (1 + round % 2) + 1) % kNumMagnitudes;
        const bool isNegative = magnitude && ((k + flip) >> i % 2 & 1);
        values[k] = isNegative ? -kMagnitudes[magnitude] : kMagnitudes[magnitude];
      }
    }
    return bindings;
  }

 private:
  const std::vector<std::string> &names;
  const Bindings &base;
  size_t numMagnitudes, numFlips = 1;
};

/// Points where the second derivative of an operator is infinite, and that of its lowered form is what its parts have
/// there, if the lowered form has been differentiated at least so many times: docs/gradient.md.
struct Singular {
  StringRef op;
  size_t times;
  bool (*holds)(const Orders &, const Bindings &);
};

// ∂²/∂a∂b of a^b has the limit ±∞ where a = 0 and b <= 1.
bool isPowerOfZero(const Orders &orders, const Bindings &bindings) {
  const std::vector<std::string> &names = orders.variables.front();
  return is_contained(bindings.at(names[0]).values, 0.0) &&
         any_of(bindings.at(names[1]).values, [](double b) { return b <= 1; });
}
bool isOfOne(const Orders &orders, const Bindings &bindings) {
  return any_of(bindings.at(orders.variables.front()[0]).values, [](double x) { return std::abs(x) == 1; });
}
constexpr Singular kSingular[] = {{"_power", 1, isPowerOfZero},
                                  {"broadcast_power", 1, isPowerOfZero},
                                  {"arcsin", 2, isOfOne},
                                  {"arccos", 2, isOfOne}};

// Of second derivatives: what cancels in them was rounded in slopes.
constexpr Tolerance kRoundingTwice{1e-10, 1e-12};

Tolerance toleranceOf(DType type) {
  switch (type) {
    case DType::Float32: return {2e-5, 1e-6};
    case DType::Float16: return {2e-2, 4e-3};
    default: return kRounding;
  }
}

class TypedCheck {
 public:
  TypedCheck(Context &ctx, StringRef op, const Orders &orders, uint32_t order, const Target &target, DType type,
             NaiveOptions given, bool isElementwise)
      : ctx(ctx), op(op), orders(orders), own(orders.graphs[order]), order(order), target(target), type(type),
        isElementwise(isElementwise), options(std::move(given)) {
    // Kernels compute in float32 what runs in float16.
    options.floatAs = type == DType::Float16 ? DType::Float32 : type;
    options.keepsTypes = true;
  }

  Findings run(LoweredGradients &seen) {
    Expected<NaiveRun> before = NaiveRun::run(own, orders.bindings, options);
    if (!before) return consumeError(before.takeError()), Findings();  // not computed in this type
    Expected<Graph> lowered = lowerTo(ctx, own, target, &before->inference());
    if (!lowered) return consumeError(lowered.takeError()), Findings();  // other checks judge that
    for (uint32_t n = 0; n < own.numNodes(); ++n)
      if (own.isVariable(NodeId(n)))
        options.types[own.name(NodeId(n)).str()] = before->inference().dtype[own.firstEntry(NodeId(n))];
    const std::vector<Form> forms = differentiate(*lowered, seen.refused);
    const Rounds rounds(orders);
    for (size_t r = 0; r < rounds.number() && found.problems.empty(); ++r) {
      const Bindings bindings = rounds[r];
      compare("head", own, *lowered, all(own.heads().size()), bindings, toleranceOf(type));
      for (size_t k = 0; k < forms.size(); ++k) compareForm(forms[k], order, k + 1, bindings, seen.singular);
    }
    return std::move(found);
  }

 private:
  static std::vector<std::optional<size_t>> all(size_t number) {
    const auto positions = seq<size_t>(0, number);
    return {positions.begin(), positions.end()};
  }

  /// A derivative of the lowered form.
  struct Form {
    Graph graph;
    std::vector<std::optional<size_t>> positions;  // by variable: of its gradient, if the graph before reads it
    bool isWhole = false;                          // the lowered form reads all variables
  };

  // The gradient of the lowered form and, in float64 and if it was not a gradient itself, the gradient of that. None if
  // the lowered form says that it has lost its gradient.
  std::vector<Form> differentiate(const Graph &lowered, std::set<std::string> &refused) {
    std::vector<Form> forms;
    const size_t most = order == 0 && type == DType::Float64 ? 2 : 1;
    for (size_t k = 0; k < most && order + k + 1 < orders.graphs.size(); ++k) {
      if (k > 0 && !forms.back().isWhole) break;
      std::optional<Form> form = gradientOf(k == 0 ? lowered : forms.back().graph, order + k, refused);
      if (!form) break;
      forms.push_back(std::move(*form));
    }
    return forms;
  }

  // The lowered form of derivative `before` was differentiated so many times.
  void compareForm(const Form &form, size_t before, size_t times, const Bindings &bindings,
                   std::set<std::string> &singular) {
    const size_t at = before + times;
    if (times == 2 && !isElementwise && hasFewDigits(bindings)) return;
    const Tolerance tolerance = times == 1 ? toleranceOf(type) : kRoundingTwice;
    const std::string what = ("derivative " + Twine(at) + ", gradient").str();
    const size_t numProblems = found.problems.size();
    compare(what, orders.graphs[at], form.graph, form.positions, bindings, tolerance);
    const bool isSingular = at >= 2 && any_of(kSingular, [&](const Singular &of) {
                              return of.op == op && times >= of.times && of.holds(orders, bindings);
                            });
    if (!isSingular) return;
    if (found.problems.size() == numProblems) return;
    found.problems.resize(numProblems);
    singular.insert(op.str());
  }

  std::optional<Form> gradientOf(const Graph &lowered, uint32_t at, std::set<std::string> &refused) {
    std::vector<std::string> read;
    Form form{lowered, {}};
    for (const std::string &name : orders.variables[at]) {
      auto isIt = [&](uint32_t n) { return lowered.isVariable(NodeId(n)) && lowered.name(NodeId(n)) == name; };
      const bool isRead = any_of(seq(0u, lowered.numNodes()), isIt);
      form.positions.push_back(isRead ? std::optional(read.size()) : std::nullopt);
      if (isRead) read.push_back(name);
    }
    if (read.empty()) return form;  // zeros
    form.isWhole = read.size() == form.positions.size();
    InferOptions types;
    types.defaultFloat = options.floatAs;
    Expected<Graph> slopes = derivativeGraph(ctx, lowered, read, at + 1, &orders.bindings, types);
    if (slopes) {
      form.graph = *slopes;
      return form;
    }
    form.isWhole = false;
    bool isBlocked = false;  // all gradients are zeros
    handleAllErrors(slopes.takeError(), [&](const GradcError &error) {
      const StringRef from = StringRef(error.message).split(", which was lowered from ").second.split(' ').first;
      isBlocked = error.kind == ErrorKind::NoLiveOutput;
      if (isBlocked) form.positions.assign(form.positions.size(), std::nullopt);
      else if (!from.empty()) refused.insert(from.str());
      else problem("the lowered form: " + error.message + "\n" + dump(lowered));
    });
    return isBlocked ? std::optional(form) : std::nullopt;
  }

  void problem(std::string text) {
    found.problems.push_back(("to " + target.title + " in " + dtypeName(type) + ": " + text).str());
  }

  // Heads of two graphs; those without a position in the second are zeros there.
  void compare(StringRef what, const Graph &graph, const Graph &instead, ArrayRef<std::optional<size_t>> at,
               const Bindings &bindings, Tolerance tolerance) {
    Expected<NaiveRun> run = NaiveRun::run(graph, bindings, options);
    if (!run) return problem(describeError(run.takeError()));
    Expected<Heads> expected = type == DType::Float16 ? inHalf(graph, bindings) : run->heads();
    Expected<Heads> values = headsOf(instead, bindings);
    if (!expected || !values)
      return problem(describeError(joinErrors(expected.takeError(), values.takeError())) + "\n" + dump(instead));
    for (size_t i = 0; i < at.size(); ++i) {
      const Array &value = (*expected)[i];
      Array other = at[i] ? (*values)[*at[i]] : Array(value.shape, std::vector<double>(value.values.size()));
      ++found.numChecked;
      if (!isElementwise) forgiveSums(value, other);
      if (value.shape == other.shape && agree(value, other, tolerance(*run, graph.heads()[i]))) continue;
      std::string text = (what + " " + Twine(i) + ": " + print(value) + ", lowered " + print(other) + " at").str();
      for (const std::string &name : orders.variables.front()) text += " " + name + " = " + print(bindings.at(name));
      return problem(text);
    }
  }

  // Whether second derivatives of sums of products are mostly what rounding left of the terms.
  bool hasFewDigits(const Bindings &bindings) const {
    return any_of(orders.variables.front(), [&](const std::string &name) {
      return any_of(bindings.at(name).values, [](double value) { return std::abs(value) > 100; });
    });
  }

  // Where infinities of both signs are summed, the lowered form may sum before it multiplies.
  static void forgiveSums(const Array &expected, Array &found) {
    for (size_t k = 0; k < std::min(expected.values.size(), found.values.size()); ++k)
      if (std::isnan(expected.values[k]) && std::isinf(found.values[k])) found.values[k] = expected.values[k];
  }

  Expected<Heads> headsOf(const Graph &graph, const Bindings &bindings) {
    if (type == DType::Float16) return inHalf(graph, bindings);
    Expected<NaiveRun> run = NaiveRun::run(graph, bindings, options);
    if (!run) return run.takeError();
    return run->heads();
  }

  Expected<Heads> inHalf(const Graph &graph, const Bindings &bindings) {
    std::vector<NamedArray> arrays;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (!graph.isVariable(NodeId(n))) continue;
      const Array &bound = bindings.at(graph.name(NodeId(n)).str());
      const std::vector<int64_t> shape(bound.shape.begin(), bound.shape.end());
      arrays.push_back({graph.name(NodeId(n)).str(), doubles(shape, bound.values)});
    }
    SessionOptions inHalves;
    inHalves.infer.floatAs = DType::Float16;
    inHalves.exec.backend = Backend::Reference;
    inHalves.exec.isTraining = options.isTraining;
    inHalves.exec.seed = options.seed;
    Expected<Session> session = Session::create(ctx, graph, std::move(arrays), inHalves);
    if (!session) return session.takeError();
    if (Error error = session->run(0)) return error;
    Heads heads;
    for (size_t i = 0; i < graph.heads().size(); ++i) {
      const TensorRef head = session->head(i);
      heads.emplace_back(head.shape, std::vector<double>());
      for (int64_t k = 0; k < head.size(); ++k) heads.back().values.push_back(readElement(head, k));
    }
    return heads;
  }

  Context &ctx;
  const StringRef op;
  const Orders &orders;
  const Graph &own;
  const uint32_t order;
  const Target &target;
  const DType type;
  const bool isElementwise;
  NaiveOptions options;
  Findings found;
};

}  // namespace

Findings checkLoweredGradients(Context &context, const SampleGraph &sample, const Orders &orders, uint32_t order,
                               const Target &target, LoweredGradients &seen) {
  Findings all;
  const StringRef op = sample.graph.op(sample.node)->name;
  const bool isElementwise = sample.graph.op(sample.node)->flags.isElementwise;
  for (const DType type : {DType::Float64, DType::Float32, DType::Float16}) {
    // The sums that other kernels make inside are not among the terms that tolerances are in proportion to.
    if (type != DType::Float64 && !isElementwise) continue;
    // Where float16 has no odd numbers, the parity of b - 1 in x^(b - 1) is lost; the operator's own kernel computes in
    // float32.
    if (type == DType::Float16 && op == "_power") continue;
    Findings found = TypedCheck(context, op, orders, order, target, type, sample.options, isElementwise).run(seen);
    all.numChecked += found.numChecked;
    append_range(all.problems, found.problems);
  }
  return all;
}

}  // namespace gradc::testing
