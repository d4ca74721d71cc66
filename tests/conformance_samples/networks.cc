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

}  // namespace

std::vector<Sample> networkSamples() {
  std::vector<Sample> list;
  addProducts(list);
  addAttention(list);
  addSequences(list);
  addGroupNorm(list);
  return list;
}

}  // namespace gradc::testing
