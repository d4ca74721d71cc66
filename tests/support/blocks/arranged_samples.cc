#include "tests/support/blocks/sample_attrs.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr auto kIndex = RuleSample::Index;
constexpr auto kConstant = RuleSample::Constant;
constexpr auto kAnySign = RuleSample::AnySign;
constexpr auto kPositive = RuleSample::Positive;
constexpr auto kFraction = RuleSample::Fraction;

void addElements(AddSample add) {
  add("acosh", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {}, RuleSample::Large);
  add("logit", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"eps", number(0.01)}}, kFraction);
  add("atan2", {{"X1", {2, 3}}, {"X2", {2, 3}}}, {{"Out", {2, 3}}}, {}, kPositive);
  add("lerp", {{"Weight", {1}, kConstant}, {"X", {2, 3}}, {"Y", {2, 3}}}, {{"Out", {2, 3}}}, {}, kAnySign);
  for (const char *type : {"elementwise_fmax", "elementwise_fmin"})
    add(type, {{"X", {2, 3}}, {"Y", {3}}}, {{"Out", {2, 3}}}, {}, kAnySign);
  add("label_smooth", {{"X", {2, 4}}}, {{"Out", {2, 4}}}, {{"epsilon", number(0.1)}}, kAnySign);
  add("label_smooth", {{"PriorDist", {1, 4}, kConstant}, {"X", {2, 4}}}, {{"Out", {2, 4}}}, {{"epsilon", number(0.1)}},
      kAnySign);
  add("log_loss", {{"Labels", {2, 1}, kConstant}, {"Predicted", {2, 1}}}, {{"Loss", {2, 1}}},
      {{"epsilon", number(0.01)}}, kFraction);
}

void addSums(AddSample add) {
  add("cumprod", {{"X", {2, 5}}}, {{"Out", {2, 5}}}, {{"dim", integer(1)}}, kAnySign);
  for (double p : {1., 2., 3., std::numeric_limits<double>::infinity()})
    add("dist", {{"X", {2, 3}}, {"Y", {3}}}, {{"Out", {}}}, {{"p", number(p)}}, kAnySign);
  add("trace", {{"Input", {2, 3, 2}}}, {{"Out", {3}}}, {{"axis1", integer(0)}, {"axis2", integer(2)}}, kAnySign);
  auto einsum = [&](StringRef equation, SampleOperands operands, std::vector<int64_t> out) {
    SampleOperands results;
    for (const RuleSample::Operand &operand : operands) results.push_back({"InnerCache", operand.shape, kIndex});
    results.push_back({"Out", std::move(out)});
    for (const RuleSample::Operand &operand : operands) results.push_back({"XShape", operand.shape, kIndex});
    add("einsum", std::move(operands), results, {{"equation", string(equation)}}, kAnySign);
  };
  einsum("ij,jk->ik", {{"Operands", {2, 3}}, {"Operands", {3, 2}}}, {2, 2});
  einsum("ij,jk->ik", {{"Operands", {2, 3}, RuleSample::Constant}, {"Operands", {3, 2}}}, {2, 2});
  einsum("bhid,bhjd->bhij", {{"Operands", {1, 2, 2, 3}}, {"Operands", {1, 2, 1, 3}}}, {1, 2, 2, 1});
  einsum("...ij,...jk->k...i", {{"Operands", {2, 3, 2}}, {"Operands", {2, 2, 1}}}, {1, 2, 3});
  einsum("ij,j,kj", {{"Operands", {2, 3}}, {"Operands", {3}}, {"Operands", {2, 3}}}, {2, 2});
  einsum("ij->", {{"Operands", {2, 3}}}, {});
  add("bilinear_tensor_product", {{"Bias", {1, 2}}, {"Weight", {2, 3, 2}}, {"X", {2, 3}}, {"Y", {2, 2}}},
      {{"Out", {2, 2}}}, {}, kAnySign);
  add("multi_dot", {{"X", {2, 3}}, {"X", {3, 2}}, {"X", {2, 1}}}, {{"Out", {2, 1}}}, {}, kAnySign);
  add("matrix_power", {{"X", {2, 2}}}, {{"Out", {2, 2}}}, {{"n", integer(3)}}, kAnySign);
}

