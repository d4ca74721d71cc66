// The checks of the conformance suite. Tested by tests/ops/conformance_test.cc
#include "tests/support/ops/conformance.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace gradc::testing {
namespace {

double drawFrom(const Sample &sample, Domain domain, uint64_t stream, uint64_t index) {
  const double unit = RandomKey{5, stream, 1}.uniform(index);
  if (domain == Domain::ClassIndex) return std::floor(unit * sample.classes);
  // Ends outside the axis are requested as a range.
  if (domain == Domain::Index)
    return std::floor(sample.high > sample.low ? sample.low + unit * (sample.high - sample.low)
                                               : unit * sample.classes);
  if (sample.high > sample.low) return sample.low + unit * (sample.high - sample.low);
  if (domain == Domain::Positive) return 0.4 + 1.2 * unit;
  if (domain == Domain::Probability) return 0.05 + 0.9 * unit;
  if (domain == Domain::WithinOne) return 1.8 * unit - 0.9;
  if (domain == Domain::AboveOne) return 1.1 + unit;
  return drawNumber(stream, index);
}

std::string place(const Graph &graph, NodeId n, size_t output) {
  return graph.describe(n) + " output " + std::to_string(output);
}

// Whether a node draws random numbers: its decomposition then draws others.
bool draws(const Graph &graph, NodeId n, const NaiveRun &run, const Bindings &bindings, NaiveOptions options) {
  if (!graph.op(n)->flags.isRandom) return false;
  options.seed += 1;
  Expected<NaiveRun> other = NaiveRun::run(graph, bindings, options);
  if (!other) return consumeError(other.takeError()), true;
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
    if (run.value(Value{n, static_cast<uint16_t>(o)}).values != other->value(Value{n, static_cast<uint16_t>(o)}).values)
      return true;
  return false;
}

// Runs `check` on every node that is an operator, after the whole graph ran.
template <class F>
Findings forNodes(const Graph &graph, const Bindings &bindings, const NaiveOptions &options, F check) {
  Findings found;
  Expected<NaiveRun> run = NaiveRun::run(graph, bindings, options);
  if (!run) return {{describeError(run.takeError())}};
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.op(NodeId(n)) && graph.kind(NodeId(n)).mutated.isEmpty()) check(*run, NodeId(n), found);
  return found;
}

}  // namespace

std::string print(const Array &array) {
  std::string text = "[";
  for (size_t i = 0; i < std::min<size_t>(array.values.size(), 8); ++i)
    text += (i ? ", " : "") + std::to_string(array.values[i]);
  return text + "]";
}

bool agree(const Array &expected, const Array &found, double allowed) {
  if (expected.values.size() != found.values.size()) return false;
  for (size_t i = 0; i < expected.values.size(); ++i)
    if (expected.values[i] != found.values[i] && !(std::abs(expected.values[i] - found.values[i]) <= allowed) &&
        !(std::isnan(expected.values[i]) && std::isnan(found.values[i])))
      return false;
  return true;
}

SampleGraph::SampleGraph(Context &context, const Sample &sample) {
  assert(context.ops.find(sample.op) && "sample of an operator that is not registered");
  std::string text = "op = " + std::string(sample.op) + "(";
  std::vector<std::string> names;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    text += (i ? ", " : "") + names.back();
  }
  text += ") {" + std::string(sample.attrs) + "}";
  Graph parsed = cantFail(parseGraph(context, text));
  text += "; heads op";
  for (uint32_t o = 1; o < parsed.kind(nodeNamed(parsed, "op")).numVisible; ++o) text += ", op:" + std::to_string(o);
  graph = cantFail(parseGraph(context, text));
  node = nodeNamed(graph, "op");
  const NodeKind &kind = graph.kind(node);
  for (size_t i = 0; i < names.size(); ++i) {
    const Domain domain = domainOf(kind, i);
    Array array(sample.inputs[i], {});
    int64_t size = numElements(sample.inputs[i]).value();
    for (int64_t k = 0; k < size; ++k) {
      // Variances are positive.
      double value = drawFrom(sample, domain, 10 + i, static_cast<uint64_t>(k));
      array.values.push_back(kind.isMutated(i) ? std::abs(value) : value);
    }
    bindings[names[i]] = array;
    if (!isWholeNumber(domain) && !kind.isStopped(i) && !kind.isMutated(i)) variables.push_back(names[i]);
  }
  options.isTraining = sample.isTraining;
}

