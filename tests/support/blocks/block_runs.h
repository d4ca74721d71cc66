// Programs of blocks and the graphs made of them, run on values.
#pragma once

#include "formats/blocks/backward/append_backward.h"
#include "formats/blocks/files/block_file.h"
#include "runtime/arrays/npy.h"

#include "llvm/ADT/StringMap.h"

namespace gradc::testing {

/// The request to appendBackward that a call in a file records.
FluidRequest requestOf(const BlockCall &call);
/// The targets that the call differentiates.
std::vector<std::string> targetsOf(const BlockCall &call);

using ArrayNames = llvm::StringMap<const NamedArray *>;

/// Bindings for the variables of a graph: feeds and parameters of one of Paddle's archives. A scalar has one axis in
/// graphs.
std::vector<NamedArray> bindingsFor(const Graph &graph, const ArrayNames &values);
/// Values for every variable from its declared shape and type: floats within (-1, 1), small counts, true. An unknown
/// axis gets two elements.
std::vector<NamedArray> drawnBindings(const Graph &graph, uint64_t seed);

/// The heads, run with the reference backend in training form.
llvm::Expected<std::vector<Array>> runHeads(Context &context, const Graph &graph, std::vector<NamedArray> bindings);

/// Of an array of float64, to be changed.
llvm::MutableArrayRef<double> elements(Array &array);

/// relativeDistance of the elements.
double largestDifference(const TensorRef &ours, const TensorRef &theirs);

}  // namespace gradc::testing
