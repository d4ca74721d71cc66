// Families of synthetic graphs that the benchmarks scale up, each stressing one shape of real networks.
#pragma once

#include "ir/graph/graph.h"

#include "llvm/ADT/StringRef.h"

namespace gradc::bench {

enum class Family {
  Chain,       // relu after relu
  Mlp,         // fully connected layer, relu, …; equal widths
  Residual,    // x + relu(x), again and again
  Fanout,      // one variable read by N nodes, summed up
  DenseShare,  // each layer adds the previous four
  Zigzag,      // adds of variables in random order, one shape known: inference must travel both ways
};
inline constexpr Family kTrainFamilies[] = {Family::Chain, Family::Mlp, Family::Residual, Family::Fanout,
                                            Family::DenseShare};

llvm::StringRef familyName(Family family);

/// A graph of about `nodes` nodes, the same for the same arguments.
Graph makeFamily(Context &context, Family family, size_t nodes);

}  // namespace gradc::bench
