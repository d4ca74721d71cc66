// Operators that a host declares at run time: their attributes, parameters and functions are what its data say.
#include "formats/json/reader.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/kit/primitives.h"
#include "runtime/session/session.h"
#include "tests/support/ops/naive.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"
#include "tools/diff/diff.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

using testing::describeError, testing::evaluate, testing::gradientValues, testing::nodeNamed, testing::parseGraph,
    testing::TestContext, testing::wrt;
using Doubles = std::vector<double>;

/// A row of a schema known at run time only: a number or a text, at an offset into the parameters.
struct HostAttr {
  std::string key, type, defaultText;
  size_t offset;
};

/// y = gain · x + (sum of the numbers among the attributes), over tensors of one rank.
struct HostOp {
  std::string name;
  std::vector<HostAttr> attrs;
  double gain, limit;
  size_t rank;
  std::vector<AttrSpec> rows;
  OpDef def;

  HostOp(std::string name, std::vector<HostAttr> schema, double gain, double limit, size_t rank)
      : name(std::move(name)), attrs(std::move(schema)), gain(gain), limit(limit), rank(rank) {
    for (const HostAttr &attr : attrs) rows.push_back(row(attr));
    def.name = this->name;
    def.inputs = {"data"};
    def.attrs = rows;
    def.params = {8 + 16 * attrs.size(), 8, construct};
    def.check = check;
    def.shape = shape;
    def.gradient = gradient;
    def.kernel = kernel;
    def.user = this;
  }
  HostOp(const HostOp &) = delete;

  static const HostOp &of(const NodeKind &kind) { return *static_cast<const HostOp *>(kind.op->user); }

  double sum(const void *params) const {
    double sum = 0;
    for (const HostAttr &attr : attrs) {
      double number;
      std::memcpy(&number, static_cast<const char *>(params) + attr.offset, sizeof number);
      if (attr.type == "number") sum += number;
    }
    return sum;
  }

  static AttrSpec row(const HostAttr &attr) {
    AttrSpec spec;
    spec.key = attr.key;
    spec.defaultText = attr.defaultText;
    spec.isRequired = attr.defaultText.empty();
    spec.typeName = attr.type;
    spec.parse = parse;
    spec.print = print;
    spec.user = &attr;
    return spec;
  }
  static bool parse(const AttrSpec &self, StringRef text, ParamsArena &arena, void *params) {
    const HostAttr &attr = *static_cast<const HostAttr *>(self.user);
    char *at = static_cast<char *>(params) + attr.offset;
    double number;
    StringRef kept;
    if (attr.type == "number") return parseAttr(text, arena, number) && std::memcpy(at, &number, sizeof number);
    return parseAttr(text, arena, kept) && std::memcpy(at, &kept, sizeof kept);
  }
  static void print(const AttrSpec &self, raw_ostream &os, const void *params) {
    const HostAttr &attr = *static_cast<const HostAttr *>(self.user);
    const char *at = static_cast<const char *>(params) + attr.offset;
    double number;
    StringRef text;
    if (attr.type == "number") return std::memcpy(&number, at, sizeof number), printAttr(os, number);
    std::memcpy(&text, at, sizeof text);
    printAttr(os, text);
  }
  // The first eight bytes are the host's own.
  static void construct(const OpDef &op, void *at) {
    const double gain = static_cast<const HostOp *>(op.user)->gain;
    std::memcpy(at, &gain, sizeof gain);
  }
  static Error check(const OpDef &op, void *params) {
    const HostOp &self = *static_cast<const HostOp *>(op.user);
    if (self.sum(params) <= self.limit) return Error::success();
    const int sum = static_cast<int>(self.sum(params)), limit = static_cast<int>(self.limit);
    return Failure(ErrorKind::BadAttribute,
                   "the numbers add up to " + Twine(sum) + ", expected at most " + Twine(limit));
  }
  static void shape(ShapeInference &s) {
    const size_t rank = of(s.kind()).rank;
    if (s.in(0).hasRank() && s.in(0).dims().size() != rank)
      return s.fail("rank " + Twine(s.in(0).dims().size()) + ", expected " + Twine(rank));
    s.sameAll();
  }
  static void gradient(GradRule &g) {
    g.dx(0, g.emit(kMulScalar, {g.dy(0)}, {{"scalar", g.number(of(g.kind()).gain)}}));
  }
  static void kernel(const KernelCall &call) {
    double gain;
    std::memcpy(&gain, call.kind->parsed, sizeof gain);
    const double sum = of(*call.kind).sum(call.kind->parsed);
    const double *x = call.in[0].as<const double>();
    for (int64_t i = 0; i < call.out[0].size(); ++i) call.out[0].as<double>()[i] = gain * x[i] + sum;
  }
};

struct HostOps : ::testing::Test {
  // The same functions twice, told apart by `user` alone.
  HostOp lift{
      "lift", {{"label", "text", "none", 8}, {"first", "number", "1", 40}, {"second", "number", "", 24}}, 3, 50, 1};
  HostOp sink{"sink", {{"depth", "number", "7", 16}}, -2, 9, 2};
  TestContext context;

