// The deliberately naive interpreter with which every other way to run a graph is compared (RUN-02), and helpers that
// judge gradients by central differences (RUN-03). Every entry gets a separate buffer, full of NaN, so that elements
// that a kernel does not write are noticed. Nodes run their reference kernels in id order, in float64 unless requested
// otherwise. No requests, no sharing, no plan, and nothing of runtime/.
#pragma once

#include "ir/rules/kernel.h"
#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gradc::testing {

/// A tensor by value; integers are stored as the doubles nearest to them.
struct Array {
  DimsBuffer shape;
  std::vector<double> values;

  Array() = default;
  Array(double scalar) : values{scalar} {}
  Array(std::vector<double> list) : shape{static_cast<int64_t>(list.size())}, values(std::move(list)) {}
  Array(Dims dims, std::vector<double> list) : shape(dims.begin(), dims.end()), values(std::move(list)) {}
};
using Bindings = std::map<std::string, Array>;

struct NaiveOptions {
  DType floatAs = DType::Float64;
  bool keepsTypes = false;  // floatAs is the type of variables that nothing else determines; attributes keep theirs
  bool isTraining = true;
  uint64_t seed = 1;
  std::map<std::string, DType> types = {};  // of variables, by name
};

/// Shapes of the bindings as hints for inference.
InferRequest hintsOf(const Graph &graph, const Bindings &bindings);

class NaiveRun {
 public:
  /// Infers and runs; every variable some node reads must be bound, and every entry must become known.
  static llvm::Expected<NaiveRun> run(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);

  Array value(Value v) const { return read(graph.entry(v)); }
  std::vector<Array> heads() const;
  /// The largest finite magnitude among `v` and all values it is computed from: rounding errors are in proportion to
  /// that, even if much of it cancels out in v.
  double magnitudeBehind(Value v) const;
  const Inference &inference() const { return inferred; }

  /// The call as it was made for a node: its operands are this run's buffers.
  struct Call {
    KernelCall call;
    std::vector<TensorRef> in, out;
    std::vector<Request> requests;
    std::vector<std::shared_ptr<BodyRunner>> bodies;
    std::vector<BodyRunner *> runners;
  };
  void prepare(NodeId n, Call &call);

 private:
  friend class NaiveBody;

  explicit NaiveRun(const Graph &graph) : graph(graph), ordinals(graph, 0) {}
  void prepareBodies(NodeId n, Call &call);
  llvm::Error bind(const Bindings &bindings, bool isWhole = true);  // a body gets its inputs at each step
  llvm::Error checkShapes(NodeId n) const;
  llvm::Error execute();
  TensorRef tensor(EntryId e);
  Array read(EntryId e) const;

  Graph graph;
  NaiveOptions options;
  Inference inferred;                             // for a body, that of the graph around it
  NodeMap<uint64_t> ordinals;                     // of random forward nodes
  std::vector<std::vector<uint64_t>> buffers;     // by entry, in words so that any type is aligned
  std::vector<std::vector<uint64_t>> workspaces;  // by node
};

void storeArray(const TensorRef &to, llvm::ArrayRef<double> values);
Array loadArray(const TensorRef &from);

/// Head values; stops the test program on an error, which is a mistake in the test or the failure it is meant to show.
std::vector<Array> evaluate(const Graph &graph, const Bindings &bindings);

/// A request for the gradients of the variables (or entries, "s:1") named.
GradientRequest wrt(const Graph &graph, llvm::ArrayRef<llvm::StringRef> names);
/// Only the gradients of the graph's heads, by the default options; stops the test program on an error.
GradientResult gradientOf(Context &context, const Graph &graph, llvm::ArrayRef<llvm::StringRef> names, uint32_t order);
/// The gradients' values, in the order of the names.
std::vector<Array> gradientValues(Context &context, const Graph &graph, llvm::ArrayRef<llvm::StringRef> names,
                                  const Bindings &bindings, uint32_t order);

}  // namespace gradc::testing
