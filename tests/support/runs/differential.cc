// Comparing what was measured. Tested by tests/networks/differential_test.cc
#include "tests/support/runs/differential.h"

#include "ir/base/error.h"
#include "tests/support/drawn/jets.h"
#include "tests/support/runs/measure.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr StringRef kRefused = "overwriting refused", kLowered = "in MXNet's words", kUnrolled = "unrolled";

constexpr Variation kVariations[] = {
    {.name = "cap 2", .sumCap = 2},
    {.name = "cap 3, threads", .sumCap = 3, .threads = 4},
    {.name = "chains up to 4", .sumCap = 4, .chain = ChainPolicy::UpToCap},
    {.name = "no cap, mxnet names", .sumCap = 1000, .naming = NamingStyle::Mxnet},
    {.name = "not in place, nnvm names", .naming = NamingStyle::Nnvm, .allowInplace = false},
    {.name = "no plan, fluid names", .naming = NamingStyle::Fluid, .hasPlan = false},
    {.name = "types known, gradients alone", .hasTypes = true, .gradientOnly = true},
    {.name = "through a file", .throughFile = true},
    {.name = kLowered, .inMxnetsWords = true},
    {.name = "more asked", .asksMore = true},
    {.name = "zeros kept", .zeroTerms = ZeroPolicy::Keep},
    {.name = kRefused, .overwritten = OverwrittenPolicy::Error},
    {.name = "whole graph", .reach = ReachPolicy::WholeGraph},
    {.name = "in another order", .inOtherOrder = true},
    {.name = kUnrolled, .unrolls = true},
};

// ---- against the jets

std::vector<Request> requestsOf(ArrayRef<SketchTarget> targets) {
  std::vector<Request> requests;
  for (const SketchTarget &t : targets)
    if (t.request != Request::Null) requests.push_back(t.request);
  return requests;
}

Problem compareOne(const Measured &measured, const std::string &key, const Judged &judged, Request request) {
  auto at = measured.values.find(key);
  if (at == measured.values.end()) return {"status", key + " is missing"};
  if (at->second.size() != judged.values.size())
    return {"values",
            formatv("{0} has {1} elements, expected {2}", key, at->second.size(), judged.values.size()).str()};
  for (size_t i = 0; i < judged.values.size(); ++i) {
    const double start = request == Request::Add ? startValue(key, i) : 0, expected = start + judged.values[i];
    const double allowed = 1e-11 * (judged.bounds[i] + std::abs(start)) + 1e-14;
    if (std::abs(at->second[i] - expected) <= allowed) continue;
    return {"values", formatv("{0}[{1}] is {2:F12}, expected {3:F12} (start {4:F12}, tolerance {5})", key, i,
                              at->second[i], expected, start, allowed)
                          .str()};
  }
  return {};
}

bool vanishes(const Judged &judged) {
  return all_of(judged.values, [](double v) { return v == 0; });
}

Problem compareStatus(const Sketch &sketch, const Expectation &expected, const Measured &measured) {
  if (measured.status.size() != expected.first.size()) return {"status", "wrong number of slots"};
  for (size_t i = 0; i < measured.status.size(); ++i) {
    const SlotStatus status = measured.status[i];
    if (sketch.order == 1 && status != expected.status[i])
      return {"status", formatv("x {0} has status {1}, expected {2}", i, static_cast<int>(status),
                                static_cast<int>(expected.status[i]))
                            .str()};
    // HO-08: what vanishes by structure is `none` where that was requested, and nothing else is.
    if (status == SlotStatus::None &&
        (sketch.unused != UnusedPolicy::None || (sketch.order > 1 && !vanishes(expected.second[i]))))
      return {"status", formatv("x {0} has no gradient of order {1}", i, sketch.order).str()};
  }
  return {};
}

// MUT-06: every write is done once.
Problem compareStates(const Sketch &sketch, const Expectation &expected, const Measured &measured) {
  size_t i = 0;
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
    if (sketch.nodes[n].isState)
      if (Problem problem = compareOne(measured, stateKey(n), expected.states[i++], Request::Write)) return problem;
  return {};
}

