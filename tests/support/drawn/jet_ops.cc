// Operators over jets, those of more than one element: each from its formula, in plain doubles.
// Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/jet_arithmetic.h"
#include "tests/support/drawn/jet_states.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

using Inputs = ArrayRef<const JetTensor *>;
using Outputs = std::vector<JetTensor>;

// ---- functions of two

using Combine = Jet (*)(const Jet &a, const Jet &b);
Jet sumOf(const Jet &a, const Jet &b) { return a + b; }
Jet productOf(const Jet &a, const Jet &b) { return a * b; }
Jet quotientOf(const Jet &a, const Jet &b) { return std::abs(b.v) < 0.2 ? Jet(NAN) : a * inverse(b); }
Jet powerOfBoth(const Jet &a, const Jet &b) { return a.v < 0.2 ? Jet(NAN) : exponential(b * logarithm(a)); }

template <Combine F> Outputs paired(const SketchNode &, Inputs in) {
  if (in[0]->shape != in[1]->shape) return {};
  JetTensor y{in[0]->shape, {}};
  for (size_t i = 0; i < in[0]->jets.size(); ++i) y.jets.push_back(F(in[0]->jets[i], in[1]->jets[i]));
  return {y};
}

// Element `index` of a tensor of the shape `whole` as an element of one whose axes of length 1 repeat.
int64_t repeatedIndex(int64_t index, ArrayRef<int64_t> whole, ArrayRef<int64_t> shape) {
  int64_t at = 0, stride = 1;
  for (size_t k = whole.size(); k-- > 0;) {
    if (shape[k] != 1) at += index % whole[k] * stride;
    index /= whole[k];
    stride *= shape[k];
  }
  return at;
}

template <Combine F> Outputs broadcast(const SketchNode &, Inputs in) {
  ArrayRef<int64_t> a = in[0]->shape, b = in[1]->shape;
  if (a.size() != b.size()) return {};
  JetTensor y;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] != b[k] && a[k] != 1 && b[k] != 1) return {};
    y.shape.push_back(std::max(a[k], b[k]));
  }
  for (int64_t i = 0; i < sizeOf(y.shape); ++i)
    y.jets.push_back(F(in[0]->jets[repeatedIndex(i, y.shape, a)], in[1]->jets[repeatedIndex(i, y.shape, b)]));
  return {y};
}

Outputs ratio(const SketchNode &n, Inputs in) {
  Outputs quotient = paired<quotientOf>(n, in), product = paired<productOf>(n, in);
  if (quotient.empty()) return {};
  return {quotient[0], product[0]};
}

Outputs choose(const SketchNode &, Inputs in) {
  if (in[0]->shape != in[1]->shape || in[1]->shape != in[2]->shape) return {};
  JetTensor y{in[0]->shape, {}};
  for (size_t i = 0; i < in[0]->jets.size(); ++i) {
    const Jet &condition = in[0]->jets[i];
    // What is nearly 0 here may be 0 in another evaluation; 0 itself has no bound.
    if (std::abs(condition.v) < 1e-3 && condition.bv > 0) return {};
    y.jets.push_back(in[condition.v != 0 ? 1 : 2]->jets[i]);
  }
  return {y};
}

Outputs addAll(const SketchNode &, Inputs in) {
  JetTensor y = *in[0];
  for (const JetTensor *x : in.drop_front()) {
    if (x->shape != y.shape) return {};
    for (size_t i = 0; i < y.jets.size(); ++i) y.jets[i] = y.jets[i] + x->jets[i];
  }
  return {y};
}

// ---- along one axis: a tensor as outer × length × inner

struct Along {
  int64_t outer = 1, length = 1, inner = 1;

  Along(ArrayRef<int64_t> shape, int64_t axis) {
    outer = sizeOf(shape.take_front(axis)), length = shape[axis], inner = sizeOf(shape.drop_front(axis + 1));
  }
  int64_t at(int64_t o, int64_t k, int64_t i) const { return (o * length + k) * inner + i; }
};

