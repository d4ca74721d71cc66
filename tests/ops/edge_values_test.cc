// Values, slopes and second derivatives at the edges of the types' ranges, on both backends, against numbers that
// tests/oracles/edge_values.py computed with enough digits: testdata/edge_values.txt.
#include "formats/blocks/files/block_file.h"
#include "formats/blocks/graph/graph_of_blocks.h"
#include "runtime/arrays/elements.h"
#include "runtime/session/session.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/ops/derivative.h"
#include "tests/support/ops/half_values.h"
#include "tests/support/ops/naive.h"
#include "tests/support/ops/op_table.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"
#include "tests/support/tool.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

using Row = std::vector<double>;
constexpr double kInfinity = HUGE_VAL, kNan = NAN;
constexpr double kUnchecked = 1e-321;  // in no row

/// The rows of one function and type.
struct Block {
  std::string name, graph;
  DType type = DType::Unknown;
  bool isOfRows = false;  // functions of rows of numbers
  std::vector<Row> rows;

  bool hasTwo() const { return rows[0].size() == 8; }
};

std::vector<Block> readBlocks() {
  std::vector<Block> blocks;
  const std::string text = readText("testdata/edge_values.txt");
  SmallVector<StringRef, 0> lines;
  StringRef(text).split(lines, '\n', -1, false);
  for (StringRef line : lines) {
    if (line.starts_with("#")) continue;
    const bool isOfRows = line.consume_front("== ");
    if (isOfRows || line.consume_front("= ")) {
      auto [name, rest] = line.split(' ');
      auto [type, graph] = rest.split(' ');
      blocks.push_back({name.str(), graph.str(), parseDType(type).value_or(DType::Unknown), isOfRows, {}});
      continue;
    }
    Row row;
    for (StringRef word : split(line, ' '))
      row.push_back(word == "-" ? kUnchecked : std::strtod(word.str().c_str(), nullptr));
    blocks.back().rows.push_back(std::move(row));
  }
  return blocks;
}

/// How far from the true value a result may be: in units in the last place, and besides in the type's epsilon and in
/// its smallest normal number.
struct Margin {
  double units, epsilons = 0, normals = 0;
};
using Margins = std::array<Margin, 3>;  // of values, slopes and second derivatives

struct Conditioned {
  const char *name;
  Margins margins;
};
constexpr Margins kPlain = {{{4}, {8}, {20}}};
constexpr Conditioned kConditioned[] = {
    // Slopes read y, as in MXNet and PyTorch, so that x need not be kept: 1 - y has the digits that y has.
    {"sigmoid", {{{4, 0, 1}, {8, 0.5, 1}, {16, 1, 1}}}},
    {"tanh", {{{4}, {8, 0.5}, {16, 2}}}},
    // Products with exponentials that are below the normal numbers, where fast ones are 0, or that have few digits
    // there.
    {"log_sigmoid", {{{4}, {8}, {16, 0, 1}}}},
    {"silu", {{{4}, {8, 0, 1}, {16, 0, 128}}}},
    {"mish", {{{4, 0, 1}, {16, 0, 1}, {16, 0, 128}}}},
    // The condition of erfc(x) is 2x².
    {"gelu", {{{128}, {128}, {16}}}},
    {"leaky_gelu", {{{128}, {128}, {16}}}},
    // Slopes read y, as those of sigmoid.
    {"elu", {{{4}, {8, 0.5}, {16, 0.5}}}},
    {"selu", {{{4}, {8, 2}, {16, 2}}}},
    // Sums of products of probabilities with the weights of the rows.
    {"softmax", {{{4, 0, 1}, {8, 4, 1}, {16, 16, 1}}}},
    {"softmin", {{{4, 0, 1}, {8, 4, 1}, {16, 16, 1}}}},
    {"SoftmaxActivation", {{{4, 0, 1}, {8, 4, 1}, {16, 16, 1}}}},
    {"log_softmax", {{{4, 1}, {8, 4}, {16, 16}}}},
    {"softmax_cross_entropy", {{{4, 1}, {8, 4}, {16, 16}}}},
};
const Margins &marginsOf(const Block &block) {
  const auto *row = find_if(kConditioned, [&](const Conditioned &of) { return block.name == of.name; });
  return row == std::end(kConditioned) ? kPlain : row->margins;
}

