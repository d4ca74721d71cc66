// What calls keep: exactly what the gradients of their tracked inputs read, for every sample and every set of tracked
// inputs. The judge is the value of the gradient: it changes with a kept value, and runs without the others.
#include "imperative/engine.h"
#include "tests/conformance_samples/samples.h"
#include "tests/support/ops/conformance.h"
#include "tests/support/runs/imperative.h"
#include "tests/support/runs/imperative_arrays.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <cstring>
#include <map>

using namespace llvm;

namespace gradc::testing {
namespace {

/// Values that are kept although no number of the gradient depends on them, and why.
constexpr StringRef kOneLoop = "the kernels of these gradients read both operands in one loop",
                    kBehindRelu = "the fast kernel of this gradient, behind that of a relu, computes the relu again",
                    kSmall = "small weights", kRule = "its decomposition names the operand for its shape",
                    kLengths = "padded labels of the samples are of full length";
const std::pair<StringRef, StringRef> kMore[] = {
    {"BatchNorm, tracked 2, keeps input 1", kBehindRelu},   {"BatchNorm, tracked 4, keeps input 0", kBehindRelu},
    {"BatchNorm, tracked 4, keeps input 1", kBehindRelu},   {"BatchNorm, tracked 4, keeps output 1", kBehindRelu},
    {"BatchNorm, tracked 4, keeps output 2", kBehindRelu},  {"BatchNorm, tracked 6, keeps input 1", kBehindRelu},
    {"CTCLoss, tracked 1, keeps input 3", kLengths},        {"LeakyReLU, tracked 2, keeps input 1", kSmall},
    {"UpSampling, tracked 1, keeps input 0", kSmall},       {"UpSampling, tracked 2, keeps input 1", kSmall},
    {"_ctc_loss_grad, tracked 1, keeps input 1", kLengths}, {"_mod, tracked 1, keeps input 0", kOneLoop},
    {"_mod, tracked 1, keeps input 1", kOneLoop},           {"_mod_scalar, tracked 1, keeps input 0", kOneLoop},
    {"_npi_ldexp, tracked 1, keeps input 0", kOneLoop},     {"_npi_ldexp_scalar, tracked 1, keeps input 0", kOneLoop},
    {"broadcast_mod, tracked 1, keeps input 0", kOneLoop},  {"broadcast_mod, tracked 1, keeps input 1", kOneLoop},
    {"khatri_rao, tracked 1, keeps input 0", kRule},        {"khatri_rao, tracked 2, keeps input 1", kRule},
    {"khatri_rao, tracked 4, keeps input 2", kRule},
};

std::vector<char> bitsOf(const std::vector<Tensor> &tensors) {
  std::vector<char> bits;
  for (const Tensor &tensor : tensors) {
    bits.push_back(static_cast<bool>(tensor));
    if (!tensor) continue;
    const char *const data = static_cast<const char *>(tensor.ref().data);
    bits.insert(bits.end(), data, data + tensor.ref().bytes());
  }
  return bits;
}

class KeptOfSample {
 public:
  KeptOfSample(const Sample &sample, Backend backend, DType type)
      : sample(sample), start(context, sample), backend(backend), type(type) {}

  void run(std::map<std::string, bool> &isRead, size_t &numKept) {
    const NodeKind &kind = start.graph.kind(start.node);
    if (start.variables.empty() || kind.op->flags.isStep || kind.flow) return;
    InferOptions types;
    types.floatAs = type;
    inference = cantFail(infer(context, start.graph, hintsOf(start.graph, start.bindings), types));
    const size_t count = std::min<size_t>(start.graph.inputs(start.node).size(), 5);
    for (uint32_t mask = 1; mask < 1u << count; ++mask) runMask(mask, isRead, numKept);
  }

 private:
  void runMask(uint32_t mask, std::map<std::string, bool> &isRead, size_t &numKept) {
    ImperativeOptions options;
    options.backend = backend;
    SCOPED_TRACE("tracked inputs " + std::to_string(mask));
    Imperative im(context, options);
    std::vector<Tensor> inputs, xs;
    const StringSet<> wanted(start.variables);
    for (auto [i, v] : enumerate(start.graph.inputs(start.node))) {
      const StringRef name = start.graph.name(v.node);
      const DType known = inference.dtype[start.graph.entry(v)];
      inputs.push_back(tensorOf(im, start.bindings.at(name.str()), known == DType::Unknown ? type : known));
      if (i >= 32 || !(mask >> i & 1)) continue;
      if (!wanted.contains(name) || !isFloating(inputs.back().dtype())) return;
      cantFail(im.requireGrad(inputs.back()));
      xs.push_back(inputs.back());
    }
    std::optional<TrainScope> training;
    if (sample.isTraining) training.emplace(im);
    Expected<TensorList> outputs = im.callAll(cantFail(im.kind(start.graph.kindHandle(start.node))), inputs);
    if (!outputs) return ADD_FAILURE() << toString(outputs.takeError()), void();
    std::vector<Tensor> ys;
    for (const Tensor &output : *outputs)
      if (output.isTracked()) ys.push_back(output);
    if (ys.empty()) return;
    check(im, ys, xs, mask, isRead, numKept);
  }

