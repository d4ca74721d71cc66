// Operators against MXNet 1.9.1, and against PyTorch where MXNet has none: values and first gradients recorded in
// testdata/conformance/, one file per operator.
//
// MXNet's files are made by tests/oracles/conformance_oracle.py from the samples of tests/conformance_samples/, which
// this test writes for it when GRADC_EXPORT_SAMPLES names a file, PyTorch's by tests/oracles/pytorch/torch_values.py.
// GRADC_ORACLE_GOLDENS names another folder than testdata/conformance/. Whoever adds an operator adds samples and
// records goldens; the last tests here say for which operators they are missing.
#include "tests/support/ops/conformance.h"

#include "tests/support/test_graph.h"
#include "tests/support/tool.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

constexpr size_t kMinSamples = 5, kMinGoldens = 2;

/// Operators for which MXNet is not a valid reference, or only in few configurations. Single configurations that it
/// refuses, crashes on or gets wrong are in tests/oracles/conformance_oracle.py.
struct Exception {
  StringRef op, reason;
};
constexpr Exception kWithoutSamples[] = {
    {"_zeros_without_dtype", "a placeholder that takes its shape from its readers"},
};
constexpr Exception kWithoutGoldens[] = {
    {"_scatter_set_nd", "it runs where the result has the memory of lhs, which no graph can ask for"},
    {"_mp_adamw_update", "MXNet has it for float16 alone, where mixed_steps_test has its values"},
    {"_random_normal", "draws from a generator of its own"},
    {"_random_normal_like", "draws from a generator of its own"},
    {"_random_uniform", "draws from a generator of its own"},
    {"_random_uniform_like", "draws from a generator of its own"},
    {"_sample_normal", "draws from a generator of its own"},
    {"_sample_uniform", "draws from a generator of its own"},
    {"_zeros_without_dtype", "a placeholder that takes its shape from its readers"},
    {"mp_lamb_update_phase1", "MXNet has it for float16 alone, where mixed_steps_test has its values"},
    {"mp_lamb_update_phase2", "MXNet has it for float16 alone, where mixed_steps_test has its values"},
    {"mp_nag_mom_update", "MXNet has it for float16 alone, where mixed_steps_test has its values"},
    {"mp_sgd_mom_update", "MXNet has it for float16 alone, where mixed_steps_test has its values"},
    {"mp_sgd_update", "MXNet has it for float16 alone, where mixed_steps_test has its values"},
};

/// Operators of our own without a gradient other than zero.
constexpr Exception kWithoutSlope[] = {
    {"_assign", "overwrites its first operand"},
    {"_constant", "a source"},
    {"_in_training", "a source"},
    {"_index_like", "reads shapes alone"},
    {"_sort_order", "positions"},
    {"_uniform_like", "draws from a generator of its own"},
};
/// Operators of our own that only gradients of others emit. tests/oracles/pytorch/torch_values.py compares second
/// gradients of those.
constexpr Exception kOnlyInGradients[] = {
    {"_RegressionOutput_weight", "the regression outputs"},
    {"_SoftmaxOutput_softmax", "SoftmaxOutput"},
    {"_SoftmaxOutput_target", "SoftmaxOutput"},
    {"_SoftmaxOutput_weight", "SoftmaxOutput"},
    {"_broadcast_axis_like", "reductions"},
    {"_concat_part", "Concat"},
    {"_convolution_data_grad", "Convolution"},
    {"_convolution_weight_grad", "Convolution"},
    {"_ctc_loss_grad", "CTCLoss"},
    {"_deconvolution_data_grad", "Deconvolution"},
    {"_deconvolution_weight_grad", "Deconvolution"},
    {"_gradient_tap", "whatever is tapped: the identity"},
    {"_pool_gather", "Pooling"},
    {"_pool_scatter", "Pooling"},
    {"_pooling_grad", "Pooling"},
    {"_prelu_gamma_spread", "LeakyReLU"},
    {"_prelu_gamma_sum", "LeakyReLU"},
    {"_product_gradient", "prod"},
    {"_scatter_nd", "gather_nd"},
};

bool isException(ArrayRef<Exception> list, StringRef op) {
  return llvm::any_of(list, [&](const Exception &row) { return row.op == op; });
}

/// A model may contain it and MXNet has it.
bool isJudged(const OpDef &op) {
  return !op.flags.isBackward && isMxnets(op) && !op.flags.isOpaque && !op.flow && !op.name.contains("test_");
}

/// Of our own, and something that a graph computes with.
bool isOwn(const OpDef &op) {
  return !op.flags.isBackward && !isMxnets(op) && op.isDifferentiable() && !op.flow && !op.name.contains("test_");
}

std::string goldenFolder() {
  const char *folder = std::getenv("GRADC_ORACLE_GOLDENS");
  return folder ? folder : "testdata/conformance";
}

json::Value tensorJson(const Array &array) {
  return json::Object{{"shape", json::Array(array.shape)}, {"values", json::Array(array.values)}};
}

