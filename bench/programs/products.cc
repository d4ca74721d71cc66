// oneDNN's convolutions and products of a training step by themselves: products FILE THREADS NAME=D,D,… …
//
// FILE is a training graph, forward and gradients. Each convolution, each of its two gradients, and each product of
// matrices is timed as a primitive of oneDNN, for the shapes that the graph has, over operands in the formats that the
// primitive prefers, so without conversions. Of the ways that oneDNN offers, the fastest counts: formats of its choice,
// channels last, and, for gradients of convolutions, another convolution or a product. Prints one JSON object:
// `convolutions` and `products`, the sums of the medians in milliseconds, and `left`, the operators with products
// inside that are not timed (RNN). Started by bench/peers.py.
#include "bench/programs/network_file.h"
#include "ir/base/process_memory.h"
#include "ops/linear/batch_dot.h"
#include "ops/linear/dot.h"
#include "ops/spatial/convolution.h"
#include "ops/spatial/convolution_kernel.h"
#include "passes/order/requests.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/dnnl/dnnl_descs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <map>
#include <numeric>
#include <set>

using namespace llvm;
using dnnl::memory;

namespace gradc::bench {
namespace {

/// Runs at least three times, and for up to half a second. Milliseconds.
double medianOf(function_ref<void()> run) {
  run();
  std::vector<double> times;
  for (double total = 0; times.size() < 3 || (times.size() < 15 && total < 500); total += times.back()) {
    const double start = wallMs();
    run();
    times.push_back(wallMs() - start);
  }
  llvm::sort(times);
  return times[times.size() / 2];
}

memory filled(const memory::desc &desc) {
  memory made(desc, dnnlEngine());
  std::fill_n(static_cast<float *>(made.get_data_handle()), desc.get_size() / sizeof(float), 0.01f);
  return made;
}

/// The time of a primitive over newly allocated operands: pairs of an argument and its description.
double timeOf(const dnnl::primitive &primitive, const memory::desc &scratchpad,
              std::initializer_list<std::pair<int, memory::desc>> operands) {
  std::unordered_map<int, memory> arguments = {{DNNL_ARG_SCRATCHPAD, memory(scratchpad, dnnlEngine())}};
  for (const auto &[argument, desc] : operands) arguments.emplace(argument, filled(desc));
  dnnl::stream stream(dnnlEngine());
  return medianOf([&] {
    primitive.execute(stream, arguments);
    stream.wait();
  });
}

/// Two spatial axes, without bias.
struct Convolution {
  memory::dims x, w, y, stride, dilate, pad;