void addVolumes(AddSample add) {
  const SampleAttrs::value_type strides = {"strides", integers({2, 2, 2})};
  add("conv3d", {{"Filter", {2, 1, 2, 2, 2}}, {"Input", {1, 1, 3, 3, 3}}}, {{"Output", {1, 2, 2, 2, 2}}},
      {strides, {"paddings", integers({0, 1, 1, 0, 0, 1})}}, kAnySign);
  add("conv3d", {{"Filter", {1, 2, 1, 2, 1}}, {"Input", {1, 2, 2, 2, 2}}}, {{"Output", {1, 2, 1, 2, 1}}},
      {{"data_format", string("NDHWC")}}, kAnySign);
  add("conv3d_transpose", {{"Filter", {1, 2, 2, 1, 2}}, {"Input", {1, 1, 2, 2, 1}}}, {{"Output", {1, 2, 4, 3, 2}}},
      {strides, {"data_format", string("NCHW")}}, kAnySign);
  for (const char *kind : {"max", "avg"})
    add("pool3d", {{"X", {1, 1, 3, 2, 2}}}, {{"Out", {1, 1, 2, 1, 1}}},
        {{"pooling_type", string(kind)},
         {"ksize", integers({2, 2, 2})},
         {"paddings", integers({0, 1, 0, 0, 0, 0})},
         strides},
        kAnySign);
  add("max_pool3d_with_index", {{"X", {1, 1, 2, 2, 2}}}, {{"Mask", {1, 1, 1, 1, 1}, kIndex}, {"Out", {1, 1, 1, 1, 1}}},
      {{"ksize", integers({2, 2, 2})}, strides}, kAnySign);
  const SampleAttrs windows = {{"kernel_sizes", integers({2, 2})}, {"paddings", integers({0, 1, 0, 1})}};
  add("unfold", {{"X", {1, 2, 3, 2}}}, {{"Y", {1, 8, 6}}}, windows, kAnySign);
  SampleAttrs back = windows;
  back.push_back({"output_sizes", integers({3, 2})});
  add("fold", {{"X", {1, 8, 6}}}, {{"Y", {1, 2, 3, 2}}}, back, kAnySign);
}

void addInterpolations(AddSample add) {
  const SampleAttrs::value_type aligned = {"align_corners", flag(true)}, free = {"align_corners", flag(false)},
                                half = {"align_mode", integer(0)}, corner = {"align_mode", integer(1)};
  const SampleAttrs larger = {{"out_h", integer(4)}, {"out_w", integer(5)}};
  auto image = [&](std::string type, SampleAttrs attrs) {
    append_range(attrs, larger);
    add(std::move(type), {{"X", {1, 1, 2, 3}}}, {{"Out", {1, 1, 4, 5}}}, attrs, kAnySign);
  };
  image("nearest_interp_v2", {free});
  image("nearest_interp_v2", {aligned});
  image("bilinear_interp_v2", {free, half});
  image("bilinear_interp_v2", {free, corner});
  image("bilinear_interp_v2", {aligned});
  image("bicubic_interp_v2", {free});
  image("bicubic_interp_v2", {aligned});
  add("bilinear_interp_v2", {{"X", {1, 4, 2, 1}}}, {{"Out", {1, 2, 3, 1}}},
      {free, half, {"data_layout", string("NHWC")}, {"scale", numbers({0.5, 1.5})}}, kAnySign);
  add("linear_interp_v2", {{"X", {1, 2, 3}}}, {{"Out", {1, 2, 5}}}, {free, half, {"out_w", integer(5)}}, kAnySign);
  add("trilinear_interp_v2", {{"X", {1, 1, 2, 1, 2}}}, {{"Out", {1, 1, 3, 2, 3}}},
      {free, half, {"out_d", integer(3)}, {"out_h", integer(2)}, {"out_w", integer(3)}}, kAnySign);
}