double roundTo(DType type, double value) {
  if (type == DType::Float64) return value;
  if (type == DType::Float32) return static_cast<double>(static_cast<float>(value));
  return nearestHalf(type, value);
}

/// Of normal numbers.
int leastExponent(DType type) {
  return type == DType::Float64 ? -1022 : type == DType::Float32 ? -126 : formatOf(type).leastExponent;
}
double largestOf(DType type) {
  if (type == DType::Float64) return std::numeric_limits<double>::max();
  if (type == DType::Float32) return std::numeric_limits<float>::max();
  const HalfFormat format = formatOf(type);
  return std::ldexp(2 - std::ldexp(1, -format.fractionBits), format.largestExponent);
}

/// The distance between the numbers of the type around `value`.
double unitAt(DType type, double value) {
  const int digits = type == DType::Float64 ? 53 : type == DType::Float32 ? 24 : formatOf(type).fractionBits + 1;
  const int least = leastExponent(type) + 1 - digits;
  if (value == 0 || !std::isfinite(value)) return std::ldexp(1, least);
  return std::ldexp(1, std::max(std::ilogb(value) + 1 - digits, least));
}

/// The distance in units, less the margin's other part; infinite between a number and what is none.
double distance(DType type, double found, double expected, double besides) {
  const double wanted = roundTo(type, expected);
  if (std::isnan(wanted) || std::isnan(found)) return std::isnan(wanted) && std::isnan(found) ? 0 : kInfinity;
  if (found == wanted) return 0;
  const double largest = largestOf(type);
  // The largest number and infinity are one unit apart.
  auto finite = [&](double v) { return std::isinf(v) ? std::copysign(largest, v) : v; };
  if (std::isinf(found) != std::isinf(wanted) && std::abs(finite(found) - finite(wanted)) > 64 * unitAt(type, largest))
    return kInfinity;
  return std::max(std::abs(finite(found) - finite(wanted)) - besides, 0.0) / unitAt(type, finite(wanted));
}

bool reads(const Graph &graph, StringRef variable) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.name(NodeId{n}) == variable) return true;
  return false;
}

/// The heads of the graph where x and z are the columns of the rows.
std::vector<std::vector<double>> run(const Graph &graph, const Block &block, Backend backend) {
  const auto count = static_cast<int64_t>(block.rows.size());
  std::vector<NamedArray> bindings;
  for (size_t column = 0; column < (block.hasTwo() ? 2 : 1); ++column) {
    if (!reads(graph, column == 0 ? "x" : "z")) continue;
    gradc::Array array{block.type, {count}, std::vector<char>(block.rows.size() * dtypeBytes(block.type))};
    for (int64_t i = 0; i < count; ++i) writeElement(array.ref(), i, block.rows[static_cast<size_t>(i)][column]);
    bindings.push_back({column == 0 ? "x" : "z", std::move(array)});
  }
  SessionOptions options;
  options.exec.backend = backend;
  options.exec.threads = 2;
  Session session = cantFail(Session::create(testContext(), graph, std::move(bindings), options));
  cantFail(session.run(0));
  std::vector<std::vector<double>> heads(graph.heads().size());
  for (size_t h = 0; h < heads.size(); ++h)
    for (int64_t i = 0; i < count; ++i) heads[h].push_back(readElement(session.head(h), i));
  return heads;
}

/// Value, derivatives and second ones of a block, by column; nothing where the operator has no such gradient.
struct Derivatives {
  std::vector<std::optional<Graph>> graphs;

