"""Differences that are known, and why they are right as they are. What no row here explains fails attribute_draws.py."""
import re

# Found in the message of whoever refuses, whatever the operator.
REFUSALS = [
    ("only gradc refuses", r"its kernel computes in", "gradc's kernels compute in wider types"),
    ("only gradc refuses", r"attribute '\w+' is \"\", expected", "to MXNet nothing is a number"),
    ("only gradc refuses", r"attribute 'workspace' is", "MXNet does not check the range of what it does not use"),
    ("only MXNet refuses", r"Unsupported data type|data type do not match|floating point types|Only FP32|unknown type for MKLDNN"
     r"|Not implemented|not supported for|valid values are: \{None, 'float|expect int but value='\w+int|uint32 is not", "MXNet has it in fewer types"),
    ("only MXNet refuses", r"index = -\d+ must be in range", "MXNet does not count negative axes from the end here"),
    ("only MXNet refuses", r"could not create a descriptor|delay_alloc|Shape size mismatch 0|shape_\.Size\(\) == |Size\(\) > 0U"
     r"|mkldnn_mem", "MXNet fails on tensors without elements or views of them"),
]

# operator, column, pattern of the setting, pattern of what is found, reason
KNOWN = [
    ("_contrib_AdaptiveAvgPooling2D", "only gradc refuses", "output_size", "output_size", "MXNet reads two numbers and takes 0 for no number"),
    ("_eye", "only gradc refuses", "M=-", "'M'", "MXNet takes a negative number of columns for that of the rows"),
    ("ftml_update|lamb_update_phase1", "only gradc refuses", "t=", "'t'", "steps count from 1: MXNet divides by 1 - beta^t = 0"),
    ("RNN", "only gradc refuses", "lstm_state_clip", "for mode lstm", "MXNet ignores them in other modes"),
    ("RNN", "differ", "lstm_state_clip|use_sequence_length", "", "MXNet ignores both on a processor"),
    ("BatchNorm", "only gradc refuses", "", "input [34] has shape", "MXNet reads statistics of a wrong length outside their memory"),
    ("where", "only gradc refuses", "", "condition has shape", "MXNet reads a condition of a wrong shape outside its memory"),
    ("im2col|col2im", "only gradc refuses", "", "input 0 has shape", "MXNet reads axes that the kernel does not have"),
    ("im2col|col2im", "only MXNet refuses", "", "must be in range", "MXNet wants stride, dilate and pad for more than two axes"),
    ("repeat", "only gradc refuses", "repeats=0", "", "MXNet's answer is flat where nothing is left"),
    ("Convolution", "only gradc refuses", "pad=.*-1", "'pad'", "MXNet crops by a negative pad, sometimes"),
    ("Deconvolution", "only MXNet refuses", "", "Only 1D or 2D", "MXNet has no third axis on a processor"),
    ("Deconvolution", "differ", "dilate", "output", "MXNet's forward pass is not the adjoint of its backward pass (mxnet_differences.md)"),
    ("Pooling", "only MXNet refuses", "", r"pad_l\[0\] < kernel|'same' supports Max|Same pooling convention", "restrictions of MXNet's kernels"),
    ("dot", "only MXNet refuses", "transpose", "Cannot transpose vectors", "the transpose of a vector is the vector"),
    ("broadcast_like", "only MXNet refuses", "axes", "Empty axes|cannot be broadcast", "no axes, and equal lengths, are broadcast as they are"),
    ("tile", "only MXNet refuses", "", "Too many reduction axes", "limit of MXNet's reductions"),
    ("_scatter_set_nd", "only MXNet refuses", "", "dptr_", "MXNet runs it in place alone"),
    ("_zeros_without_dtype", "only MXNet refuses", "dtype", "expect int", "MXNet takes the number of a type, gradc its name as well"),
    ("softmax", "only MXNet refuses", "use_length", "must be in range|inconsistent", "MXNet's shape function fails on some axes"),
    ("_contrib_div_sqrt_dim", "only MXNet refuses", "", "ndim", "of a number it is the number"),
    ("SoftmaxOutput", "differ", "out_grad=(True|1)", "gradient", "MXNet multiplies by the output (mxnet_differences.md)"),
    ("SoftmaxOutput", "differ", "", "output", "rows of data with more than two axes: MXNet in float32 takes the last axis, in float64 all but the first"),
    ("SoftmaxOutput", "differ", "normalization=valid", "gradient", "rows of data with more than two axes: MXNet counts labels that it does not read"),
    ("Cast|amp_cast|_np_cumsum", "differ", "int", "no gradient", "whole numbers carry no gradient; MXNet casts it there and back"),
    ("Cast|_full", "differ", "uint8", "MXNet 2[45]", "numbers out of range saturate; MXNet's wrap around"),
    ("amp_cast", "differ", "int8", "output", "MXNet rounds to the nearest through oneDNN, and crops elsewhere"),
    ("_rpower_scalar", "differ", "scalar=0", "MXNet nan", "the derivative of 0^x is 0 for x > 0; MXNet multiplies 0 by log 0"),
    (".*_scalar", "only gradc refuses", "is_int=(False|0)", "is_int is False", "whole numbers and a fraction: MXNet answers in float64"),
    ("CTCLoss", "differ|MXNet's gradient wrong", "", "", "MXNet reads outside its memory where labels do not fit the steps"),
]


def explain(op, draw, column, found):
    if column == "MXNet crashes":
        return ""
    for where, pattern, reason in REFUSALS:
        if where == column and re.search(pattern, found):
            return reason
    for name, where, setting, pattern, reason in KNOWN:
        if re.fullmatch(name, op) and re.fullmatch(where, column) and re.search(setting, draw.description) and re.search(pattern, found):
            return reason
    return ""
