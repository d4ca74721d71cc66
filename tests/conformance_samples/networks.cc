// Samples of parts of networks: products of batches, attention, group normalization, losses, images as columns.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

void addProducts(std::vector<Sample> &list) {
  const char *op = "_linalg_gemm2";
  list.push_back({op, "", {{2, 3}, {3, 2}}});
  list.push_back({op, "transpose_a=True, alpha=-1.5", {{2, 3, 2}, {2, 3, 1}}});
  list.push_back({op, "transpose_b=True, alpha=2", {{1, 2, 3}, {1, 2, 3}}});
  list.push_back({op, "transpose_a=True, transpose_b=True", {{2, 1, 3, 2}, {2, 1, 2, 3}}});
  list.push_back({op, "axis=1, transpose_b=True, alpha=0.5", {{2, 2, 1, 3}, {2, 1, 1, 3}}});
  list.push_back({op, "axis=0", {{2, 3, 2}, {2, 3, 2}}});
  list.push_back({op, "axis=-4, transpose_a=True", {{2, 2, 1, 2}, {2, 2, 1, 1}}});
  list.push_back({op, "", {{1, 1}, {1, 1}}});
  list.push_back({op, "", {{2, 0, 3}, {2, 3, 2}}});
  list.push_back({op, "", {{2, 2, 0}, {2, 0, 3}}});
  op = "_linalg_gemm";
  list.push_back({op, "", {{2, 3}, {3, 2}, {2, 2}}});
  list.push_back({op, "transpose_a=True, beta=-0.5", {{2, 3, 1}, {2, 3, 2}, {2, 1, 2}}});
  list.push_back({op, "transpose_b=True, alpha=2, beta=3", {{2, 1, 2, 2}, {2, 1, 1, 2}, {2, 1, 2, 1}}});
  list.push_back({op, "axis=0, transpose_a=True, transpose_b=True, alpha=0.5", {{3, 2, 1}, {2, 2, 3}, {1, 2, 2}}});
  list.push_back({op, "beta=2", {{1, 2, 0}, {1, 0, 3}, {1, 2, 3}}});
}

void addAttention(std::vector<Sample> &list) {
  const char *op = "_contrib_interleaved_matmul_selfatt_qk";
  list.push_back({op, "heads=1", {{2, 1, 6}}});
  list.push_back({op, "heads=2", {{3, 2, 6}}});
  list.push_back({op, "heads=2", {{2, 1, 18}}});
  list.push_back({op, "heads=1", {{1, 1, 3}}});
  list.push_back({op, "heads=2", {{0, 2, 6}}});
  op = "_contrib_interleaved_matmul_selfatt_valatt";
  list.push_back({op, "heads=1", {{2, 1, 6}, {1, 2, 2}}});
  list.push_back({op, "heads=2", {{3, 2, 6}, {4, 3, 3}}});
  list.push_back({op, "heads=2", {{2, 1, 18}, {2, 2, 2}}});
  list.push_back({op, "heads=1", {{1, 1, 3}, {1, 1, 1}}});
  list.push_back({op, "heads=2", {{3, 0, 6}, {0, 3, 3}}});
  op = "_contrib_interleaved_matmul_encdec_qk";
  list.push_back({op, "heads=1", {{2, 1, 2}, {3, 1, 4}}});
  list.push_back({op, "heads=2", {{3, 2, 2}, {1, 2, 4}}});
  list.push_back({op, "heads=2", {{1, 1, 6}, {2, 1, 12}}});
  list.push_back({op, "heads=1", {{1, 1, 1}, {1, 1, 2}}});
  list.push_back({op, "heads=2", {{2, 1, 2}, {0, 1, 4}}});
  op = "_contrib_interleaved_matmul_encdec_valatt";
  list.push_back({op, "heads=1", {{3, 1, 4}, {1, 2, 3}}});
  list.push_back({op, "heads=2", {{1, 2, 4}, {4, 3, 1}}});
  list.push_back({op, "heads=2", {{2, 1, 12}, {2, 1, 2}}});
  list.push_back({op, "heads=1", {{1, 1, 2}, {1, 1, 1}}});
  list.push_back({op, "heads=1", {{0, 1, 4}, {1, 2, 0}}});
}

