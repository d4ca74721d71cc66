// What must hold between a y and its head gradient: shapes are equal (E-38), types are of one class (E-39), and a y whose
// ones are implied under HeadPolicy::Scalar has one element (E-03).
//
// A request is checked with the shapes there are. Pairs of which not everything is known yet go into the emitted graph as
// the attribute `head_pairs`, so that the next inference with more shapes says the same error.
#pragma once

#include "passes/gradient.h"

namespace gradc {

struct HeadPair {
  uint32_t position;  // among the y, from 0
  Value y;
  Value seed;  // invalid: implied ones, for a scalar y alone
};

/// Checks the pair as far as `inference`, of `graph`, goes.
llvm::Error checkHeadPair(const Graph &graph, const Inference &inference, HeadPair pair);

/// Whether the inference leaves nothing about the pair to be checked.
bool isSettled(const Graph &graph, const Inference *inference, HeadPair pair);

/// The pairs of a graph's `head_pairs`: five numbers each, the position, node and index of y and of the seed, node -1
/// without a seed. Numbers that name no entry are passed over.
std::vector<HeadPair> readHeadPairs(const Graph &graph);
/// `graph` with these pairs after those it has.
Graph withHeadPairs(const Graph &graph, llvm::ArrayRef<HeadPair> pairs);

/// `checkHeadPair` of all of them.
llvm::Error checkHeadPairs(const Graph &graph, const Inference &inference);

}  // namespace gradc