bool hasAxis(const JetTensor &x, int64_t axis) { return axis < static_cast<int64_t>(x.shape.size()); }

// The slices chosen[0], chosen[1], … of x along an axis.
JetTensor taken(const JetTensor &x, int64_t axis, ArrayRef<int64_t> chosen) {
  Along from(x.shape, axis);
  JetTensor y{x.shape, {}};
  y.shape[axis] = static_cast<int64_t>(chosen.size());
  for (int64_t o = 0; o < from.outer; ++o)
    for (int64_t k : chosen)
      for (int64_t i = 0; i < from.inner; ++i) y.jets.push_back(x.jets[from.at(o, k, i)]);
  return y;
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> list;
  for (int64_t k = begin; k < end; ++k) list.push_back(k);
  return list;
}

Outputs cut(const JetTensor &x, int64_t axis, int64_t count, bool drop) {
  if (!hasAxis(x, axis) || x.shape[axis] % count || (drop && (x.shape[axis] != count || x.shape.size() < 2))) return {};
  const int64_t length = x.shape[axis] / count;
  Outputs parts;
  for (int64_t p = 0; p < count; ++p) {
    parts.push_back(taken(x, axis, range(p * length, (p + 1) * length)));
    if (drop) parts.back().shape.erase(parts.back().shape.begin() + axis);
  }
  return parts;
}

JetTensor joined(Inputs in, int64_t axis) {
  JetTensor y{in[0]->shape, {}};
  y.shape[axis] = 0;
  for (const JetTensor *x : in) y.shape[axis] += x->shape[axis];
  const int64_t outer = Along(y.shape, axis).outer;
  for (int64_t o = 0; o < outer; ++o)
    for (const JetTensor *x : in) {
      const int64_t block = static_cast<int64_t>(x->jets.size()) / outer;
      y.jets.insert(y.jets.end(), x->jets.begin() + o * block, x->jets.begin() + (o + 1) * block);
    }
  return y;
}

Outputs concatenate(const SketchNode &n, Inputs in) {
  if (!hasAxis(*in[0], n.axis)) return {};
  for (const JetTensor *x : in) {
    std::vector<int64_t> shape = x->shape;
    if (shape.size() != in[0]->shape.size()) return {};
    shape[n.axis] = in[0]->shape[n.axis];
    if (shape != in[0]->shape) return {};
  }
  return {joined(in, n.axis)};
}

Outputs stackUp(const SketchNode &n, Inputs in) {
  std::vector<JetTensor> raised;
  std::vector<const JetTensor *> list;
  for (const JetTensor *x : in) {
    if (x->shape != in[0]->shape || n.axis > static_cast<int64_t>(x->shape.size())) return {};
    raised.push_back(*x);
    raised.back().shape.insert(raised.back().shape.begin() + n.axis, 1);
  }
  for (const JetTensor &x : raised) list.push_back(&x);
  return {joined(list, n.axis)};
}

// One value for each outer and inner position, from the jets along the axis.
template <class F> JetTensor reduced(const JetTensor &x, int64_t axis, bool keep, F &&combine) {
  Along from(x.shape, axis);
  JetTensor y{x.shape, {}};
  y.shape[axis] = 1;
  if (!keep && x.shape.size() > 1) y.shape.erase(y.shape.begin() + axis);
  for (int64_t o = 0; o < from.outer; ++o)
    for (int64_t i = 0; i < from.inner; ++i) {
      std::vector<Jet> line;
      for (int64_t k = 0; k < from.length; ++k) line.push_back(x.jets[from.at(o, k, i)]);
      y.jets.push_back(combine(line));
    }
  return y;
}

Jet total(ArrayRef<Jet> line) {
  Jet y;
  for (const Jet &jet : line) y = y + jet;
  return y;
}

Jet largest(ArrayRef<Jet> line) {
  const Jet *best = &line[0];
  for (const Jet &jet : line)
    if (jet.v > best->v) best = &jet;
  for (const Jet &jet : line)
    if (&jet != best && best->v - jet.v < 1e-2) return Jet(NAN);
  return *best;
}