  void check(Imperative &im, const std::vector<Tensor> &ys, const std::vector<Tensor> &xs, uint32_t mask,
             std::map<std::string, bool> &isRead, size_t &numKept) {
    const std::vector<char> right = gradients(im, ys, xs);
    EXPECT_EQ(StringRef(right.data(), right.size()).find("a gradient reads"), StringRef::npos);
    EXPECT_FALSE(static_cast<bool>(im.grad(ys, xs, {.retain = true, .unused = UnusedPolicy::None}).takeError()));
    TapeNode &node = *ys[0].get()->producer;
    for (auto [k, kept] : enumerate(node.kept())) {
      ++numKept;
      if (!kept.storage || kept.storage->bytes == 0) continue;
      const KeptOperand operand = node.signature->kept[k];
      const bool isInput = node.signature->isInput(operand);
      const DType type = isInput ? node.signature->inputs[operand].dtype
                                 : node.signature->outputs[operand - node.signature->numInputs()].type.dtype;
      const bool isNumber = isInput && isWholeNumber(domainOf(*node.signature->called, operand));
      const std::string what = node.signature->called->op->name.str() + ", tracked " + std::to_string(mask) +
                               ", keeps " + (isInput ? "input " : "output ") +
                               std::to_string(isInput ? operand : operand - node.signature->numInputs());
      bool &isKnown = isRead[what];
      isKnown = isKnown || changes(im, ys, xs, *kept.storage, type, isNumber, right);
    }
  }

  /// Whether gradients change with the contents.
  bool changes(Imperative &im, const std::vector<Tensor> &ys, const std::vector<Tensor> &xs, Storage &storage,
               DType type, bool isNumber, const std::vector<char> &right) {
    const std::vector<char> before(storage.data, storage.data + storage.bytes);
    bool isChanged = false;
    for (double value : isNumber ? std::vector<double>{0, 1} : std::vector<double>{0, 1.375, -0.625, 40, NAN}) {
      if (type == DType::Float64) std::fill_n(reinterpret_cast<double *>(storage.data), storage.bytes / 8, value);
      else if (type == DType::Float32)
        std::fill_n(reinterpret_cast<float *>(storage.data), storage.bytes / 4, static_cast<float>(value));
      else std::memset(storage.data, value != 0, storage.bytes);
      isChanged |= gradients(im, ys, xs) != right;
      std::memcpy(storage.data, before.data(), before.size());
      if (isChanged) break;
    }
    return isChanged;
  }

  /// Of three orders, as far as there are any, with head gradients of different numbers.
  std::vector<char> gradients(Imperative &im, std::vector<Tensor> ys, const std::vector<Tensor> &xs) {
    std::vector<char> all;
    for (unsigned order = 1; order <= std::min(std::max(sample.orders, 1u), 3u) && !ys.empty(); ++order) {
      GradOptions options{.retain = true, .unused = UnusedPolicy::None};
      double next = 0.5;
      for (const Tensor &y : ys) {
        Tensor head = cantFail(im.make(y.shape(), y.dtype()));
        for (int64_t i = 0; i < head.size(); ++i, next = 1.75 - next * 0.75)
          if (head.dtype() == DType::Float64) head.data<double>()[i] = next;
          else if (head.dtype() == DType::Float32) head.data<float>()[i] = static_cast<float>(next);
        options.heads.push_back(head);
      }
      std::vector<Tensor> recorded;
      for (bool createGraph : {false, true}) {
        options.createGraph = createGraph;
        Expected<std::vector<Tensor>> found = im.grad(ys, xs, options);
        if (!found) {  // of indices out of range, for example
          const std::string text = toString(found.takeError());
          all.insert(all.end(), text.begin(), text.end());
          return all;
        }
        llvm::append_range(all, bitsOf(*found));
        recorded = std::move(*found);
      }
      ys.clear();
      for (const Tensor &gradient : recorded)
        if (gradient && gradient.isTracked()) ys.push_back(gradient);
    }
    return all;
  }

