// Training steps on the tape: tape_step FILE THREADS STEPS NAME=D,D,… …
//
// The operators of a symbol file are called one by one under RecordScope, differentiated by `backward`, and each
// parameter takes a step of SGD with momentum. The named variables, with their shapes, are not trained. Prints one JSON
// object as bench/peer_process.py does: `steps`, milliseconds of each, the first included; `processor`, the processor
// time of each; `memory`, the growth of resident memory, without mapped files, from before the network was made to the
// highest mark, in bytes. Started by bench/peers.py.
#include "bench/programs/network_file.h"
#include "imperative/imperative.h"
#include "ir/base/process_memory.h"
#include "runtime/session/initial_values.h"

#include "llvm/Support/raw_ostream.h"

#include <ctime>
#include <fstream>

using namespace llvm;

namespace gradc::bench {
namespace {

double processorMs() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

/// A line of /proc/self/status such as VmRSS, in bytes.
long statusBytes(const std::string &key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key + ":", 0) == 0) return std::atol(line.c_str() + key.size() + 1) * 1024;
  return 0;
}

class Network {
 public:
  Network(Context &context, const Graph &graph, const InferRequest &inputs, unsigned threads)
      : graph(graph), im(context, makeOptions(threads)), values(graph.numNodes()) {
    const Inference inference = cantFail(infer(context, graph, inputs, InferOptions()));
    const Initializer initializer(graph, inference, 1);
    std::vector<bool> isTrained(graph.numNodes());
    for (NodeId n : listInputs(graph).args) isTrained[n.value] = true;
    for (const ShapeHint &hint : inputs.shapes) isTrained[hint.variable.value] = false;
    for (NodeId n(0); n.value < graph.numNodes(); ++n.value) {
      if (!graph.isVariable(n)) continue;
      const EntryId entry = graph.firstEntry(n);
      Tensor variable = cantFail(im.make(inference.shapeOf(entry).dims(), inference.dtype[entry]));
      initializer.fill(n, variable.ref());
      values[n.value] = {variable};
      if (!isTrained[n.value]) continue;
      cantFail(im.mark(variable, Request::Write));
      trained.push_back({variable, im.zeros(variable.ref().shape, variable.ref().dtype)});
    }
    for (const KindRef &kind : graph.kinds()) kinds.push_back(cantFail(im.kind(kind)));
    update = cantFail(im.kind("sgd_mom_update", {{"lr", "0.01"}, {"momentum", "0.9"}}));
  }

  void step() {
    TensorList heads = forward();
    cantFail(im.backward(heads, BackwardOptions()));
    NoGradScope quiet(im);
    for (const auto &[weight, momentum] : trained)
      cantFail(im.callInto(update, {weight, weight.grad(), momentum}, {weight}));
  }

 private:
  static ImperativeOptions makeOptions(unsigned threads) {
    ImperativeOptions options;
    options.threads = threads;
    return options;
  }

  TensorList forward() {
    RecordScope record(im, {.isTraining = true});
    std::vector<TensorList> results = values;
    for (NodeId n(0); n.value < graph.numNodes(); ++n.value) {
      if (graph.isVariable(n)) continue;
      SmallVector<Tensor, 8> operands;
      for (Value v : graph.inputs(n)) operands.push_back(results[v.node.value][v.index]);
      results[n.value] = cantFail(im.callAll(kinds[graph.kindId(n).value], operands));
    }
    TensorList heads;
    for (Value v : graph.heads()) heads.push_back(results[v.node.value][v.index]);
    return heads;
  }

  const Graph &graph;
  Imperative im;
  std::vector<TensorList> values;  // of variables
  std::vector<std::pair<Tensor, Tensor>> trained;
  std::vector<Kind> kinds;  // by the graph's
  Kind update;
};

void run(const char *path, unsigned threads, int numSteps, ArrayRef<char *> inputs) {
  Context context;
  const Graph graph = readNetwork(context, path);
  const long before = statusBytes("VmRSS") - statusBytes("RssFile");
  Network network(context, graph, readShapes(graph, inputs), threads);
  std::string steps, processor;
  raw_string_ostream stepTimes(steps), processorTimes(processor);
  for (int i = 0; i < numSteps; ++i) {
    const double start = wallMs(), processorStart = processorMs();
    network.step();
    stepTimes << (i ? ", " : "") << format("%.4f", wallMs() - start);
    processorTimes << (i ? ", " : "") << format("%.4f", processorMs() - processorStart);
  }
  outs() << "{\"steps\": [" << stepTimes.str() << "], \"processor\": [" << processorTimes.str()
         << "], \"memory\": " << statusBytes("VmHWM") - statusBytes("RssFile") - before << "}\n";
}

}  // namespace
}  // namespace gradc::bench

int main(int argc, char **argv) {
  if (argc < 4) {
    errs() << "usage: tape_step FILE THREADS STEPS NAME=D,D,...\n";
    return 2;
  }
  gradc::keepFreedMemory();
  gradc::bench::run(argv[1], static_cast<unsigned>(std::atoi(argv[2])), std::atoi(argv[3]),
                    ArrayRef(argv + 4, argv + argc));
}
