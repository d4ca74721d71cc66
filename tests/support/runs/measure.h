// One random problem through gradc, in one of the ways that must make no difference.
// Tested by tests/networks/differential_test.cc
#pragma once

#include "ir/base/error.h"
#include "runtime/executor/executor.h"
#include "tests/support/drawn/random_graph.h"

#include <map>
#include <optional>

namespace gradc::testing {

/// One way to compute the same values.
struct Variation {
  llvm::StringRef name = "plain";
  uint32_t sumCap = 8;
  ChainPolicy chain = ChainPolicy::FromCap;
  NamingStyle naming = NamingStyle::Unique;
  bool allowInplace = true, hasPlan = true, hasTypes = false, gradientOnly = false, throughFile = false;
  bool asksMore = false;  // requests a gradient toward every entry, too
  bool inMxnetsWords = false;
  bool unrolls = false;       // the emitted graph has no loops, branches and calls whose steps are known
  bool unrollsFirst = false;  // nor has the graph that is differentiated
  ZeroPolicy zeroTerms = ZeroPolicy::Drop;
  OverwrittenPolicy overwritten = OverwrittenPolicy::Save;
  ReachPolicy reach = ReachPolicy::Ignore;
  unsigned threads = 1;
  bool inOtherOrder = false;  // nodes run in a random schedule
  Backend backend = Backend::Reference;
  FusionOptions fusion = {.elements = false, .norms = false};
};

/// Values under "forward 0", "gradient 1.0", "gradient 2.0" (order and position of the x), "retained 0", "state 3".
struct Measured {
  std::optional<ErrorKind> error;
  std::string errorText;
  std::map<std::string, std::vector<double>> values;
  std::vector<SlotStatus> status;  // of the highest order
  uint32_t numSaved = 0;           // copies of overwritten versions that gradients read
  std::string lostDependency;      // CD-02: a dependency of the sketch that the emitted graph lacks
  bool isMissing = false;          // a requested entry is not in the unrolled graph
  std::string lostBody;            // a node whose bodies some pass or file dropped, changed or copied
};
Measured measure(const Sketch &sketch, const Variation &variation);

std::string gradientKey(uint32_t order, size_t slot);
std::string retainedKey(size_t i);
std::string stateKey(uint32_t node);
/// The value of an `add` head before the run.
double startValue(const std::string &key, size_t i);

}  // namespace gradc::testing