void addArrangements(AddSample add) {
  add("pixel_shuffle", {{"X", {1, 4, 1, 2}}}, {{"Out", {1, 1, 2, 4}}}, {{"upscale_factor", integer(2)}}, kAnySign);
  add("pixel_unshuffle", {{"X", {1, 1, 2, 4}}}, {{"Out", {1, 4, 1, 2}}}, {{"downscale_factor", integer(2)}}, kAnySign);
  add("channel_shuffle", {{"X", {1, 6, 1, 2}}}, {{"Out", {1, 6, 1, 2}}}, {{"groups", integer(2)}}, kAnySign);
  add("maxout", {{"X", {1, 4, 2}}}, {{"Out", {1, 2, 2}}}, {{"groups", integer(2)}}, kAnySign);
  add("diagonal", {{"Input", {2, 3, 3}}}, {{"Out", {2, 2}}},
      {{"offset", integer(1)}, {"axis1", integer(1)}, {"axis2", integer(2)}}, kAnySign);
  add("diag_v2", {{"X", {2}}}, {{"Out", {3, 3}}}, {{"offset", integer(-1)}}, kAnySign);
  add("diag_v2", {{"X", {2, 3}}}, {{"Out", {2}}}, {}, kAnySign);
  add("repeat_interleave", {{"X", {2, 3}}}, {{"Out", {2, 6}}}, {{"Repeats", integer(2)}, {"dim", integer(1)}},
      kAnySign);
  add("broadcast_tensors", {{"X", {3}}, {"X", {2, 1}}}, {{"Out", {2, 3}}, {"Out", {2, 3}}}, {}, kAnySign);
  add("meshgrid", {{"X", {2}}, {"X", {3}}}, {{"Out", {2, 3}}, {"Out", {2, 3}}}, {}, kAnySign);
  add("multiplex", {{"Ids", {2, 1}, kIndex}, {"X", {2, 3}}, {"X", {2, 3}}}, {{"Out", {2, 3}}}, {}, kAnySign);
}

void addRegions(AddSample add) {
  const SampleAttrs columns = {
      {"axes", integers({1})}, {"starts", integers({-3})}, {"ends", integers({INT32_MAX})}, {"steps", integers({2})}};
  add("set_value", {{"Input", {2, 4}}, {"ValueTensor", {2}}}, {{"Out", {2, 4}}}, columns, kAnySign);
  SampleAttrs constant = columns;
  append_range(constant, SampleAttrs{{"shape", integers({1})}, {"values", "[\"SCALARS\",[[\"FLOAT64\",0.5]]]"}});
  add("set_value", {{"Input", {2, 4}}}, {{"Out", {2, 4}}}, constant, kAnySign);
  add("set_value", {{"Input", {2, 3}}, {"ValueTensor", {2}}}, {{"Out", {2, 3}}},
      {{"axes", integers({1})},
       {"starts", integers({1})},
       {"ends", integers({2})},
       {"steps", integers({1})},
       {"decrease_axes", integers({1})}},
      kAnySign);
  for (const char *how : {"assign", "add"})
    add("put_along_axis", {{"Index", {1, 3}, kIndex}, {"Input", {2, 3}}, {"Value", {1, 3}}}, {{"Result", {2, 3}}},
        {{"Axis", integer(0)}, {"Reduce", string(how)}}, kAnySign);
  add("index_add", {{"AddValue", {2, 3}}, {"Index", {3}, kIndex}, {"X", {2, 3}}}, {{"Out", {2, 3}}},
      {{"axis", integer(1)}}, kAnySign);
  add("index_put", {{"indices", {2}, kIndex}, {"value", {3}}, {"x", {2, 3}}}, {{"out", {2, 3}}},
      {{"accumulate", flag(true)}}, kAnySign);
  add("crop_tensor", {{"X", {3, 4}}}, {{"Out", {2, 2}}}, {{"offsets", integers({1, 2})}, {"shape", integers({2, -1})}},
      kAnySign);
}

}  // namespace

void addArrangedSamples(AddSample add) {
  addElements(add);
  addSums(add);
  addVolumes(add);
  addInterpolations(add);
  addArrangements(add);
  addRegions(add);
}

}  // namespace gradc::testing
