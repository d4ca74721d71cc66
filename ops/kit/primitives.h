// Operators that rules and decompositions of other families emit. Each is defined in the family file named beside it.
#pragma once

#include "ir/op/op.h"

namespace gradc {

// zeros_ones.cc
extern const OpDef kZerosLike;         // zeros_like(x)
extern const OpDef kOnesLike;          // ones_like(x)
extern const OpDef kZerosPlaceholder;  // _zeros_without_dtype()
extern const OpDef kFull;              // _full(; shape, dtype, value)
extern const OpDef kCopy;              // _copy(x)
extern const OpDef kGradientTap;       // _gradient_tap(x)
extern const OpDef kBackwardCopy;      // _backward_copy(dy): gradient of whatever only reshapes

// binary.cc, power.cc: operands of equal shape
extern const OpDef kElemwiseAdd, kElemwiseSub, kElemwiseMul, kElemwiseDiv, kPower;
extern const OpDef kGradAdd;         // _grad_add(x, y)
extern const OpDef kElementWiseSum;  // add_n, alias ElementWiseSum: x0 + x1 + …, attribute num_args

// scalar.cc: attribute `scalar`
extern const OpDef kPlusScalar, kMinusScalar, kRminusScalar, kMulScalar, kDivScalar, kRdivScalar, kPowerScalar,
    kRpowerScalar, kMaximumScalar, kMinimumScalar;
// 1 where true, else 0; no gradient
extern const OpDef kGreaterScalar, kLesserScalar, kEqualScalar, kNotEqualScalar, kGreaterEqualScalar,
    kLesserEqualScalar;

// unary.cc, trigonometric.cc, rounding.cc
extern const OpDef kNegative, kExp, kLog, kSqrt, kCbrt, kSquare, kReciprocal, kAbs, kSign, kRound, kRelu, kSigmoid,
    kTanh, kSoftsign, kLog1p, kExpm1;
extern const OpDef kSin, kCos, kSinh, kCosh, kArctan;
extern const OpDef kFloor, kCeil;  // no gradient flows through them

// reduce.cc
extern const OpDef kSum, kMean;         // attributes axis, keepdims, exclude
extern const OpDef kMax, kMin;          // the same (reduce_extrema.cc)
extern const OpDef kProd;               // the same (product.cc)
extern const OpDef kCumsum;             // _np_cumsum(x; axis) (cumsum.cc)
extern const OpDef kSumLike;            // _sum_like(v, x): v summed down to the shape of x (undoes a broadcast)
extern const OpDef kBroadcastLike;      // broadcast_like(v, x): v broadcast to the shape of x
extern const OpDef kBroadcastAxisLike;  // _broadcast_axis_like(v, x; axis): vector v of x's length on `axis`, repeated
                                        // over every other axis to the shape of x. Its adjoint is
                                        // sum(axis=axis, exclude=True).
extern const OpDef kRepeatAxesLike;  // _repeat_axes_like(v, x; axis, keepdims, exclude): v, a reduction of x, repeated
                                     // to its shape (reduce_extrema.cc)

// shape_ops.cc
extern const OpDef kReshapeLike;  // reshape_like(v, x): v's elements in x's shape
extern const OpDef kFlatten;      // Flatten(x): (d0, d1·d2·…)

// dot.cc
extern const OpDef kDot;       // dot(a, b; transpose_a, transpose_b), two-dimensional operands at least
extern const OpDef kBatchDot;  // batch_dot(a, b; transpose_a, transpose_b), (batch, rows, columns) (batch_dot.cc)

// broadcast.cc, power.cc: NumPy broadcasting
extern const OpDef kBroadcastAdd, kBroadcastSub, kBroadcastMul, kBroadcastDiv, kBroadcastPower;

// diag.cc, reduce.cc, repeat.cc, reshape.cc, reverse.cc, slice.cc, split_stack.cc, transpose.cc: operators that move
// elements
extern const OpDef kBroadcastBackward;  // _broadcast_backward(dy): dy summed down to what was broadcast
extern const OpDef kTranspose, kSwapAxis, kReverse, kRepeat, kTile, kReshape, kExpandDims, kSqueeze, kBroadcastAxis;
extern const OpDef kDiag;  // diag(x; k, axis1, axis2)
extern const OpDef kSlice, kSliceAxis, kSliceLike, kSliceChannel, kStack, kConcat;

// comparison.cc: 1 where true, else 0; no gradient
extern const OpDef kEqual, kNotEqual, kGreater, kGreaterEqual, kLesser, kLesserEqual;  // operands of equal shape
extern const OpDef kBroadcastEqual, kBroadcastNotEqual, kBroadcastGreater, kBroadcastGreaterEqual, kBroadcastLesser,
    kBroadcastLesserEqual;

// binary_functions.cc
extern const OpDef kHypot, kBroadcastHypot, kHypotScalar, kArctan2, kArctan2Scalar, kRarctan2Scalar;

// extrema.cc
extern const OpDef kBroadcastMaximum, kBroadcastMinimum;  // broadcast_maximum(a, b), broadcast_minimum(a, b)

// constant.cc
extern const OpDef kConstant;  // _constant(; dtype, shape, values)

// cast.cc
extern const OpDef kCast;          // Cast(x; dtype)
extern const OpDef kBackwardCast;  // _backward_cast(dy; dtype): dy in the type of the x of its forward node
extern const OpDef kCastLike;      // _cast_like(x, like): x in the type of `like`

// take.cc, gather_nd.cc, pick.cc, index_copy.cc
extern const OpDef kTake;       // take(a, indices; axis, mode)
extern const OpDef kPick;       // pick(data, index; axis, keepdims, mode): an element of each row along the axis
extern const OpDef kGatherNd;   // gather_nd(data, indices): y[j…] = data[indices[0,j…], indices[1,j…], …]
extern const OpDef kScatterNd;  // _scatter_nd(base, updates, indices; reduction): base with the updates in place
                                // of, or added to, what gather_nd would pick

// in_training.cc
extern const OpDef kInTraining;  // _in_training(x): x in training, zeros in inference

// index_like.cc, random.cc: of data only the shape is used; no gradient
extern const OpDef kIndexLike;    // _index_like(data; axis): int64 indices along the axis
extern const OpDef kUniformLike;  // _uniform_like(data; low, high): float64 draws

// along_axis.cc: int64 positions along an axis
extern const OpDef kSortOrder;         // _sort_order(x; axis, is_ascend): positions that sort x
extern const OpDef kTakeAlongAxis;     // _take_along_axis(x, positions; axis)
extern const OpDef kScatterAlongAxis;  // _scatter_along_axis(v, positions, x; axis): its adjoint, in the shape of x

// assign.cc
extern const OpDef kAssign;  // _assign(state, value): value, which overwrites the state, a variable
/// The state before a node that overwrites it: the node's own operand is the version that it writes (IR-08).
inline Value beforeWrite(Value state) {
  return Value{state.node, state.index, static_cast<decltype(state.version)>(state.version ? state.version - 1 : 0)};
}

// softmax.cc, pooling.cc
extern const OpDef kSoftmax;  // softmax(x; axis)
extern const OpDef kPooling;  // Pooling(x; kernel, stride, pad, pool_type)

// sequence.cc
extern const OpDef kDivSqrtDim;  // _contrib_div_sqrt_dim(x): x / √(length of the last axis)
// fully_connected.cc, dropout.cc
extern const OpDef kFullyConnected;  // FullyConnected(x, weight, bias; num_hidden, flatten): x·weightᵀ + bias
extern const OpDef kDropout;         // Dropout(x; p)

// scan.cc, cond.cc, call.cc: operators with bodies, which gradients of such operators emit
extern const OpDef kScan, kCond, kCall;

// where.cc
extern const OpDef kWhere;  // where(condition, x, y)

}  // namespace gradc
