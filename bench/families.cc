// The graph families.
#include "bench/families.h"

#include "ir/graph/graph_builder.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/SmallVector.h"

#include <string>

using namespace llvm;

namespace gradc::bench {
namespace {

class Maker {
 public:
  explicit Maker(Context &context, size_t nodes) : ctx(context), builder(context) {
    builder.reserve(nodes, nodes * 2, nodes * 12);
  }

  Value variable(const std::string &name) { return builder.addVariable(name, Attrs()); }
  Value variable(const std::string &name, StringRef shape) {
    return builder.addVariable(name, ctx.attrs(ArrayRef<AttrText>{AttrText{"__shape__", shape}}));
  }
  Value relu(Value x) { return node(kRelu, {x}, "relu", Attrs()); }
  Value add(Value a, Value b) { return node(kElemwiseAdd, {a, b}, "add", Attrs()); }
  Value dense(Value x, Value weight, Value bias) {
    if (denseAttrs.isEmpty()) denseAttrs = ctx.attrs(ArrayRef<AttrText>{AttrText{"num_hidden", "64"}});
    return node(*ctx.ops.find("FullyConnected"), {x, weight, bias}, "fc", denseAttrs);
  }
  size_t size() const { return builder.numNodes(); }
  Graph freeze(Value head) && { return cantFail(std::move(builder).freeze({head}, {})).graph; }

 private:
  Value node(const OpDef &op, ArrayRef<Value> inputs, StringRef stem, const Attrs &attrs) {
    std::string name = stem.str() + std::to_string(builder.numNodes());
    return Value{cantFail(builder.add(op, inputs, {name, attrs, NodeId()}))};
  }

  Context &ctx;
  GraphBuilder builder;
  Attrs denseAttrs;
};

Value chain(Maker &m, size_t nodes) {
  Value x = m.variable("data", "(8,64)");
  while (m.size() < nodes) x = m.relu(x);
  return x;
}

Value mlp(Maker &m, size_t nodes) {
  Value x = m.variable("data", "(8,64)");
  while (m.size() < nodes) {
    std::string layer = "fc" + std::to_string(m.size());
    x = m.relu(m.dense(x, m.variable(layer + "_weight"), m.variable(layer + "_bias")));
  }
  return x;
}

Value residual(Maker &m, size_t nodes) {
  Value x = m.variable("data", "(8,64)");
  while (m.size() < nodes) x = m.add(x, m.relu(x));
  return x;
}

Value fanout(Maker &m, size_t nodes) {
  Value x = m.variable("data", "(8,64)"), total = m.relu(x);
  while (m.size() < nodes) total = m.add(total, m.relu(x));
  return total;
}

Value denseShare(Maker &m, size_t nodes) {
  SmallVector<Value, 4> last(4, m.variable("data", "(8,64)"));
  while (m.size() < nodes) {
    Value next = m.relu(m.add(m.add(last[0], last[1]), m.add(last[2], last[3])));
    last.erase(last.begin());
    last.push_back(next);
  }
  return last.back();
}

// Variables are added in a random order, so the one known shape has to travel far, and backwards too.
Value zigzag(Maker &m, size_t nodes) {
  std::vector<Value> pool;
  uint64_t state = 1;
  auto draw = [&](size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((state >> 33) % bound);
  };
  size_t variables = nodes / 2;
  for (size_t i = 0; i < variables; ++i)
    pool.push_back(i == variables / 2 ? m.variable("known", "(8,64)") : m.variable("v" + std::to_string(i)));
  while (pool.size() > 1) {
    size_t a = draw(pool.size());
    std::swap(pool[a], pool.back());
    Value left = pool.back();
    pool.pop_back();
    size_t b = draw(pool.size());
    pool[b] = m.add(left, pool[b]);
  }
  return pool[0];
}

}  // namespace

StringRef familyName(Family family) {
  constexpr StringRef kNames[] = {"chain", "mlp", "residual", "fanout", "dense_share", "zigzag"};
  return kNames[static_cast<int>(family)];
}

Graph makeFamily(Context &context, Family family, size_t nodes) {
  Maker maker(context, nodes + 8);
  Value head;
  switch (family) {
    case Family::Chain: head = chain(maker, nodes); break;
    case Family::Mlp: head = mlp(maker, nodes); break;
    case Family::Residual: head = residual(maker, nodes); break;
    case Family::Fanout: head = fanout(maker, nodes); break;
    case Family::DenseShare: head = denseShare(maker, nodes); break;
    case Family::Zigzag: head = zigzag(maker, nodes); break;
  }
  return std::move(maker).freeze(head);
}

}  // namespace gradc::bench
