// Pictures: of graphs (`gradc show --as svg|dot`) and of memory plans (`gradc plan --svg`), as the files show them.
#include "tests/support/svg_reader.h"
#include "tests/support/tool.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

using namespace llvm;

namespace gradc::testing {
namespace {

class Drawing : public ::testing::Test {
 protected:
  std::string run(const std::string &arguments) {
    ToolResult result = folder.run(arguments);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
    return result.out;
  }
  /// A demo network and its gradient graph, as train.json.
  void makeTraining(StringRef network) {
    folder.write("model.json", readText(("testdata/demo/" + network + ".json").str()));
    run("grad model.json -o train.json");
  }

  ScratchFolder folder;
};

/// "%12 = …" lines of `show`: the ids of nodes by their quoted name.
std::map<std::string, std::string> idsByName(StringRef text) {
  std::map<std::string, std::string> ids;
  SmallVector<StringRef, 64> lines;
  text.split(lines, '\n', -1, false);
  for (StringRef line : lines) {
    auto [id, rest] = line.split(" = ");
    const size_t end = rest.rfind('"'), begin = rest.rfind('"', end);
    if (id.consume_front("%") && begin != StringRef::npos) ids[rest.slice(begin + 1, end).str()] = "n" + id.str();
  }
  return ids;
}

constexpr StringRef kHostile = R"({"nodes": [{"op": "null", "name": "a<b&\"c\"]]>", "inputs": []},
{"op": "tanh", "name": "é</title><script>\u0001x", "attrs": {"__k__": "<&>"}, "inputs": [[0, 0, 0]]}],
"arg_nodes": [0], "heads": [[1, 0, 0]]})";

// ---- graphs

TEST_F(Drawing, GradientNodesStandBesideTheirForwardNodes) {
  makeTraining("lenet");
  Picture picture = pictureOf(run("show --as svg train.json"));
  std::map<std::string, std::string> ids = idsByName(run("show train.json"));
  size_t count = 0;
  for (const auto &[name, id] : ids) {
    auto backward = ids.find(name + "_backward");
    if (backward == ids.end()) continue;
    const Rect &x = picture.nodes.at(id), &dx = picture.nodes.at(backward->second);
    EXPECT_NEAR(x.y + x.height / 2, dx.y + dx.height / 2, 0.02) << name;
    EXPECT_LT(x.x + x.width, dx.x) << name;
    EXPECT_EQ(x.style, "operator");
    EXPECT_EQ(dx.style, "backward");
    ++count;
  }
  EXPECT_EQ(count, 13u);
}

TEST_F(Drawing, ValuesFlowDownAndGradientsUp) {
  makeTraining("resnet18");
  size_t down = 0, up = 0;
  for (const Edge &edge : pictureOf(run("show --as svg train.json")).edges) {
    if (edge.points.size() < 2 || edge.title.empty()) continue;
    const double first = edge.points.front().second, last = edge.points.back().second;
    const bool isPill = edge.points.size() == 2 && edge.points[0].first != edge.points[1].first;
    if (isPill) continue;
    if (edge.style == "forward") {
      EXPECT_LT(first, last) << edge.title;
      ++down;
    }
    if (edge.style == "gradient") {
      EXPECT_GT(first, last) << edge.title;
      ++up;
    }
  }
  EXPECT_GT(down, 60u);
  EXPECT_GT(up, 60u);
}

TEST_F(Drawing, NoEdgeCrossesANode) {
  for (StringRef network : {"lenet", "resnet18"}) {
    makeTraining(network);
    Picture picture = pictureOf(run("show --as svg train.json"));
    ASSERT_GT(picture.nodes.size(), 30u);
    for (const Edge &edge : picture.edges)
      for (size_t i = 1; i < edge.points.size(); ++i) {
        auto [x1, x2] = std::minmax(edge.points[i - 1].first, edge.points[i].first);
        auto [y1, y2] = std::minmax(edge.points[i - 1].second, edge.points[i].second);
        for (const auto &[id, rect] : picture.nodes) {
          const bool isInside =
              x2 > rect.x + 1 && x1 < rect.x + rect.width - 1 && y2 > rect.y + 1 && y1 < rect.y + rect.height - 1;
          EXPECT_FALSE(isInside) << edge.title << " runs through " << id;
        }
      }
  }
}

TEST_F(Drawing, NodesDoNotOverlap) {
  makeTraining("resnet18");
  expectApart(pictureOf(run("show --as svg train.json")));
}

