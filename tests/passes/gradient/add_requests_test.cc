// Requests null, write and add for the gradients of every operator (§10), through the executor: what is added onto c is
// c + what would be written (REQ-06), what is null changes nothing else (REQ-02), on both backends.
#include "tests/support/ops/cells.h"
#include "tests/support/ops/conformance.h"

#include "runtime/arrays/elements.h"
#include "runtime/session/session.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using testing::drawNumber;
using testing::Sample;
using testing::SampleGraph;
using testing::TestContext;
using Doubles = std::vector<double>;

Array typed(const testing::Array &array, DType dtype) {
  Array result{
      dtype, {array.shape.begin(), array.shape.end()}, std::vector<char>(array.values.size() * dtypeBytes(dtype))};
  for (size_t i = 0; i < array.values.size(); ++i) writeElement(result.ref(), static_cast<int64_t>(i), array.values[i]);
  return result;
}

/// How a graph is run.
struct Form {
  DType type;
  Backend backend;
  bool isTraining;
};

/// Values of the heads after one run; a head that is added to starts as drawNumber(i, k) at element k.
std::vector<Doubles> run(const Graph &graph, const testing::Bindings &bindings, const Form &form,
                         ArrayRef<Request> requests) {
  std::vector<NamedArray> arrays;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)))
      if (auto at = bindings.find(graph.name(NodeId(n)).str()); at != bindings.end())
        arrays.push_back({at->first, typed(at->second, form.type)});
  SessionOptions options;
  options.infer.floatAs = form.type;
  options.exec.backend = form.backend;
  options.exec.isTraining = form.isTraining;
  options.exec.headRequests = requests;
  Expected<Session> session = Session::create(testing::testContext(), graph, std::move(arrays), options);
  if (!session) report_fatal_error(session.takeError());
  for (size_t i = 0; i < requests.size(); ++i)
    for (int64_t k = 0; requests[i] == Request::Add && k < session->head(i).size(); ++k)
      writeElement(session->head(i), k, drawNumber(i, static_cast<uint64_t>(k)));
  cantFail(session->run(0));
  std::vector<Doubles> heads(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    for (int64_t k = 0; session->head(i).data && k < session->head(i).size(); ++k)
      heads[i].push_back(readElement(session->head(i), k));
  return heads;
}

testing::Cells cells;
constexpr char kNothing[] = "nothing to differentiate, or no element in any gradient";
constexpr testing::Cells::Floor kFloors[] = {
    {"REQ_06_D_26_ASK_08_AddOntoAValueIsThatValuePlusWrite", 690},
    {"REQ_06_FastKernelsAddToo", 690},
    {"REQ_02_REQ_03_NullOfOthersChangesNothing", 220},
};

class AddRequests : public ::testing::TestWithParam<Sample> {
 protected:
  static void TearDownTestSuite() { cells.print(testing::allSamples().size(), kFloors); }

  /// The gradients of the sample toward all its variables; false when it has none, as the steps of optimizers.
  bool differentiate() {
    testing::Orders orders(context, sample, std::min(2u, GetParam().orders + 1));
    EXPECT_EQ(orders.failure, "");
    if (orders.graphs.size() < 2) return false;
    graph = orders.graphs[1];
    bindings = orders.bindings;
    return true;
  }
  std::vector<Request> all(Request request) const { return std::vector<Request>(graph.heads().size(), request); }
  Form reference() const { return {DType::Float64, Backend::Reference, sample.options.isTraining}; }
  Form fast() const { return {DType::Float32, Backend::Auto, sample.options.isTraining}; }

  /// What is added onto a start value is the start value plus what is written, in one addition of the type.
  template <class T> void checkAdd(const Form &form) {
    testing::Findings found;
    if (differentiate()) {
      std::vector<Doubles> written = run(graph, bindings, form, all(Request::Write));
      std::vector<Doubles> added = run(graph, bindings, form, all(Request::Add));
      for (size_t i = 0; i < written.size(); ++i)
        for (size_t k = 0; k < written[i].size(); ++k, ++found.numChecked)
          EXPECT_EQ(added[i][k], static_cast<T>(static_cast<T>(drawNumber(i, k)) + static_cast<T>(written[i][k])))
              << "head " << i << " element " << k;
    }
    cells.conclude(found, kNothing);
  }

  TestContext context;
  SampleGraph sample{context, GetParam()};
  Graph graph;
  testing::Bindings bindings;
};

TEST_P(AddRequests, REQ_06_D_26_ASK_08_AddOntoAValueIsThatValuePlusWrite) { checkAdd<double>(reference()); }

TEST_P(AddRequests, REQ_06_FastKernelsAddToo) { checkAdd<float>(fast()); }

// Each gradient alone, with the others null: it does not depend on what else is requested.
TEST_P(AddRequests, REQ_02_REQ_03_NullOfOthersChangesNothing) {
  testing::Findings found;
  if (differentiate() && graph.heads().size() > 1)
    for (const Form &form : {reference(), fast()}) {
      std::vector<Doubles> written = run(graph, bindings, form, all(Request::Write));
      for (size_t i = 0; i < written.size(); ++i) {
        std::vector<Request> requests = all(Request::Null);
        requests[i] = Request::Write;
        std::vector<Doubles> alone = run(graph, bindings, form, requests);
        ASSERT_EQ(alone[i].size(), written[i].size());
        double largest = 0;
        for (double value : written[i]) largest = std::max(largest, std::abs(value));
        // Another kernel may serve fewer outputs; the reference has one for all.
        const double allowed = form.backend == Backend::Reference ? 0 : 2e-6 * largest;
        for (size_t k = 0; k < written[i].size(); ++k, ++found.numChecked)
          EXPECT_NEAR(alone[i][k], written[i][k], allowed) << "head " << i;
        for (size_t j = 0; j < alone.size(); ++j) EXPECT_TRUE(j == i || alone[j].empty()) << j;
      }
    }
  cells.conclude(found, "fewer than two gradients, or no element in any");
}

INSTANTIATE_TEST_SUITE_P(Samples, AddRequests, ::testing::ValuesIn(testing::allSamples()),
                         [](const ::testing::TestParamInfo<Sample> &info) {
                           return testing::cellName(info.param.op, info.index);
                         });

}  // namespace
}  // namespace gradc
