// Whether one run of a recorded graph can have the forms of all its calls. Tested by
// tests/imperative/imperative_graph_test.cc
#include "imperative/plans/recorded_graph.h"

using namespace llvm;

namespace gradc {

Error checkForms(const Collected &collected, function_ref<std::string(const TapeNode &)> describe) {
  const TapeNode *first[2] = {};  // by form, of the calls that depend on it
  for (const TapeNode *node : collected.nodes()) {
    const TapeNode *&of = first[node->signature->isTraining];
    if (!of && node->signature->handle->readsForm) of = node;
  }
  if (!first[0] || !first[1]) return Error::success();
  return Failure(ErrorKind::UnsupportedOption, describe(*first[1]) + " ran in training form and " +
                                                   describe(*first[0]) +
                                                   " in predict form: a graph is run in one of them")
      .note("make a graph of each part, or record all of it in one form");
}

}  // namespace gradc