Outputs sumAlong(const SketchNode &n, Inputs in) {
  return hasAxis(*in[0], n.axis) ? Outputs{reduced(*in[0], n.axis, n.flag, total)} : Outputs();
}
Outputs meanAlong(const SketchNode &n, Inputs in) {
  if (!hasAxis(*in[0], n.axis)) return {};
  return {reduced(*in[0], n.axis, n.flag,
                  [](ArrayRef<Jet> line) { return total(line) * Jet(1.0 / static_cast<double>(line.size())); })};
}
Outputs maxAlong(const SketchNode &n, Inputs in) {
  return hasAxis(*in[0], n.axis) ? Outputs{reduced(*in[0], n.axis, n.flag, largest)} : Outputs();
}

Outputs softmaxAlong(const SketchNode &n, Inputs in) {
  const JetTensor &x = *in[0];
  if (!hasAxis(x, n.axis)) return {};
  JetTensor sums = reduced(x, n.axis, true, [](ArrayRef<Jet> line) {
    Jet sum;
    for (const Jet &jet : line) sum = sum + exponential(jet);
    return sum;
  });
  JetTensor y = x;
  for (size_t i = 0; i < y.jets.size(); ++i) {
    const Jet &sum = sums.jets[repeatedIndex(static_cast<int64_t>(i), x.shape, sums.shape)];
    y.jets[i] = n.op == "softmax" ? exponential(x.jets[i]) * inverse(sum) : minus(x.jets[i], logarithm(sum));
  }
  return {y};
}

// ---- matrices and shapes

Outputs transposed(const SketchNode &, Inputs in) {
  const JetTensor &x = *in[0];
  if (x.shape.size() != 2) return {};
  JetTensor y{{x.shape[1], x.shape[0]}, {}};
  for (int64_t j = 0; j < x.shape[1]; ++j)
    for (int64_t i = 0; i < x.shape[0]; ++i) y.jets.push_back(x.jets[i * x.shape[1] + j]);
  return {y};
}

Outputs multiplied(const JetTensor &a, const JetTensor &b) {
  if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[1] != b.shape[0]) return {};
  JetTensor y{{a.shape[0], b.shape[1]}, {}};
  for (int64_t i = 0; i < a.shape[0]; ++i)
    for (int64_t j = 0; j < b.shape[1]; ++j) {
      Jet sum;
      for (int64_t k = 0; k < a.shape[1]; ++k) sum = sum + a.jets[i * a.shape[1] + k] * b.jets[k * b.shape[1] + j];
      y.jets.push_back(sum);
    }
  return {y};
}

// Bits of count: whether a, whether b is transposed.
Outputs dotOf(const SketchNode &n, Inputs in) {
  if (in[0]->shape.size() != 2 || in[1]->shape.size() != 2) return {};
  JetTensor a = n.count & 1 ? transposed(n, in[0])[0] : *in[0], b = n.count & 2 ? transposed(n, in[1])[0] : *in[1];
  return multiplied(a, b);
}

Outputs fullyConnected(const SketchNode &n, Inputs in) {
  if (in[0]->shape.size() != 2 || in[1]->shape.size() != 2) return {};
  Outputs y = multiplied(*in[0], transposed(n, in[1])[0]);
  if (!y.empty() && in.size() > 2)
    for (size_t i = 0; i < y[0].jets.size(); ++i) y[0].jets[i] = y[0].jets[i] + in[2]->jets[i % in[2]->jets.size()];
  return y;
}

Outputs asVector(const SketchNode &, Inputs in) {
  return {JetTensor{{static_cast<int64_t>(in[0]->jets.size())}, in[0]->jets}};
}
Outputs asRows(const SketchNode &, Inputs in) {
  if (in[0]->shape.size() < 2) return {};
  return {JetTensor{{in[0]->shape[0], sizeOf(ArrayRef(in[0]->shape).drop_front())}, in[0]->jets}};
}
Outputs withAxis(const SketchNode &n, Inputs in) {
  JetTensor y = *in[0];
  if (n.axis > static_cast<int64_t>(y.shape.size())) return {};
  y.shape.insert(y.shape.begin() + n.axis, 1);
  return {y};
}

