// Upgrades older files to what MXNet 1.9.1's loader makes of them, by evidence and idempotently (docs/format.md).
//
// Three things depend on `mxnet_version` (a file without one counts as 0.8.0, as in MXNet): the hidden keys that older
// Python front ends wrote bare, inputs that no file listed before NNVM (0.9.0), and attributes that operators set on
// their variables (0.9.4). The parser handles spellings (`param`, `attr`, entries of two numbers).
// Tested by tests/formats/json/legacy_upgrade_test.cc
#pragma once

#include "formats/json/raw_graph.h"

namespace gradc {

inline constexpr int64_t kUpgradedVersion = 10901;  // what an upgraded file is stamped with: MXNet 1.9.1
inline constexpr int64_t kVersionWithout = 800;     // assumed for a file without a version

/// Version in the graph attribute `mxnet_version`, else kVersionWithout.
int64_t mxnetVersion(const GraphAttrs &attrs);

/// Upgrades `graph`, read from a file of `version`, in place; true when that changed something. New variables follow
/// the nodes of the file, whose ids must be in range. Attributes that an operator cannot parse are left for the caller
/// to report.
bool upgradeLegacy(Context &context, RawTables &tables, RawGraph &graph, int64_t version);

}  // namespace gradc
