// Tested by tests/tools/cli_test.cc
#include "tools/gradc/verbs/run_profile.h"

#include "ir/graph/body_flow.h"

#include "drawing/table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <array>
#include <map>

using namespace llvm;

namespace gradc {
namespace {

struct Row {
  std::string op;
  uint64_t numNodes = 0, numFast = 0;
  double micros = 0;
  Reorders reorders;
};

bool isInside(const Executor::Timing &timing) { return timing.owner != Executor::Timing::kNone; }

/// What timings of a run mean.
class Profile {
 public:
  Profile(const Graph &graph, ArrayRef<Executor::Timing> timings) : timings(timings) {
    for (const Executor::Timing &timing : timings) {
      graphs.push_back(isInside(timing) ? &bodyOf(timing) : &graph);
      own.push_back(timing.durationMicros);
      if (isInside(timing)) own[timing.owner] -= timing.durationMicros;
    }
  }

  const Graph &graph(size_t i) const { return *graphs[i]; }
  /// Without the nodes inside it.
  double ownMicros(size_t i) const { return own[i]; }

  /// "exp + relu" where the two ran as one.
  std::string operators(size_t i) const {
    return join(map_range(timings[i].nodes(), [&](NodeId n) { return graph(i).opName(n); }), " + ");
  }

  /// `loop[3] > h2h`
  std::string name(size_t i) const {
    const Executor::Timing &timing = timings[i];
    const std::string name = graph(i).name(timing.node).str();
    if (!isInside(timing)) return name;
    const NodeKind &owner = graph(timing.owner).kind(timings[timing.owner].node);
    const bool isLoop = owner.flow->form == BodyFlow::Form::Loop;
    return this->name(timing.owner) + (isLoop ? "[" + std::to_string(timing.step) + "]" : "") + " > " + name;
  }

  /// By timing: whether no earlier run of a body had the node.
  std::vector<bool> firstRuns() const {
    std::vector<bool> isFirst;
    std::vector<uint32_t> places;  // by timing: the number of its node among all nodes that ran
    std::map<std::array<uint32_t, 3>, uint32_t> known;
    for (const Executor::Timing &timing : timings) {
      const uint32_t owner = isInside(timing) ? places[timing.owner] : timing.owner;
      const auto [at, isNew] =
          known.try_emplace({owner, timing.body, timing.node.value}, static_cast<uint32_t>(known.size()));
      places.push_back(at->second);
      isFirst.push_back(isNew);
    }
    return isFirst;
  }

 private:
  const Graph &bodyOf(const Executor::Timing &timing) const {
    return graphs[timing.owner]->bodies(timings[timing.owner].node)[timing.body];
  }

  ArrayRef<Executor::Timing> timings;
  std::vector<const Graph *> graphs;  // by timing
  std::vector<double> own;
};

/// One row per operator or group of operators that ran as one, the slowest first, then one for all of them. A node of a
/// body counts once, with the time of all its runs.
std::vector<Row> rowsOf(const Profile &profile, ArrayRef<Executor::Timing> timings) {
  std::vector<Row> rows;
  StringMap<size_t> rowOf;
  Row all;
  const std::vector<bool> isFirst = profile.firstRuns();
  for (size_t i = 0; i < timings.size(); ++i) {
    const std::string op = profile.operators(i);
    const size_t numNodes = isFirst[i] ? timings[i].nodes().size() : 0;
    const size_t at = rowOf.try_emplace(op, rows.size()).first->second;
    if (at == rows.size()) rows.emplace_back().op = op;
    for (Row *row : {&rows[at], &all}) {
      row->numNodes += numNodes;
      row->numFast += isFirst[i] ? timings[i].numFast : 0;
      row->micros += profile.ownMicros(i);
      row->reorders += timings[i].reorders;
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
  const std::vector<Row> rows = rowsOf(Profile(graph, timings), timings);
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
  const Profile profile(graph, timings);
  json::OStream out(os);
  out.object([&] {
    out.attribute("displayTimeUnit", "ms");
    out.attributeArray("traceEvents", [&] {
      for (auto [i, timing] : enumerate(timings))
        out.object([&, i = i, &timing = timing] {
          out.attribute("name", printable(profile.name(i)));
          out.attribute("cat", printable(profile.operators(i)));
          out.attribute("ph", "X");
          out.attribute("ts", timing.startMicros);
          out.attribute("dur", timing.durationMicros);
          out.attribute("pid", 1);
          out.attribute("tid", 1);
          out.attributeObject("args", [&] {
            out.attribute("kernel", timing.isFast() ? "fast" : "reference");
            if (!timing.fused.empty())
              out.attributeArray("fused", [&] {
                for (NodeId n : timing.fused) out.value(printable(profile.graph(i).name(n)));
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
