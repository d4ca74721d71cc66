#include "tools/gradc/reference/shape_facts.h"

#include "tools/gradc/reference/missing_order.h"

#include "ir/base/error.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// Lengths of axes to try in turn; the last ones divide one another, which some operators require.
constexpr int64_t kLengths[][5] = {{2, 3, 4, 5, 6}, {2, 3, 12, 12, 12}, {2, 2, 2, 2, 2}};
constexpr size_t kRanks[] = {4, 3, 2, 1, 5};

class ShapeTrials {
 public:
  ShapeTrials(Context &context, const KindRef &kind, Graph graph)
      : context(context), kind(*kind), graph(std::move(graph)), node(this->kind.numInputs) {}

  std::string run() const {
    if (kind.numInputs == 0) return conclusion({});
    // Operands that differ show more than equal ones.
    if (kind.numInputs == 2)
      if (std::string text = conclusion({{2, 1, 4}, {3, 1}}); !text.empty()) return text;
    for (const auto &lengths : kLengths)
      for (const bool isOfAll : {false, true})
        for (const size_t rank : kRanks) {
          const DimsBuffer shape(lengths, lengths + rank);
          const std::vector<DimsBuffer> given(isOfAll ? kind.numInputs : 1, shape);
          if (std::string text = conclusion(given); !text.empty()) return text;
        }
    return "";
  }

 private:
  /// What follows if the first inputs have these shapes; empty if they are refused or leave a visible output open.
  std::string conclusion(ArrayRef<DimsBuffer> given) const {
    InferRequest request;
    for (uint32_t i = 0; i < given.size(); ++i) request.shapes.push_back({NodeId(i), given[i]});
    InferOptions partial;
    partial.allowUnknown = true;
    partial.unknownDim = UnknownDim::MinusOne;
    Expected<Inference> known = infer(context, graph, request, partial);
    if (!known) return consumeError(known.takeError()), "";
    std::vector<std::string> inputs, outputs;
    for (uint32_t i = 0; i < kind.numInputs; ++i) {
      const EntryId e = graph.entry(Value{NodeId(i)});
      if (known->isKnownShape(e)) inputs.push_back(inputName(kind, i) + " " + toString(known->shapeOf(e)));
    }
    for (uint32_t o = 0; o < kind.numVisible; ++o) {
      const EntryId e = graph.entry(Value{node, static_cast<uint16_t>(o), 0});
      if (!known->isKnownShape(e)) return "";
      outputs.push_back(toString(known->shapeOf(e)));
    }
    if (outputs.empty()) return "";
    std::string text = (inputs.empty() ? "" : join(inputs, ", ") + " → ") + join(outputs, ", ");
    std::vector<std::string> attrs;
    for (const AttrText &pair : kind.attrs.pairs()) attrs.push_back((pair.key + "=" + pair.value).str());
    return attrs.empty() ? text : text + ", for " + join(attrs, ", ");
  }

  Context &context;
  const NodeKind &kind;
  const Graph graph;
  const NodeId node;  // behind the variables
};

}  // namespace

std::string shapesText(Context &context, const OpDef &op) {
  if (op.flow) return "those that inference through its bodies gives";
  Expected<KindRef> kind = sampleKind(context, op);
  Expected<Graph> graph = kind ? sampleGraph(context, *kind) : kind.takeError();
  if (graph) return ShapeTrials(context, *kind, *graph).run();
  consumeError(graph.takeError());
  return "";
}

}  // namespace gradc
