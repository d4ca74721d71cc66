// Tested by tests/cli_test.cc
#include "run_profile.h"

#include "tools/drawing/table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace gradc {
namespace {

struct Row {
  std::string op;
  uint64_t numNodes = 0, numFast = 0;
  double micros = 0;
  Reorders reorders;
};

/// "exp + relu" where the two ran as one.
std::string operatorsOf(const Graph &graph, const Executor::Timing &timing) {
  return join(map_range(timing.nodes(), [&](NodeId n) { return graph.opName(n); }), " + ");
}

/// One row per operator or group of operators that ran as one, the slowest first, then one for all of them.
std::vector<Row> rowsOf(const Graph &graph, ArrayRef<Executor::Timing> timings) {
  std::vector<Row> rows;
  StringMap<size_t> rowOf;
  Row all;
  for (const Executor::Timing &timing : timings) {
    const std::string op = operatorsOf(graph, timing);
    const size_t numNodes = timing.nodes().size();
    const size_t at = rowOf.try_emplace(op, rows.size()).first->second;
    if (at == rows.size()) rows.emplace_back().op = op;
    for (Row *row : {&rows[at], &all}) {
      row->numNodes += numNodes;
      row->numFast += timing.numFast;
      row->micros += timing.durationMicros;
      row->reorders += timing.reorders;
    }
  }
  llvm::stable_sort(rows, [](const Row &a, const Row &b) { return a.micros > b.micros; });
  all.op = "all";
  rows.push_back(all);
  return rows;
}

std::string fixed(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.3f", value);
  return text;
}

}  // namespace

std::string profileReport(const Graph &graph, ArrayRef<Executor::Timing> timings) {
  const std::vector<Row> rows = rowsOf(graph, timings);
  const double all = rows.back().micros;
  TextTable table({"operator", "nodes", "fast", "ms", "%", "weight reorders", "image reorders", "MiB reordered"});
  for (const Row &row : rows)
    table.add({row.op, std::to_string(row.numNodes), std::to_string(row.numFast), fixed(row.micros / 1e3),
               fixed(all > 0 ? 100 * row.micros / all : 0), std::to_string(row.reorders.numWeights),
               std::to_string(row.reorders.numImages), fixed(static_cast<double>(row.reorders.bytes) / (1 << 20))});
  std::string text;
  raw_string_ostream os(text);
  table.print(os);
  return text;
}

void writeTrace(raw_ostream &os, const Graph &graph, ArrayRef<Executor::Timing> timings) {
  json::OStream out(os);
  out.object([&] {
    out.attribute("displayTimeUnit", "ms");
    out.attributeArray("traceEvents", [&] {
      for (const Executor::Timing &timing : timings)
        out.object([&] {
          out.attribute("name", json::fixUTF8(graph.name(timing.node)));
          out.attribute("cat", json::fixUTF8(operatorsOf(graph, timing)));
          out.attribute("ph", "X");
          out.attribute("ts", timing.startMicros);
          out.attribute("dur", timing.durationMicros);
          out.attribute("pid", 1);
          out.attribute("tid", 1);
          out.attributeObject("args", [&] {
            out.attribute("kernel", timing.isFast() ? "fast" : "reference");
            if (!timing.fused.empty())
              out.attributeArray("fused", [&] {
                for (NodeId n : timing.fused) out.value(json::fixUTF8(graph.name(n)));
              });
            out.attribute("weight_reorders", timing.reorders.numWeights);
            out.attribute("image_reorders", timing.reorders.numImages);
            out.attribute("reordered_bytes", static_cast<int64_t>(timing.reorders.bytes));
          });
        });
    });
  });
  os << '\n';
}

}  // namespace gradc