  HostOps() {
    cantFail(context.ops.add(lift.def));
    cantFail(context.ops.add(sink.def));
  }

  /// y = op(x), as a file.
  static std::string file(StringRef op, StringRef attrs, StringRef shape) {
    return (R"({"nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": ")" + shape + R"("}, "inputs": []},
               {"op": ")" +
            op + R"(", "name": "y", "attrs": {)" + attrs + R"(}, "inputs": [[0, 0, 0]]}],
               "arg_nodes": [0], "heads": [[1, 0, 0]]})")
        .str();
  }
  Expected<LoadedGraph> read(StringRef op, StringRef attrs, StringRef shape) {
    return readJson(context, file(op, attrs, shape), ReadOptions());
  }
  Graph load(StringRef op, StringRef attrs, StringRef shape) { return cantFail(read(op, attrs, shape)).graph; }
};

TEST_F(HostOps, AFileWithOneLoadsDifferentiatesAndRuns) {
  const Graph graph = load("lift", R"("second": "20", "label": "up")", "(2,)");
  const GradientResult gradient = cantFail(buildGradient(context, graph, wrt(graph, {"x"}), GradientOptions()));
  std::vector<NamedArray> bindings;
  bindings.push_back({"x", doubles({2}, {1, -4})});
  SessionOptions options;
  options.infer.floatAs = DType::Float64;
  Session session = cantFail(Session::create(context, gradient.graph, std::move(bindings), options));
  cantFail(session.run(0));
  EXPECT_EQ(valuesOf<double>(session.head(0)), (Doubles{3 * 1 + 21, 3 * -4 + 21}));
  EXPECT_EQ(valuesOf<double>(session.head(1)), (Doubles{3, 3}));
  // The other one has other numbers, and parameters laid out in another way.
  const Graph other = load("sink", "", "(1,2)");
  const testing::Bindings x{{"x", testing::Array(std::vector<int64_t>{1, 2}, {1, 10})}};
  EXPECT_EQ(evaluate(other, x)[0].values, (Doubles{-2 + 7, -20 + 7}));
  EXPECT_EQ(gradientValues(context, other, {"x"}, x, 1)[0].values, (Doubles{-2, -2}));
}

TEST_F(HostOps, AttributesPrintWithTheirDefaults) {
  const Graph left = load("lift", R"("second": "2e1")", "(2,)");
  const Graph right = load("lift", R"("second": "21", "first": "1.0")", "(2,)");
  EXPECT_EQ(describeParameters(left.kind(nodeNamed(left, "y"))), "label=none, first=1, second=20");
  const DiffResult diff = diffGraphs(left, right, DiffOptions());
  ASSERT_EQ(diff.numDifferences, 1u) << "1.0 is the default";
  EXPECT_EQ(diff.differences[0].text, "node 'y' (lift): attribute 'second' is '20' on the left, '21' on the right");
  EXPECT_FALSE(haveSameParameters(left.kind(nodeNamed(left, "y")), right.kind(nodeNamed(right, "y"))));
}

TEST_F(HostOps, ErrorsNameOperatorAndNode) {
  EXPECT_EQ(describeError(read("lift", "", "(2,)")),
            "[bad_attribute] required attribute 'second' is missing in operator lift(name=\"y\")");
  EXPECT_EQ(describeError(read("lift", R"("second": "many")", "(2,)")),
            "[bad_attribute] attribute 'second' is \"many\", expected number in operator lift(name=\"y\", "
            "second=\"many\")");
  EXPECT_EQ(
      describeError(read("lift", R"("second": "50")", "(2,)")),
      "[bad_attribute] the numbers add up to 51, expected at most 50 in operator lift(name=\"y\", second=\"50\")");
  EXPECT_EQ(describeError(read("sink", R"("depth": "10")", "(1,2)")),
            "[bad_attribute] the numbers add up to 10, expected at most 9 in operator sink(name=\"y\", depth=\"10\")");
  const Graph graph = load("sink", "", "(2,)");
  EXPECT_EQ(describeError(infer(context, graph, {}, InferOptions())),
            "[infer_conflict] operator 'sink', node 'y' (sink): rank 1, expected 2");
}

TEST_F(HostOps, ParametersWithoutAConstructorStartAsZeros) {
  HostOp plain("plain", {}, 5, 0, 1);
  plain.def.params = {64, 64, nullptr};
  plain.def.check = [](const OpDef &, void *params) -> Error {
    const char *bytes = static_cast<const char *>(params);
    if (reinterpret_cast<uintptr_t>(params) % 64 == 0 && all_of(ArrayRef(bytes, 64), [](char c) { return c == 0; }))
      return Error::success();
    return Failure(ErrorKind::Internal, "not zero, or not aligned");
  };
  cantFail(context.ops.add(plain.def));
  // The arena is used up to here by text, so its bytes are not zero.
  for (int i = 0; i < 400; ++i) {
    const std::string label(i, 'x');
    cantFail(context.kind(lift.def, context.attrs({AttrText{"label", label}, {"second", "2"}})));
  }
  EXPECT_EQ(describeError(read("plain", "", "(2,)")), "success");
}

