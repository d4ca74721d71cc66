// `gradc gradcheck`: gradients against central differences. Tested by tests/tools/cli_test.cc
#include "drawing/table.h"
#include "tools/gradc/common/gradient_flags.h"
#include "tools/gradc/common/run_inputs.h"
#include "tools/gradc/train/progress.h"
#include "tools/gradc/verbs/verbs.h"

#include "ir/base/error.h"
#include "runtime/gradcheck/gradcheck.h"

using namespace llvm;

namespace gradc {
namespace {

std::string verdict(const GradcheckRow &row) {
  if (row.failures > 0) return "FAILED";
  if (row.checks == 0) return "not sampled";
  if (row.isStructuralZero) return "zero";
  if (row.isVacuous) return "vacuous";
  return row.extrapolated == 0 ? "ok" : "ok, " + std::to_string(row.extrapolated) + " extrapolated";
}

/// The last line: how many checks of how many variables.
std::string summary(const GradcheckReport &result) {
  uint32_t numChecks = 0, numFailures = 0, numExtrapolated = 0;
  for (const GradcheckRow &row : result.rows) {
    numChecks += row.checks;
    numFailures += row.failures;
    numExtrapolated += row.extrapolated;
  }
  if (numFailures > 0) return "FAILED: " + std::to_string(numFailures) + " of " + countOf(numChecks, "check");
  if (!result.passed()) return "VACUOUS: every gradient sampled is zero, so nothing was checked";
  std::string text = "passed: " + countOf(numChecks, "check");
  if (numExtrapolated > 0) text += ", " + std::to_string(numExtrapolated) + " extrapolated from smaller steps";
  const size_t numVariables = result.rows.size() - 1, numLeft = result.numUnsampled();
  if (numLeft > 0)
    text += "; not sampled: " + std::to_string(numLeft) + " of " + countOf(numVariables, "variable") + " (--samples " +
            std::to_string(numVariables + 1) + " checks each)";
  return text;
}

std::string report(const GradcheckReport &result) {
  TextTable table({"variable", "checks", "failed", "worst error", "largest gradient", "verdict"});
  for (const GradcheckRow &row : result.rows)
    table.add({row.variable, std::to_string(row.checks), std::to_string(row.failures), formatNumber(row.worstError),
               formatNumber(row.largestGradient), verdict(row)});
  std::string text;
  raw_string_ostream os(text);
  table.print(os);
  const HeldCounts &held = result.held;
  os << countOf(held.pieces, "node") << " held on their smooth piece, " << held.outputs << " at their value";
  if (held.inputs) os << "; labels, lengths and positions read at the base point: " << held.inputs;
  if (held.decisions) os << "; loops and branches that decide as there: " << held.decisions;
  os << '\n' << summary(result) << '\n';
  return text;
}

/// Resolves names on the command line against the graph, with the shapes that are known.
Expected<GradientRequest> resolve(Tool &tool, const Graph &graph, const SessionOptions &session) {
  InferOptions options = session.infer;
  options.allowUnknown = true;
  Expected<Inference> inference = infer(tool.context, graph, session.hints, options);
  if (!inference) return inference.takeError();
  return resolveGradient(tool, graph, *inference);
}

Expected<GradcheckOptions> gradcheckOptions(Tool &tool, const Graph &graph) {
  const GradFlags &flags = tool.options.grad;
  const CheckFlags &check = tool.options.check;
  const std::optional<DType> floatAs = tool.options.types.floatAs;
  if (floatAs && isHalf(*floatAs))
    return Failure(ErrorKind::Usage, "'gradc gradcheck' cannot take differences in " + dtypeName(*floatAs))
        .note("without '--dtype' it runs the graph in float64, whatever types its values have");
  Expected<SessionOptions> session = sessionOptions(tool, graph);
  if (!session) return session.takeError();
  GradcheckOptions options;
  options.session = std::move(*session);
  if (!floatAs) options.session.infer.floatAs = DType::Float64;
  options.session.exec.isTraining = flags.options.isTraining;
  Expected<std::optional<GradientTable>> table = readGradientTable(graph);
  if (!table) return table.takeError();
  if (*table && (flags.order > 1 || !flags.noGrad.empty() || !flags.stop.empty()))
    return Failure(ErrorKind::Usage, "'--order', '--no-grad' and '--stop' belong to forward models; this graph has its "
                                     "gradients already");
  if (!*table || !flags.wrt.empty() || !flags.of.empty()) {
    Expected<GradientRequest> request = resolve(tool, graph, options.session);
    if (!request) return request.takeError();
    options.gradient = std::move(*request);
    // The heads of an emitted graph are its gradients as well.
    if (*table && flags.of.empty()) options.gradient.heads.clear();
  }
  options.gradientOptions = flags.options;
  options.order = static_cast<uint32_t>(flags.order);
  if (check.samples) options.samples = static_cast<uint32_t>(*check.samples);
  options.seed = tool.options.session.initSeed.value_or(1);
  options.eps = check.eps;
  options.rtol = check.rtol;
  options.atol = check.atol;
  return options;
}

/// Notes a cause that the gradients have nothing to do with.
void noteOutside(Tool &tool, const GradcheckReport &result) {
  if (!result.notFinite.empty())
    tool.diagnostics.note(result.notFinite + "; bind values ('--input') at which function and gradient are finite");
  if (!result.lossWithoutLabel.empty())
    tool.diagnostics.note("in a body, " + result.lossWithoutLabel +
                          " is a loss whose label is not a variable, so its loss is not counted: check the graph that "
                          "'gradc opt --passes unroll,inline' writes");
}

/// Notes that the differences themselves are in doubt.
void noteUnsettled(Tool &tool, const GradcheckReport &result) {
  if (!result.isUnsettled) return;
  tool.diagnostics.note(
      "differences of the step and of half of it do not tend to one value: the function changes within a "
      "step, or is not smooth there; a smaller --eps may decide");
}

/// Notes a possible cause that is not in the table of an emitted graph.
void noteUnrecorded(Tool &tool, const Graph &graph, const GradcheckReport &result) {
  if (!graph.table().gradient) return;
  if (result.factor)
    return tool.diagnostics.note("every gradient is " + formatNumber(*result.factor) +
                                 " times its difference; an emitted graph does not record '--loss-scale', nor that an "
                                 "output was differentiated several times");
  if (tool.options.grad.of.empty())
    tool.diagnostics.note("an emitted graph does not record which outputs were differentiated; if not all its heads "
                          "were, '--of' names them");
}

Expected<int> runGradcheck(Tool &tool) {
  Expected<Graph> input = loadInOrder(tool);
  if (!input) return input.takeError();
  Expected<std::vector<NamedArray>> bindings = readBindings(tool);
  if (!bindings) return bindings.takeError();
  Expected<GradcheckOptions> options = gradcheckOptions(tool, *input);
  if (!options) return options.takeError();
  Expected<GradcheckReport> result = [&] {
    Progress progress("checking");
    return gradcheck(tool.context, *input, std::move(*bindings), *options);
  }();
  if (!result) return result.takeError();
  if (Error error = writeText(tool, report(*result))) return error;
  if (result->passed()) return 0;
  noteUnrecorded(tool, *input, *result);
  noteOutside(tool, *result);
  noteUnsettled(tool, *result);
  return 1;
}

constexpr StringRef kFlags[] = {"max-iterations", "wrt",         "of",    "no-grad", "stop",    "samples", "eps",
                                "rtol",           "atol",        "init",  "input",   "inputs",  "order",   "mode",
                                "unused",         "overwritten", "shape", "dtype",   "backend", "threads", "output",
                                "unknown-dim",    "error-limit", "diag",  "help"};

}  // namespace

constinit const Verb kGradcheck = {
    .name = "gradcheck",
    .arguments = "[FILE]",
    .summary = "prove gradients by central differences",
    .description =
        "Takes a forward model, differentiates it and compares the gradients with central differences of the forward "
        "values, in double precision; or takes an emitted training graph and checks its heads. One row per "
        "variable; the "
        "exit code is 1 when a check fails or when every sampled gradient is zero.\n"
        "The error is |analytic - numeric| / (atol + rtol * max(|analytic|, |numeric|)); up to 1 passes. "
        "Operators that "
        "are smooth in pieces (relu, max pooling) stay on the piece active at the base point, random ones repeat their "
        "draws, and loss operators are checked against the loss they imply.\n"
        "With --order K the gradients of order K are compared with differences of those of order K-1.",
    .examples = "gradc gradcheck model.json --shape data=4,1,28,28 --init 1\n"
                "gradc gradcheck train.json --inputs values.npz --samples 200\n"
                "gradc gradcheck model.json --wrt fc1_weight --shape data=4,16 --init 7 --order 2",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .run = runGradcheck,
};

}  // namespace gradc