  Derivatives(TestContext &context, const Block &block) {
    const std::string variables = "x = var {__shape__=(" + std::to_string(block.rows.size()) +
                                  ",), __dtype__=" + dtypeName(block.type).str() + "}; ";
    const std::string second = block.hasTwo() ? "z" + variables.substr(1) : "";
    const std::string y = StringRef(block.graph).contains("y = ") ? block.graph : "y = " + block.graph;
    const Graph value = cantFail(parseGraph(context, variables + second + y + "; heads y"));
    graphs.push_back(value);
    if (!block.hasTwo()) {
      for (uint32_t order : {1, 2}) graphs.push_back(gradientOf(context, value, {"x"}, order).graph);
      return;
    }
    for (StringRef name : {"x", "z"}) graphs.push_back(toward(context, value, name));
    graphs.push_back(toward(context, *graphs[1], "x"));
    graphs.push_back(toward(context, *graphs[1], "z"));
    graphs.push_back(toward(context, *graphs[2], "z"));
  }

 private:
  /// The gradient alone; no graph where the variable is not read any more.
  static std::optional<Graph> toward(TestContext &context, const Graph &graph, StringRef name) {
    GradientOptions options;
    options.gradientOnly = true;
    if (!reads(graph, name)) return std::nullopt;
    return cantFail(buildGradient(context, graph, wrt(graph, {name}), options)).graph;
  }
};

/// How far `found` is from `expected` beyond what the margin allows besides units.
double unitsApart(const Block &block, const Margin &margin, double found, double expected) {
  const double besides =
      margin.epsilons * unitAt(block.type, 1) + margin.normals * std::ldexp(1, leastExponent(block.type));
  return distance(block.type, found, expected, besides);
}

void check(const Block &block) {
  const Margins &margins = marginsOf(block);
  TestContext context;
  const Derivatives derivatives(context, block);
  const size_t numGiven = block.hasTwo() ? 2 : 1;
  for (Backend backend : {Backend::Reference, Backend::Auto})
    for (size_t k = 0; k < derivatives.graphs.size(); ++k) {
      const Margin margin = margins[k == 0 ? 0 : k <= numGiven ? 1 : 2];
      if (!derivatives.graphs[k]) continue;
      const std::vector<double> found = run(*derivatives.graphs[k], block, backend).back();
      for (size_t i = 0; i < found.size(); ++i) {
        const Row &row = block.rows[i];
        if (row[numGiven + k] == kUnchecked) continue;
        const double units = unitsApart(block, margin, found[i], row[numGiven + k]);
        EXPECT_LE(units, margin.units) << block.name << " " << dtypeName(block.type).str() << " "
                                       << (backend == Backend::Auto ? "fast" : "reference") << ", derivative " << k
                                       << " at " << row[0] << (numGiven == 2 ? " " + std::to_string(row[1]) : "")
                                       << ": " << found[i] << ", expected " << row[numGiven + k];
      }
    }
}

TEST(EdgeValues, RUN_02_FunctionsAtTheEndsOfTheirRange) {
  for (const Block &block : readBlocks())
    if (!block.isOfRows) check(block);
}

constexpr size_t kRowLength = 4;
const Row kWeights = {1, -2, 3, -0.5}, kSecondWeights = {2, 1, -1, 0.5};

