// Stacks of loops whose readers take more rows than were written.
#include "runtime/executor/unwritten_rows.h"

#include "tests/support/runs/loops.h"

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr int64_t kBound = 4, kWidth = 8;

/// A loop over t, with i as its counter, that may run four steps, runs two, and stacks what t was.
Expected<NodeId> addLoop(GraphBuilder &builder, Value t, Value i) {
  const AttrText attrs[] = {{"num_args", "4"},          {"num_outputs", "2"},        {"num_out_data", "0"},
                            {"max_iterations", "4"},    {"cond_input_locs", "(1,)"}, {"func_input_locs", "(0,1)"},
                            {"func_var_locs", "(0,1)"}, {"__saved__", "(1,)"}};
  const Graph bodies[] = {body("c = _lesser_scalar(i) {scalar=2}"),
                          body("h = tanh(t); j = _plus_scalar(i) {scalar=1}; heads h, j, t")};
  Context &context = testContext();
  return builder.add(*context.ops.find("_while_loop"), {t, i},
                     {"loop", context.attrs(ArrayRef(attrs)), NodeId(), ArrayRef(bodies)});
}
constexpr uint16_t kStack = 3;  // behind the states and the number of steps

/// Twice what `reader` makes of the stack, for which there is a place that another value was in.
/// With an override that holds the loop's first state, and leaves the stack to its kernel, if `holds`.
Floats readStack(StringRef reader, ArrayRef<AttrText> attrs, bool holds) {
  Context &context = testContext();
  GraphBuilder builder(context);
  auto add = [&](StringRef op, Value x, ArrayRef<AttrText> texts = {}) {
    return Value{cantFail(builder.add(*context.ops.find(op), x, {"", context.attrs(texts)}))};
  };
  const Value x = builder.addVariable("x", Attrs()), t = builder.addVariable("t", Attrs()),
              i = builder.addVariable("i", Attrs());
  const Value before = add("sum", add("exp", x));
  const NodeId loop = cantFail(addLoop(builder, t, i));
  const Value read = add("_mul_scalar", add(reader, Value{loop, kStack, 0}, attrs), {{"scalar", "2"}});
  const Graph graph = cantFail(std::move(builder).freeze({before, read}, {})).graph;
  Array state = floats({kWidth}, Floats(kWidth, 7));
  Overrides overrides{std::vector<NodeOverride>(graph.numNodes()), nullptr};
  NodeOverride &held = overrides.nodes[nodeNamed(graph, "loop").value];
  held.kind = NodeOverride::Kind::Hold;
  held.base.resize(graph.numOutputs(nodeNamed(graph, "loop")));
  held.base[0] = state.ref();
  SessionOptions options;
  if (holds) options.exec.overrides = &overrides;
  Session session = cantFail(Session::create(context, graph,
                                             {{"x", floats({kBound, kWidth}, Floats(kBound * kWidth, 1))},
                                              {"t", floats({kWidth}, Floats(kWidth, 0.5))},
                                              {"i", floats({1}, {0})}},
                                             options));
  cantFail(session.run(0));
  return valuesOf<float>(session.head(1));
}

TEST(ShortRows, CF_20_RowsOfStepsNotRunAreZeroForOtherReaders) {
  Floats expected(kBound * kWidth, 0);
  for (int64_t c = 0; c < kWidth; ++c) {
    expected[static_cast<size_t>(c)] = 1;
    expected[static_cast<size_t>(kWidth + c)] = 2 * std::tanh(0.5f);
  }
  // Through another shape, and element by element up to a head.
  for (auto [reader, attrs] :
       {std::pair<StringRef, std::vector<AttrText>>{"Reshape", {{"shape", "(-1,)"}}}, {"_copy", {}}}) {
    for (bool holds : {false, true}) {
      const Floats found = readStack(reader, attrs, holds);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t k = 0; k < found.size(); ++k)
        EXPECT_NEAR(found[k], expected[k], 1e-6) << reader.str() << ' ' << k << (holds ? ", held" : "");
    }
  }
}

}  // namespace
}  // namespace gradc::testing
