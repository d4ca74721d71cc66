// Products over axes. Gradients do not divide by factors, so they are right where factors are 0, to every order.
//
// P, the product of n factors, has the m-th derivative D^m P(x)[v1, …, vm] along directions v1, …, vm. It is linear in
// each of them, and its gradient toward x is what `_product_gradient(x, v1, …, vm)` computes; toward v1 it is
// `_product_gradient(x, v2, …, vm)`. So <c, _product_gradient(x, v1, …, vm)> = D^(m+1) P(x)[v1, …, vm, c] again has
// these gradients. Sums are in ops/reduction/reduce.cc. Tested by tests/ops/ordering_ops_test.cc
#include "ir/base/error.h"
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/control/scan_builder.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/reduction/grouped_loops.h"
#include "ops/shape/axes.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

// The factor of an element: itself, or 1 if nanprod leaves it out.
struct Factor {
  template <class T> constexpr T operator()(T x) const { return x; }
};
struct FactorWithoutNaN {
  template <class T> constexpr T operator()(T x) const { return x == x ? x : T(1); }
};

template <class F> void productKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    forEachGroup(call.params<ReduceParams>(), call.in[0].shape, [&](int64_t i, auto &forEach) {
      Accumulator<T> product = 1;
      forEach([&](int64_t at) { product = wrappingMul<Accumulator<T>>(product, F()(call.in[0].as<const T>()[at])); });
      call.out[0].as<T>()[i] = static_cast<T>(product);
    });
  });
}

// ---- products of all factors but one

// Factors are numbers x + Σ εl·vl of an algebra in which every εl² = 0: 2^m coefficients, one for each set of
// directions.
size_t productsBytes(const ReduceParams &params, Dims whole, size_t numDirections) {
  const int64_t groups = elementCount(keptShape(params, whole));
  const size_t count = groups == 0 ? 0 : static_cast<size_t>(elementCount(whole) / groups);
  return count * sizeof(int64_t) + ((count + 1) << numDirections) * sizeof(double);
}

// a := a·(x + Σ εl·vl) for factor `at`.
template <class T, class F> void multiply(double *a, const TensorRef &x, ArrayRef<TensorRef> directions, int64_t at) {
  const double factor = F()(x.as<const T>()[at]);
  for (size_t set = size_t{1} << directions.size(); set-- > 0;) {
    double sum = a[set] * factor;
    for (size_t l = 0; l < directions.size(); ++l)
      if (set >> l & 1) sum += a[set ^ size_t{1} << l] * directions[l].as<const T>()[at];
    a[set] = sum;
  }
}

// Calls store(i, at, w), where w is the coefficient of all directions in the product of all factors of group i except
// the one at `at`: the product of those before it, kept for every factor, times that of those after it.
template <class T, class F, class Store>
void forProductsOfOthers(const KernelCall &call, const TensorRef &x, ArrayRef<TensorRef> directions, Store store) {
  const ReduceParams &params = call.params<ReduceParams>();
  const size_t sets = size_t{1} << directions.size();
  forEachGroup(params, x.shape, [&](int64_t i, auto &forEach) {
    int64_t *places = static_cast<int64_t *>(call.workspace), count = 0;
    forEach([&](int64_t at) { places[count++] = at; });
    double *behind = reinterpret_cast<double *>(places + count), *before = behind + sets;
    auto start = [&](double *a) {
      std::fill_n(a, sets, 0.0);
      a[0] = 1;
    };
    if (count > 0) start(before);
    for (int64_t k = 1; k < count; ++k) {
      double *next = before + static_cast<size_t>(k) * sets;
      std::copy_n(next - sets, sets, next);
      multiply<T, F>(next, x, directions, places[k - 1]);
    }
    start(behind);
    for (int64_t k = count; k-- > 0;) {
      const double *own = before + static_cast<size_t>(k) * sets;
      double sum = 0;
      for (size_t set = 0; set < sets; ++set) sum += own[set] * behind[sets - 1 - set];
      store(i, places[k], sum);
      multiply<T, F>(behind, x, directions, places[k]);
    }
  });
}

struct ProductGradientParams : ReduceParams {
  int64_t numArgs = 1;
};
constexpr AttrSpec kProductGradientAttrs[] = {
    kReduceAttrs[0],
    kReduceAttrs[1],
    kReduceAttrs[2],
    attr<&ProductGradientParams::numArgs>("num_args", "1", "x and the directions").atLeast(1).atMost(12),
};

void productGradientKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    forProductsOfOthers<T, Factor>(call, call.in[0], call.in.drop_front(),
                                   [&](int64_t, int64_t at, double w) { call.out[0].as<T>()[at] = static_cast<T>(w); });
  });
}