// Lengths of 0 and beyond the end; with fractions.
void addSequences(std::vector<Sample> &list) {
  const char *op = "SequenceLast";
  list.push_back({op, "", {{3, 2}}});
  list.push_back({op, "axis=1", {{2, 3, 2}}});
  list.push_back({op, "use_sequence_length=True", {{3, 2, 2}, {2}}, 3, 1, 3});
  list.push_back({op, "use_sequence_length=True, axis=1", {{2, 4}, {2}}, 3, 1, 4});
  list.push_back({op, "use_sequence_length=True", {{3, 4}, {4}}, 3, -2, 6});
  list.push_back({op, "use_sequence_length=True", {{1, 1, 1}, {1}}, 3, 1, 1.5});
  list.push_back({op, "use_sequence_length=True", {{3, 0, 2}, {0}}});
  op = "SequenceReverse";
  list.push_back({op, "", {{3, 2}}});
  list.push_back({op, "", {{2, 1, 3}}});
  list.push_back({op, "use_sequence_length=True", {{3, 2, 2}, {2}}, 3, 1, 3});
  list.push_back({op, "use_sequence_length=True", {{4, 3}, {3}}, 3, 2, 4});
  list.push_back({op, "use_sequence_length=True", {{3, 4}, {4}}, 3, -2, 6});
  list.push_back({op, "use_sequence_length=True", {{1, 1, 1}, {1}}, 3, 1, 1.5});
  list.push_back({op, "use_sequence_length=True", {{0, 2}, {2}}});
}

void addGroupNorm(std::vector<Sample> &list) {
  const char *op = "GroupNorm";
  list.push_back({op, "num_groups=2, eps=0.1", {{2, 4, 2}, {2}, {2}}, 2});
  list.push_back({op, "eps=0.5", {{2, 3, 1, 2}, {1}, {1}}, 2});
  list.push_back({op, "num_groups=3, eps=0.2", {{1, 3, 2}, {3}, {3}}, 2});
  list.push_back({op, "num_groups=2, eps=0.3, output_mean_var=True", {{1, 2, 2}, {2}, {2}}, 2});
  list.push_back({op, "num_groups=2", {{2, 4, 3}, {2}, {2}}});
  list.push_back({op, "eps=1", {{1, 1, 1}, {1}, {1}}});
  list.push_back({op, "num_groups=2", {{0, 4, 2}, {2}, {2}}});
}

// Away from margins of 1 and 0.5; a label is one of `classes`.
void addLosses(std::vector<Sample> &list) {
  const char *op = "softmax_cross_entropy";
  list.push_back({op, "", {{4, 3}, {4}}});
  list.push_back({op, "", {{2, 5}, {2}}, 3, 0, 0, 5});
  list.push_back({op, "", {{3, 2}, {3}}, 3, -4, 4, 2});
  list.push_back({op, "", {{1, 1}, {1}}, 3, 0, 0, 1});
  list.push_back({op, "", {{0, 3}, {0}}});
  op = "SVMOutput";
  list.push_back({op, "", {{4, 3}, {4}}});
  list.push_back({op, "margin=0.7, regularization_coefficient=0.3", {{2, 3}, {2}}});
  list.push_back({op, "use_linear=True", {{3, 3}, {3}}});
  list.push_back({op, "use_linear=True, margin=0.5, regularization_coefficient=2", {{2, 2, 3}, {2, 2}}});
  list.push_back({op, "margin=-0.5", {{3, 2}, {3}}, 3, 0, 0, 4});
  list.push_back({op, "", {{1, 1}, {1}}, 3, 0, 0, 1});
  list.push_back({op, "", {{0, 3}, {0}}});
}

