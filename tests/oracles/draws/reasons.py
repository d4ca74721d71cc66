"""Differences that are known, and why they are right as they are. What no row here explains fails attribute_draws.py."""
import re

# Found in the message of whoever refuses, whatever the operator.
REFUSALS = [
    ("only gradc refuses", r"attribute '\w+' is \"\", expected", "to MXNet nothing is a number"),
    ("only gradc refuses", r"attribute 'workspace' is", "MXNet does not check the range of what it does not use"),
    ("only MXNet refuses", r"Unsupported data type|data type do not match|floating point types|Only FP32|unknown type for MKLDNN"
     r"|[Nn]ot impl(e)?mented|only supports 32-bit and 64-bit|does not support float16|not supported for|valid values are: \{None, 'float|expect int but value='\w+int|uint32 is not"
     r"|currentlyonly supported by CuDNN|only supports float32", "MXNet has it in fewer types"),
    ("only MXNet refuses", r"Some trailing characters|Invalid Parameter format|Invalid Input: '( |\")", "gradc reads more spellings"),
    ("only MXNet refuses", r"index = -\d+ must be in range", "MXNet does not count negative axes from the end here"),
    ("only MXNet refuses", r"could not create a descriptor|delay_alloc|Shape size mismatch 0|shape_\.Size\(\) == |Size\(\) > 0U"
     r"|mkldnn_mem", "MXNet fails on tensors without elements or views of them"),
]

# Results have fractions, which MXNet cuts to the type of the input; gradc refuses integers (docs/types.md).
FRACTIONS = "|".join("""
_contrib_div_sqrt_dim _contrib_quadratic _div_scalar _hypot _hypot_scalar _npi_arctan2_scalar _npi_ldexp
_npi_ldexp_scalar _npi_rarctan2_scalar _npi_rldexp_scalar _rdiv_scalar arccos arccosh arcsin arcsinh arctan
arctanh broadcast_div broadcast_hypot cbrt cos cosh degrees elemwise_div erf erfinv exp expm1 gamma gammaln
log log10 log1p log2 mean moments norm radians rcbrt reciprocal rsqrt sigmoid sin sinh smooth_l1 softsign sqrt tan
tanh
""".split())