Outputs reversed(const SketchNode &n, Inputs in) {
  if (!hasAxis(*in[0], n.axis)) return {};
  std::vector<int64_t> order = range(0, in[0]->shape[n.axis]);
  std::reverse(order.begin(), order.end());
  return {taken(*in[0], n.axis, order)};
}
Outputs repeated(const SketchNode &n, Inputs in) {
  if (!hasAxis(*in[0], n.axis)) return {};
  std::vector<int64_t> order;
  for (int64_t k : range(0, in[0]->shape[n.axis])) order.insert(order.end(), n.count, k);
  return {taken(*in[0], n.axis, order)};
}
// Elements count … a of the axis.
Outputs sliced(const SketchNode &n, Inputs in) {
  const int64_t end = static_cast<int64_t>(n.a);
  if (!hasAxis(*in[0], n.axis) || n.count >= end || end > in[0]->shape[n.axis]) return {};
  return {taken(*in[0], n.axis, range(n.count, end))};
}

struct NamedOperator {
  StringRef name;
  Outputs (*evaluate)(const SketchNode &node, Inputs in);
};
constexpr NamedOperator kOperators[] = {
    {"elemwise_add", paired<sumOf>},
    {"elemwise_sub", paired<minus>},
    {"elemwise_mul", paired<productOf>},
    {"elemwise_div", paired<quotientOf>},
    {"_power", paired<powerOfBoth>},
    {"broadcast_add", broadcast<sumOf>},
    {"broadcast_sub", broadcast<minus>},
    {"broadcast_mul", broadcast<productOf>},
    {"broadcast_div", broadcast<quotientOf>},
    {"test_ratio", ratio},
    {"where", choose},
    {"add_n", addAll},
    {"SliceChannel", [](const SketchNode &n, Inputs in) { return cut(*in[0], n.axis, n.count, n.flag); }},
    {"test_split3", [](const SketchNode &, Inputs in) { return cut(*in[0], 0, 3, false); }},
    {"test_square",
     [](const SketchNode &n, Inputs in) {
       Outputs y = paired<productOf>(n, {in[0], in[0]}), twice = paired<sumOf>(n, {in[0], in[0]});
       return Outputs{y[0], twice[0]};
     }},
    {"Concat", concatenate},
    {"stack", stackUp},
    {"sum", sumAlong},
    {"mean", meanAlong},
    {"max", maxAlong},
    {"softmax", softmaxAlong},
    {"log_softmax", softmaxAlong},
    {"transpose", transposed},
    {"dot", dotOf},
    {"FullyConnected", fullyConnected},
    {"Reshape", asVector},
    {"Flatten", asRows},
    {"expand_dims", withAxis},
    {"reverse", reversed},
    {"repeat", repeated},
    {"slice_axis", sliced},
};

}  // namespace

std::vector<JetTensor> evaluateNode(const SketchNode &node, Inputs inputs) {
  if (node.flow) {
    std::optional<FlowValues> values = evaluateFlow(*node.flow, inputs);
    return values ? std::move(values->outputs) : Outputs();
  }
  if (!takesIntegers(node, inputs)) return {};
  if (std::optional<Outputs> outputs = evaluateSpecial(node, inputs)) return *outputs;
  Outputs outputs;
  if (!mapFunction(node, *inputs[0], outputs)) {
    const NamedOperator *row = find_if(kOperators, [&](const NamedOperator &op) { return op.name == node.op; });
    assert(row != std::end(kOperators) && "an operator the jets do not know");
    outputs = row->evaluate(node, inputs);
  }
  for (JetTensor &output : outputs)
    if ((output.isInteger = inputs.back()->isInteger)) output.hold();
  return outputs;
}

}  // namespace gradc::testing
