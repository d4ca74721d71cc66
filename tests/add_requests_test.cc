// Requests null, write and add for the gradients of every operator (§10), through the executor: what is added onto c is
// c + what would be written (REQ-06), what is null changes nothing else (REQ-02), on both backends.
#include "tests/support/conformance.h"

#include "tests/support/test_graph.h"
#include "runtime/elements.h"
#include "runtime/session.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using testing::drawNumber;
using testing::NaiveRun;
using testing::Sample;
using testing::SampleGraph;
using testing::TestContext;
using Doubles = std::vector<double>;

Array typed(const testing::Array &array, DType dtype) {
  Array result{dtype, {array.shape.begin(), array.shape.end()}, std::vector<char>(array.values.size() * dtypeBytes(dtype))};
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
std::vector<Doubles> run(const Graph &graph, const testing::Bindings &bindings, const Form &form, ArrayRef<Request> requests) {
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
  Expected<Session> session = Session::create(graph.context(), graph, std::move(arrays), options);
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

class AddRequests : public ::testing::TestWithParam<Sample> {
 protected:
  /// The gradients of the sample toward all its variables; false when it has none, as the steps of optimizers.
  bool differentiate(SampleGraph &sample) {
    std::vector<std::string> variables = sample.variables;
    if (variables.empty() || GetParam().orders == 0) return false;
    NaiveRun forward = cantFail(NaiveRun::run(sample.graph, sample.bindings, sample.options));
    graph = cantFail(testing::derivativeGraph(context, sample.graph, variables, 1));
    bindings = sample.bindings;
    for (size_t i = 0; i < sample.graph.heads().size(); ++i) {
      testing::Array weights = forward.value(sample.graph.heads()[i]);
      for (size_t k = 0; k < weights.values.size(); ++k) weights.values[k] = drawNumber(9, i + 10 * k);
      bindings["p1_" + std::to_string(i)] = weights;
    }
    return true;
  }
  std::vector<Request> all(Request request) const { return std::vector<Request>(graph.heads().size(), request); }

  TestContext context;
  Graph graph;
  testing::Bindings bindings;
};

TEST_P(AddRequests, REQ_06_D_26_ASK_08_AddOntoAValueIsThatValuePlusWrite) {
  SampleGraph sample(context, GetParam());
  if (!differentiate(sample)) return;
  const Form form{DType::Float64, Backend::Reference, sample.options.isTraining};
  std::vector<Doubles> written = run(graph, bindings, form, all(Request::Write));
  std::vector<Doubles> added = run(graph, bindings, form, all(Request::Add));
  for (size_t i = 0; i < written.size(); ++i)
    for (size_t k = 0; k < written[i].size(); ++k)
      EXPECT_EQ(added[i][k], drawNumber(i, k) + written[i][k]) << "head " << i << " element " << k;
}

TEST_P(AddRequests, REQ_06_FastKernelsAddToo) {
  SampleGraph sample(context, GetParam());
  if (!differentiate(sample)) return;
  const Form form{DType::Float32, Backend::Auto, sample.options.isTraining};
  std::vector<Doubles> written = run(graph, bindings, form, all(Request::Write));
  std::vector<Doubles> added = run(graph, bindings, form, all(Request::Add));
  for (size_t i = 0; i < written.size(); ++i)
    for (size_t k = 0; k < written[i].size(); ++k)
      EXPECT_NEAR(added[i][k], drawNumber(i, k) + written[i][k], 2e-6 * (1 + std::abs(written[i][k])))
          << "head " << i << " element " << k;
}

// Every gradient by itself, the others null: nothing of it depends on what else is asked.
TEST_P(AddRequests, REQ_02_REQ_03_NullOfOthersChangesNothing) {
  SampleGraph sample(context, GetParam());
  if (!differentiate(sample)) return;
  for (const Form &form : {Form{DType::Float64, Backend::Reference, sample.options.isTraining},
                           Form{DType::Float32, Backend::Auto, sample.options.isTraining}}) {
    std::vector<Doubles> written = run(graph, bindings, form, all(Request::Write));
    for (size_t i = 0; i < written.size(); ++i) {
      std::vector<Request> requests = all(Request::Null);
      requests[i] = Request::Write;
      std::vector<Doubles> alone = run(graph, bindings, form, requests);
      ASSERT_EQ(alone[i].size(), written[i].size());
      const double tolerance = form.backend == Backend::Reference ? 0 : 2e-6;
      for (size_t k = 0; k < written[i].size(); ++k)
        EXPECT_NEAR(alone[i][k], written[i][k], tolerance * (1 + std::abs(written[i][k]))) << "head " << i;
      for (size_t j = 0; j < alone.size(); ++j) EXPECT_TRUE(j == i || alone[j].empty()) << j;
    }
  }
}

std::string sampleName(const ::testing::TestParamInfo<Sample> &info) {
  std::string name = std::string(info.param.op) + "_" + std::to_string(info.index);
  llvm::erase_if(name, [](char c) { return !isAlnum(c) && c != '_'; });
  return name[0] == '_' ? "own" + name : name;
}

INSTANTIATE_TEST_SUITE_P(Samples, AddRequests, ::testing::ValuesIn(testing::allSamples()), sampleName);

}  // namespace
}  // namespace gradc