TEST_F(Drawing, SecondOrderAndGradientAloneAreDrawn) {
  makeTraining("lenet");
  for (StringRef flags : {"--order 2", "--emit gradient", "--wrt conv1_weight --heads input"}) {
    run("grad model.json -o other.json " + flags.str());
    EXPECT_GT(pictureOf(run("show --as svg other.json")).nodes.size(), 20u) << flags.str();
  }
}

TEST_F(Drawing, ShapesWhereKnown) {
  makeTraining("lenet");
  const std::string with = run("show --as svg train.json --shape data=2,1,28,28");
  const std::string without = run("show --as svg train.json");
  EXPECT_NE(with.find(">2\u00d76\u00d728\u00d728 float32<"), std::string::npos);
  EXPECT_EQ(without.find(">2\u00d7"), std::string::npos);
  EXPECT_NE(without.find(">?\u00d710 float32<"), std::string::npos);
}

TEST_F(Drawing, NamesAreEscapedAndNothingIsLoaded) {
  folder.write("hostile.json", kHostile);
  const std::string svg = run("show --as svg hostile.json");
  pictureOf(svg);
  EXPECT_NE(svg.find("a&lt;b&amp;&quot;c&quot;]]&gt;"), std::string::npos);
  EXPECT_NE(svg.find("__k__ = &lt;&amp;&gt;"), std::string::npos);
  for (StringRef word : {"<script", "\x01", "href", "@import", "<image", "<foreignObject"})
    EXPECT_FALSE(StringRef(svg).contains(word)) << word.str();
  EXPECT_EQ(StringRef(svg).count("http"), 1u);  // the namespace
  const std::string dot = run("show --as dot hostile.json");
  EXPECT_NE(dot.find(R"(a<b&\"c\"]]>)"), std::string::npos) << dot;
}

TEST_F(Drawing, SameBytesAgain) {
  makeTraining("resnet18");
  EXPECT_EQ(run("show --as svg train.json"), run("show --as svg train.json"));
  EXPECT_EQ(run("show --as dot train.json"), run("show --as dot train.json"));
  EXPECT_EQ(run("plan --svg - train.json --shape data=2,3,32,32"),
            run("plan --svg - train.json --shape data=2,3,32,32"));
}

/// x, then f0 (of nothing, with the body), f1 of f0 with the same body, and f2 of both.
std::string owners(const std::string &body) {
  return R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "loop", "name": "f0", "inputs": [], )"
         R"("subgraphs": [)" +
         body + R"(]}, {"op": "loop", "name": "f1", "inputs": [[1, 0, 0]], "subgraphs": [)" + body +
         R"(]}, {"op": "add_n", "name": "f2", "attrs": {"num_args": "3"}, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]}],
"arg_nodes": [0], "heads": [[3, 0, 0]]})";
}

TEST_F(Drawing, A_15_BodiesAreDrawnOnceHoweverDeep) {
  constexpr size_t kDepth = 8;
  std::string graph = owners("");
  for (size_t level = 0; level < kDepth; ++level) graph = owners(graph);
  folder.write("deep.json", graph);
  const std::string svg = run("show --as svg deep.json");
  Picture picture = pictureOf(svg);
  EXPECT_EQ(picture.nodes.size(), (kDepth + 1) * 5) << "four nodes and a head";
  EXPECT_EQ(StringRef(svg).count(">body @"), kDepth * 2) << "every owner refers to its body";
  expectApart(picture);
  const std::string dot = run("show --as dot deep.json");
  EXPECT_EQ(StringRef(dot).count('{'), StringRef(dot).count('}'));
  for (size_t body = 1; body <= kDepth; ++body) {
    const std::string id = "b" + std::to_string(body);
    EXPECT_EQ(StringRef(dot).count("subgraph cluster_" + id + " {"), 1u) << id;
    EXPECT_EQ(StringRef(dot).count(" -> " + id + " ["), 2u) << id << ": one edge per owner";
  }
  const ToolResult refused = folder.run("show --as dot --max-nodes 35 deep.json");
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("the graph and its bodies have 36 nodes"), std::string::npos) << refused.err;
}