Orders::Orders(Context &context, const SampleGraph &sample, uint32_t number)
    : graphs{sample.graph}, bindings(sample.bindings) {
  std::vector<std::string> variables = sample.variables;
  for (uint32_t order = 1; order < number && !variables.empty(); ++order) {
    Expected<NaiveRun> run = NaiveRun::run(graphs.back(), bindings, sample.options);
    if (!run) {
      failure = describeError(run.takeError());
      return;
    }
    for (size_t i = 0; i < graphs.back().heads().size(); ++i) {
      Array weights = run->value(graphs.back().heads()[i]);
      for (size_t k = 0; k < weights.values.size(); ++k) weights.values[k] = drawNumber(order, i + 10 * k);
      bindings["p" + std::to_string(order) + "_" + std::to_string(i)] = weights;
    }
    this->variables.push_back(variables);
    Expected<Graph> next = derivativeGraph(context, graphs.back(), variables, order, &bindings);
    if (!next) {
      failure = describeError(next.takeError());
      return;
    }
    graphs.push_back(*next);
    StringSet<> left;
    for (NodeId n : listInputs(graphs.back()).args) left.insert(graphs.back().name(n));
    llvm::erase_if(variables, [&](const std::string &name) { return !left.contains(name); });
  }
}

double Tolerance::operator()(const NaiveRun &run, Value v) const {
  double largest = 0;
  for (double value : run.value(v).values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return ofLargest * largest + ofTerms * run.magnitudeBehind(v);
}

Findings checkInference(const SampleGraph &sample) {
  const Graph &graph = sample.graph;
  Expected<Inference> known = infer(testContext(), graph, hintsOf(graph, sample.bindings), InferOptions());
  if (!known) return {{describeError(known.takeError())}};
  ShapeTable shapes(*known->shapes);
  SmallVector<ShapeId, 8> ins, outs;
  for (Value v : graph.inputs(sample.node)) ins.push_back(known->shape[graph.entry(v)]);
  for (uint32_t o = 0; o < graph.numOutputs(sample.node); ++o)
    outs.push_back(known->shape[EntryId(graph.firstEntry(sample.node).value + o)]);
  Findings found;
  auto problem = [&](std::string text) { found.problems.push_back(std::move(text)); };
  if (!graph.op(sample.node)->shape) return found;
  for (uint32_t blur = 0; blur < 64; ++blur) {
    // Some entries lose their shape, some one dimension; the operator may find it again, but nothing else.
    auto blurred = [&](ShapeId shape, uint64_t entry) {
      uint64_t bits = RandomKey{3, blur, entry}.bits(0);
      if (bits % 3 == 0) return kUnknownShape;
      DimsBuffer dims(shapes[shape].dims());
      if (bits % 3 == 1 && !dims.empty()) dims[bits / 3 % dims.size()] = kUnknownDim;
      return *shapes.intern(dims);
    };
    SmallVector<ShapeId, 8> in, out;
    // A label of unknown shape may be given the usual one.
    for (size_t i = 0; i < ins.size(); ++i)
      in.push_back(graph.kind(sample.node).isStopped(i) ? ins[i] : blurred(ins[i], i));
    for (size_t i = 0; i < outs.size(); ++i) out.push_back(blurred(outs[i], 100 + i));
    ShapeInference inference(shapes, graph.kind(sample.node), in, out, true);
    graph.op(sample.node)->shape(inference);
    if (inference.hasFailed()) problem("blurred shapes: " + inference.failureText().str());
    auto compare = [&](ShapeId shape, ShapeId truth, const char *side, size_t index) {
      ++found.numChecked;
      if (shape == kUnknownShape) return;
      DimsBuffer dims(shapes[truth].dims());
      if (!mergeDims(dims, shapes[shape].dims()))
        problem(std::string(side) + " " + std::to_string(index) + " becomes " + toString(shapes[shape]) + ", it is " +
                toString(shapes[truth]));
    };
    for (size_t i = 0; i < ins.size(); ++i) compare(in[i], ins[i], "input", i);
    for (size_t i = 0; i < outs.size(); ++i) compare(out[i], outs[i], "output", i);
  }
  return found;
}

Findings checkGradients(Context &context, const SampleGraph &sample, uint32_t orders) {
  DerivativeOptions options;
  options.orders = orders;
  options.run = sample.options;
  return checkDerivatives(context, sample.graph, sample.variables, sample.bindings, options);
}

Findings checkDecompositions(Context &context, const Graph &graph, const Bindings &bindings,
                             const NaiveOptions &options) {
  return forNodes(graph, bindings, options, [&](NaiveRun &run, NodeId n, Findings &found) {
    auto problem = [&](std::string text) { found.problems.push_back(std::move(text)); };
    if (!graph.op(n)->decompose || draws(graph, n, run, bindings, options)) return;
    GraphBuilder builder(context, graph);
    DecomposeRule rule(builder, n, n);
    struct Known {
      const Graph &graph;
      const Inference &inference;
    } known{graph, run.inference()};
    rule.setShapes({[](void *self, Value v) {
                      const Known &k = *static_cast<Known *>(self);
                      return v.node.value < k.graph.numNodes() ? k.inference.shapeOf(k.graph.entry(v)) : ShapeRef();
                    },
                    &known});
    rule.setTypes({[](void *self, Value v) {
                     const Known &k = *static_cast<Known *>(self);
                     return v.node.value < k.graph.numNodes() ? k.inference.dtype[k.graph.entry(v)] : DType::Unknown;
                   },
                   &known});
    if (!graph.controlDeps(n).empty()) rule.setForward(graph.controlDeps(n)[0]);
    graph.op(n)->decompose(rule);
    if (rule.hasRefused()) return;
    if (rule.hasFailed()) return problem(describeError(rule.takeFailure()));
    std::vector<Value> heads(graph.heads().begin(), graph.heads().end());
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      if (rule.output(o).isValid()) heads.push_back(rule.output(o));
    Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
    if (!frozen) return problem(describeError(frozen.takeError()));
    Expected<NaiveRun> again = NaiveRun::run(frozen->graph, bindings, options);
    if (!again) return problem("decomposition of " + graph.describe(n) + ": " + describeError(again.takeError()));
    size_t head = graph.heads().size();
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      if (!rule.output(o).isValid()) continue;
      const Value output = frozen->graph.heads()[head++];
      Array fused = run.value(Value{n, static_cast<uint16_t>(o)}), parts = again->value(output);
      ++found.numChecked;
      if (parts.shape != fused.shape || !agree(fused, parts, kRounding(*again, output)))
        problem(place(graph, n, o) + ": kernel " + print(fused) + ", decomposition " + print(parts));
    }
  });
}

