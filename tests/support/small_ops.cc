// The operators are as small as the tests allow: arity, mutation, flags, defaults for old files.
#include "tests/support/small_ops.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cstdlib>

using namespace llvm;

namespace gradc::testing {
namespace {

struct DenseParams {
  bool noBias = false;
};
constexpr AttrSpec kDenseAttrs[] = {attr<&DenseParams::noBias>("no_bias", "False", "leaves the bias out")};
uint32_t denseInputs(const NodeKind &kind) { return kind.params<DenseParams>().noBias ? 2 : 3; }

struct SumParams {
  int64_t numArgs = 0;
};
constexpr AttrSpec kSumAttrs[] = {required<&SumParams::numArgs>("num_args", "number of operands").atLeast(1)};
uint32_t sumInputs(const NodeKind &kind) { return static_cast<uint32_t>(kind.params<SumParams>().numArgs); }

struct LeakyParams {
  StringRef actType;
};
constexpr AttrSpec kLeakyAttrs[] = {attr<&LeakyParams::actType>("act_type", "leaky", "kind of slope")};
bool isPrelu(const NodeKind &kind) { return kind.params<LeakyParams>().actType == "prelu"; }
uint32_t leakyInputs(const NodeKind &kind) { return isPrelu(kind) ? 2 : 1; }

constexpr InputDefault kNormDefaults[] = {{3, "__init__", "[\"zero\", {}]"}, {4, "__init__", "[\"one\", {}]"}};
constexpr InputDefault kLeakyDefaults[] = {{1, "__init__", "[\"Constant\", {\"value\": 0.25}]", isPrelu}};

const OpDef kAdd = {.name = "add", .inputs = {"lhs", "rhs"}};
const OpDef kRelu = {.name = "relu", .inputs = {"data"}};
const OpDef kSplit = {.name = "split3", .inputs = {"data"}, .outputs = {"output0", "output1", "output2"}};
const OpDef kSum = {
    .name = "sum_n", .inputs = Ports({}, sumInputs, true), .attrs = kSumAttrs, .params = paramsOf<SumParams>()};
const OpDef kBump = {.name = "bump", .inputs = {"data", "state"}, .mutated = {1}};
const OpDef kReluBackward = {.name = "_backward_relu", .inputs = {"dy", "y"}, .flags = {.isBackward = true}};
const OpDef kDense = {.name = "FullyConnected",
                      .inputs = Ports({"data", "weight", "bias"}, denseInputs),
                      .attrs = kDenseAttrs,
                      .params = paramsOf<DenseParams>()};
const OpDef kNorm = {.name = "BatchNorm",
                     .inputs = {"data", "gamma", "beta", "moving_mean", "moving_var"},
                     .outputs = {"output", "mean", "var"},
                     .visibleOutputs = [](const NodeKind &) -> uint32_t { return 1; },
                     .mutated = {3, 4},
                     .inputDefaults = kNormDefaults};
const OpDef kLeaky = {.name = "LeakyReLU",
                      .inputs = Ports({"data", "gamma"}, leakyInputs),
                      .attrs = kLeakyAttrs,
                      .params = paramsOf<LeakyParams>(),
                      .inputDefaults = kLeakyDefaults};
const OpDef kArgmax = {.name = "argmax", .inputs = {"data"}};
const OpDef kPooling = {.name = "Pooling", .aliases = {"Pooling_v1"}, .inputs = {"data"}};

[[noreturn]] void die(const Twine &message) {
  errs() << message << "\n";
  std::abort();
}

}  // namespace

SmallContext::SmallContext() {
  for (const OpDef *op :
       {&kAdd, &kRelu, &kSplit, &kSum, &kBump, &kReluBackward, &kDense, &kNorm, &kLeaky, &kArgmax, &kPooling})
    cantFail(ops.add(*op));
}

LoadedGraph read(Context &context, StringRef text) {
  Expected<LoadedGraph> loaded = readJson(context, text, {});
  if (!loaded) die("the test's file does not read: " + toString(loaded.takeError()));
  return std::move(*loaded);
}

GradcError readError(StringRef text) {
  SmallContext context;
  Expected<LoadedGraph> loaded = readJson(context, text, {});
  if (loaded) die("the test's file reads, an error was expected: " + text);
  GradcError found(ErrorKind::Internal, "");
  handleAllErrors(loaded.takeError(), [&](const GradcError &error) { found = error; });
  return found;
}

std::string converted(StringRef text) {
  SmallContext context;
  return written(read(context, text).graph);
}

std::string fileOf(StringRef nodes, StringRef heads) {
  return ("{\"nodes\": [" + nodes + "], \"arg_nodes\": [], \"heads\": " + heads + "}").str();
}

std::string readTestFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  if (!buffer) die("cannot read " + path);
  return (*buffer)->getBuffer().str();
}

}  // namespace gradc::testing