// ---- kernels

/// y = 2 · x, for tensors of less than `user` elements.
class Doubling : public PreparedKernel {
 public:
  static std::unique_ptr<PreparedKernel> create(const KernelSite &site) {
    const bool isSmall = site.in[0].size() < *static_cast<const int64_t *>(site.kind->op->user);
    return isSmall ? std::make_unique<Doubling>() : nullptr;
  }
  void run(const KernelCall &call) override {
    for (int64_t i = 0; i < call.out[0].size(); ++i) call.out[0].as<float>()[i] = 2 * call.in[0].as<float>()[i];
  }
};
constexpr int64_t kFewElements = 4;
constexpr OpDef kDoubling = {
    .name = "doubling",
    .inputs = {"data"},
    .shape = shapes::same,
    .fastKernel = Doubling::create,
    .user = &kFewElements,
};

std::string outcomeOf(const OpDef &op, Backend backend, size_t numElements) {
  TestContext context;
  cantFail(context.ops.add(op));
  const Graph graph = cantFail(parseGraph(context, "y = doubling(x)"));
  std::vector<NamedArray> bindings;
  bindings.push_back({"x", floats({static_cast<int64_t>(numElements)}, std::vector<float>(numElements, 1.5))});
  SessionOptions options;
  options.exec.backend = backend;
  Expected<Session> session = Session::create(context, graph, std::move(bindings), options);
  if (!session) return describeError(session.takeError());
  cantFail(session->run(0));
  return std::to_string(static_cast<int>(session->head(0).as<float>()[numElements - 1]));
}

TEST(HostKernels, AFastKernelAloneRunsWhereFastKernelsDo) {
  EXPECT_EQ(outcomeOf(kDoubling, Backend::Auto, 3), "3");
  const std::string refusal = "[unknown_op] operator 'doubling' of node 'y' (doubling) has no reference kernel, "
                              "and its fast one is not used here";
  EXPECT_EQ(outcomeOf(kDoubling, Backend::Reference, 3), refusal);
  EXPECT_EQ(outcomeOf(kDoubling, Backend::Auto, 4), refusal) << "the factory leaves it to the reference kernel";
  OpDef none = kDoubling;
  none.fastKernel = nullptr;
  EXPECT_EQ(outcomeOf(none, Backend::Auto, 3), "[unknown_op] operator 'doubling' of node 'y' (doubling) has no kernel");
  // With both, the reference kernel serves what the fast one leaves.
  OpDef both = kDoubling;
  both.kernel = [](const KernelCall &call) { std::fill_n(call.out[0].as<float>(), call.out[0].size(), 7.0f); };
  EXPECT_EQ(outcomeOf(both, Backend::Auto, 3), "3");
  EXPECT_EQ(outcomeOf(both, Backend::Auto, 4), "7");
  EXPECT_EQ(outcomeOf(both, Backend::Reference, 3), "7");
}

// A copy of bytes, whatever they mean.
constexpr OpDef kBytes = {
    .name = "bytes",
    .inputs = {"data"},
    .shape = shapes::same,
    .kernel = [](const KernelCall &call) { std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes()); },
};

TEST(HostKernels, E_63_AnOperatorStatesTheTypesOfItsKernel) {
  auto outcome = [](DTypeSet types, StringRef dtype) {
    OpDef op = kBytes;
    op.kernelTypes = types;
    TestContext context;
    cantFail(context.ops.add(op));
    const std::string variable = ("x = var {__shape__=(2,), __dtype__=" + dtype + "}; ").str();
    const Graph graph = cantFail(parseGraph(context, variable + "y = bytes(x)"));
    const Inference inference = cantFail(infer(context, graph, {}, InferOptions()));
    const RequestTable requests = countRequests(graph, {});
    const MemoryPlan plan = cantFail(planMemory(context, graph, inference, requests, PlanOptions()));
    return describeError(Executor::create(graph, inference, requests, plan, ExecOptions()));
  };
  EXPECT_EQ(outcome(OpDef().kernelTypes, "float32"), "success");
  EXPECT_EQ(outcome(OpDef().kernelTypes, "int32"),
            "[dtype] node 'y' (bytes) works on int32, but its kernel computes in float32 and float64");
  for (StringRef type : {"float64", "int8", "bool", "uint64", "int64"})
    EXPECT_EQ(outcome(kFloatingAndIntegers, type), "success") << type.str();
  for (StringRef type : {"float16", "bfloat16"}) EXPECT_EQ(outcome(OpDef().kernelTypes, type), "success") << type.str();
  EXPECT_EQ(outcome({DType::Float16}, "float16"), "success") << "the operator's own affair";
  EXPECT_EQ(outcome({DType::Float64, DType::Int8}, "bfloat16"),
            "[dtype] node 'y' (bytes) works on bfloat16, but its kernel computes in float64 and int8");
  EXPECT_EQ(outcome({DType::Float16}, "float32"),
            "[dtype] node 'y' (bytes) works on float32, but its kernel computes in float16");
}

}  // namespace
}  // namespace gradc