Problem compareWithJets(const Sketch &sketch, const Measured &measured) {
  Expectation expected = expectedGradients(sketch);
  if (expected.error != measured.error)
    return {"error" + std::string(measured.error ? " " + errorKindName(*measured.error).str() : ""),
            formatv("expected {0}, found {1} {2}", expected.error ? errorKindName(*expected.error) : "success",
                    measured.error ? errorKindName(*measured.error) : "success", measured.errorText)
                .str()};
  if (expected.error) return {};
  if (Problem problem = compareStatus(sketch, expected, measured)) return problem;
  const std::vector<Request> requests = requestsOf(sketch.wrt), retained = requestsOf(sketch.retained);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (expected.status[i] != SlotStatus::None)
      if (Problem problem = compareOne(measured, gradientKey(1, i), expected.first[i], requests[i])) return problem;
    if (sketch.order > 1 && measured.status[i] != SlotStatus::None)
      if (Problem problem = compareOne(measured, gradientKey(2, i), expected.second[i], requests[i])) return problem;
  }
  for (size_t i = 0; i < retained.size(); ++i)
    if (Problem problem = compareOne(measured, retainedKey(i), expected.retained[i], retained[i])) return problem;
  return compareStates(sketch, expected, measured);
}

// ---- against each other (RUN-02, NG-10)

bool applies(const Variation &variation, const Sketch &sketch) {
  if (variation.unrolls || !variation.hasPlan) return variation.unrolls == hasFlows(sketch);  // bodies need a plan
  const bool mayFail = any_of(sketch.nodes, [](const SketchNode &node) { return node.lacksGradient(); });
  // A second order with other x is another sum; what is requested anyway is then requested twice.
  if (variation.asksMore)
    return sketch.order == 1 && !mayFail && sketch.unused != UnusedPolicy::Error &&
           sketch.duplicates == DuplicatePolicy::Allow &&
           // Gradients toward integers inside a body may end at a kernel that has none.
           !(sketch.integers == IntegerPolicy::Permissive && hasIntegersInside(sketch));
  // What is checked with types known is checked before other things are.
  if (variation.hasTypes && sketch.headPolicy == HeadPolicy::Scalar) return false;
  // Zeros that are computed with reach what zeros by structure do not.
  return !mayFail || (variation.reach == ReachPolicy::Ignore && variation.zeroTerms == ZeroPolicy::Drop);
}

// E-31 where, and only where, some copy was saved instead; and nothing needs one that reads no old version.
Problem compareRefusal(const Sketch &sketch, const Measured &plain, const Measured &refused) {
  const std::string name = kRefused.str();
  const bool isRefused = refused.error == ErrorKind::StaleVersion;
  if (isRefused != (plain.numSaved > 0))
    return {name, formatv("{0} copies, but: {1}", plain.numSaved, refused.errorText).str()};
  if (isRefused && !mayNeedOldVersion(sketch)) return {name, "nothing reads an old version, but: " + refused.errorText};
  return {};
}

bool isComparable(const Variation &variation, const std::string &key) {
  // Of the gradients alone not all is run; the heads of that graph are those of the highest order.
  return !variation.gradientOnly || !StringRef(key).starts_with("state");
}