Array tensorOf(const json::Value *value) {
  Array array;
  const json::Object *object = value ? value->getAsObject() : nullptr;
  const json::Array *shape = object ? object->getArray("shape") : nullptr;
  const json::Array *values = object ? object->getArray("values") : nullptr;
  if (!shape || !values) return array;
  for (const json::Value &dim : *shape) array.shape.push_back(dim.getAsInteger().value_or(-1));
  for (const json::Value &v : *values) array.values.push_back(v.getAsNumber().value_or(NAN));
  return array;
}

// ---- samples for the script

/// Inputs rounded, so that the goldens are small and hold exactly what was computed from.
void roundInputs(Bindings &bindings) {
  for (auto &[name, array] : bindings)
    for (double &value : array.values) value = std::round(value * 1e4) / 1e4;
}

/// Whether another seed gives other values.
bool isRandom(const SampleGraph &sample) {
  NaiveOptions other = sample.options;
  other.seed += 1;
  Expected<NaiveRun> a = NaiveRun::run(sample.graph, sample.bindings, sample.options);
  Expected<NaiveRun> b = NaiveRun::run(sample.graph, sample.bindings, other);
  bool isSame = a && b;
  for (Value head : sample.graph.heads()) isSame = isSame && a->value(head).values == b->value(head).values;
  if (!a) consumeError(a.takeError());
  if (!b) consumeError(b.takeError());
  return !isSame;
}

json::Value sampleJson(Context &context, const Sample &row) {
  SampleGraph sample(context, row);
  roundInputs(sample.bindings);
  json::Object attrs;
  for (const AttrText &pair : sample.graph.attrs(sample.node).pairs()) attrs[pair.key.str()] = pair.value.str();
  json::Array inputs, heads;
  const NodeKind &kind = sample.graph.kind(sample.node);
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    json::Value input = tensorJson(sample.bindings["x" + std::to_string(i)]);
    const Domain domain = domainOf(kind, i);
    if (domain == Domain::Length || domain == Domain::Index) (*input.getAsObject())["integer"] = true;
    inputs.push_back(std::move(input));
  }
  if (Expected<NaiveRun> run = NaiveRun::run(sample.graph, sample.bindings, sample.options)) {
    for (size_t i = 0; i < sample.graph.heads().size(); ++i) {
      Array head = run->value(sample.graph.heads()[i]);
      for (size_t k = 0; k < head.values.size(); ++k) head.values[k] = std::round(drawNumber(77 + i, k) * 1e4) / 1e4;
      heads.push_back(tensorJson(head));
    }
  } else {
    consumeError(run.takeError());
  }
  return json::Object{{"op", kind.op->name.str()},  {"text", std::string(row.attrs)},
                      {"attrs", std::move(attrs)},  {"training", row.isTraining},
                      {"random", isRandom(sample)}, {"inputs", std::move(inputs)},
                      {"heads", std::move(heads)},  {"wrt", json::Array(sample.variables)}};
}

TEST(Oracle, ExportsSamples) {
  const char *wanted = std::getenv("GRADC_EXPORT_SAMPLES");
  const std::string path = wanted ? wanted : ::testing::TempDir() + "samples.json";
  json::Array samples;
  for (const Sample &row : allSamples()) {
    TestContext context;
    if (isJudged(*context.ops.find(row.op))) samples.push_back(sampleJson(context, row));
  }
  std::string text;
  raw_string_ostream(text) << json::Value(std::move(samples));
  writeText(path, text);
  EXPECT_EQ(readText(path), text);
}

// ---- goldens

std::vector<std::string> goldenOps() {
  std::vector<std::string> ops;
  std::error_code code;
  for (sys::fs::directory_iterator at(goldenFolder(), code), end; at != end && !code; at.increment(code))
    if (sys::path::extension(at->path()) == ".json") ops.push_back(sys::path::stem(at->path()).str());
  llvm::sort(ops);
  return ops;
}

json::Array casesOf(StringRef op) {
  Expected<json::Value> value = json::parse(readText(goldenFolder() + "/" + op.str() + ".json"));
  if (!value) {
    ADD_FAILURE() << op.str() << ": " << llvm::toString(value.takeError());
    return {};
  }
  json::Array *cases = value->getAsArray();
  return cases ? std::move(*cases) : json::Array();
}

std::string difference(const Array &expected, const Array &found, double tolerance) {
  if (expected.shape != found.shape)
    return "shape " + toString(ShapeRef(found.shape)) + ", expected " + toString(ShapeRef(expected.shape));
  double scale = 0;
  for (double value : expected.values) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    if (!(std::abs(found.values[i] - expected.values[i]) <= tolerance * scale))
      return "element " + std::to_string(i) + " is " + std::to_string(found.values[i]) + ", expected " +
             std::to_string(expected.values[i]);
  }
  return "";
}

