// Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/flow_donors.h"

using namespace llvm;

namespace gradc::fuzz {
namespace {

struct BodyNode {
  StringRef op;
  std::vector<SketchEntry> inputs;
  AttrList attrs = {};
  std::vector<std::string> subgraphs = {};
};

/// Inputs come first, so that node i of the body is input i, or node i - numInputs of `nodes`.
std::string body(size_t numInputs, std::vector<BodyNode> nodes, std::vector<SketchEntry> heads) {
  GraphSketch sketch;
  for (size_t i = 0; i < numInputs; ++i) sketch.nodes.push_back({.op = "null", .name = "in" + std::to_string(i)});
  for (BodyNode &node : nodes)
    sketch.nodes.push_back({.op = node.op.str(),
                            .name = "n" + std::to_string(sketch.nodes.size()),
                            .attrs = std::move(node.attrs),
                            .inputs = std::move(node.inputs),
                            .subgraphs = std::move(node.subgraphs)});
  sketch.heads = std::move(heads);
  return printSketch(sketch);
}

/// Variables of these shapes, a node that is given all of them, and a head for each of its outputs.
GraphSketch around(StringRef op, std::vector<std::vector<int64_t>> shapes, AttrList attrs,
                   std::vector<std::string> bodies, int64_t numOutputs) {
  GraphSketch sketch;
  SketchNode node{.op = op.str(), .name = "flow", .attrs = std::move(attrs), .subgraphs = std::move(bodies)};
  for (size_t i = 0; i < shapes.size(); ++i) {
    sketch.nodes.push_back(variable("x" + std::to_string(i), shapes[i]));
    node.inputs.push_back({static_cast<int64_t>(i)});
  }
  for (int64_t o = 0; o < numOutputs; ++o) sketch.heads.push_back({static_cast<int64_t>(shapes.size()), o});
  sketch.nodes.push_back(std::move(node));
  sketch.setAttr("mxnet_version", "[\"int\", 20000]");
  return sketch;
}

AttrList foreachAttrs() {
  return {{"num_args", "4"},        {"num_outputs", "2"},      {"num_out_data", "1"},
          {"in_data_locs", "(0,)"}, {"in_state_locs", "(1,)"}, {"remain_locs", "(2,)"}};
}

AttrList scanAttrs(StringRef numArgs) {
  return {{"num_args", numArgs.str()}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "1"}};
}

AttrList condAttrs(StringRef numArgs) {
  return {{"num_args", numArgs.str()},
          {"num_outputs", "1"},
          {"cond_input_locs", "(0,)"},
          {"then_input_locs", "(1,)"},
          {"else_input_locs", "(2,)"}};
}

AttrList with(AttrList attrs, AttrList more) {
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

/// out = x · s + f, which is the next state as well.
std::string step() { return body(3, {{"elemwise_mul", {{0}, {1}}}, {"elemwise_add", {{3}, {2}}}}, {{4}, {4}}); }
std::string two() { return body(2, {{"elemwise_mul", {{0}, {1}}}, {"tanh", {{2}}}}, {{2}, {3}}); }
std::string decision() { return body(1, {{"_greater_scalar", {{0}}, {{"scalar", "0.5"}}}}, {{1}}); }
std::string square() { return body(1, {{"square", {{0}}}}, {{1}}); }
std::string sine() { return body(1, {{"sin", {{0}}}, {"BlockGrad", {{1}}}, {"elemwise_add", {{1}, {2}}}}, {{3}}); }

/// What a step overwrites, and what it draws.
std::string layers() {
  return body(5,
              {{"BatchNorm", {{0}, {1}, {2}, {3}, {4}}, {{"fix_gamma", "False"}}}, {"Dropout", {{5}}, {{"p", "0.5"}}}},
              {{6}});
}

GraphSketch whileDonor() {
  const std::string holds = body(1, {{"_lesser_scalar", {{0}}, {{"scalar", "3"}}}}, {{1}}),
                    grow = body(3, {{"_plus_scalar", {{0}}, {{"scalar", "1"}}}, {"elemwise_mul", {{1}, {2}}}},
                                {{3}, {3}, {4}});
  return around("_while_loop", {{1}, {2}, {2}},
                {{"num_args", "5"},
                 {"num_outputs", "3"},
                 {"num_out_data", "1"},
                 {"max_iterations", "5"},
                 {"cond_input_locs", "(0,)"},
                 {"func_input_locs", "(0,1,2)"},
                 {"func_var_locs", "(0,1)"}},
                {holds, grow}, 3);
}

/// Steps of a loop that take a branch, and a call of a loop.
std::vector<GraphSketch> nestedDonors() {
  const std::string choosing = body(3,
                                    {{"sum", {{0}}},
                                     {"_cond", {{3}, {0}, {1}}, condAttrs("6"), {decision(), square(), sine()}},
                                     {"elemwise_add", {{4}, {2}}}},
                                    {{4}, {5}});
  const std::string looping = body(3, {{"_foreach", {{0}, {1}, {2}}, foreachAttrs(), {step()}}}, {{3, 0}, {3, 1}});
  return {around("_foreach", {{3, 2}, {2}, {2}}, foreachAttrs(), {choosing}, 2),
          around("_call", {{2, 3}, {3}, {3}}, {{"num_args", "3"}, {"num_outputs", "2"}}, {looping}, 2)};
}

}  // namespace

std::vector<GraphSketch> flowDonors() {
  std::vector<GraphSketch> donors = {
      around("_foreach", {{3, 2}, {2}, {2}}, foreachAttrs(), {step()}, 2),
      around("_foreach", {{0, 2}, {2}, {2}}, foreachAttrs(), {step()}, 2),
      around("_scan", {{3, 2}, {2}, {2}}, with(scanAttrs("3"), {{"reverse", "True"}}), {step()}, 2),
      around("_scan", {{3, 2}, {2}}, with(scanAttrs("2"), {{"zero_states", "(0,)"}}), {two()}, 2),
      around("_cond", {{1}, {2, 2}, {2, 2}}, condAttrs("6"), {decision(), square(), sine()}, 1),
      around("_call", {{2}, {2}}, {{"num_args", "2"}, {"num_outputs", "2"}}, {two()}, 2),
      around("_call", {{2, 3}, {3}, {3}, {3}, {3}}, {{"num_args", "5"}, {"num_outputs", "1"}}, {layers()}, 1),
      around("_foreach", {{2, 2, 3}, {3}, {3}, {3}, {3}},
             {{"num_args", "6"},
              {"num_outputs", "1"},
              {"num_out_data", "1"},
              {"in_data_locs", "(0,)"},
              {"in_state_locs", "()"},
              {"remain_locs", "(1,2,3,4)"}},
             {layers()}, 1),
      whileDonor(),
  };
  for (GraphSketch &donor : nestedDonors()) donors.push_back(std::move(donor));
  return donors;
}

}  // namespace gradc::fuzz