// What a body is given and what becomes of what it yields, in every form.
TEST_F(Drawing, A_15_RolesInBodies) {
  folder.write("cf12.json", readText("testdata/loops/cf12.json"));
  run("grad cf12.json --of _foreach0_output1 --wrt w -o loop.json");
  const std::string text = run("show loop.json");
  for (StringRef part :
       {"@1: body of %3\n", "\"x-0\"   ; sliced from %0\n", "\"h-0\"   ; carried from %1\n",
        "\"w\"   ; closes over %2\n", "   ; stacked in %3; next state, the last is %3:1; saved in %3:2\n",
        "\"sum_2\"   ; carried from zeros like %2\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part.str() << " in\n" << text;
  const std::string stats = run("show --as stats loop.json");
  for (StringRef part : {"sliced               1\n", "carried              1\n", "closed over          1\n",
                         "stacked              1\n", "next state           1\n", "saved                1\n"})
    EXPECT_NE(stats.find(part), std::string::npos) << part.str() << " in\n" << stats;
  const std::string dot = run("show --as dot loop.json"), svg = run("show --as svg loop.json");
  for (StringRef role : {"sliced", "carried", "closed over"}) {
    EXPECT_NE(dot.find("\\n" + role.str() + "\""), std::string::npos) << role.str();
    EXPECT_TRUE(StringRef(svg).contains((">" + role + "<").str()) || StringRef(svg).contains(" (" + role.str() + ")<"))
        << role.str();
  }
  for (StringRef role : {"stacked", "next state", "saved"}) {
    EXPECT_NE(dot.find("(" + role.str() + ")\", shape=cds"), std::string::npos) << role.str();
    EXPECT_NE(svg.find(" (" + role.str() + ")<"), std::string::npos) << role.str();
  }
  EXPECT_NE(svg.find("\ncarried from zeros like %2<"), std::string::npos);

  folder.write("cond.json", readText("testdata/loops/cond.json"));
  run("grad cond.json --wrt a,b,c -o branch.json");
  const std::string branch = run("show branch.json");
  for (StringRef part : {": body 0 of %5\n", "   ; passed %", "   ; decides\n", "   ; yielded as %5"})
    EXPECT_NE(branch.find(part), std::string::npos) << part.str() << " in\n" << branch;
}

TEST_F(Drawing, A_15_ShapesInBodiesComeFromTheBodyAlone) {
  auto bodyOf = [](const std::string &shape) {
    return R"j({"nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": ")j" + shape + R"j("}, "inputs": []},
{"op": "null", "name": "w", "attrs": {"__shape__": "(4,3)"}, "inputs": []},
{"op": "dot", "name": "y", "inputs": [[0, 0, 0], [1, 0, 0]]}], "arg_nodes": [0, 1], "heads": [[2, 0, 0]]})j";
  };
  folder.write("fits.json", owners(bodyOf("(5,4)")));
  const std::string fits = run("show --as svg fits.json --shape x=7,9");
  EXPECT_NE(fits.find(">5\u00d73 float32<"), std::string::npos);
  const size_t panel = fits.find(">@1 node");
  ASSERT_NE(panel, std::string::npos);
  EXPECT_LT(fits.find("7\u00d79"), panel);
  EXPECT_EQ(fits.find("7\u00d79", panel), std::string::npos) << "the flag names x of the root";
  folder.write("odd.json", owners(bodyOf("(5,6)")));
  const ToolResult odd = folder.run("show --as dot odd.json");
  EXPECT_EQ(odd.code, 0);
  EXPECT_NE(odd.err.find("the picture has no shapes of a body: node 'f0' > body > "), std::string::npos) << odd.err;
}

TEST_F(Drawing, LargeGraphsAreRefusedUnlessAskedFor) {
  std::string chain = R"({"nodes": [{"op": "null", "name": "x", "inputs": []})";
  constexpr int kLength = 2500;
  for (int i = 0; i < kLength; ++i)
    chain += ",\n{\"op\": \"tanh\", \"name\": \"t" + utostr(i) + "\", \"inputs\": [[" + utostr(i) + ", 0, 0]]}";
  folder.write("chain.json", chain + "], \"arg_nodes\": [0], \"heads\": [[" + utostr(kLength) + ", 0, 0]]}");
  ToolResult result = folder.run("show --as svg chain.json");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("the graph has 2501 nodes, a picture is drawn of at most 2000"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("--max-nodes 2501"), std::string::npos) << result.err;
  EXPECT_EQ(pictureOf(run("show --as svg --max-nodes 2501 chain.json")).nodes.size(), 2502u);  // and the head
}

