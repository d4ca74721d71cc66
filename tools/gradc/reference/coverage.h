// Which operators of some networks are known, can run (fast or not) and can be differentiated, determined by trying
// each with the attributes it has there. Tested by tests/tools/cli_test.cc and testdata/cli.
#pragma once

#include "ir/graph/graph.h"

#include "llvm/Support/raw_ostream.h"

#include <map>

namespace gradc {

/// Orders of differentiation that are tried.
inline constexpr uint64_t kTriedOrders = 3;

struct OperatorCoverage {
  const OpDef *op = nullptr;
  uint64_t numNodes = 0, numNetworks = 0;
  bool isKnown = false;
  bool hasKernel = false;  // a reference kernel, or a fast one that needs none
  bool hasFastKernel = false;
  bool hasGradient = false;         // of order 1, or no gradient flows through it by definition
  bool hasGradientKernels = false;  // all operators of its gradient can run
  bool hasFastGradient = false;     // and all of them have fast kernels
  bool isConstant = false;          // no gradient flows through it
  uint64_t orders = kTriedOrders;   // the lowest over its attributes

  bool isComplete() const { return isKnown && hasKernel && hasGradient && hasGradientKernels; }
};

class Coverage {
 public:
  explicit Coverage(Context &context) : context(context) {}
  /// Counts the nodes of one network, those of sub-graphs included.
  void add(llvm::StringRef name, const Graph &graph);

  /// By number of nodes, descending, then by name.
  std::vector<OperatorCoverage> operators() const;
  bool isComplete() const;
  void printTable(llvm::raw_ostream &os) const;
  void printJson(llvm::raw_ostream &os) const;

 private:
  struct Network {
    std::string name;
    uint64_t numNodes, numMissing;
  };
  OperatorCoverage &rowOf(const KindRef &kind);

  Context &context;
  std::map<std::string, OperatorCoverage> rows;  // by operator name
  std::map<KindRef, OperatorCoverage *> byKind;
  std::vector<Network> networks;
};

}  // namespace gradc
