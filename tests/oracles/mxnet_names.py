"""Sorts the operators of MXNet 1.9.1 into those gradc has, those out of its scope, those planned for later, and the rest.

Usage: python3 tests/oracles/mxnet_names.py OPS.json GRADC [--list]

OPS.json maps each name that MXNet registers to its signature; GRADC is the tool. A name is *here* when `gradc ops NAME`
explains it, under that name or as an alias. The others go to the first family below whose pattern they match; what
matches none is *open*. Exit code 1 when an operator of the first tier, or one that a graph given by --graphs FILE ...
uses, is open.
"""
import argparse
import collections
import json
import re
import subprocess
import sys

# family, verdict, pattern of whole names
FAMILIES = [
    ("sparse storage", "out of scope",
     r"cast_storage|_sparse_retain|_square_sum|_contrib_getnnz|_contrib_SparseEmbedding|_scatter_(elemwise_div|plus_scalar|minus_scalar)"
     r"|_backward_(sparse_retain|square_sum|SparseEmbedding)|_sparse_adagrad_update|_contrib_edge_id|_contrib_group_adagrad_update"),
    ("vendor back ends", "out of scope", r"_sg_mkldnn_.*|_contrib_BatchNormWithReLU|_backward_contrib_BatchNormWithReLU"),
    ("image decoding and augmentation", "out of scope", r"_cv.*|_image_.*|_imdecode|_backward_image_.*"),
    ("graph sampling", "out of scope", r"_contrib_dgl_.*"),
    ("quantisation", "out of scope",
     r"_contrib_(quantize.*|quantized_.*|dequantize|requantize|calibrate_entropy)"),
    ("host callbacks and the engine", "out of scope",
     r"(_backward_)?(Custom|_NDArray|_Native|_CustomFunction|CustomFunction|CachedOp)|_CachedOp|_CachedOpThreadSafe|(_backward_)?_CrossDeviceCopy"
     r"|_copyto|_set_value|_onehot_encode|_NoGradient|_npi_share_memory|IdentityAttachKLSparseReg|_backward_IdentityAttachKLSparseReg"
     r"|_npx_constraint_check|fill_element_0index|reset_arrays"),
    ("multi-tensor optimizers", "out of scope",
     r"(preloaded_)?multi_.*|_multi_.*|all_finite"),
    ("operators of old versions", "out of scope", r"(_backward_)?(BatchNorm_v1|Convolution_v1|Pooling_v1)"),
    ("detection and geometry", "later",
     r"(_backward_)?(_contrib_)?(contrib_)?(MultiBox.*|MultiProposal|Proposal|PSROIPooling|Deformable.*|ModulatedDeformable.*|ROI.*|RROIAlign|bipartite_matching|box_.*"
     r"|BilinearSampler|GridGenerator|SpatialTransformer|Correlation|SyncBatchNorm|count_sketch|fft|ifft|hawkesll)"
     r"|_contrib_backward_hawkesll"),
    ("linear algebra", "later",
     r"(_backward)?_linalg_(?!gemm).*|_(npi|backward_npi)_(cholesky|eig.*|svd|solve|pinv.*|tensorinv|tensorsolve|norm|einsum|tensordot.*)"
     r"|khatri_rao|_backward_linalg_(?!gemm).*"),
    ("random distributions beyond uniform and normal", "later",
     r"_(random|sample)_(exponential|gamma|generalized_negative_binomial|negative_binomial|poisson|multinomial|randint|unique_zipfian|pdf_.*).*"
     r"|_backward_(pdf_.*|sample_multinomial|broadcast_(exponential|gumbel|logistic|normal|pareto|rayleigh|weibull))"
     r"|_npi_(bernoulli|choice|exponential|gamma|gumbel|logistic|multinomial|normal.*|pareto|rayleigh|uniform.*|weibull)"),
    ("sizes known at run time alone", "later",
     r"(_backward)?_contrib_boolean_mask|_backward_contrib_boolean_mask|_npi_(unique|delete|insert_.*|bincount|percentile|boolean_mask_assign_.*)|_npx_nonzero|_histogram"),
    ("gradients of control flow as MXNet names them", "later", r"_backward_(foreach|while_loop|cond)"),
    ("NumPy names with type rules or attributes of their own", "later", r"_(np|npi|npx|backward_np|backward_npi)_.*"),
]

