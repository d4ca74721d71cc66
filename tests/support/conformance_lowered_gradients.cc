// Lowering and differentiating in either order. Tested by tests/conformance_test.cc
#include "tests/support/conformance.h"

#include "ir/error.h"
#include "passes/targets/lower_to.h"
#include "runtime/elements.h"
#include "runtime/session.h"
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

// Values of the sample's variables. In most rounds a tensor has one magnitude, with all combinations of signs, so that tolerances
// are in proportion to it; in the last two every tensor has all points.
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

Tolerance toleranceOf(DType type) {
  switch (type) {
    case DType::Float32: return {2e-5, 1e-6};
    case DType::Float16: return {2e-2, 4e-3};
    default: return kRounding;
  }
}

class TypedCheck {
 public:
  TypedCheck(Context &ctx, const Orders &orders, uint32_t order, const Target &target, DType type, NaiveOptions given,
             bool isElementwise)
      : ctx(ctx), orders(orders), own(orders.graphs[order]), gradients(orders.graphs[order + 1]),
        variables(orders.variables[order]), order(order), target(target), type(type), isElementwise(isElementwise),
        options(std::move(given)) {
    // Kernels compute in float32 what runs in float16.
    options.floatAs = type == DType::Float16 ? DType::Float32 : type;
    options.keepsTypes = true;
  }

  Findings run(std::set<std::string> &refused) {
    Expected<NaiveRun> before = NaiveRun::run(own, orders.bindings, options);
    if (!before) return consumeError(before.takeError()), Findings();  // not computed in this type
    Expected<Graph> lowered = lowerTo(ctx, own, target, &before->inference());
    if (!lowered) return consumeError(lowered.takeError()), Findings();  // other checks judge that
    for (uint32_t n = 0; n < own.numNodes(); ++n)
      if (own.isVariable(NodeId(n)))
        options.types[own.name(NodeId(n)).str()] = before->inference().dtype[own.firstEntry(NodeId(n))];
    std::optional<Graph> slopes = differentiate(*lowered, refused);
    const Rounds rounds(orders);
    for (size_t r = 0; r < rounds.number() && found.problems.empty(); ++r) {
      const Bindings bindings = rounds[r];
      compare("head", own, *lowered, all(own.heads().size()), bindings);
      if (slopes) compare("gradient", gradients, *slopes, positions, bindings);
    }
    return std::move(found);
  }

 private:
  static std::vector<std::optional<size_t>> all(size_t number) {
    const auto positions = seq<size_t>(0, number);
    return {positions.begin(), positions.end()};
  }

  // Sets `positions`. None if the lowered form says that it has lost its gradient.
  std::optional<Graph> differentiate(const Graph &lowered, std::set<std::string> &refused) {
    std::vector<std::string> read;
    for (const std::string &name : variables) {
      auto isIt = [&](uint32_t n) { return lowered.isVariable(NodeId(n)) && lowered.name(NodeId(n)) == name; };
      const bool isRead = any_of(seq(0u, lowered.numNodes()), isIt);
      positions.push_back(isRead ? std::optional(read.size()) : std::nullopt);
      if (isRead) read.push_back(name);
    }
    if (read.empty()) return lowered;  // zeros
    InferOptions types;
    types.defaultFloat = options.floatAs;
    Expected<Graph> slopes = derivativeGraph(ctx, lowered, read, order + 1, &orders.bindings, types);
    if (slopes) return *slopes;
    bool isBlocked = false;  // all gradients are zeros
    handleAllErrors(slopes.takeError(), [&](const GradcError &error) {
      const StringRef from = StringRef(error.message).split(", which was lowered from ").second.split(' ').first;
      isBlocked = error.kind == ErrorKind::NoLiveOutput;
      if (isBlocked) positions.assign(variables.size(), std::nullopt);
      else if (!from.empty()) refused.insert(from.str());
      else problem("the lowered form: " + error.message + "\n" + dump(lowered));
    });
    return isBlocked ? std::optional(lowered) : std::nullopt;
  }

  void problem(std::string text) {
    found.problems.push_back(("to " + target.title + " in " + dtypeName(type) + ": " + text).str());
  }

  // Heads of two graphs; those without a position in the second are zeros there.
  void compare(StringRef what, const Graph &graph, const Graph &instead, ArrayRef<std::optional<size_t>> at,
               const Bindings &bindings) {
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
      if (value.shape == other.shape && agree(value, other, toleranceOf(type)(*run, graph.heads()[i]))) continue;
      std::string text = (what + " " + Twine(i) + ": " + print(value) + ", lowered " + print(other) + " at").str();
      for (const std::string &name : orders.variables.front()) text += " " + name + " = " + print(bindings.at(name));
      return problem(text);
    }
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
  const Orders &orders;
  const Graph &own, &gradients;
  const std::vector<std::string> &variables;
  const uint32_t order;
  const Target &target;
  const DType type;
  const bool isElementwise;
  NaiveOptions options;
  std::vector<std::optional<size_t>> positions;  // by variable: of its gradient in the lowered form, if that reads it
  Findings found;
};

}  // namespace

Findings checkLoweredGradients(Context &context, const SampleGraph &sample, const Orders &orders, uint32_t order,
                               const Target &target, std::set<std::string> &refused) {
  Findings all;
  const bool isElementwise = sample.graph.op(sample.node)->flags.isElementwise;
  for (const DType type : {DType::Float64, DType::Float32, DType::Float16}) {
    // The sums that other kernels make inside are not among the terms that tolerances are in proportion to.
    if (type != DType::Float64 && !isElementwise) continue;
    // Where float16 has no odd numbers, the parity of b - 1 in x^(b - 1) is lost; the operator's own kernel computes in float32.
    if (type == DType::Float16 && sample.graph.op(sample.node)->name == "_power") continue;
    Findings found = TypedCheck(context, orders, order, target, type, sample.options, isElementwise).run(refused);
    all.numChecked += found.numChecked;
    append_range(all.problems, found.problems);
  }
  return all;
}

}  // namespace gradc::testing
