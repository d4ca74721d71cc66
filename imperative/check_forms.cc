// Whether one run of a recorded graph can have the forms of all its calls. Tested by tests/imperative_graph_test.cc
#include "imperative/recorded_graph.h"

#include "ops/builtin.h"
#include "ops/primitives.h"
#include "passes/targets/lower_to.h"

using namespace llvm;

namespace gradc {

Error checkForms(Context &context, const RecordedGraph &recorded, const Collected &collected,
                 function_ref<std::string(const TapeNode &)> describe) {
  const auto isTraining = [](const TapeNode *node) { return node->signature->isTraining; };
  if (all_of(collected.nodes(), isTraining) || none_of(collected.nodes(), isTraining)) return Error::success();
  Expected<Inference> known = infer(context, recorded.graph, {}, {});
  if (!known) return known.takeError();
  // What depends on the form decomposes to the operator that tells the forms apart.
  const std::map<const OpDef *, OperatorNeeds> needs = needsOf(context, recorded.graph, kNoTarget, &*known);
  const auto depends = [&](const OpDef &op) {
    const auto at = needs.find(&op);
    return !isBuiltinOp(op) || (at != needs.end() && at->second.operators.count(&kInTraining));
  };
  const TapeNode *first[2] = {};  // by form
  for (const TapeNode *node : collected.nodes()) {
    const TapeNode *&of = first[isTraining(node)];
    if (!of && depends(*node->signature->handle->op)) of = node;
  }
  if (!first[0] || !first[1]) return Error::success();
  return Failure(ErrorKind::UnsupportedOption, describe(*first[1]) + " ran in training form and " +
                                                   describe(*first[0]) +
                                                   " in predict form: a graph is run in one of them")
      .note("make a graph of each part, or record all of it in one form");
}

}  // namespace gradc
