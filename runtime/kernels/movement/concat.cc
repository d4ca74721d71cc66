// Joining and splitting along one axis, including an axis with one element per part, as copies of contiguous runs, in
// either layout. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/shape/concat.h"
#include "ops/shape/split_stack.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/threads.h"

#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrainBytes = 1 << 17;

/// The whole has `outer` rows; a row consists of one run of each part.
struct Runs {
  int64_t outer = 1;
  std::vector<int64_t> bytes;  // of one run, per part
  int64_t rowBytes = 0;
};

std::optional<Runs> runsOf(int64_t axisOrNegative, const TensorRef &whole, ArrayRef<TensorRef> parts) {
  const Layout layout = whole.layout;  // parts have the same layout, or one in which it makes no difference
  const std::optional<size_t> axis = normalizeAxis(axisOrNegative, whole.shape.size());
  if (!axis || (layout == Layout::ChannelsLast && *axis != 1)) return std::nullopt;
  Runs runs;
  for (size_t i = 0; i < whole.shape.size(); ++i)
    if (layout == Layout::ChannelsLast ? i != 1 : i < *axis) runs.outer *= whole.shape[i];
  for (const TensorRef &part : parts) {
    runs.bytes.push_back(static_cast<int64_t>(part.bytes()) / runs.outer);
    runs.rowBytes += runs.bytes.back();
  }
  return runs;
}

/// Copies every part into the whole, or every requested part out of it.
class CopyRuns : public ThreadedKernel {
 public:
  CopyRuns(Runs runs, unsigned threads, bool joins) : ThreadedKernel(threads), runs(std::move(runs)), joins(joins) {}

  void run(const KernelCall &call) override {
    const int64_t grain = std::max<int64_t>(kGrainBytes / runs.rowBytes, 1);
    parallelFor(threads, runs.outer, grain, [&](int64_t begin, int64_t end) {
      int64_t offset = 0;
      for (size_t i = 0; i < runs.bytes.size(); offset += runs.bytes[i++]) {
        if (!joins && !call.wants(i)) continue;
        char *whole = (joins ? call.out : call.in)[0].as<char>() + offset;
        char *part = (joins ? call.in : call.out)[i].as<char>();
        copyPart(whole, part, runs.bytes[i], begin, end);
      }
    });
  }

 private:
  void copyPart(char *whole, char *part, int64_t bytes, int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      char *at = whole + row * runs.rowBytes, *run = part + row * bytes;
      if (joins) std::memcpy(at, run, static_cast<size_t>(bytes));
      else std::memcpy(run, at, static_cast<size_t>(bytes));
    }
  }

  Runs runs;
  bool joins;
};

std::unique_ptr<PreparedKernel> join(const KernelSite &site, int64_t axis) {
  std::optional<Runs> runs = runsOf(axis, site.out[0], site.in);
  if (!runs) return nullptr;
  return std::make_unique<CopyRuns>(std::move(*runs), site.threads, true);
}

std::unique_ptr<PreparedKernel> cut(const KernelSite &site, int64_t axis) {
  std::optional<Runs> runs = runsOf(axis, site.in[0], site.out);
  if (!runs) return nullptr;
  return std::make_unique<CopyRuns>(std::move(*runs), site.threads, false);
}

std::unique_ptr<PreparedKernel> concat(const KernelSite &site) { return join(site, concatAxis(*site.kind)); }
// Inputs dy and the parts, of which only the shapes matter.
std::unique_ptr<PreparedKernel> concatBackward(const KernelSite &site) { return cut(site, concatAxis(*site.kind)); }

std::unique_ptr<PreparedKernel> splitParts(const KernelSite &site) { return cut(site, splitAxis(*site.kind)); }
std::unique_ptr<PreparedKernel> joinParts(const KernelSite &site) { return join(site, splitAxis(*site.kind)); }

constexpr FastKernelRow kRows[] = {
    {"Concat", concat, LayoutRole::Same},
    {"SliceChannel", splitParts, LayoutRole::Same},
    {"_backward_Concat", concatBackward, LayoutRole::Same},
    {"_backward_SliceChannel", joinParts, LayoutRole::Same},
    {"_backward_stack", splitParts, LayoutRole::Plain},
    {"_rnn_param_concat", concat, LayoutRole::Same},
    {"_split_v2", splitParts, LayoutRole::Same},
    {"_split_v2_backward", joinParts, LayoutRole::Same},
    {"stack", joinParts, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kConcatKernels = kRows;

}  // namespace gradc::fast