// dx = dy · the product of the other factors; 0 where nanprod leaves x out.
template <class F> void productBackward(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>();
    forProductsOfOthers<T, F>(call, call.in[1], {}, [&](int64_t i, int64_t at, double others) {
      const bool isOut = std::is_same_v<F, FactorWithoutNaN> && x[at] != x[at];
      call.out[0].as<T>()[at] = isOut ? T(0) : static_cast<T>(dy[i] * others);
    });
  });
}

extern const OpDef kProductGradient, kBackwardProd, kBackwardNanprod;

Attrs productAttrs(RuleContext &r, size_t numArgs) {
  SmallVector<AttrText, 8> list(r.attrs().pairs());
  erase_if(list, [](const AttrText &pair) { return pair.key == "num_args"; });
  list.push_back({"num_args", r.number(static_cast<int64_t>(numArgs))});
  return r.context().attrs(list);
}

// The gradient toward a direction has dy in place of that direction.
void differentiateProducts(GradRule &g) {
  SmallVector<Value, 8> operands(g.operands());
  operands.push_back(g.dy(0));
  if (g.wants(0)) g.dx(0, g.emit(kProductGradient, operands, productAttrs(g, operands.size())));
  for (size_t l = 1; l < g.numInputs(); ++l) {
    if (!g.wants(l)) continue;
    SmallVector<Value, 8> others(operands);
    others.erase(others.begin() + static_cast<ptrdiff_t>(l));
    g.dx(l, g.emit(kProductGradient, others, productAttrs(g, others.size())));
  }
}

// The products of the rows before each one, from one end of `factors`: coefficients by set of directions, as in
// `multiply`.
SmallVector<Value, 4> productsBefore(DecomposeRule &d, ScanBuilder::Direction direction, ArrayRef<Value> factors) {
  const size_t sets = size_t{1} << (factors.size() - 1);
  const Value zeros = d.emit(kZerosLike, {d.emit(kSum, {factors[0]}, {{"axis", "0"}})});
  ScanBuilder loop(d, direction);
  SmallVector<Value, 4> rows, products;
  for (Value v : factors) rows.push_back(loop.row(v));
  for (size_t set = 0; set < sets; ++set) products.push_back(loop.state(set ? zeros : d.emit(kOnesLike, {zeros})));
  SmallVector<size_t, 4> numbers;
  for (size_t set = 0; set < sets; ++set) {
    Value next = loop.emit(kElemwiseMul, {products[set], rows[0]});
    for (size_t l = 1; l < rows.size(); ++l)
      if (const size_t bit = size_t{1} << (l - 1); set & bit)
        next = loop.emit(kElemwiseAdd, {next, loop.emit(kElemwiseMul, {products[set ^ bit], rows[l]})});
    loop.setNext(products[set], next);
    numbers.push_back(loop.stack(products[set]));
  }
  loop.finish();
  SmallVector<Value, 4> stacked;
  for (size_t number : numbers) stacked.push_back(d.hasFailed() ? factors[0] : loop.stacked(number));
  return stacked;
}