# operator, column, pattern of the setting, pattern of what is found, reason
KNOWN = [
    (FRACTIONS, "only gradc refuses", "", "its kernel computes in", "MXNet cuts fractions of integers"),
    ("_sample_(normal|uniform)", "only gradc refuses", r"\]:u?int", "its kernel computes in", "parameters of integers: MXNet draws floating numbers"),
    ("_contrib_AdaptiveAvgPooling2D", "only gradc refuses", "output_size", "output_size", "MXNet reads two numbers and takes 0 for no number"),
    ("_eye", "only gradc refuses", "M=-", "'M'", "MXNet takes a negative number of columns for that of the rows"),
    ("ftml_update|(mp_)?lamb_update_phase1", "only gradc refuses", "t=", "'t'", "steps count from 1: MXNet divides by 1 - beta^t = 0"),
    ("RNN", "only gradc refuses", "projection_size", "'projection_size' is", "MXNet has projections on graphics processors alone, and does not look at their size"),
    ("RNN", "only gradc refuses", "lstm_state_clip", "for mode lstm", "MXNet ignores them in other modes"),
    ("RNN", "differ", "lstm_state_clip|use_sequence_length", "", "MXNet ignores both on a processor"),
    ("BatchNorm", "only gradc refuses", "", "input [1-4] has shape", "MXNet reads vectors of a wrong length outside their memory"),
    ("where", "only gradc refuses", "", "condition has shape", "MXNet reads a condition of a wrong shape outside its memory"),
    ("im2col|col2im", "only gradc refuses", "", "input 0 has shape", "MXNet reads axes that the kernel does not have"),
    ("im2col|col2im", "only MXNet refuses", "", "must be in range", "MXNet wants stride, dilate and pad for more than two axes"),
    ("_unravel_index", "only gradc refuses", "shape=.*0", "'shape'", "MXNet divides by the length 0"),
    ("_unravel_index", "only gradc refuses", "", "input 0 has shape", "MXNet's answer for indices of more axes has the wrong elements"),
    ("repeat", "only gradc refuses", "repeats=0", "", "MXNet's answer is flat where nothing is left"),
    ("Convolution|Pooling|im2col|col2im", "only gradc refuses", "pad=.*-1", "'pad'", "MXNet crops by a negative pad, sometimes"),
    ("Pooling", "only gradc refuses", r"(stride|kernel)=\(.*-1", "'(stride|kernel)'", "MXNet reads outside the data by a step or window below 1"),
    ("Pooling", "differ", "pooling_convention=full.*pool_type=avg|pool_type=avg.*pooling_convention=full", "0.0, MXNet nan",
     "a window behind the image has no element: the mean is 0, of MXNet 0 / 0"),
    ("_arange|_contrib_arange_like", "differ", "float16", "output", "MXNet drops the fractions of start, step and multiples in float16"),
    ("(_mp|mp)_.*_update.*", "only MXNet refuses", "", "Type inconsistent", "MXNet has states in float32 alone, and LAMB's weight in float16"),
    ("mp_lamb_update_phase2", "differ", "", "state op_weight32", "MXNet leaves the weight in float32 as it was (mxnet_differences.md)"),
    ("mp_lamb_update_phase1", "differ", "rescale_grad=.*float16", "state op_(mean|var)|output", "MXNet rounds the rescaled gradient to float16 (mxnet_differences.md)"),
    ("mp_nag_mom_update", "differ", r"wd=(?!0[,.)f ]*[,)])", "state op_mom", "MXNet takes its decay from the new weight (mxnet_differences.md)"),
    ("(mp_)?lamb_update_phase2", "only gradc refuses", "", r"input [23] has shape .*, expected \(1,\)", "MXNet reads the first element of the norms"),
    ("_(mp_)?adamw_update", "only gradc refuses", "", r"input \d has shape .*, expected \(1,\)", "MXNet reads the first element of the factor"),
    ("_contrib_arange_like", "only gradc refuses", "repeat=-", "'repeat'", "MXNet counts backwards by a negative number of repetitions"),
    ("_mod_scalar", "differ", "float16", "output", "MXNet rounds the number to 16 bits"),
    ("_rmod_scalar", "MXNet's gradient wrong", "float16", "", "MXNet divides in 16 bits"),
    ("_rmod_scalar", "differ", "", "gradient", "0.1 goes into 1 nine times, as the remainders of both say; MXNet's quotient rounds up to 10"),
    ("broadcast_like", "only gradc refuses", "_axes=", "twice", "MXNet takes an axis that is named twice"),
    ("_r?power_scalar", "differ", "int32", "2147483647, MXNet -2147483648", "numbers out of range saturate; MXNet's wrap around"),
    ("stack", "only gradc refuses", "", r"input \d has shape", "MXNet compares numbers of elements alone"),
    ("softmax|softmin|log_softmax", "differ", r"dtype=float64.*\]:float16", "output", "MXNet rounds to 16 bits in between"),
    ("batch_dot", "only MXNet refuses", "float16", "Check failed", "MXNet has it in fewer types"),
    ("MakeLoss", "only MXNet refuses", r"\[\]:", "InferShape", "a number without axes is a loss, too"),
    ("LRN", "MXNet's gradient wrong", r"\[\d+, 1, 1, 1\]", "", "MXNet's is wrong for one channel of one pixel (mxnet_differences.md)"),
    ("Reshape", "only gradc refuses", "-3", "numbers of elements differ", "MXNet does not compare them, and reads outside the data"),
    ("Deconvolution", "only MXNet refuses", "", "Only 1D or 2D", "MXNet has no third axis on a processor"),
    ("Deconvolution", "differ", r"dilate=\(.*[2-9].*?\)", "output", "MXNet's forward pass is not the adjoint of its backward pass (mxnet_differences.md)"),
    ("Pooling", "only MXNet refuses", "", r"pad_l\[\d\] < kernel|'same' supports Max|Same pooling convention", "restrictions of MXNet's kernels"),
    ("dot", "only MXNet refuses", "transpose", "Cannot transpose vectors", "the transpose of a vector is the vector"),
    ("broadcast_like", "only MXNet refuses", "", r"ndim\(\) ==", "as in broadcasting, the ranks may differ"),
    ("broadcast_like", "only MXNet refuses", "axes", "Empty axes|cannot be broadcast", "no axes, and equal lengths, are broadcast as they are"),
    ("tile", "only MXNet refuses", "", "Too many reduction axes", "limit of MXNet's reductions"),
    ("_slice_assign(_scalar)?", "only MXNet refuses", "(begin|end)=None", "same length", "None is none of the axes"),
    ("_contrib_index_array", "only MXNet refuses", "axes= None", "", "to MXNet a blank and None are an axis"),
    ("_scatter_set_nd", "only MXNet refuses", "", "dptr_", "MXNet runs it in place alone"),
    ("_zeros_without_dtype", "only MXNet refuses", "dtype", "expect int", "MXNet takes the number of a type, gradc its name as well"),
    ("softmax", "only MXNet refuses", "use_length", "must be in range|inconsistent", "MXNet's shape function fails on some axes"),
    ("_contrib_div_sqrt_dim", "only MXNet refuses", "", "ndim", "of a number it is the number"),
    ("SoftmaxOutput", "differ", "out_grad=(True|1)", "gradient", "MXNet multiplies by the output (mxnet_differences.md)"),
    ("SoftmaxOutput", "differ", "", "output", "rows of data with more than two axes: MXNet in float32 takes the last axis, in float64 all but the first"),
    ("SoftmaxOutput", "differ", "normalization=(valid|batch)", "gradient", "rows of data with more than two axes: MXNet counts labels that it does not read"),
    ("Cast|amp_cast|_np_cumsum", "differ", "int", "no gradient", "whole numbers carry no gradient; MXNet casts it there and back"),
    ("Cast|_full|one_hot|_linspace|_arange|_np_cumsum", "differ", "int8", "MXNet (2[45]|-)", "numbers out of range saturate; MXNet's wrap around"),
    ("amp_cast", "differ", "int", "output", "MXNet rounds to the nearest through oneDNN, and crops elsewhere"),
    ("_rpower_scalar", "differ|MXNet's gradient wrong", "scalar=0", "MXNet (nan|-?inf)", "the derivative of 0^x is 0 for x > 0, and taken as 0 elsewhere; MXNet multiplies by log 0"),
    (".*_scalar|_contrib_gradientmultiplier", "only gradc refuses", "is_int=([Ff]alse|0)", "is_int is False", "whole numbers and a fraction: MXNet answers in float64"),
    ("SoftmaxOutput", "differ", "smooth_alpha=", "gradient", "of one class: MXNet smooths it away, the loss is constant"),
    ("_contrib_interleaved_matmul_.*", "only gradc refuses", "", "expected a multiple", "MXNet leaves the rest out"),
    ("_contrib_BilinearResize2D", "only gradc refuses", "", "resized to an empty image|input 1 has shape|not empty", "MXNet does not look"),
    ("UpSampling", "only gradc refuses", "", "'num_filter' is", "MXNet does not check the range of what it does not use"),
    ("Pooling", "only gradc refuses", "count_include_pad=NONE", "", "to MXNet the case of None does not matter"),
    ("Pooling", "only gradc refuses", "p_value", "'p_value'", "MXNet does not check the range of what it does not use"),
    ("LRN", "only gradc refuses", "nsize", "odd", "MXNet's oneDNN kernel takes an even window, its own does not"),
    ("LRN|InstanceNorm|LeakyReLU", "only MXNet refuses", "", "ndim|dimension|local size", "restrictions of MXNet's kernels"),
    ("RNN", "only MXNet refuses", "projection|clip|use_seq", "", "MXNet has it on graphics processors alone"),
    ("RNN", "only gradc refuses", "", "given together|for mode lstm", "MXNet does not look at contradictions"),
    (".*RegressionOutput", "only gradc refuses", "", "'grad_scale' is", "MXNet reads the attribute when it is needed"),
    ("Pad", "only gradc refuses", "reflect", "too few elements", "MXNet reads outside the data"),
    ("Pooling|Convolution", "only MXNet refuses", "layout=N.*C,", "layout", "MXNet has channels last on graphics processors alone"),
    ("Pooling", "only MXNet refuses", r"global_pool=True.*layout|layout.*global_pool=True", "layout", "one pixel whatever the axes"),
    ("Reshape", "only gradc refuses", "reverse", "numbers of elements differ", "MXNet does not compare them, and reads outside the data"),
    ("Pooling", "only MXNet refuses", "pooling_convention=same", "must be in range", "MXNet has it for two axes"),
    ("Pooling", "only gradc refuses", "", r"'(stride|pad)' has \d elements", "MXNet ignores what is too many"),
    ("Reshape", "differ|only gradc refuses|only MXNet refuses", r"-4.*-1", "shape|Size", "after -4 MXNet puts -1 at a wrong place, or outside"),
    ("gather_nd", "differ|MXNet's gradient wrong", "out of range", "gradient", "MXNet adds in front of the data (mxnet_differences.md)"),
    ("reshape_like", "only MXNet refuses", "begin|end", "Invalid begin", "no axes are replaced by some"),
    ("repeat", "differ", "repeats=0", "shape", "MXNet's answer is flat where nothing is left"),
    ("SoftmaxActivation", "MXNet's gradient wrong", "", "", "MXNet's gradient of mode instance runs along axis 1 (mxnet_differences.md)"),
    ("BatchNorm|LayerNorm|GroupNorm", "MXNet's gradient wrong", "output_mean_var=(True|1)", "", "MXNet ignores heads of statistics"
     " (mxnet_differences.md)"),
    ("_contrib_BilinearResize2D", "MXNet's gradient wrong", "mode=like", "op_like", "MXNet does not write that of the second input"),
    ("Pooling", "MXNet's gradient wrong", "full.*float32", "", "oneDNN divides by all of a window that ends outside (mxnet_differences.md)"),
    ("_npi_rarctan2_scalar", "MXNet's gradient wrong", "", "", "MXNet has x in place of the number (mxnet_differences.md)"),
    ("LeakyReLU", "differ|MXNet's gradient wrong", "selu|prelu", "gradient", "mxnet_differences.md"),
    ("CTCLoss", "differ|MXNet's gradient wrong", "", "", "MXNet reads outside its memory where labels do not fit the steps"),
]


def explain(op, draw, column, found):
    if column == "only gradc refuses" and draw.is_perturbed:
        return "MXNet does not check this operand"
    if column != "differ" and re.search(r"\[(\d+, )*0[,\]]", draw.description):
        return "tensors without elements: MXNet does not check their settings, or divides by their number"
    for where, pattern, reason in REFUSALS:
        if where == column and re.search(pattern, found):
            return reason
    for name, where, setting, pattern, reason in KNOWN:
        if re.fullmatch(name, op) and re.fullmatch(where, column) and re.search(setting, draw.description) and re.search(pattern, found):
            return reason
    return ""
