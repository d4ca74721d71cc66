// The slope of prelu: an input of one number, or of one per channel (axis 1, axis 0 of vectors). Two operators, adjoint
// to each other, spread it over the data and sum it back. Tested by tests/ops/layer_ops_test.cc
#pragma once

#include "ir/rules/inference.h"
#include "ops/kit/axis_rows.h"

namespace gradc {

/// Relates the shapes of two inputs. A gamma of unknown length gets one number per channel, as in MXNet.
void relateGamma(ShapeInference &s, size_t data, size_t gamma);

/// Rows such that one element of gamma applies across each; a gamma of one element applies to all of the data.
AxisRows gammaRows(Dims data, Dims gamma);

extern const OpDef kGammaSpread;  // _prelu_gamma_spread(gamma, data): gamma of the channel of each element
extern const OpDef kGammaSum;     // _prelu_gamma_sum(v, gamma): its adjoint

}  // namespace gradc
