// The fast kernels of one graph: which nodes have one, and how entries are laid out between them.
//
// Entries other than variables, heads and operands of reference kernels may have another layout: images channels-last,
// filters in tiles of 16 x 16 (runtime/kernels/layout_settlement.h). Kernels of role Independent convert to the layout
// they prefer, in their scratch. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "passes/inference/infer.h"
#include "passes/memory/plan_memory.h"
#include "runtime/kernels/core/fused_group.h"
#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc {

struct KernelSetOptions {
  bool isTraining = false;
  llvm::ArrayRef<CallForm> forms = {};  // by node, instead of isTraining; empty: none
  unsigned threads = 1;
  bool allowLayouts = true;  // false: every entry stays plain, because a caller reads entries between nodes
  /// Variables and heads may be filter tiles: their owner consults `layout` and converts.
  bool movesArguments = false;
  /// Gradient kernels may read the workspaces of their forward nodes, which the plan keeps (`planReader`). Requires
  /// that no node is overridden.
  bool keepsTapes = false;
  llvm::ArrayRef<EntryId> plainEntries;  // stay row-major even so
};

class KernelSet {
 public:
  KernelSet() = default;
  /// Nodes without a requested output get no kernel, nor do those whose shapes or types no factory accepts. Throws
  /// std::bad_alloc.
  static KernelSet create(const Graph &graph, const Inference &inference, const RequestTable &requests,
                          const KernelSetOptions &options);

  bool isEmpty() const { return kernels.size() == 0; }
  /// Null: the reference kernel.
  PreparedKernel *kernel(NodeId n) const { return isEmpty() ? nullptr : kernels[n.value].get(); }
  size_t workspaceBytes(NodeId n) const { return kernel(n) ? kernel(n)->workspaceBytes() : 0; }
  Layout layout(EntryId e) const { return layouts[e]; }
  uint32_t numKernels() const;
  uint32_t numEntries(Layout layout) const;

  /// PlanOptions::workspaceOf; `user` is the set. Nodes without a kernel keep the workspace of their OpDef.
  static int64_t planWorkspace(const void *user, NodeId n);
  /// PlanOptions::workspaceReader.
  static NodeId planReader(const void *user, NodeId n);

  /// The nodes whose workspaces are read later, in id order, and their readers.
  struct Tape {
    NodeId forward, backward;
  };
  llvm::ArrayRef<Tape> tapes() const { return kept; }

  /// Lets nodes run as one (formGroups). The plan has to be made for `fusion().memory` (PlanOptions::groups).
  void fuse(Fusion groups) { fused = std::move(groups); }
  const Fusion &fusion() const { return fused; }

 private:
  std::vector<std::unique_ptr<PreparedKernel>> kernels;  // by node; empty: none at all
  EntryMap<Layout> layouts;
  std::vector<Tape> kept;
  Fusion fused;
};

}  // namespace gradc