void addImages(std::vector<Sample> &list) {
  const char *op = "depth_to_space";
  list.push_back({op, "block_size=2", {{1, 8, 1, 2}}});
  list.push_back({op, "block_size=2", {{2, 4, 2, 1}}});
  list.push_back({op, "block_size=3", {{1, 9, 1, 1}}});
  list.push_back({op, "block_size=1", {{1, 2, 1, 2}}});
  list.push_back({op, "block_size=2", {{0, 4, 2, 2}}});
  op = "space_to_depth";
  list.push_back({op, "block_size=2", {{1, 2, 2, 4}}});
  list.push_back({op, "block_size=2", {{2, 1, 4, 2}}});
  list.push_back({op, "block_size=3", {{1, 1, 3, 3}}});
  list.push_back({op, "block_size=1", {{1, 2, 1, 2}}});
  list.push_back({op, "block_size=2", {{1, 0, 2, 2}}});
  op = "im2col";
  list.push_back({op, "kernel=(2,)", {{2, 2, 4}}});
  list.push_back({op, "kernel=(2, 2)", {{1, 2, 3, 3}}});
  list.push_back({op, "kernel=(3, 2), stride=(2, 1), pad=(1, 1)", {{1, 1, 4, 3}}});
  list.push_back({op, "kernel=(2, 3), dilate=(2, 1), stride=(1, 3)", {{1, 2, 3, 5}}});
  list.push_back({op, "kernel=(2, 1, 2), pad=(0, 1, 1)", {{1, 1, 2, 1, 2}}});
  list.push_back({op, "kernel=(2, 2), stride=(1, 2), pad=(0, 1)", {{1, 1, 3, 3}}});
  list.push_back({op, "kernel=(1,)", {{1, 1, 1}}});
  list.push_back({op, "kernel=(2, 2)", {{0, 2, 3, 3}}});
  op = "col2im";
  list.push_back({op, "kernel=(2,), output_size=(4,)", {{2, 4, 3}}});
  list.push_back({op, "kernel=(2, 2), output_size=(3, 3)", {{1, 8, 4}}});
  list.push_back({op, "kernel=(3, 2), stride=(2, 1), pad=(1, 1), output_size=(4, 3)", {{1, 6, 8}}});
  list.push_back({op, "kernel=(2, 3), dilate=(2, 1), stride=(1, 3), output_size=(3, 5)", {{1, 12, 1}}});
  list.push_back({op, "kernel=(2, 1, 2), pad=(0, 1, 1), output_size=(2, 1, 2)", {{1, 4, 9}}});
  list.push_back({op, "kernel=(1,), output_size=(1,)", {{1, 1, 1}}});
  list.push_back({op, "kernel=(2, 2), output_size=(3, 3)", {{1, 0, 4}}});
}

void addCasts(std::vector<Sample> &list) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {1}, {0, 2}, {3, 1, 2}}) {
    list.push_back({"amp_cast", "dtype=float32", {shape}});
    list.push_back({"amp_multicast", "num_outputs=1", {shape}});
  }
  list.push_back({"amp_cast", "dtype=float32", {{}}});
  list.push_back({"amp_multicast", "num_outputs=2", {{2, 2}, {3}}});
  list.push_back({"amp_multicast", "num_outputs=3, cast_narrow=True", {{2}, {1, 2}, {2, 1}}});
}

void addKhatriRao(std::vector<Sample> &list) {
  const char *op = "khatri_rao";
  list.push_back({op, "num_args=2", {{2, 2}, {3, 2}}});
  list.push_back({op, "num_args=1", {{2, 3}}});
  list.push_back({op, "num_args=3", {{2, 2}, {1, 2}, {2, 2}}});
  list.push_back({op, "num_args=2", {{1, 1}, {1, 1}}});
  list.push_back({op, "num_args=2", {{0, 2}, {3, 2}}});
}

}  // namespace

std::vector<Sample> networkSamples() {
  std::vector<Sample> list;
  addProducts(list);
  addAttention(list);
  addSequences(list);
  addGroupNorm(list);
  addLosses(list);
  addImages(list);
  addCasts(list);
  addKhatriRao(list);
  return list;
}

}  // namespace gradc::testing
