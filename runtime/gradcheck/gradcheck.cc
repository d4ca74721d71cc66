// Phases: make the problem, fill both graphs with one base point, compute the claimed gradients, compare samples of
// them with differences. Tested by tests/runtime/gradcheck/gradcheck_test.cc
#include "runtime/gradcheck/gradcheck.h"

#include "runtime/executor/failures.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "runtime/arrays/elements.h"
#include "runtime/executor/tensor_keys.h"
#include "runtime/gradcheck/difference.h"
#include "runtime/session/initial_values.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr double kVacuous = 1e-12;
// Streams of draws, distinct from one another and from those of operators and initial values.
constexpr uint64_t kProjectionStream = ~uint64_t{1}, kOrderStream = ~uint64_t{2}, kSampleStream = ~uint64_t{3};

/// Uniform with variance 1.
double draw(const RandomKey &key, uint64_t counter) { return std::sqrt(3.0) * (2 * key.uniform(counter) - 1); }

class Checker {
 public:
  Checker(Context &context, const GradcheckOptions &options, CheckProblem problem)
      : ctx(context), options(options), problem(std::move(problem)) {}

  Expected<GradcheckReport> run(std::vector<NamedArray> bindings) {
    if (Error error = evaluateBase(std::move(bindings))) return error;
    ExecOptions exec = execOptions();
    Expected<ScalarFunction> created = ScalarFunction::create(problem, *function, projections, exec);
    if (!created) return created.takeError();
    scalar.emplace(std::move(*created));
    report.held = scalar->held();
    report.lossWithoutLabel = scalar->lossWithoutLabel();
    report.rows.resize(problem.targets.size() + 1);
    report.rows[0].variable = "all variables";
    for (size_t i = 0; i < problem.targets.size(); ++i) report.rows[i + 1].variable = problem.targets[i].name;
    if (Error error = takeSamples()) return error;
    judge();
    return std::move(report);
  }

 private:
  ExecOptions execOptions() const {
    ExecOptions exec = options.session.exec;
    exec.isTraining = options.gradientOptions.isTraining;
    exec.headRequests = {};
    exec.monitor = nullptr;
    return exec;
  }

  // ---- the base point

  /// Bindings of the function's variables go to the function; the rest, head gradients of an emitted graph, to the
  /// gradients.
  Error evaluateBase(std::vector<NamedArray> bindings) {
    SessionOptions forward = options.session;
    forward.hints = problem.hints;
    if (!forward.infer.floatAs) forward.infer.floatAs = DType::Float64;
    forward.exec = execOptions();
    forward.exec.backend =
        Backend::Reference;  // its plan must serve executors that prepare kernels themselves, or none
    std::vector<Request> requests(problem.function.heads().size(), Request::Write);
    forward.exec.headRequests = requests;
    forward.allowInplace = false;  // a piece or a value held constant must not overwrite its operands
    auto isForeign = [&](NodeId n) { return n.value >= problem.function.numNodes(); };
    erase_if(forward.hints.shapes, [&](const ShapeHint &hint) { return isForeign(hint.variable); });
    erase_if(forward.hints.dtypes, [&](const DTypeHint &hint) { return isForeign(hint.variable); });
    StringSet<> known;
    for (const std::string &key : variableKeys(problem.function)) known.insert(key);
    std::vector<NamedArray> ofFunction, others;
    for (NamedArray &binding : bindings)
      (known.count(binding.name) ? ofFunction : others).push_back(std::move(binding));
    if (Error error = drawLowerSeeds(forward, ofFunction)) return error;
    Expected<Session> opened = Session::create(ctx, problem.function, std::move(ofFunction), forward);
    if (!opened) return opened.takeError();
    function.emplace(std::move(*opened));
    return computeGradients(forward, std::move(others));
  }

