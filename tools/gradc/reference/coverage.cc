// Tested by tests/tools/cli_test.cc and testdata/cli.
#include "tools/gradc/reference/coverage.h"

#include "drawing/table.h"
#include "tools/gradc/reference/missing_order.h"

#include "ir/graph/bodies.h"
#include "runtime/kernels/table.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"

#include <set>

using namespace llvm;

namespace gradc {
namespace {

bool canRun(const OpDef &op) { return op.kernel || op.fastKernel; }
bool takesIntegers(const OperatorCoverage &row) { return row.op->kernelTypes.contains(DType::Int32); }

// Inspects what the gradient graph of a single node adds to it.
void inspectGradient(const Graph &gradient, const OpDef *ones, OperatorCoverage &row) {
  for (uint32_t n = 0; n < gradient.numNodes(); ++n) {
    const OpDef *op = gradient.op(NodeId(n));
    if (!op || !gradient.origin(NodeId(n)).isValid()) continue;
    const bool isFree = gradient.inputs(NodeId(n)).empty() || op == ones;
    if (!canRun(*op)) row.hasGradientKernels = false;
    if (!isFree && !findFastKernel(*op)) row.hasFastGradient = false;
  }
}

std::string kernelText(const OperatorCoverage &row) {
  if (!row.hasKernel) return "none";
  return takesIntegers(row) ? "float, int" : "float";
}

std::string fastText(const OperatorCoverage &row) {
  if (!row.hasFastKernel) return row.hasFastGradient ? "gradient" : "-";
  return row.hasFastGradient ? "both" : "forward";
}

std::string gradientText(const OperatorCoverage &row) {
  if (row.isConstant) return "nothing flows";
  if (!row.hasGradient) return "none";
  return row.hasGradientKernels ? "yes" : "cannot run";
}

struct Totals {
  uint64_t operators = 0, known = 0, kernels = 0, fast = 0, gradients = 0, nodes = 0, completeNodes = 0;
};

Totals totalsOf(ArrayRef<OperatorCoverage> rows) {
  Totals totals;
  for (const OperatorCoverage &row : rows) {
    ++totals.operators;
    totals.known += row.isKnown;
    totals.kernels += row.hasKernel;
    totals.fast += row.hasFastKernel;
    totals.gradients += row.hasGradient && row.hasGradientKernels;
    totals.nodes += row.numNodes;
    totals.completeNodes += row.isComplete() ? row.numNodes : 0;
  }
  return totals;
}

}  // namespace

OperatorCoverage &Coverage::rowOf(const KindRef &kind) {
  OperatorCoverage *&known = byKind[kind];
  if (known) return *known;
  const OpDef *op = kind->op;
  auto [at, isNew] = rows.insert({op->name.str(), OperatorCoverage()});
  OperatorCoverage &row = at->second;
  if (isNew) {
    row.op = op;
    row.isKnown = !op->flags.isOpaque;
    row.hasKernel = canRun(*op);
    row.hasFastKernel = findFastKernel(*op) != nullptr;
    row.isConstant = op->flags.hasNoGradient;
    row.hasGradient = row.hasGradientKernels = row.isKnown;
    row.hasFastGradient = row.isKnown && !row.isConstant;
  }
  ReachedOrder reached = reachedOrder(context, kind, kTriedOrders);
  row.orders = std::min(row.orders, reached.order);
  row.hasGradient &= reached.order > 0;
  row.hasFastGradient &= reached.gradient.has_value();
  if (reached.gradient) inspectGradient(*reached.gradient, context.ops.wellKnown.onesLike, row);
  return *(known = &row);
}

void Coverage::add(StringRef name, const Graph &root) {
  MapVector<KindRef, uint64_t, std::map<KindRef, unsigned>> counts;
  for (const NestedGraph &nested : nestedGraphs(root))
    for (uint32_t n = 0; n < nested.graph.numNodes(); ++n)
      if (!nested.graph.isVariable(NodeId(n))) ++counts[nested.graph.kindHandle(NodeId(n))];
  Network network{name.str(), 0, 0};
  std::set<const OpDef *> seen;
  for (const auto &[kind, count] : counts) {
    OperatorCoverage &row = rowOf(kind);
    row.numNodes += count;
    if (seen.insert(row.op).second) ++row.numNetworks;
    network.numNodes += count;
  }
  for (const auto &[kind, count] : counts)
    if (!rowOf(kind).isComplete()) network.numMissing += count;
  networks.push_back(network);
}

std::vector<OperatorCoverage> Coverage::operators() const {
  std::vector<OperatorCoverage> list;
  for (const auto &[name, row] : rows) list.push_back(row);
  llvm::stable_sort(list, [](const auto &a, const auto &b) { return a.numNodes > b.numNodes; });
  return list;
}

bool Coverage::isComplete() const {
  return llvm::all_of(rows, [](const auto &row) { return row.second.isComplete(); });
}

void Coverage::printTable(raw_ostream &os) const {
  TextTable table({"operator", "nodes", "networks", "known", "reference", "fast", "gradient",
                   "orders of " + std::to_string(kTriedOrders)});
  const std::vector<OperatorCoverage> list = operators();
  for (const OperatorCoverage &row : list)
    table.add({row.op->name.str(), std::to_string(row.numNodes), std::to_string(row.numNetworks),
               row.isKnown ? "yes" : "NO", kernelText(row), fastText(row), gradientText(row),
               row.isConstant ? "-" : std::to_string(row.orders)});
  table.print(os);
  for (const Network &network : networks)
    if (network.numMissing > 0)
      os << "\nincomplete: " << printable(network.name) << ", " << network.numMissing << " of "
         << countOf(network.numNodes, "node");
  const Totals t = totalsOf(list);
  os << '\n'
     << countOf(t.operators, "operator") << " in " << countOf(networks.size(), "network") << ": " << t.known
     << " known, " << t.kernels << " can run, " << t.fast << " have a fast kernel, " << t.gradients
     << " have a gradient that can run; " << t.completeNodes << " of " << countOf(t.nodes, "node") << " covered\n";
}

void Coverage::printJson(raw_ostream &os) const {
  const std::vector<OperatorCoverage> list = operators();
  const Totals t = totalsOf(list);
  json::OStream out(os, 1);
  out.object([&] {
    out.attributeArray("networks", [&] {
      for (const Network &network : networks)
        out.object([&] {
          out.attribute("name", json::fixUTF8(network.name));
          out.attribute("nodes", network.numNodes);
          out.attribute("incomplete_nodes", network.numMissing);
        });
    });
    out.attributeArray("operators", [&] {
      for (const OperatorCoverage &row : list)
        out.object([&] {
          out.attribute("name", json::fixUTF8(row.op->name));
          out.attribute("nodes", row.numNodes);
          out.attribute("networks", row.numNetworks);
          out.attribute("known", row.isKnown);
          out.attributeArray("reference", [&] {
            if (row.hasKernel) out.value("float");
            if (row.hasKernel && takesIntegers(row)) out.value("int");
          });
          out.attribute("fast", row.hasFastKernel);
          out.attribute("fast_gradient", row.hasFastGradient);
          out.attribute("gradient", row.hasGradient && row.hasGradientKernels);
          out.attribute("constant", row.isConstant);
          out.attribute("orders", row.orders);
        });
    });
    out.attributeObject("summary", [&] {
      out.attribute("operators", t.operators);
      out.attribute("known", t.known);
      out.attribute("reference", t.kernels);
      out.attribute("fast", t.fast);
      out.attribute("gradient", t.gradients);
      out.attribute("nodes", t.nodes);
      out.attribute("covered_nodes", t.completeNodes);
    });
  });
  os << '\n';
}

}  // namespace gradc