/// One recorded configuration as a graph of one node with head gradients hg0, hg1, …, and its recorded values.
struct Recorded {
  Recorded(Context &context, StringRef op, const json::Object &row) {
    Sample sample;
    opName = op.str();
    text = row.getString("text").value_or("").str();
    sample.op = opName.c_str();
    sample.attrs = text.c_str();
    const json::Array *inputs = row.getArray("inputs"), *heads = row.getArray("heads");
    for (const json::Value &input : *inputs) {
      const Array array = tensorOf(&input);
      sample.inputs.emplace_back(array.shape.begin(), array.shape.end());
    }
    sample.isTraining = row.getBoolean("training").value_or(true);
    SampleGraph made(context, sample);
    graph = made.graph;
    options = made.options;
    for (size_t i = 0; i < inputs->size(); ++i) bindings["x" + std::to_string(i)] = tensorOf(&(*inputs)[i]);
    for (size_t i = 0; i < heads->size(); ++i) bindings["hg" + std::to_string(i)] = tensorOf(&(*heads)[i]);
    tolerance = row.getString("dtype") == "float32" ? 2e-5 : 1e-8;
  }

  std::string opName, text;
  Graph graph;
  Bindings bindings;
  NaiveOptions options;
  double tolerance;
};

void compareOutputs(const Recorded &recorded, const json::Array &outputs) {
  Expected<NaiveRun> run = NaiveRun::run(recorded.graph, recorded.bindings, recorded.options);
  if (!run) {
    ADD_FAILURE() << describeError(run.takeError());
    return;
  }
  ASSERT_EQ(outputs.size(), recorded.graph.heads().size());
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(difference(tensorOf(&outputs[i]), run->value(recorded.graph.heads()[i]), recorded.tolerance), "")
        << "output " << i;
}

void compareGradients(Context &context, const Recorded &recorded, const json::Object &gradients) {
  if (gradients.empty()) return;
  std::vector<std::string> names;
  for (const auto &[key, value] : gradients) names.push_back(key.str());
  llvm::sort(names);
  std::vector<StringRef> refs(names.begin(), names.end());
  GradientRequest request = wrt(recorded.graph, refs);
  for (size_t i = 0; i < recorded.graph.heads().size(); ++i)
    request.heads.push_back({recorded.graph.heads()[i], std::nullopt, "hg" + std::to_string(i)});
  GradientOptions options;
  options.gradientOnly = true;
  options.unused = UnusedPolicy::Zeros;
  options.isTraining = recorded.options.isTraining;
  Expected<GradientResult> result = buildGradient(context, recorded.graph, request, options);
  if (!result) {
    ADD_FAILURE() << describeError(result.takeError());
    return;
  }
  Expected<NaiveRun> run = NaiveRun::run(result->graph, recorded.bindings, recorded.options);
  if (!run) {
    ADD_FAILURE() << describeError(run.takeError());
    return;
  }
  for (size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(difference(tensorOf(gradients.get(names[i])), run->value(result->graph.heads()[i]), recorded.tolerance),
              "")
        << "gradient of " << names[i];
}

class OracleGoldens : public ::testing::TestWithParam<std::string> {};

TEST_P(OracleGoldens, Agrees) {
  for (const json::Value &value : casesOf(GetParam())) {
    const json::Object &row = *value.getAsObject();
    TestContext context;
    Recorded recorded(context, GetParam(), row);
    SCOPED_TRACE(GetParam() + " {" + recorded.text + "}, first input " +
                 toString(ShapeRef(recorded.bindings["x0"].shape)));
    compareOutputs(recorded, *row.getArray("outputs"));
    compareGradients(context, recorded, *row.getObject("gradients"));
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, OracleGoldens, ::testing::ValuesIn(goldenOps()),
                         [](const ::testing::TestParamInfo<std::string> &info) { return "op_" + info.param; });

// ---- what is missing

TEST(Oracle, EveryOperatorHasSamples) {
  TestContext context;
  StringMap<size_t> counts;
  for (const Sample &row : allSamples()) ++counts[context.ops.find(row.op)->name];
  std::string missing;
  for (const OpDef *op : context.ops.all())
    if (isJudged(*op) && !isException(kWithoutSamples, op->name) && counts.lookup(op->name) < kMinSamples)
      missing += op->name.str() + " (" + std::to_string(counts.lookup(op->name)) + ") ";
  EXPECT_EQ(missing, "") << "each needs " << kMinSamples << " rows in tests/conformance_samples/";
}

TEST(Oracle, EveryOperatorHasGoldens) {
  TestContext context;
  std::string missing, surplus;
  for (const OpDef *op : context.ops.all()) {
    const std::string name = op->name.str();
    const size_t count = sys::fs::exists(goldenFolder() + "/" + name + ".json") ? casesOf(name).size() : 0;
    const bool isExcepted =
        isException(kWithoutGoldens, name) || isException(kWithoutSlope, name) || isException(kOnlyInGradients, name);
    if ((isJudged(*op) || isOwn(*op)) && !isExcepted && count < kMinGoldens)
      missing += name + " (" + std::to_string(count) + ") ";
    if (isExcepted && count >= kMinGoldens) surplus += name + " ";
  }
  EXPECT_EQ(missing, "")
      << "each needs " << kMinGoldens
      << " configurations recorded by tests/oracles/conformance_oracle.py or tests/oracles/pytorch/torch_values.py";
  EXPECT_EQ(surplus, "") << "listed as an exception, yet recorded";
}

}  // namespace
}  // namespace gradc