Findings checkRequests(const Graph &graph, const Bindings &bindings, const NaiveOptions &options) {
  return forNodes(graph, bindings, options, [&](NaiveRun &run, NodeId n, Findings &found) {
    for (uint32_t skipped = 0; skipped < graph.numOutputs(n); ++skipped) {
      std::vector<Array> before;
      for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
        before.push_back(run.value(Value{n, static_cast<uint16_t>(o)}));
      NaiveRun::Call call;
      run.prepare(n, call);
      call.requests[skipped] = Request::Null;
      call.out[skipped].data = nullptr;  // a kernel that writes it anyway does not survive
      for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
        if (o != skipped) std::memset(call.out[o].data, 0x7f, call.out[o].bytes());
      graph.op(n)->kernel(call.call);
      for (const Array &output : before) found.numChecked += output.values.size();
      for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
        if (o != skipped && !agree(before[o], run.value(Value{n, static_cast<uint16_t>(o)}), 0))
          found.problems.push_back(place(graph, n, o) + " changes when output " + std::to_string(skipped) +
                                   " is not asked for");
    }
  });
}

Findings checkInplace(const Graph &graph, const Bindings &bindings, const NaiveOptions &options) {
  return forNodes(graph, bindings, options, [&](NaiveRun &run, NodeId n, Findings &found) {
    for (InplacePair pair : graph.op(n)->inplace) {
      NaiveRun::Call call;
      run.prepare(n, call);
      if (pair.input >= call.in.size() || pair.output >= call.out.size()) continue;
      if (graph.kind(n).isIgnored(pair.input)) continue;
      if (call.in[pair.input].bytes() != call.out[pair.output].bytes()) continue;
      if (call.in[pair.input].dtype != call.out[pair.output].dtype) continue;
      std::vector<Array> before;
      for (const TensorRef &out : call.out) before.push_back(loadArray(out));
      std::vector<char> shared(call.in[pair.input].bytes() + 8);
      std::memcpy(shared.data(), call.in[pair.input].data, call.in[pair.input].bytes());
      call.in[pair.input].data = call.out[pair.output].data = shared.data();
      call.requests[pair.output] = Request::InPlace;
      graph.op(n)->kernel(call.call);
      found.numChecked += before[pair.output].values.size();
      for (size_t o = 0; o < call.out.size(); ++o)
        if (!agree(before[o], loadArray(call.out[o]), 0))
          found.problems.push_back(place(graph, n, o) + " changes when output " + std::to_string(pair.output) +
                                   " takes over input " + std::to_string(pair.input));
      if (pair.isIdentity && before[pair.output].values != loadArray(call.in[pair.input]).values)
        found.problems.push_back(place(graph, n, pair.output) +
                                 " is declared an identity of an input it does not equal");
    }
  });
}