/// The only head of the graph, for one row x and the class 1.
Row runRow(const Graph &graph, const Block &block, ArrayRef<double> x, Backend backend) {
  std::vector<NamedArray> bindings;
  auto bind = [&](StringRef name, std::vector<int64_t> shape, ArrayRef<double> values) {
    if (!reads(graph, name)) return;
    const size_t count = static_cast<size_t>(TensorRef(nullptr, block.type, shape).size());
    gradc::Array array{block.type, std::move(shape), std::vector<char>(count * dtypeBytes(block.type))};
    for (size_t i = 0; i < count; ++i) writeElement(array.ref(), static_cast<int64_t>(i), values[i]);
    bindings.push_back({name.str(), std::move(array)});
  };
  const bool isLoss = block.rows[0].size() < 4 * kRowLength;
  const std::vector<int64_t> row = {1, kRowLength}, one = {1};
  bind("x", row, x);
  bind("z", one, {1.0});
  bind("p1_0", isLoss ? one : row, kWeights);
  bind("p2_0", row, kSecondWeights);
  SessionOptions options;
  options.exec.backend = backend;
  Session session = cantFail(Session::create(testContext(), graph, std::move(bindings), options));
  cantFail(session.run(0));
  Row found;
  for (int64_t i = 0; i < session.head(0).size(); ++i) found.push_back(readElement(session.head(0), i));
  return found;
}

void checkRows(const Block &block) {
  TestContext context;
  const std::string type = dtypeName(block.type).str();
  std::vector<std::string> x = {"x"}, again = x;
  std::vector<Graph> graphs = {cantFail(
      parseGraph(context, "x = var {__shape__=(1,4), __dtype__=" + type + "}; y = " + block.graph + "; heads y"))};
  graphs.push_back(cantFail(derivativeGraph(context, graphs[0], x, 1)));
  graphs.push_back(cantFail(derivativeGraph(context, graphs[1], again, 2)));
  for (Backend backend : {Backend::Reference, Backend::Auto})
    for (const Row &row : block.rows) {
      const ArrayRef<double> given = ArrayRef<double>(row).take_front(kRowLength);
      size_t at = kRowLength;
      for (size_t k = 0; k < graphs.size(); ++k)
        for (double found : runRow(graphs[k], block, given, backend)) {
          const double expected = row[at++];
          if (expected == kUnchecked) continue;
          EXPECT_LE(unitsApart(block, marginsOf(block)[k], found, expected), marginsOf(block)[k].units)
              << block.name << " " << type << (backend == Backend::Auto ? " fast" : " reference") << ", derivative "
              << k << " at " << row[0] << " " << row[1] << " " << row[2] << " " << row[3] << ", number " << at << ": "
              << found << ", expected " << expected;
        }
      EXPECT_EQ(at, row.size());
    }
}

TEST(EdgeValues, RUN_02_RowsAtTheEndsOfTheirRange) {
  size_t numBlocks = 0;
  for (const Block &block : readBlocks())
    if (block.isOfRows) checkRows(block), ++numBlocks;
  EXPECT_EQ(numBlocks, 5u * 4);
}

// ---- Paddle's operators

/// Head values of a program of one operator on float64 and of its gradient toward x, summed over the output.
struct ProgramCase {
  const char *type, *attrs;
  std::vector<double> x, z;  // an empty z: one operand
  std::vector<double> y, dx;
};

std::vector<double> runProgram(const ProgramCase &given, bool isGradient) {
  const std::string shape = "[" + std::to_string(given.x.size()) + "]";
  auto variable = [&](StringRef name, StringRef dims) {
    return ("\"" + name + "\":{\"kind\":\"LOD_TENSOR\",\"dtype\":\"FP64\",\"shape\":" + dims + "}").str();
  };
  const bool hasTwo = !given.z.empty();
  const std::string slots =
      hasTwo ? R"({"X":["x"],"Y":["z"]},"in_order":["X","Y"])" : R"({"X":["x"]},"in_order":["X"])";
  const std::string text = R"({"program":{"blocks":[{"idx":0,"parent":-1,"forward":-1,"vars":{)" +
                           variable("x", shape) + "," + variable("z", shape) + "," +
                           variable("y", given.y.size() == 1 ? "[1]" : shape) + R"(},"ops":[{"type":")" + given.type +
                           R"(","in":)" + slots + R"(,"out":{"Out":["y"]},"out_order":["Out"],"attrs":{)" +
                           given.attrs + R"(}}]}],"parameters":[]}})";
  TestContext context;
  BlockGraphOptions options;
  options.heads = {"y"};
  Graph graph = cantFail(graphOfBlocks(context, cantFail(readBlocks(context, text)).program, options)).graph;
  if (isGradient) graph = gradientOf(context, graph, {"x"}, 1).graph;
  std::vector<NamedArray> bindings = {{"x", doubles({static_cast<int64_t>(given.x.size())}, given.x)}};
  if (hasTwo) bindings.push_back({"z", doubles({static_cast<int64_t>(given.z.size())}, given.z)});
  gradc::Array head = cantFail(runHeads(context, graph, std::move(bindings))).back();
  return valuesOf<double>(head);
}