TIER_1 = """
rint ceil floor trunc fix rsqrt cbrt rcbrt log2 log10 sin cos tan arcsin arccos arctan sinh cosh arcsinh arccosh arctanh erfinv
degrees radians logical_not abs sign round square sqrt exp log log1p expm1 gamma gammaln reciprocal negative relu sigmoid softsign
tanh erf hard_sigmoid smooth_l1 _hypot _mod _power _hypot_scalar _mod_scalar _rmod_scalar _power_scalar _rpower_scalar
broadcast_hypot broadcast_mod broadcast_power _npi_arctan2 _npi_arctan2_scalar _npi_rarctan2_scalar _npi_ldexp _npi_ldexp_scalar
_npi_rldexp_scalar _logical_and _logical_or _logical_xor _logical_and_scalar _logical_or_scalar _logical_xor_scalar
broadcast_logical_and broadcast_logical_or broadcast_logical_xor norm nansum nanprod _np_cumsum moments argmax argmin
argmax_channel take pick batch_take gather_nd scatter_nd _scatter_set_nd _backward_gather_nd one_hot topk sort argsort _shuffle
_slice_assign _slice_assign_scalar _contrib_index_copy diag shape_array size_array where depth_to_space space_to_depth im2col col2im
_eye _linspace _full GroupNorm RNN SequenceLast SequenceReverse SequenceMask _contrib_interleaved_matmul_selfatt_qk
_contrib_interleaved_matmul_selfatt_valatt _contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt
softmax_cross_entropy SVMOutput CTCLoss _linalg_gemm2 _linalg_gemm amp_cast amp_multicast BatchNorm Embedding _random_uniform
_random_normal _random_uniform_like _random_normal_like _sample_uniform _sample_normal nag_mom_update rmsprop_update rmspropalex_update
ftrl_update signsgd_update signum_update _adamw_update lamb_update_phase1 lamb_update_phase2 mp_sgd_update mp_sgd_mom_update
mp_nag_mom_update _mp_adamw_update mp_lamb_update_phase1 mp_lamb_update_phase2
""".split()


def family_of(name):
    for family, verdict, pattern in FAMILIES:
        if re.fullmatch(pattern, name):
            return verdict, family
    return "open", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops")
    parser.add_argument("gradc")
    parser.add_argument("--graphs", nargs="*", default=[])
    parser.add_argument("--list", action="store_true", help="print the names of each family")
    options = parser.parse_args()
    with open(options.ops, encoding="utf-8") as file:
        names = sorted(json.load(file))
    families = collections.defaultdict(list)
    for name in names:
        known = subprocess.run([options.gradc, "ops", name], capture_output=True, check=False).returncode == 0
        families[("here", "") if known else family_of(name)].append(name)
    used = set()
    for path in options.graphs:
        with open(path, encoding="utf-8") as file:
            used |= {node["op"] for node in json.load(file).get("nodes", [])}
    totals = collections.Counter()
    for (verdict, family), members in sorted(families.items()):
        totals[verdict] += len(members)
        print(f"{len(members):4} {verdict}{': ' + family if family else ''}")
        if options.list:
            print("     " + " ".join(members))
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(totals.items())) + f", of {len(names)}")
    missing = [name for name in families[("open", "")] if name in TIER_1 or name in used]
    later = [name for name in TIER_1 if name in names and family_of(name)[0] != "open" and name not in families[("here", "")]]
    if missing or later:
        print("open, though of the first tier or in a graph: " + " ".join(sorted(missing + later)))
    return 1 if missing or later else 0


if __name__ == "__main__":
    sys.exit(main())
