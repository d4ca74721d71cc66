// Attributes follow the order of a body's inputs, which is that of its graph, where unread variables are not.
// Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/flow_spec.h"

#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc::testing {
namespace {

using Places = std::vector<int64_t>;

std::string listText(const Places &list) {
  return "[" + join(map_range(list, [](int64_t v) { return std::to_string(v); }), ", ") + "]";
}

/// By input of the built body: which input of the node it is given.
Places operandsOf(const SketchBody &body, const SketchGraph &built) {
  Places operands;
  for (NodeId input : bodyInputs(built.graph)) {
    size_t k = 0;
    for (size_t n = 0; n < body.graph.nodes.size(); ++n) {
      if (!body.graph.nodes[n].isVariable()) continue;
      if (built.ids[n] == input) operands.push_back(body.operandOf[k]);
      ++k;
    }
  }
  return operands;
}

class FlowWriter {
 public:
  FlowWriter(const SketchNode &node, std::vector<Places> operands)
      : node(node), flow(*node.flow), operands(std::move(operands)) {}

  FlowSpec run() {
    switch (flow.form) {
      case SketchFlow::Form::Scan: writeLoop(); break;
      case SketchFlow::Form::While: writeWhile(); break;
      case SketchFlow::Form::Branch: writeBranch(); break;
      case SketchFlow::Form::Call: writeCall(); break;
    }
    return std::move(spec);
  }

 private:
  void set(StringRef key, std::string text) { spec.attrs.push_back({key.str(), std::move(text)}); }
  void set(StringRef key, size_t number) { set(key, std::to_string(number)); }

  size_t numStacked() const { return flow.stacked.size(); }

  // Each input is given to one input of the body, and the data say the length.
  bool isForeach() const {
    if (flow.isReverse || flow.hasCount || flow.hasLength) return false;
    Places sorted = operands[0];
    llvm::sort(sorted);
    for (size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != static_cast<int64_t>(i)) return false;
    return sorted.size() == node.inputs.size();
  }

  void writeLoop() {
    if (isForeach()) return writeForeach();
    spec.op = "_scan";
    set("num_args", node.inputs.size());
    set("num_data", flow.numData);
    set("num_states", flow.numStates);
    set("num_out_data", numStacked());
    set("has_steps", flow.hasCount ? "True" : "False");
    set("reverse", flow.isReverse ? "True" : "False");
    if (flow.hasLength) set("length", std::to_string(flow.length));
    Places places = operands[0];
    for (int64_t &at : places) at -= flow.hasCount;
    set("input_locs", listText(places));
  }

  void writeForeach() {
    spec.op = "_foreach";
    Places where(node.inputs.size());
    for (auto [i, operand] : enumerate(operands[0])) where[static_cast<size_t>(operand)] = static_cast<int64_t>(i);
    const auto states = where.begin() + flow.numData, others = states + flow.numStates;
    set("num_args", node.inputs.size() + 1);
    set("num_outputs", numStacked() + flow.numStates);
    set("num_out_data", numStacked());
    set("in_data_locs", listText(Places(where.begin(), states)));
    set("in_state_locs", listText(Places(states, others)));
    set("remain_locs", listText(Places(others, where.end())));
  }

  void writeWhile() {
    spec.op = "_while_loop";
    set("num_args", node.inputs.size() + 2);
    set("num_outputs", numStacked() + flow.numStates);
    set("num_out_data", numStacked());
    set("max_iterations", std::to_string(flow.length));
    set("cond_input_locs", listText(operands[0]));
    set("func_input_locs", listText(operands[1]));
    Places variables;
    for (uint32_t s = 0; s < flow.numStates; ++s)
      variables.push_back(find(operands[1], static_cast<int64_t>(s)) - operands[1].begin());
    set("func_var_locs", listText(variables));
  }

  void writeBranch() {
    spec.op = "_cond";
    set("num_args", node.inputs.size() + 3);
    set("num_outputs", flow.bodies[1].heads.size());
    set("cond_input_locs", listText(operands[0]));
    set("then_input_locs", listText(operands[1]));
    set("else_input_locs", listText(operands[2]));
  }

  void writeCall() {
    spec.op = "_call";
    set("num_args", node.inputs.size());
    set("num_outputs", flow.bodies[0].heads.size());
    set("input_locs", listText(operands[0]));
  }

  const SketchNode &node;
  const SketchFlow &flow;
  const std::vector<Places> operands;  // by body
  FlowSpec spec;
};

}  // namespace

bool hasFlows(const Sketch &sketch) {
  return any_of(sketch.nodes, [](const SketchNode &node) { return node.flow != nullptr; });
}

bool hasIntegersInside(const Sketch &sketch) {
  return any_of(sketch.nodes, [](const SketchNode &node) {
    return node.flow && any_of(node.flow->bodies, [](const SketchBody &body) {
             return hasIntegersInside(body.graph) || any_of(body.graph.nodes, [](const SketchNode &inner) {
                      return inner.isInteger || (inner.op == "Cast" && inner.count);
                    });
           });
  });
}

Expected<FlowSpec> describeFlow(const SketchNode &node, function_ref<Expected<SketchGraph>(const SketchBody &)> build) {
  std::vector<Graph> bodies;
  std::vector<Places> operands;
  for (const SketchBody &body : node.flow->bodies) {
    Expected<SketchGraph> built = build(body);
    if (!built) return built.takeError();
    bodies.push_back(built->graph);
    operands.push_back(operandsOf(body, *built));
  }
  FlowSpec spec = FlowWriter(node, std::move(operands)).run();
  spec.bodies = std::move(bodies);
  return spec;
}

}  // namespace gradc::testing