// The values and, but for what is said at generalNorm, the gradients are PyTorch's.
TEST(EdgeValues, RUN_02_LogarithmsOfSumsAndNorms) {
  constexpr const char *kAxis = R"("axis":["INT",0])", *kNorm3 = R"("porder":["FLOAT",3.0],"axis":["INT",0])";
  constexpr const char *kNormHalf = R"("porder":["FLOAT",0.5],"axis":["INT",0])",
                       *kNormInverse = R"("porder":["FLOAT",-1.0],"axis":["INT",0])";
  const double cubic = std::cbrt(91.0), e = std::log1p(std::exp(-1.0));
  const ProgramCase cases[] = {
      {"logsumexp", R"("axis":["INTS",[0]])", {-kInfinity, 2}, {}, {2}, {0, 1}},
      {"logsumexp", R"("axis":["INTS",[0]])", {-kInfinity, -kInfinity}, {}, {-kInfinity}, {kNan, kNan}},
      {"logsumexp", R"("axis":["INTS",[0]])", {kInfinity, 2}, {}, {kInfinity}, {kNan, 0}},
      {"logsumexp",
       R"("axis":["INTS",[0]])",
       {1000, 999},
       {},
       {1000 + e},
       {1 / (1 + std::exp(-1)), 1 / (1 + std::exp(1))}},
      {"logcumsumexp", kAxis, {-kInfinity, -kInfinity, 0}, {}, {-kInfinity, -kInfinity, 0}, {kNan, kNan, 1}},
      {"logcumsumexp", kAxis, {-kInfinity, 2, -kInfinity}, {}, {-kInfinity, 2, 2}, {kNan, 2, 0}},
      {"logcumsumexp",
       kAxis,
       {1, 0, -kInfinity},
       {},
       {1, 1 + e, 1 + e},
       {1 + 2 / (1 + std::exp(-1)), 2 / (1 + std::exp(1)), 0}},
      {"p_norm", kNorm3, {0, 0, 0}, {}, {0}, {0, 0, 0}},
      {"p_norm", kNorm3, {3, 0, 4}, {}, {cubic}, {9 / (cubic * cubic), 0, 16 / (cubic * cubic)}},
      {"p_norm", kNorm3, {3e200, 0, -4e200}, {}, {cubic * 1e200}, {9 / (cubic * cubic), 0, -16 / (cubic * cubic)}},
      {"p_norm", kNorm3, {3e-200, kInfinity, 0}, {}, {kInfinity}, {0, kNan, 0}},
      {"p_norm", kNormHalf, {0, 4, 9}, {}, {25}, {0, 2.5, 5.0 / 3}},
      {"p_norm", kNormInverse, {0, 4}, {}, {0}, {0, 0}},
      {"p_norm", kNormInverse, {3, -4}, {}, {12.0 / 7}, {16.0 / 49, -9.0 / 49}},
      {"dist", R"("p":["FLOAT",3.0])", {1, 2}, {1, 2}, {0}, {0, 0}},
      {"dist", R"("p":["FLOAT",0.5])", {4, 2}, {0, 2}, {4}, {1, 0}},
      {"elementwise_fmax",
       R"("axis":["INT",-1])",
       {1, kNan, 2, kNan, 3},
       {kNan, 1, 2, kNan, 4},
       {1, 1, 2, kNan, 4},
       {1, 0, 1, 1, 0}},
      {"elementwise_fmin",
       R"("axis":["INT",-1])",
       {1, kNan, 2, kNan, 3},
       {kNan, 1, 2, kNan, 4},
       {1, 1, 2, kNan, 3},
       {1, 0, 1, 1, 1}},
  };
  for (const ProgramCase &given : cases) {
    SCOPED_TRACE(std::string(given.type) + " of " + std::to_string(given.x[0]) + ", " + std::to_string(given.x[1]));
    expectClose(runProgram(given, false), given.y, 1e-14);
    expectClose(runProgram(given, true), given.dx, 1e-14);
  }
}