  explicit Convolution(const ConvGeometry &g)
      : x{g.in.batch, g.in.channels, g.in.extent[1], g.in.extent[2]},
        w{g.out.channels, g.groupChannels(), g.kernel[1], g.kernel[2]},
        y{g.out.batch, g.out.channels, g.out.extent[1], g.out.extent[2]}, stride{g.stride[1], g.stride[2]},
        dilate{g.dilate[1] - 1, g.dilate[2] - 1}, pad{g.pad[1], g.pad[2]} {
    if (g.groups > 1) w = {g.groups, g.groupFilters(), g.groupChannels(), g.kernel[1], g.kernel[2]};
  }
  bool hasUnitStride() const { return stride[0] == 1 && stride[1] == 1; }
  bool isGrouped() const { return w.size() == 5; }
};

using Forward = dnnl::convolution_forward;
constexpr dnnl::algorithm kAlgorithm = dnnl::algorithm::convolution_direct;

memory::desc imageDesc(const memory::dims &shape, memory::format_tag format) {
  return {shape, memory::data_type::f32, format};
}
memory::desc filterDesc(const Convolution &c) { return imageDesc(c.w, memory::format_tag::any); }

Forward::primitive_desc forwardDesc(const Convolution &c, memory::format_tag format) {
  return forwardDescOf<Forward>(dnnl::prop_kind::forward_training, kAlgorithm, imageDesc(c.x, format), filterDesc(c),
                                imageDesc(c.y, format), c.stride, c.dilate, c.pad, c.pad);
}

double forwardTime(const Convolution &c, memory::format_tag format) {
  const auto desc = forwardDesc(c, format);
  return timeOf(
      Forward(desc), desc.scratchpad_desc(),
      {{DNNL_ARG_SRC, desc.src_desc()}, {DNNL_ARG_WEIGHTS, desc.weights_desc()}, {DNNL_ARG_DST, desc.dst_desc()}});
}

template <class Backward>
typename Backward::primitive_desc gradientDesc(const Convolution &c, memory::format_tag format) {
  return backwardDescOf<Backward>(forwardDesc(c, format), kAlgorithm, imageDesc(c.x, format), filterDesc(c),
                                  imageDesc(c.y, format), c.stride, c.dilate, c.pad, c.pad);
}

double dataTime(const Convolution &c, memory::format_tag format) {
  using Backward = dnnl::convolution_backward_data;
  const auto desc = gradientDesc<Backward>(c, format);
  return timeOf(Backward(desc), desc.scratchpad_desc(),
                {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                 {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                 {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()}});
}

double weightTime(const Convolution &c, memory::format_tag format) {
  using Backward = dnnl::convolution_backward_weights;
  const auto desc = gradientDesc<Backward>(c, format);
  return timeOf(Backward(desc), desc.scratchpad_desc(),
                {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                 {DNNL_ARG_SRC, desc.src_desc()},
                 {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}});
}

/// The data gradient as a convolution of dy with the filters rotated by 180°, if there is one.
std::optional<Convolution> adjoint(Convolution c) {
  if (!c.hasUnitStride() || c.isGrouped()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) c.pad[i] = (c.dilate[i] + 1) * (c.w[2 + i] - 1) - c.pad[i];
  if (c.pad[0] < 0 || c.pad[1] < 0) return std::nullopt;
  std::swap(c.x, c.y);
  std::swap(c.w[0], c.w[1]);
  return c;
}

struct Product {
  int64_t batch, m, n, k;
  bool transA, transB;
};

memory::desc matrixDesc(int64_t batch, int64_t rows, int64_t columns, bool isTransposed) {
  const memory::dims strides =
      isTransposed ? memory::dims{rows * columns, 1, rows} : memory::dims{rows * columns, columns, 1};
  return {{batch, rows, columns}, memory::data_type::f32, strides};
}

/// oneDNN's sgemm; for a batch, its matmul.
double productTime(const Product &p) {
  if (p.batch > 1) {
    const memory::desc a = matrixDesc(p.batch, p.m, p.k, p.transA), b = matrixDesc(p.batch, p.k, p.n, p.transB);
    const memory::desc c = matrixDesc(p.batch, p.m, p.n, false);
    const auto desc = matmulDescOf(a, b, c, false);
    return timeOf(dnnl::matmul(desc), desc.scratchpad_desc(),
                  {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
  }
  const std::vector<float> a(static_cast<size_t>(p.m * p.k), 0.01f), b(static_cast<size_t>(p.k * p.n), 0.01f);
  std::vector<float> c(static_cast<size_t>(p.m * p.n), 0.01f);
  return medianOf([&] {
    dnnl::sgemm(p.transA ? 'T' : 'N', p.transB ? 'T' : 'N', p.m, p.n, p.k, 1.0f, a.data(), p.transA ? p.m : p.k,
                b.data(), p.transB ? p.k : p.n, 0.0f, c.data(), p.n);
  });
}

/// The fastest of the ways that oneDNN offers for this operation.
using Ways = std::vector<std::function<double()>>;
double fastestOf(const Ways &ways) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto &way : ways) guarded([&] { fastest = std::min(fastest, way()); });
  return fastest;
}

class Step {
 public:
  Step(const Graph &graph, const Inference &inference)
      : graph(graph), inference(inference), requests(countRequests(graph, {})) {
    for (NodeId n(0); n.value < graph.numNodes(); ++n.value)
      if (!graph.isVariable(n)) add(n);
  }

  void print(raw_ostream &out) {
    out << "{\"convolutions\": " << format("%.4f", convolutions) << ", \"products\": " << format("%.4f", products)
        << ", \"left\": [";
    ListSeparator comma;
    for (const std::string &name : left) out << comma << '"' << name << '"';
    out << "]}\n";
  }

 private:
  Dims in(NodeId n, size_t i) const { return inference.shapeOf(graph.entry(graph.inputs(n)[i])).dims(); }
  EntryId output(NodeId n, uint32_t o) const { return EntryId(graph.firstEntry(n).value + o); }
  Dims out(NodeId n, uint32_t o) const { return inference.shapeOf(output(n, o)).dims(); }
  bool wants(NodeId n, uint32_t o) const { return requests.request[output(n, o)] != Request::Null; }

  void add(NodeId n) {
    const StringRef name = graph.op(n)->name;
    if (name == "Convolution") return addConvolution(n, in(n, 0), out(n, 0), true, false, false);
    if (name == "_backward_Convolution") return addConvolution(n, in(n, 1), in(n, 0), false, wants(n, 0), wants(n, 1));
    if (name == "FullyConnected") return addDense(out(n, 0), in(n, 1), true, false, false);
    if (name == "_backward_FullyConnected") return addDense(in(n, 0), in(n, 2), false, wants(n, 0), wants(n, 1));
    if (name == "batch_dot") return addBatchDot(n);
    if (is_contained({"RNN", "_RNN_grad", "dot", "_backward_dot", "Deconvolution", "_backward_Deconvolution"}, name))
      left.insert(name.str());
  }

  void addConvolution(NodeId n, Dims x, Dims y, bool forward, bool data, bool weight) {
    const ConvGeometry g = convolutionGeometry(graph.kind(n), x, y);
    const Convolution c(g);
    const std::string key = keyOf({x, y, c.w, c.stride, c.dilate, c.pad});
    auto formats = [](auto time) {
      return Ways{[=] { return time(memory::format_tag::any); }, [=] { return time(memory::format_tag::nhwc); }};
    };
    if (forward) convolutions += timeOnce("y" + key, formats([=](auto f) { return forwardTime(c, f); }));
    if (data) {
      Ways ways = formats([=](auto f) { return dataTime(c, f); });
      if (const auto turned = adjoint(c)) append_range(ways, formats([=](auto f) { return forwardTime(*turned, f); }));
      convolutions += timeOnce("x" + key, ways);
    }
    if (!weight) return;
    Ways ways = formats([=](auto f) { return weightTime(c, f); });
    const bool isProduct = c.hasUnitStride() && !c.isGrouped() && c.w[2] * c.w[3] == 1 && c.pad[0] + c.pad[1] == 0;
    if (isProduct) {
      const Product product{1, g.out.channels, g.in.channels, g.out.batch * g.out.pixels(), true, false};
      ways.push_back([=] { return productTime(product); });
    }
    convolutions += timeOnce("w" + key, ways);
  }

  void addProduct(const Product &p) {
    const int64_t fields[] = {p.batch, p.m, p.n, p.k, p.transA, p.transB};
    products += timeOnce("p" + keyOf({ArrayRef(fields)}), {[=] { return productTime(p); }});
  }

  /// y (…, m), w (m, k).
  void addDense(Dims y, Dims w, bool forward, bool data, bool weight) {
    const int64_t units = w[0], inputs = w[1];
    const int64_t rows = std::accumulate(y.begin(), y.end(), int64_t{1}, std::multiplies<>()) / units;
    if (forward) addProduct({1, rows, units, inputs, false, true});
    if (data) addProduct({1, rows, inputs, units, false, false});
    if (weight) addProduct({1, units, inputs, rows, true, false});
  }

  void addBatchDot(NodeId n) {
    const DotTransposes t = batchDotTransposes(graph.kind(n));
    const Dims a = in(n, 0), y = out(n, 0);
    addProduct({y[0], y[1], y[2], a[t.a ? 1 : 2], t.a, t.b});
  }

  static std::string keyOf(std::initializer_list<ArrayRef<int64_t>> lists) {
    std::string key;
    for (ArrayRef<int64_t> list : lists)
      for (int64_t value : list) key += " " + std::to_string(value);
    return key;
  }

  double timeOnce(const std::string &key, const Ways &ways) {
    auto [at, isNew] = times.try_emplace(key, 0);
    if (isNew) at->second = fastestOf(ways);
    return at->second;
  }

  const Graph &graph;
  const Inference &inference;
  RequestTable requests;
  std::map<std::string, double> times;
  double convolutions = 0, products = 0;
  std::set<std::string> left;
};

void run(const char *path, unsigned threads, ArrayRef<char *> shapes) {
  Context context;
  const Graph graph = readNetwork(context, path);
  const Inference inference = cantFail(infer(context, graph, readShapes(graph, shapes), InferOptions()));
  withThreads(threads, [&] { Step(graph, inference).print(outs()); });
}

}  // namespace
}  // namespace gradc::bench

int main(int argc, char **argv) {
  if (argc < 3) {
    errs() << "usage: products FILE THREADS NAME=D,D,...\n";
    return 2;
  }
  gradc::keepFreedMemory();
  gradc::bench::run(argv[1], static_cast<unsigned>(std::atoi(argv[2])), ArrayRef(argv + 3, argv + argc));
}