TEST_F(Drawing, DegenerateGraphs) {
  folder.write("empty.json", R"({"nodes": [], "arg_nodes": [], "heads": []})");
  folder.write("one.json", R"({"nodes": [{"op": "null", "name": "x", "inputs": []}],
"arg_nodes": [0], "heads": [[0, 0, 0]]})");
  for (StringRef name : {"empty.json", "one.json"}) {
    pictureOf(run("show --as svg " + name.str()));
    run("show --as dot " + name.str());
    pictureOf(run("plan --svg - --partial " + name.str()));
  }
}

TEST_F(Drawing, DotRanksGradientsWithTheirForwardNodes) {
  makeTraining("lenet");
  std::map<std::string, std::string> ids = idsByName(run("show train.json"));
  const std::string dot = run("show --as dot train.json");
  for (StringRef name : {"conv1", "fc1", "softmax"})
    EXPECT_NE(dot.find("{rank=same; " + ids[name.str()] + "; " + ids[name.str() + "_backward"] + ";}"),
              std::string::npos)
        << dot;
}

// ---- plans

TEST_F(Drawing, PlanShowsEveryBlockOnceAndNoneOverlap) {
  makeTraining("lenet");
  Picture picture = pictureOf(run("plan --svg - train.json --shape data=4,1,28,28"));
  ASSERT_GT(picture.blocks.size(), 15u);
  for (size_t i = 0; i < picture.blocks.size(); ++i)
    for (size_t k = i + 1; k < picture.blocks.size(); ++k) {
      const Rect &r = picture.blocks[i], &s = picture.blocks[k];
      const double kRounding = 0.02;
      const bool isApart = r.x + r.width <= s.x + kRounding || s.x + s.width <= r.x + kRounding ||
                           r.y + r.height <= s.y + kRounding || s.y + s.height <= r.y + kRounding;
      EXPECT_TRUE(isApart) << r.title << "\n" << s.title;
    }
}

TEST_F(Drawing, PlanNamesItsBlocksAndShowsWhatIsInPlace) {
  makeTraining("lenet");
  const std::string svg = run("plan --svg - train.json --shape data=4,1,28,28");
  // 4 images of 6 channels of 28 x 28 floats.
  EXPECT_NE(svg.find("conv1 (Convolution)\n75,264 bytes at "), std::string::npos);
  EXPECT_NE(svg.find("relu1 (Activation)\n75,264 bytes at "), std::string::npos);
  EXPECT_NE(svg.find("takes over the bytes of conv1"), std::string::npos);
  EXPECT_NE(svg.find("class=\"takeover"), std::string::npos);
  EXPECT_NE(svg.find(">step: the node that runs<"), std::string::npos);
  EXPECT_NE(svg.find(">address in the arena, bytes<"), std::string::npos);
}

TEST_F(Drawing, PlanDrawsTheBoundWhereTheHighestSumOfLiveBytesIs) {
  makeTraining("resnet18");
  double bound = -1, top = 1e9;
  for (const SvgElement &element : pictureOf(run("plan --svg - train.json --shape data=2,3,32,32")).elements) {
    if (element.attr("class") == "bound") bound = pathPoints(element.attr("d"))[0].second;
    if (element.attr("class") != "live" || !element.attr("d").contains('V')) continue;
    SmallVector<StringRef, 64> parts;
    element.attr("d").split(parts, 'V');
    for (StringRef part : ArrayRef(parts).drop_front()) {
      double y = 0;
      ASSERT_TRUE(to_float(part.take_until([](char c) { return c == 'H'; }), y));
      top = std::min(top, y);
    }
  }
  EXPECT_GT(bound, 0);
  EXPECT_NEAR(bound, top, 0.02);
}

TEST_F(Drawing, PlanPictureGoesBesideTheGraphOrAlone) {
  makeTraining("lenet");
  EXPECT_EQ(run("plan --svg plan.svg train.json --shape data=2,1,28,28"), "");
  EXPECT_TRUE(StringRef(folder.read("plan.svg")).starts_with("<svg"));
  run("plan --svg both.svg -o planned.json train.json --shape data=2,1,28,28");
  EXPECT_EQ(folder.read("both.svg"), folder.read("plan.svg"));
  EXPECT_TRUE(StringRef(folder.read("planned.json")).contains("planned_bytes"));
  EXPECT_EQ(folder.run("plan --svg nowhere/plan.svg -o no.json train.json --shape data=2,1,28,28").code, 2);
  EXPECT_FALSE(folder.has("no.json"));
}

}  // namespace
}  // namespace gradc::testing