// ---- layers and orders

// An empty batch has no statistics: the moving ones are in use and stay.
TEST(EdgeValues, RUN_02_BatchNormOfNothing) {
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    TestGraph g("x = var {__shape__=(0,2,3)}; y = BatchNorm(x, g, b, m, v) {fix_gamma=False, output_mean_var=True}; "
                "heads y, y:1, y:2");
    SessionOptions options;
    options.exec.backend = backend;
    options.exec.isTraining = true;
    auto two = [](float a, float b) { return floats({2}, {a, b}); };
    Session session = cantFail(Session::create(
        g.context, g,
        {{"x", floats({0, 2, 3}, {})}, {"g", two(1, 2)}, {"b", two(0, 1)}, {"m", two(3, 4)}, {"v", two(5, 6)}},
        options));
    cantFail(session.run(0));
    EXPECT_EQ(valuesOf<float>(session.variable(nodeNamed(g, "m"))), (std::vector<float>{3, 4}));
    EXPECT_EQ(valuesOf<float>(session.variable(nodeNamed(g, "v"))), (std::vector<float>{5, 6}));
    EXPECT_EQ(valuesOf<float>(session.head(1)), (std::vector<float>{3, 4}));
  }
}

// What topk takes are the first of what sort and argsort put in order; NaN comes last in either direction.
TEST(EdgeValues, RUN_02_TopkIsTheBeginningOfSort) {
  const std::vector<double> x = {kNan, 1, -kInfinity, kNan, 3, kInfinity, -0.0, 0, 3};
  const auto count = static_cast<int64_t>(x.size());
  for (Backend backend : {Backend::Reference, Backend::Auto})
    for (const char *ascending : {"True", "False"})
      for (int64_t k = 1; k <= count; ++k) {
        const std::string direction = std::string("is_ascend=") + ascending, taken = "k=" + std::to_string(k) + ", ";
        TestGraph g("t = topk(x) {" + taken + "ret_typ=both, dtype=int64, " + direction + "}; m = topk(x) {" + taken +
                    "ret_typ=mask, " + direction + "}; s = sort(x) {" + direction + "}; a = argsort(x) {dtype=int64, " +
                    direction + "}; heads t, t:1, m, s, a");
        SessionOptions options;
        options.exec.backend = backend;
        Session session = cantFail(Session::create(g.context, g, {{"x", doubles({count}, x)}}, options));
        cantFail(session.run(0));
        std::vector<double> mask(x.size(), 0);
        for (int64_t i = 0; i < k; ++i) {
          const double value = readElement(session.head(0), i), sorted = readElement(session.head(3), i);
          EXPECT_TRUE(value == sorted || (std::isnan(value) && std::isnan(sorted)));
          EXPECT_EQ(readElement(session.head(1), i), readElement(session.head(4), i));
          mask[static_cast<size_t>(readElement(session.head(4), i))] = 1;
        }
        for (int64_t i = 0; i < count; ++i) EXPECT_EQ(readElement(session.head(2), i), mask[static_cast<size_t>(i)]);
      }
}

}  // namespace
}  // namespace gradc::testing
