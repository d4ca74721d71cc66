#include "imperative/imperative.h"
#include "tests/support/imperative.h"
#include <chrono>
using namespace llvm;
namespace gradc {
namespace {
double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
template <class F> double best(F f, int n = 9, int reps = 20) {
  std::vector<double> v;
  for (int i = 0; i < n; ++i) {
    double s = now();
    for (int k = 0; k < reps; ++k) f();
    v.push_back((now() - s) / reps);
  }
  std::sort(v.begin(), v.end());
  return v[n / 2];
}
TEST(Bench, All) {
  for (Backend backend : {Backend::Auto, Backend::Reference}) {
    ImperativeOptions options;
    options.backend = backend;
    testing::Tape t(options);
    Tensor x = t.im.tensor({8}, std::vector<float>(8, 0.5f));
    cantFail(t.im.requireGrad(x));
    KindId mul = cantFail(t.im.kind("elemwise_mul", {})), add = cantFail(t.im.kind("elemwise_add", {})),
           tanh = cantFail(t.im.kind("tanh", {}));
    const int N = 200;
    auto chain = [&](int n) {
      Tensor y = x;
      for (int i = 0; i < n; ++i)
        y = cantFail(t.im.call(i % 3 == 0 ? mul : i % 3 == 1 ? add : tanh, i % 3 == 2 ? Tensors(y) : Tensors({y, x})));
      return y;
    };
    auto plain = [&](int n) {
      NoGradScope q(t.im);
      return chain(n);
    };
    double un = best([&] { plain(N); }) / N, rec = best([&] { chain(N); }) / N;
    double both = best([&] { cantFail(t.im.backward({chain(N)}, {})); }) / N;
    double cg = best([&] {
                  cantFail(t.im.backward({chain(N)}, {.createGraph = true}));
                  cantFail(t.im.setGrad(x, Tensor()));
                }) /
                N;
    int len = 200;
    double fresh = best([&] { cantFail(t.im.backward({chain(++len)}, {})); }, 9, 1) / N;
    fprintf(stderr, "%s plain %.3f rec %.3f bwd %.3f cg %.3f new %.3f us/op; misses %llu\n",
            backend == Backend::Auto ? "auto" : "ref", un, rec, both - rec, cg - rec, fresh - rec,
            (unsigned long long)t.im.cacheStats().misses);
  }
}
}  // namespace
}  // namespace gradc