  /// Users need not give values for variables that the check itself has made.
  Error drawLowerSeeds(SessionOptions settings, std::vector<NamedArray> &bindings) {
    if (settings.initSeed || problem.lowerSeeds.empty()) return Error::success();
    settings.initSeed = options.seed;
    StringSet<> isBound;
    std::vector<NamedArray> forms;
    for (const NamedArray &binding : bindings) {
      isBound.insert(binding.name);
      forms.push_back({binding.name, Array{binding.array.dtype, binding.array.shape, {}}});
    }
    Expected<Inference> inference = Session::inferFor(ctx, problem.function, std::move(forms), settings);
    if (!inference) return inference.takeError();
    const Initializer initializer(problem.function, *inference, *settings.initSeed);
    const std::vector<std::string> keys = variableKeys(problem.function);
    for (NodeId n : problem.lowerSeeds) {
      if (isBound.contains(keys[n.value])) continue;
      const EntryId e = problem.function.firstEntry(n);
      Array array{inference->dtype[e], inference->shapeOf(e).dims().vec(), {}};
      array.bytes.resize(array.ref().bytes());
      initializer.fill(n, array.ref());
      bindings.push_back({keys[n.value], std::move(array)});
    }
    return Error::success();
  }

  /// Runs the gradient graph, in which the function's variables have the same ids, at the same point. Its session is
  /// gone before samples are taken, so neither values nor temporaries are in memory twice.
  Error computeGradients(SessionOptions settings, std::vector<NamedArray> bindings) {
    settings.hints = problem.hints;
    settings.initSeed = options.session.initSeed.value_or(options.seed);
    settings.allowInplace = true;
    std::vector<Request> requests(problem.gradients.heads().size(), Request::Write);
    settings.exec.headRequests = requests;
    const Graph &graph = problem.function;
    const std::vector<NodeId> mutated = listInputs(problem.gradients).aux;
    BitVector isMutated(problem.gradients.numNodes());
    for (NodeId n : mutated) isMutated.set(n.value);
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      if (!graph.isVariable(NodeId(id))) continue;
      const TensorRef tensor = function->variable(NodeId(id));
      settings.hints.shapes.push_back({NodeId(id), DimsBuffer(tensor.shape.begin(), tensor.shape.end())});
      if (!isMutated[id]) settings.variableMemory.push_back({NodeId(id), tensor});
    }
    Expected<Session> gradients = Session::create(ctx, problem.gradients, std::move(bindings), settings);
    if (!gradients) return gradients.takeError();
    for (NodeId n : mutated)
      if (n.value < graph.numNodes()) convertElements(function->variable(n), gradients->variable(n));
    drawProjections(*gradients);
    if (Error error = gradients->run(0)) return error;
    for (const CheckProblem::Target &target : problem.targets) {
      claimed.emplace_back();
      if (target.head < 0) continue;
      const TensorRef gradient = gradients->head(static_cast<size_t>(target.head));
      claimed.back() = Array{gradient.dtype, gradient.shape.vec(),
                             std::vector<char>(gradient.as<char>(), gradient.as<char>() + gradient.bytes())};
    }
    return Error::success();
  }

  void drawProjections(Session &gradients) {
    for (size_t k = 0; k < problem.outputs.size(); ++k) {
      const CheckProblem::Output &output = problem.outputs[k];
      std::vector<double> projection;
      if (output.seed.isValid()) {
        TensorRef seed = gradients.variable(output.seed);
        RandomKey key{options.seed, kProjectionStream, k};
        // A loss that multiplies by its head gradient has the gradient of its implied loss for ones only.
        const OpDef *op = problem.function.op(problem.function.heads()[output.head].node);
        const bool isLoss = op && op->impliedLoss;
        for (int64_t i = 0, size = seed.size(); i < size; ++i) {
          if (output.isOwnSeed) writeElement(seed, i, isLoss ? 1 : draw(key, static_cast<uint64_t>(i)));
          projection.push_back(readElement(seed, i));
        }
      }
      projections.push_back(std::move(projection));
    }
  }

  // ---- samples

  /// One variable's part of a direction: element `only`, or all of them.
  struct Part {
    size_t target;
    int64_t only;  // -1: all
  };

  /// The first check moves all variables together.
  uint32_t numSamples() const {
    constexpr uint32_t kDefault = 40;
    return options.samples.value_or(std::max(kDefault, static_cast<uint32_t>(problem.targets.size()) + 1));
  }

  Error takeSamples() {
    const uint32_t number = numSamples();
    if (number == 0 || problem.targets.empty()) return Error::success();
    std::vector<Part> all;
    DenseSet<uint32_t> moved;  // an emitted graph may have two gradients of one variable
    for (size_t i = 0; i < problem.targets.size(); ++i)
      if (moved.insert(problem.targets[i].x.node.value).second) all.push_back({i, -1});
    if (Error error = takeSample(all, 0, 0)) return error;
    std::vector<size_t> order = shuffledTargets();
    for (uint32_t k = 1; k < number; ++k) {
      size_t round = (k - 1) / order.size(), at = (k - 1) % order.size();
      Part part{order[at], -1};
      int64_t size = function->variable(problem.targets[part.target].x.node).size();
      bool isCoordinate = (round + at) % 2 == 0;
      if (isCoordinate && size > 0) {
        RandomKey key{options.seed, kSampleStream, k};
        part.only = static_cast<int64_t>(key.bits(0) % static_cast<uint64_t>(size));
      }
      if (Error error = takeSample(part, k, part.target + 1)) return error;
    }
    return Error::success();
  }

  std::vector<size_t> shuffledTargets() const {
    std::vector<size_t> order;
    RandomKey key{options.seed, kOrderStream, 0};
    for (size_t i = 0; i < problem.targets.size(); ++i) {
      order.push_back(i);
      std::swap(order[i], order[key.bits(i) % (i + 1)]);
    }
    return order;
  }

  /// A claimed and a measured derivative.
  struct Slopes {
    double claimed, measured;
    double error() const { return measured - claimed; }
  };

  Error takeSample(ArrayRef<Part> parts, uint32_t sample, size_t row) {
    std::vector<std::vector<double>> steps;
    double elements = 0;
    for (const Part &part : parts) elements += part.only >= 0 ? 1.0 : static_cast<double>(variable(part).size());
    for (const Part &part : parts) steps.push_back(stepsOf(part, sample, std::sqrt(std::max(elements, 1.0))));
    Expected<Slopes> slopes = slopesOf(parts, steps, 1);
    if (!slopes) return slopes.takeError();
    GradcheckRow &to = report.rows[row];
    bool isUnsettled = false;
    if (const double error = relativeError(*slopes); error > 1 && std::isfinite(error)) {
      Expected<Slopes> limit = extrapolate(parts, steps, *slopes, isUnsettled);
      if (!limit) return limit.takeError();
      if (relativeError(*limit) < error) slopes = *limit;
      to.extrapolated += relativeError(*slopes) <= 1;
    }
    report.isUnsettled |= isUnsettled && relativeError(*slopes) > 1;
    add(to, *slopes);
    noteFactor(slopes->claimed, slopes->measured);
    if (report.notFinite.empty()) noteNotFinite(slopes->claimed, slopes->measured);
    return Error::success();
  }

  /// Central differences err by a·h² + b·h⁴ + …. Those of half and a quarter of the step remove the first two terms:
  /// what is left is a wrong gradient, or a function that is not smooth at this scale.
  Expected<Slopes> extrapolate(ArrayRef<Part> parts, ArrayRef<std::vector<double>> steps, const Slopes &whole,
                               bool &isUnsettled) {
    Expected<Slopes> half = slopesOf(parts, steps, 0.5);
    if (!half) return half;
    Expected<Slopes> quarter = slopesOf(parts, steps, 0.25);
    if (!quarter) return quarter;
    const double first = (4 * half->error() - whole.error()) / 3, second = (4 * quarter->error() - half->error()) / 3;
    const Slopes limit{whole.claimed, whole.claimed + (16 * second - first) / 15};
    isUnsettled = relativeError({limit.claimed + first, limit.claimed + second}) > 1;
    return limit;
  }

  /// Along `factor` times the steps, which are taken back afterwards.
  Expected<Slopes> slopesOf(ArrayRef<Part> parts, ArrayRef<std::vector<double>> steps, double factor) {
    std::vector<std::vector<double>> base;
    for (const Part &part : parts) base.push_back(elementsOf(variable(part)));
    double claimed = 0;
    if (Error error = evaluateAt(parts, base, steps, -factor)) return error;
    for (size_t p = 0; p < parts.size(); ++p) claimed -= along(parts[p], base[p]);
    if (Error error = evaluateAt(parts, base, steps, factor)) return error;
    for (size_t p = 0; p < parts.size(); ++p) claimed += along(parts[p], base[p]);
    const double measured = scalar->differenceFromPrevious();
    for (size_t p = 0; p < parts.size(); ++p) move(parts[p], base[p], steps[p], 0);
    double length = 2 * options.eps * factor;
    // The step of a single coordinate grows with |x|; dividing by it gives the derivative.
    if (parts.size() == 1 && parts[0].only >= 0) length = 2 * steps[0][0] * factor;
    return Slopes{claimed / length, measured / length};
  }

  /// Half of the distance between the two points, per element: eps · max(1, |x|). In a direction it is multiplied by a
  /// random weight and divided by the root of the number of elements, so that all steps are about equally long.
  std::vector<double> stepsOf(const Part &part, uint32_t sample, double norm) {
    TensorRef x = variable(part);
    auto stepOf = [&](int64_t i) { return options.eps * std::max(1.0, std::fabs(readElement(x, i))); };
    if (part.only >= 0) return {stepOf(part.only)};
    std::vector<double> steps;
    RandomKey key{options.seed, kSampleStream, (uint64_t{sample} << 32) + part.target + 1};
    for (int64_t i = 0, size = x.size(); i < size; ++i)
      steps.push_back(stepOf(i) * draw(key, static_cast<uint64_t>(i)) / norm);
    return steps;
  }

  TensorRef variable(const Part &part) { return function->variable(problem.targets[part.target].x.node); }

  static std::vector<double> elementsOf(const TensorRef &tensor) {
    std::vector<double> elements;
    for (int64_t i = 0, size = tensor.size(); i < size; ++i) elements.push_back(readElement(tensor, i));
    return elements;
  }

  void move(const Part &part, ArrayRef<double> base, ArrayRef<double> steps, double factor) {
    TensorRef x = variable(part);
    if (part.only >= 0) return writeElement(x, part.only, base[part.only] + factor * steps[0]);
    for (size_t i = 0; i < base.size(); ++i) writeElement(x, static_cast<int64_t>(i), base[i] + factor * steps[i]);
  }

  Error evaluateAt(ArrayRef<Part> parts, ArrayRef<std::vector<double>> base, ArrayRef<std::vector<double>> steps,
                   double factor) {
    for (size_t p = 0; p < parts.size(); ++p) move(parts[p], base[p], steps[p], factor);
    return scalar->evaluate();
  }

  /// The claimed gradient times the distance actually gone, rounding of the step included.
  double along(const Part &part, ArrayRef<double> base) {
    if (problem.targets[part.target].head < 0) return 0;
    const TensorRef gradient = claimed[part.target].ref(), x = variable(part);
    if (part.only >= 0) return readElement(gradient, part.only) * (readElement(x, part.only) - base[part.only]);
    double sum = 0;
    for (size_t i = 0; i < base.size(); ++i) {
      int64_t at = static_cast<int64_t>(i);
      sum += readElement(gradient, at) * (readElement(x, at) - base[i]);
    }
    return sum;
  }

  double relativeError(const Slopes &slopes) const {
    const double larger = std::max(std::fabs(slopes.claimed), std::fabs(slopes.measured));
    const double error = std::fabs(slopes.error()) / (options.atol + options.rtol * larger);
    return std::isfinite(error) ? error : HUGE_VAL;
  }

  void add(GradcheckRow &row, const Slopes &slopes) const {
    const double error = relativeError(slopes);
    ++row.checks;
    row.failures += error > 1;
    row.worstError = std::max(row.worstError, error);
    row.largestGradient = std::max(row.largestGradient, std::fabs(slopes.claimed));
  }

  /// The ratio of all samples, as far as they have the same one. Small differences are left out, because noise decides
  /// theirs.
  void noteFactor(double claimed, double measured) {
    constexpr double kSmallest = 1e-4, kTolerance = 1e-3;
    if (std::fabs(measured) < kSmallest) return;
    const double ratio = claimed / measured;
    if (!report.factor) report.factor = ratio;
    const double distance = std::fabs(ratio - *report.factor);
    hasFactor &= distance <= kTolerance * std::fabs(ratio) && std::fabs(ratio - 1) > kTolerance;
  }

  void noteNotFinite(double claimed, double measured) {
    const StringRef first = scalar->firstNotFinite();
    if (std::isfinite(measured) && std::isfinite(claimed)) return;
    if (std::isfinite(measured))
      report.notFinite = "the gradient is not finite at the base point, though the function is";
    else if (first.empty()) report.notFinite = "the function is not finite near the base point, though it is there";
    else report.notFinite = first.str() + " at the base point";
  }

  void judge() {
    bool areAllZero = true;
    for (size_t i = 0; i < problem.targets.size(); ++i) {
      report.rows[i + 1].isStructuralZero = problem.targets[i].isStructuralZero;
      areAllZero &= problem.targets[i].isStructuralZero;
    }
    report.rows[0].isStructuralZero = areAllZero;
    const bool hasFailed = llvm::any_of(report.rows, [](const GradcheckRow &row) { return row.failures > 0; });
    if (!hasFailed || !hasFactor) report.factor.reset();
    for (GradcheckRow &row : report.rows)
      row.isVacuous = row.checks > 0 && !row.isStructuralZero && row.largestGradient < kVacuous;
  }

  Context &ctx;
  const GradcheckOptions &options;
  CheckProblem problem;
  std::optional<Session> function;
  std::vector<Array> claimed;  // by target: its gradient at the base point
  std::vector<std::vector<double>> projections;
  std::optional<ScalarFunction> scalar;
  bool hasFactor = true;  // no two samples differ in their ratio
  GradcheckReport report;
};

}  // namespace

size_t GradcheckReport::numUnsampled() const {
  return static_cast<size_t>(llvm::count_if(ArrayRef(rows).drop_front(rows.empty() ? 0 : 1),
                                            [](const GradcheckRow &row) { return row.checks == 0; }));
}

bool GradcheckReport::passed() const {
  bool isProof = false, hasVacuous = false;
  for (const GradcheckRow &row : rows) {
    if (row.failures > 0) return false;
    hasVacuous |= row.isVacuous;
    isProof |= !row.isStructuralZero && row.checks > 0 && !row.isVacuous;
  }
  return isProof || !hasVacuous;
}

Expected<GradcheckReport> gradcheck(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                    const GradcheckOptions &options) {
  return catching("to check gradients", [&]() -> Expected<GradcheckReport> {
    Expected<CheckProblem> problem = makeCheckProblem(context, graph, options);
    if (!problem) return problem.takeError();
    return Checker(context, options, std::move(*problem)).run(std::move(bindings));
  });
}

}  // namespace gradc
