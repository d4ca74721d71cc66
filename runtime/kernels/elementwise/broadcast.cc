// Broadcasting arithmetic in which one operand (the whole) has the shape of the result, and its gradient: maps over the
// whole, and sums down to the other operand (the part). Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ir/rules/missing_inputs.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/part_view.h"

using namespace llvm;

namespace gradc::fast {
namespace {

/// Which of two operands is the whole, and how the other is laid out in it.
struct Operands {
  size_t whole;
  PartView parts;
};

std::optional<Operands> operandsOf(const TensorRef &whole, ArrayRef<TensorRef> two, Layout layout) {
  const size_t at = two[0].size() == whole.size() ? 0 : 1;
  if (two[at].size() != whole.size()) return std::nullopt;
  const std::optional<PartView> parts = partView(whole.shape, two[1 - at].shape, layout);
  if (!parts) return std::nullopt;
  return Operands{at, *parts};
}

/// Reads the two operands at element i of the whole and c of the part.
template <class T, size_t Whole> struct Pair {
  static constexpr size_t kWhole = Whole;
  const T *lhs, *rhs;

  T left(int64_t i, int64_t c) const { return lhs[Whole == 0 ? i : c]; }
  T right(int64_t i, int64_t c) const { return rhs[Whole == 0 ? c : i]; }
};

/// Calls `body` with the operands' Pair.
template <class T, class F> void withPair(size_t whole, ArrayRef<TensorRef> two, F body) {
  const T *lhs = two[0].as<const T>(), *rhs = two[1].as<const T>();
  if (whole == 0) body(Pair<T, 0>{lhs, rhs});
  else body(Pair<T, 1>{lhs, rhs});
}

template <class T, auto F> class BroadcastKernel : public ThreadedKernel {
 public:
  BroadcastKernel(const Operands &operands, unsigned threads) : ThreadedKernel(threads), operands(operands) {}

  void run(const KernelCall &call) override {
    T *y = call.out[0].as<T>();
    withPair<T>(operands.whole, call.in, [&](auto pair) {
      mapParts(operands.parts, threads,
               [=](int64_t i, int64_t c) { y[i] = static_cast<T>(F(pair.left(i, c), pair.right(i, c))); });
    });
  }

 private:
  Operands operands;
};

// Inputs dy[, lhs, rhs]. The gradients sum F0(dy, lhs, rhs) and F1(dy, lhs, rhs), which read only operands that exist.
template <class T, auto F0, auto F1> class BroadcastBackward : public ThreadedKernel {
 public:
  BroadcastBackward(const Operands &operands, unsigned threads) : ThreadedKernel(threads), operands(operands) {}

  void run(const KernelCall &call) override {
    withMissingInputs(call, [&](const KernelCall &filled) { toOperands(filled); });
  }
  size_t workspaceBytes() const override { return sumPartsBytes<T>(operands.parts); }

 private:
  void toOperands(const KernelCall &call) const {
    const TensorRef unread[] = {call.in[0], call.in[0]};
    withPair<T>(operands.whole, call.in.size() == 3 ? call.in.drop_front() : ArrayRef(unread), [&](auto pair) {
      const T *dy = call.in[0].as<const T>();
      const auto term0 = [=](int64_t i, int64_t c) { return F0(dy[i], pair.left(i, c), pair.right(i, c)); };
      const auto term1 = [=](int64_t i, int64_t c) { return F1(dy[i], pair.left(i, c), pair.right(i, c)); };
      if (call.wants(0)) toOperand<pair.kWhole == 0>(call, 0, term0);
      if (call.wants(1)) toOperand<pair.kWhole == 1>(call, 1, term1);
    });
  }
  template <bool IsWhole, class Term> void toOperand(const KernelCall &call, size_t output, Term term) const {
    T *to = call.out[output].as<T>();
    if constexpr (IsWhole)
      mapParts(operands.parts, threads, [=](int64_t i, int64_t c) { to[i] = static_cast<T>(term(i, c)); });
    else
      sumParts<T>(operands.parts, threads, call.workspace, term,
                  [=](int64_t c, double total) { to[c] = static_cast<T>(total); });
  }

  Operands operands;
};

template <auto F> std::unique_ptr<PreparedKernel> forward(const KernelSite &site) {
  const std::optional<Operands> operands = operandsOf(site.out[0], site.in, site.out[0].layout);
  if (!operands) return nullptr;
  return ofFloatingType(site.out[0].dtype, [&](auto zero) {
    return std::make_unique<BroadcastKernel<decltype(zero), F>>(*operands, site.threads);
  });
}

template <auto F0, auto F1> std::unique_ptr<PreparedKernel> backward(const KernelSite &site) {
  const std::optional<Operands> operands = operandsOf(site.in[0], site.out, site.in[0].layout);
  if (!operands) return nullptr;
  return ofFloatingType(site.in[0].dtype, [&](auto zero) {
    return std::make_unique<BroadcastBackward<decltype(zero), F0, F1>>(*operands, site.threads);
  });
}

constexpr auto kHead = [](auto dy, auto, auto) { return dy; };

// A NaN on either side is the result.
constexpr KernelFactory broadcastMaximum = forward<[](auto a, auto b) { return ((a >= b) | (a != a)) ? a : b; }>;
constexpr KernelFactory broadcastMinimum = forward<[](auto a, auto b) { return ((a <= b) | (a != a)) ? a : b; }>;

constexpr KernelFactory broadcastMultiplyBackward =
    backward<[](auto dy, auto, auto b) { return dy * b; }, [](auto dy, auto a, auto) { return dy * a; }>;
constexpr KernelFactory broadcastDivideBackward =
    backward<[](auto dy, auto, auto b) { return dy / b; }, [](auto dy, auto a, auto b) { return -dy * (a / b / b); }>;
// Where the operands are equal, the gradient goes to lhs.
std::unique_ptr<PreparedKernel> broadcastMaximumBackward(const KernelSite &site) {
  return backward<[](auto dy, auto a, auto b) { return a >= b ? dy : decltype(dy){0}; },
                  [](auto dy, auto a, auto b) { return a >= b ? decltype(dy){0} : dy; }>(site);
}
std::unique_ptr<PreparedKernel> broadcastMinimumBackward(const KernelSite &site) {
  return backward<[](auto dy, auto a, auto b) { return a <= b ? dy : decltype(dy){0}; },
                  [](auto dy, auto a, auto b) { return a <= b ? decltype(dy){0} : dy; }>(site);
}

constexpr FastKernelRow kRows[] = {
    {"_backward_broadcast_add", backward<kHead, kHead>, LayoutRole::Same},
    {"_backward_broadcast_div", broadcastDivideBackward, LayoutRole::Same},
    {"_backward_broadcast_maximum", broadcastMaximumBackward, LayoutRole::Same},
    {"_backward_broadcast_minimum", broadcastMinimumBackward, LayoutRole::Same},
    {"_backward_broadcast_mul", broadcastMultiplyBackward, LayoutRole::Same},
    {"_backward_broadcast_sub", backward<kHead, [](auto dy, auto, auto) { return -dy; }>, LayoutRole::Same},
    {"broadcast_add", forward<[](auto a, auto b) { return a + b; }>, LayoutRole::Same},
    {"broadcast_div", forward<[](auto a, auto b) { return a / b; }>, LayoutRole::Same},
    {"broadcast_maximum", broadcastMaximum, LayoutRole::Same},
    {"broadcast_minimum", broadcastMinimum, LayoutRole::Same},
    {"broadcast_mul", forward<[](auto a, auto b) { return a * b; }>, LayoutRole::Same},
    {"broadcast_sub", forward<[](auto a, auto b) { return a - b; }>, LayoutRole::Same},
};

}  // namespace

constinit const FastKernels kBroadcastKernels = kRows;

}  // namespace gradc::fast