  const Sample &sample;
  TestContext context;
  const SampleGraph start;
  const Backend backend;
  const DType type;
  Inference inference;
};

class ImperativeKeeps : public ::testing::TestWithParam<std::pair<Backend, DType>> {};
INSTANTIATE_TEST_SUITE_P(Backends, ImperativeKeeps,
                         ::testing::Values(std::pair(Backend::Reference, DType::Float64),
                                           std::pair(Backend::Auto, DType::Float64),
                                           std::pair(Backend::Auto, DType::Float32)));

TEST_P(ImperativeKeeps, RC_04_EverySampleForEverySetOfTrackedInputs) {
  std::map<std::string, bool> isRead;  // of a kept value, in some sample
  size_t numKept = 0;
  for (const Sample &sample : allSamples()) {
    SCOPED_TRACE((Twine(sample.op) + " " + sample.attrs).str());
    KeptOfSample(sample, GetParam().first, GetParam().second).run(isRead, numKept);
  }
  for (const auto &[what, isNeeded] : isRead) {
    const bool isListed = any_of(kMore, [name = StringRef(what)](const auto &more) { return name == more.first; });
    EXPECT_TRUE(isNeeded || isListed) << what;
  }
  EXPECT_GT(numKept, 1000u);
}

// ---- the same as programs

TEST(ImperativeKept, RC_04_LayersWithFrozenWeights) {
  for (StringRef op : {"FullyConnected", "dot", "broadcast_mul"}) {
    Tape t;
    const std::vector<AttrText> attrs = op == "FullyConnected"
                                            ? std::vector<AttrText>{{"num_hidden", "8"}, {"no_bias", "True"}}
                                            : std::vector<AttrText>{};
    const Tensor x = t.leaf({16, 8}, Doubles(128, 0.5));
    const Tensor w = op == "broadcast_mul" ? t.value({1, 8}, Doubles(8, 0.5)) : t.value({8, 8}, Doubles(64, 0.5));
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = t(op, {y, w}, attrs);
    EXPECT_EQ(t.im.memoryStats().pool.keptBytes, Store::footprint(*w.get()->storage)) << op.str();
    t.backward({y});
    EXPECT_EQ(t.gradOf(x).size(), 128u);
  }
}

// The first layer of a network: its gradient reads the data alone, so that a step may be taken before it.
TEST(ImperativeKept, TA_34_AWriteToTheWeightOfTheFirstLayer) {
  struct Layer {
    const char *op;
    std::vector<AttrText> attrs;
    std::vector<int64_t> data, weight;
  };
  for (const Layer &layer :
       {Layer{"dot", {}, {2, 3}, {3, 2}},
        Layer{"FullyConnected", {{"num_hidden", "2"}, {"no_bias", "True"}}, {2, 3}, {2, 3}},
        Layer{"broadcast_mul", {}, {2, 3}, {1, 3}},
        Layer{
            "Convolution", {{"kernel", "(1,1)"}, {"num_filter", "2"}, {"no_bias", "True"}}, {1, 3, 2, 2}, {2, 3, 1, 1}},
        Layer{"Deconvolution",
              {{"kernel", "(1,1)"}, {"num_filter", "2"}, {"no_bias", "True"}},
              {1, 3, 2, 2},
              {3, 2, 1, 1}}})
    for (bool createGraph : {false, true}) {
      auto sizeOf = [](const std::vector<int64_t> &dims) {
        size_t size = 1;
        for (int64_t dim : dims) size *= static_cast<size_t>(dim);
        return size;
      };
      Tape t;
      const Tensor x = t.value(layer.data, Doubles(sizeOf(layer.data), 2)),
                   w = t.leaf(layer.weight, Doubles(sizeOf(layer.weight), 1));
      const Tensor y = t(layer.op, {x, w}, layer.attrs), before = t.grad({y}, {w}, {.retain = true})[0];
      {
        NoGradScope quiet(t.im);
        cantFail(t.into("_mul_scalar", {w}, {w}, {{"scalar", "0.5"}}));
      }
      EXPECT_EQ(doublesOf(t.grad({y}, {w}, {.createGraph = createGraph})[0]), doublesOf(before)) << layer.op;
    }
}

// a = exp(x) is overwritten. Its own gradient reads the old value, what was computed of it later the new one.
TEST(ImperativeKept, XS_10_OnlyWhatRequestedGradientsReadMayNotBeStale) {
  for (bool createGraph : {false, true}) {
    Tape t;
    const Tensor x = t.leaf(2.5), w = t.leaf(2), a = t("exp", {x});
    {
      NoGradScope quiet(t.im);
      cantFail(t.into("_mul_scalar", {a}, {a}, {{"scalar", "0.5"}}));
    }
    const Tensor z = t.mul(a, w);
    GradOptions asked{.retain = true, .createGraph = createGraph};
    EXPECT_DOUBLE_EQ(scalar(t.grad({z}, {w}, asked)[0]), std::exp(2.5) / 2);
    EXPECT_EQ(scalar(t.grad({z}, {a}, asked)[0]), 2);
    EXPECT_DOUBLE_EQ(scalar(t.grad({t("square", {a})}, {a}, asked)[0]), std::exp(2.5));
    for (const OwnedTensors &xs : {OwnedTensors(x), OwnedTensors({x, w})})
      EXPECT_EQ(t.rowOf(t.im.grad({z}, xs, asked)), "E-31");
    EXPECT_EQ(t.rowOf(t.im.backward({z}, {.retain = true, .createGraph = createGraph})), "E-31");
    t.backward({z}, {.createGraph = createGraph, .inputs = Tensors(w)});
    EXPECT_DOUBLE_EQ(scalar(w.grad()), std::exp(2.5) / 2);
  }
}

}  // namespace
}  // namespace gradc::testing