Findings checkPieces(const Graph &graph, const Bindings &bindings, const NaiveOptions &options) {
  return forNodes(graph, bindings, options, [&](NaiveRun &run, NodeId n, Findings &found) {
    if (!graph.op(n)->piece) return;
    NaiveRun::Call call;
    run.prepare(n, call);
    std::vector<Array> before;
    for (const TensorRef &out : call.out) {
      before.push_back(loadArray(out));
      std::memset(out.data, 0, out.bytes());
    }
    PieceCall piece;
    static_cast<KernelCall &>(piece) = call.call;
    piece.base = call.in;
    graph.op(n)->piece(piece);
    for (size_t o = 0; o < call.out.size(); ++o) {
      found.numChecked += before[o].values.size();
      if (!agree(before[o], loadArray(call.out[o]), 0))
        found.problems.push_back(place(graph, n, o) + ": kernel " + print(before[o]) + ", piece " +
                                 print(loadArray(call.out[o])));
    }
  });
}

Findings checkPrecision(const Graph &graph, const Bindings &bindings, const NaiveOptions &options) {
  constexpr Tolerance kSingle{2e-5, 1e-6};
  NaiveOptions narrow = options;
  narrow.floatAs = DType::Float32;
  Expected<NaiveRun> single = NaiveRun::run(graph, bindings, narrow);
  if (!single) return {{describeError(single.takeError())}};
  Findings found;
  Expected<NaiveRun> wide = NaiveRun::run(graph, bindings, options);
  if (!wide) return {{describeError(wide.takeError())}};
  for (Value head : graph.heads()) {
    found.numChecked += wide->value(head).values.size();
    if (!agree(wide->value(head), single->value(head), kSingle(*wide, head)))
      found.problems.push_back(place(graph, head.node, head.index) + ": float64 " + print(wide->value(head)) +
                               ", float32 " + print(single->value(head)));
  }
  return found;
}

}  // namespace gradc::testing
