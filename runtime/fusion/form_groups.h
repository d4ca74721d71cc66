// Finds the nodes of a graph that run as one: a pass over the schedule, before memory is planned.
//
// A group is a stretch of the schedule whose nodes read and write the same elements, piece by piece: a piece that one
// node computes is in the cache when the next reads it. Entries that only the group reads are not stored and get no
// memory. Each node still runs the loop it would run by itself, on the same elements, so the bits are the same. Tested
// by tests/runtime/fusion_test.cc
#pragma once

#include "passes/order/schedule.h"
#include "runtime/executor/executor.h"
#include "runtime/kernels/kernel_set.h"

namespace gradc {

struct FusionRequest {
  const Graph &graph;
  const Inference &inference;
  const RequestTable &requests;
  const KernelSet &kernels;
  const KernelSetOptions &kernelOptions;  // those that the kernels were made with
  const Schedule &schedule;
  const FusionOptions &options;
};

/// Takes O(n log n).
Fusion formGroups(const FusionRequest &request);

}  // namespace gradc