// As the kernel: the products of the factors before each one, times those of the factors behind it, one loop for each.
void decomposeProducts(DecomposeRule &d) {
  const size_t rank = d.rank(d.x(0));
  const std::optional<SmallVector<bool, 6>> isReduced = reducedAxes(d.params<ReduceParams>(), rank);
  if (!isReduced) return d.refuse(ErrorKind::InferConflict, "has an axis that its input does not have");
  if (!is_contained(*isReduced, true)) return d.y(0, d.emit(d.numInputs() == 1 ? kOnesLike : kZerosLike, {d.x(0)}));
  DimsBuffer order, back(rank, 0);
  for (bool wanted : {true, false})
    for (size_t axis = 0; axis < rank; ++axis)
      if ((*isReduced)[axis] == wanted) order.push_back(static_cast<int64_t>(axis));
  for (size_t i = 0; i < rank; ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const size_t numReduced = static_cast<size_t>(count(*isReduced, true));
  auto arranged = [&](Value v) { return d.emit(kTranspose, {v}, {{"axes", d.tuple(order)}}); };
  SmallVector<Value, 4> factors;  // (factors of a group, groups)
  for (size_t i = 0; i < d.numInputs(); ++i) {
    Value v = arranged(d.x(i));
    for (size_t left = numReduced; left > 1; --left) {
      DimsBuffer merged = {-3};
      merged.append(rank - numReduced + left - 2, 0);
      v = d.emit(kReshape, {v}, {{"shape", d.tuple(merged)}});
    }
    factors.push_back(d.emit(kFlatten, {v}));
  }
  const SmallVector<Value, 4> before = productsBefore(d, ScanBuilder::Direction::Up, factors),
                              behind = productsBefore(d, ScanBuilder::Direction::Down, factors);
  Value sum;
  for (size_t set = 0; set < before.size(); ++set) {
    const Value term = d.emit(kElemwiseMul, {before[set], behind[before.size() - 1 - set]});
    sum = set ? d.emit(kElemwiseAdd, {sum, term}) : term;
  }
  d.y(0, d.emit(kTranspose, {d.emit(kReshapeLike, {sum, arranged(d.x(0))})}, {{"axes", d.tuple(back)}}));
}

constinit const OpDef kProductGradient = {
    .name = "_product_gradient",
    .summary =
        "w[k] = Σ over distinct i1, …, im other than k of v1[i1]·…·vm[im] and the product of all other x, over axes",
    .inputs = {{},
               [](const NodeKind &k) { return static_cast<uint32_t>(k.params<ProductGradientParams>().numArgs); },
               true},
    .attrs = kProductGradientAttrs,
    .params = paramsOf<ProductGradientParams>(),
    .shape =
        [](ShapeInference &s) {
          s.sameAll();
          if (!s.hasFailed() && s.in(0).hasRank() && !reducedAxes(s.params<ReduceParams>(), s.in(0).rank()))
            s.fail("axis " + tupleText(s.params<ReduceParams>().axis) + " does not fit the shape " + toString(s.in(0)));
        },
    .gradient = differentiateProducts,
    .decompose = decomposeProducts,
    .kernel = productGradientKernel,
    .workspace =
        [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
          return productsBytes(k.params<ReduceParams>(), in[0].shape, in.size() - 1);
        },
};

// `where` infers no shape until its condition is fully known, so the shape comes from `like`.
Value choose(DecomposeRule &d, Value condition, Value x, Value y, Value like) {
  return d.emit(kReshapeLike, {d.emit(kWhere, {condition, x, y}), like});
}

Value others(DecomposeRule &d, Value factors) { return d.emit(kProductGradient, {factors}, productAttrs(d, 1)); }
Value repeatedHead(DecomposeRule &d) { return d.emit(kRepeatAxesLike, {d.x(0), d.x(1)}, d.attrs()); }

template <const OpDef &Backward, class F> constexpr OpDef product(StringRef name, StringRef summary) {
  OpDef op = reduction(name, summary);
  op.gradient = [](GradRule &g) { g.fused(Backward, {g.dy(0), g.x(0), g.y(0)}); };
  op.kernel = productKernel<F>;
  return op;
}

// MXNet passes y as an operand; it is not read.
template <class F> constexpr OpDef productGradient(StringRef name, StringRef summary) {
  OpDef op = reductionGradient(name, summary);
  op.inputs = {"dy", "x", "y"};
  op.shape = gradientShape;
  op.ignored = {2};
  op.stopped = {2};
  op.kernel = productBackward<F>;
  op.workspace = [](const NodeKind &k, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
    return productsBytes(k.params<ReduceParams>(), in[1].shape, 0);
  };
  return op;
}

}  // namespace

constinit const OpDef kProd = asPrimitive(product<kBackwardProd, Factor>("prod", "product over axes"),
                                          {.onnx = "ReduceProd", .c = "y[j] *= x[i]"});

namespace {

constinit const OpDef kNanprod = withDecomposition(
    product<kBackwardNanprod, FactorWithoutNaN>("nanprod", "product over axes, NaN taken as 1"), [](DecomposeRule &d) {
      const Value x = d.x(0), isNumber = d.emit(kEqual, {x, x});
      d.y(0, d.emit(kProd, {d.emit(kWhere, {isNumber, x, d.emit(kOnesLike, {x})})}, d.attrs()));
    });

constinit const OpDef kBackwardProd =
    withDecomposition(productGradient<Factor>(
                          "_backward_prod", "gradient of prod: dx = dy * the product of the other x, dy repeated over "
                                            "the reduced axes"),
                      [](DecomposeRule &d) { d.y(0, d.emit(kElemwiseMul, {repeatedHead(d), others(d, d.x(1))})); });

constinit const OpDef kBackwardNanprod = withDecomposition(
    productGradient<FactorWithoutNaN>("_backward_nanprod", "gradient of nanprod: that of prod, 0 where x is NaN"),
    [](DecomposeRule &d) {
      const Value x = d.x(1), isNumber = d.emit(kEqual, {x, x});
      const Value factors = choose(d, isNumber, x, d.emit(kOnesLike, {x}), x);
      const Value dx = d.emit(kElemwiseMul, {repeatedHead(d), others(d, factors)});
      d.y(0, d.emit(kWhere, {isNumber, dx, d.emit(kZerosLike, {x})}));
    });

}  // namespace

constinit const OpFamily kProductFamily = kOps<kProd, kNanprod, kBackwardProd, kBackwardNanprod, kProductGradient>;

}  // namespace gradc
