// Attributes as gradc reads them, and the same as numbers. Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/draw_graph.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr double kScalars[] = {0.5, 2, -1.5, 3, 0.25, 1, -0.75};

class AttributeDrawer {
 public:
  AttributeDrawer(Dice &dice, SketchNode &node) : dice(dice), node(node) {}

  void run(ArrayRef<int64_t> shape) {
    node.axis = static_cast<int64_t>(dice.below(shape.size()));
    setNumbers();
    setCounts();
    if (is_contained(
            {"stack", "SliceChannel", "softmax", "log_softmax", "reverse", "expand_dims", "repeat", "slice_axis"},
            node.op))
      set("axis", std::to_string(node.axis));
    if (is_contained({"sum", "mean", "max"}, node.op)) {
      node.flag = dice.chance(50) || shape.size() < 2;
      set("axis", std::to_string(node.axis)), setFlag("keepdims", node.flag);
    }
    if (node.op == "SliceChannel") setCut(shape[node.axis]);
    if (node.op == "slice_axis") setSlice(shape[node.axis]);
    if (node.op == "Reshape") set("shape", "(-1,)");
    setLayers();
  }

 private:
  void set(StringRef key, const std::string &text) { node.attrs.push_back({key.str(), text}); }
  void setFlag(StringRef key, bool flag) { set(key, flag ? "True" : "False"); }

  void setNumbers() {
    const StringRef op = node.op;
    if (op.ends_with("_scalar") || op == "smooth_l1")
      set("scalar", numberText(node.a = op == "smooth_l1" ? 1 : dice.one<double>(kScalars)));
    if (op == "MakeLoss") set("grad_scale", numberText(node.a = dice.chance(50) ? 0.5 : 2));
    if (op == "Activation") set("act_type", "softrelu");
    if (op == "clip") set("a_min", numberText(node.a = -0.5)), set("a_max", numberText(node.b = 0.75));
    if (op == "sgd_mom_update") set("lr", "0.5"), set("momentum", "0.25");
  }

  void setCounts() {
    if (is_contained({"add_n", "Concat", "stack"}, node.op)) set("num_args", std::to_string(node.inputs.size()));
    if (node.op == "Concat") set("dim", std::to_string(node.axis));
    if (node.op == "repeat") set("repeats", std::to_string(node.count = 2));
    if (node.op == "Cast") set("dtype", node.count ? "int32" : "float32");
  }

  void setLayers() {
    if (node.op == "dot") setFlag("transpose_a", node.count & 1), setFlag("transpose_b", node.count & 2);
    if (node.op == "FullyConnected") set("num_hidden", std::to_string(node.count)), setFlag("no_bias", node.flag);
    if (node.op == "BatchNorm") {
      node.flag = dice.chance(25);
      set("eps", "0.25"), set("momentum", "0.5"), setFlag("fix_gamma", node.flag);
    }
  }

  void setCut(int64_t length) {
    node.count = length % 2 == 0 ? 2 : length;
    node.flag = node.count == length && dice.chance(30);
    set("num_outputs", std::to_string(node.count));
    setFlag("squeeze_axis", node.flag);
  }

  void setSlice(int64_t length) {
    node.count = static_cast<int64_t>(dice.below(length));
    node.a = static_cast<double>(node.count + 1 + static_cast<int64_t>(dice.below(length - node.count)));
    set("begin", std::to_string(node.count));
    set("end", numberText(node.a));
  }

  Dice &dice;
  SketchNode &node;
};

}  // namespace

void setAttributes(Dice &dice, SketchNode &node, ArrayRef<int64_t> shape) { AttributeDrawer(dice, node).run(shape); }

}  // namespace gradc::testing