double largestOf(ArrayRef<double> values) {
  double largest = 0;
  for (double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

/// To the bit, or, where operators were decomposed, up to `tolerance` of the largest element. Terms that cancel leave
/// rounding: the second derivative of x / x is 0 in one form and one unit in the last place of its terms in another.
Problem compareVariation(const Variation &variation, const Measured &plain, const Measured &varied,
                         double tolerance = 0) {
  const std::string name = variation.name.str();
  if (varied.error != plain.error)
    return {name, formatv("another outcome: {0} {1}", varied.error ? errorKindName(*varied.error) : "success",
                          varied.errorText)};
  if (!varied.lostBody.empty()) return {name, "lost the bodies of " + varied.lostBody};
  double rounding = 0;
  if (tolerance > 0)
    for (const auto &[key, values] : plain.values)
      rounding = std::max(rounding, 16 * std::numeric_limits<double>::epsilon() * largestOf(values));
  for (const auto &[key, values] : plain.values) {
    auto at = varied.values.find(key);
    if (!isComparable(variation, key) || (at == varied.values.end() && variation.gradientOnly)) continue;
    // What only steps overwrite that are not run is not in the unrolled graph.
    if (at == varied.values.end() && variation.unrolls && StringRef(key).starts_with("state")) continue;
    if (at == varied.values.end() || at->second.size() != values.size()) return {name, key + " is missing"};
    const double allowed = std::max(tolerance * largestOf(values), rounding);
    for (size_t i = 0; i < values.size(); ++i)
      if (!(at->second[i] == values[i] || std::abs(at->second[i] - values[i]) <= allowed))
        return {name, formatv("{0}[{1}] is {2:F17}, plainly {3:F17}", key, i, at->second[i], values[i]).str()};
  }
  return {};
}

Problem checkVariation(const Variation &variation, const Sketch &sketch, const Measured &plain, Outcomes &outcomes) {
  // Versions and words are looked at before shapes are.
  if ((variation.name == kRefused || variation.name == kLowered) && plain.error == ErrorKind::ImplicitHead) return {};
  const Measured varied = measure(sketch, variation);
  // Bodies are differentiated before anything else is looked at.
  if (plain.error && hasFlows(sketch) && varied.error == ErrorKind::StaleVersion) return {};
  if (plain.error) return compareVariation(variation, plain, varied);
  if (variation.name == kLowered) {
    // Some operators of our own have no words there, nor have some bodies.
    const bool isRefused = varied.error == ErrorKind::UnsupportedOption || varied.error == ErrorKind::InferMissing;
    if (varied.error == ErrorKind::UnknownOp || (hasFlows(sketch) && isRefused)) return {};
    ++outcomes.numLowered;
  }
  if (variation.name == kRefused) {
    if (Problem problem = compareRefusal(sketch, plain, varied)) return problem;
    outcomes.numRefused += plain.numSaved > 0;
    if (plain.numSaved) return {};
  }
  // In bodies MXNet has no fused gradient operators.
  return compareVariation(variation, plain, varied, variation.name == kLowered && hasFlows(sketch) ? 1e-12 : 0);
}

// The gradient of the unrolled graph, in which paths are what they are in the steps that run: statuses may differ.
Problem compareUnrolled(const Sketch &sketch, const Measured &plain) {
  if (!hasFlows(sketch) || plain.error) return {};
  Sketch relaxed = sketch;
  relaxed.unused = UnusedPolicy::None;
  const Measured flat = measure(relaxed, {.name = "unrolled first", .unrollsFirst = true});
  if (flat.isMissing) return {};
  if (flat.error) return {"unrolled first", flat.errorText};
  const Expectation expected = expectedGradients(relaxed);
  const std::vector<Request> requests = requestsOf(sketch.wrt);
  for (size_t i = 0; i < requests.size(); ++i)
    for (uint32_t order = 1; order <= sketch.order; ++order) {
      const Judged &judged = order == 1 ? expected.first[i] : expected.second[i];
      const std::string key = gradientKey(order, i);
      if (!flat.values.count(key) && vanishes(judged)) continue;
      if (Problem problem = compareOne(flat, key, judged, requests[i])) return {"unrolled first", problem.text};
    }
  return {};
}

// Nodes that run as one give the bits of nodes that run one by one. The tensors are of a few elements, so the pieces
// are, too.
Problem checkFusion(const Sketch &sketch) {
  const Variation apart{.name = "fast", .backend = Backend::Auto};
  const Measured plain = measure(sketch, apart);
  for (bool isOther : {false, true}) {
    const Variation fused{.name = "fused",
                          .allowInplace = !isOther,
                          .threads = isOther ? 3u : 1u,
                          .inOtherOrder = isOther,
                          .backend = Backend::Auto,
                          .fusion = {.minElements = 1, .pieceElements = isOther ? 3 : 5}};
    if (Problem problem = compareVariation(fused, plain, measure(sketch, fused))) return problem;
  }
  return {};
}

}  // namespace

Problem checkSketch(const Sketch &sketch, Outcomes &outcomes) {
  const Measured plain = measure(sketch, Variation());
  if (Problem problem = compareWithJets(sketch, plain)) return problem;
  if (!plain.lostDependency.empty()) return {"dependency", plain.lostDependency};
  if (!plain.lostBody.empty()) return {"body", plain.lostBody};
  if (Problem problem = checkBeside(sketch)) return problem;
  if (Problem problem = compareUnrolled(sketch, plain)) return problem;
  ++outcomes.numChecked;
  for (const Variation &variation : kVariations)
    if (applies(variation, sketch))
      if (Problem problem = checkVariation(variation, sketch, plain, outcomes)) return problem;
  return plain.error ? Problem() : checkFusion(sketch);
}

std::string dumpSketch(const Sketch &sketch) {
  TestContext context;
  Expected<SketchGraph> built = buildSketch(context, sketch);
  if (!built) return describeError(built.takeError());
  if (Error error = addBeside(context, sketch, *built)) return describeError(std::move(error));
  return describe(sketch) + written(built->graph);
}

}  // namespace gradc::testing
