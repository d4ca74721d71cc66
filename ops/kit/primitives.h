// Operators that rules and decompositions of other families emit, under the file of ops/ that defines them.
//
// They cannot be declared in the headers of their families: exp differentiates to a product, products decompose to
// sums and shapes, shapes to sums, so that every family would include every other.
// tests/house/house_test.cc compares the list with the definitions.
#pragma once

#include "ir/op/op.h"

namespace gradc {

// creation/zeros_ones.cc
extern const OpDef kZerosLike;         // zeros_like(x)
extern const OpDef kOnesLike;          // ones_like(x)
extern const OpDef kZerosPlaceholder;  // _zeros_without_dtype()
extern const OpDef kFull;              // _full(; shape, dtype, value)
extern const OpDef kCopy;              // _copy(x)
extern const OpDef kGradientTap;       // _gradient_tap(x)
extern const OpDef kBackwardCopy;      // _backward_copy(dy): gradient of whatever only reshapes

// creation/constant.cc
extern const OpDef kConstant;  // _constant(; dtype, shape, values)

// creation/assign.cc
extern const OpDef kAssign;  // _assign(state, value): value, which overwrites the state, a variable
/// The state before a node that overwrites it: the node's own operand is the version that it writes (IR-08).
inline Value beforeWrite(Value state) {
  return Value{state.node, state.index, static_cast<decltype(state.version)>(state.version ? state.version - 1 : 0)};
}

// binary/binary.cc: operands of equal shape
extern const OpDef kElemwiseAdd, kElemwiseSub, kElemwiseMul, kElemwiseDiv;
extern const OpDef kGradAdd;         // _grad_add(x, y)
extern const OpDef kElementWiseSum;  // add_n, alias ElementWiseSum: x0 + x1 + …, attribute num_args

// binary/broadcast.cc: NumPy broadcasting
extern const OpDef kBroadcastAdd, kBroadcastSub, kBroadcastMul, kBroadcastDiv;

// binary/power.cc
extern const OpDef kPower, kBroadcastPower;

// binary/extrema.cc
extern const OpDef kBroadcastMaximum, kBroadcastMinimum;

// binary/comparison.cc: 1 where true, else 0; no gradient
extern const OpDef kEqual, kNotEqual, kGreater, kGreaterEqual, kLesser, kLesserEqual;  // operands of equal shape
extern const OpDef kBroadcastEqual, kBroadcastNotEqual, kBroadcastGreater, kBroadcastGreaterEqual, kBroadcastLesser,
    kBroadcastLesserEqual;
extern const OpDef kGreaterScalar, kLesserScalar, kEqualScalar, kNotEqualScalar, kGreaterEqualScalar,
    kLesserEqualScalar;

// binary/binary_functions.cc
extern const OpDef kHypot, kBroadcastHypot, kHypotScalar, kArctan2, kArctan2Scalar, kRarctan2Scalar;

// binary/where.cc
extern const OpDef kWhere;  // where(condition, x, y)

// elementwise/scalar.cc: attribute `scalar`
extern const OpDef kPlusScalar, kMinusScalar, kRminusScalar, kMulScalar, kDivScalar, kRdivScalar, kPowerScalar,
    kRpowerScalar, kMaximumScalar, kMinimumScalar;

// elementwise/unary.cc
extern const OpDef kNegative, kExp, kLog, kSqrt, kCbrt, kSquare, kReciprocal, kAbs, kSign, kRelu, kSigmoid, kTanh,
    kSoftsign, kLog1p, kExpm1;

// elementwise/trigonometric.cc
extern const OpDef kSin, kCos, kSinh, kCosh, kArctan;

// elementwise/rounding.cc: no gradient flows through floor and ceil
extern const OpDef kRound, kFloor, kCeil;

// elementwise/cast.cc
extern const OpDef kCast;          // Cast(x; dtype)
extern const OpDef kBackwardCast;  // _backward_cast(dy; dtype): dy in the type of the x of its forward node
extern const OpDef kCastLike;      // _cast_like(x, like): x in the type of `like`

// elementwise/in_training.cc
extern const OpDef kInTraining;  // _in_training(x): x in training, zeros in inference

// reduction/reduce.cc
extern const OpDef kSum, kMean;         // attributes axis, keepdims, exclude
extern const OpDef kSumLike;            // _sum_like(v, x): v summed down to the shape of x (undoes a broadcast)
extern const OpDef kBroadcastLike;      // broadcast_like(v, x): v broadcast to the shape of x
extern const OpDef kBroadcastBackward;  // _broadcast_backward(dy): dy summed down to what was broadcast
extern const OpDef kBroadcastAxisLike;  // _broadcast_axis_like(v, x; axis): vector v of x's length on `axis`, repeated
                                        // over every other axis to the shape of x. Its adjoint is
                                        // sum(axis=axis, exclude=True).

// reduction/reduce_extrema.cc: attributes axis, keepdims, exclude
extern const OpDef kMax, kMin;
extern const OpDef kRepeatAxesLike;  // _repeat_axes_like(v, x): v, a reduction of x, repeated to its shape

// reduction/product.cc
extern const OpDef kProd;  // attributes axis, keepdims, exclude

// reduction/cumsum.cc
extern const OpDef kCumsum;  // _np_cumsum(x; axis)

// shape/shape_ops.cc
extern const OpDef kReshapeLike;  // reshape_like(v, x): v's elements in x's shape
extern const OpDef kFlatten;      // Flatten(x): (d0, d1·d2·…)

// shape/reshape.cc
extern const OpDef kReshape, kExpandDims, kSqueeze;

// shape/transpose.cc
extern const OpDef kTranspose, kSwapAxis, kReverse;

// shape/repeat.cc
extern const OpDef kRepeat, kTile;

// shape/broadcast_to.cc
extern const OpDef kBroadcastAxis;

// shape/diag.cc
extern const OpDef kDiag;  // diag(x; k, axis1, axis2)

// shape/slice.cc
extern const OpDef kSlice, kSliceAxis, kSliceLike;

// shape/split_stack.cc
extern const OpDef kSliceChannel, kStack;

// shape/concat.cc
extern const OpDef kConcat;

// index/take.cc
extern const OpDef kTake;  // take(a, indices; axis, mode)

// index/pick.cc
extern const OpDef kPick;  // pick(data, index; axis, keepdims, mode): an element of each row along the axis

// index/gather_nd.cc
extern const OpDef kGatherNd;   // gather_nd(data, indices): y[j…] = data[indices[0,j…], indices[1,j…], …]
extern const OpDef kScatterNd;  // _scatter_nd(base, updates, indices; reduction): base with the updates in place
                                // of, or added to, what gather_nd would pick

// index/index_like.cc
extern const OpDef kIndexLike;  // _index_like(data; axis): int64 indices along the axis, whatever data has; no gradient

// index/along_axis.cc: int64 positions along an axis
extern const OpDef kSortOrder;         // _sort_order(x; axis, is_ascend): positions that sort x
extern const OpDef kTakeAlongAxis;     // _take_along_axis(x, positions; axis)
extern const OpDef kScatterAlongAxis;  // _scatter_along_axis(v, positions, x; axis): its adjoint, in the shape of x

// linear/dot.cc
extern const OpDef kDot;  // dot(a, b; transpose_a, transpose_b), two-dimensional operands at least

// linear/batch_dot.cc
extern const OpDef kBatchDot;  // batch_dot(a, b; transpose_a, transpose_b), (batch, rows, columns)

// linear/fully_connected.cc
extern const OpDef kFullyConnected;  // FullyConnected(x, weight, bias; num_hidden, flatten): x·weightᵀ + bias

// normalization/softmax.cc
extern const OpDef kSoftmax;  // softmax(x; axis)

// spatial/pooling.cc
extern const OpDef kPooling;  // Pooling(x; kernel, stride, pad, pool_type)

// linear/interleaved_matmul.cc
extern const OpDef kDivSqrtDim;  // _contrib_div_sqrt_dim(x): x / √(length of the last axis)

// random/random.cc
extern const OpDef kUniformLike;  // _uniform_like(data; low, high): float64 draws, whatever data has; no gradient

// random/dropout.cc
extern const OpDef kDropout;  // Dropout(x; p)

// control/scan.cc
extern const OpDef kScan;

// control/cond.cc
extern const OpDef kCond;

// control/call.cc
extern const OpDef kCall;

}  // namespace gradc
