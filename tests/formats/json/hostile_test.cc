// Input that makes no sense or means harm, put to all verbs: testdata/hostile, written by tests/make_hostile.py.
//
// Whatever the graph, the tool answers within ten seconds of processor time and 6 GiB of addresses, with a result or
// one error of a kind that blames the input, and prints nothing of a result beside an error. What is known of the right
// answer is in the corpus; docs/hostile.md explains its keys.
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz_writer.h"
#include "tests/support/sanitizers.h"
#include "tests/support/tool.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>

using namespace llvm;

namespace gradc::testing {
namespace {

#ifdef GRADC_ADDRESS_SANITIZER
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

/// Lines of a file that one test takes, so that shards get even loads.
constexpr size_t kCasesPerTest = 25;
/// Of the relatives, one in so many is put to all verbs.
constexpr size_t kFullEvery = 6;
/// The exit code of a command that was left out.
constexpr int kNotAsked = -1;

struct Case {
  std::string name;  // of the file and in it
  nlohmann::json expected;
  std::string graph;

  StringRef wanted(StringRef key) const {
    auto at = expected.find(key.str());
    return at == expected.end() ? StringRef() : StringRef(at->get_ref<const std::string &>());
  }
};

/// One way to call a verb, and the key of the corpus that says how it ends.
struct Form {
  StringRef key, arguments;
};
constexpr Form kVerify{"verify", "verify"}, kConvert{"", "convert"}, kInfer{"infer", "infer --report"},
    kPlan{"plan", "plan --report"}, kRun{"run", "run --init 1"}, kRunTraining{"run", "run --init 1 --train"},
    kReference{"run", "run --init 1 --backend reference"}, kGrad{"grad", "grad --unused zeros"},
    kOrder2{"order2", "grad --order 2 --unused zeros"};
/// Of these nothing more is asked than a sound answer, and what the corpus says.
constexpr Form kViews[] = {
    {"", "show"},
    {"", "show --as svg"},
    {"", "show --as dot"},
    {"", "show --as stats"},
    {"", "convert --to text"},
    {"", "infer"},
    {"", "plan"},
    {"", "grad --dialect mxnet --unused zeros"},
    {"", "opt --passes unroll,inline"},
    {"verify", "diff in.json in.json"},
    {"partial", "infer --partial --report"},
    {"partial", "plan --partial --report"},
    {"gradcheck", "gradcheck --samples 3 --init 1 --unused zeros"},
    kConvert,
    kRunTraining,
    {"", "train --data examples.npz --batch $(cat rows) --steps 1 --init 1"},
};

SmallVector<StringRef, 32> linesOf(StringRef text) {
  SmallVector<StringRef, 32> lines;
  text.split(lines, '\n', -1, false);
  return lines;
}

SmallVector<StringRef, 8> cellsOf(StringRef line) {
  SmallVector<StringRef, 8> cells;
  line.split(cells, ' ', -1, false);
  return cells;
}

/// The sizes in the text of a shape; empty if it is none, or stands for more than a few numbers.
std::vector<int64_t> smallShape(StringRef text) {
  SmallVector<StringRef, 4> parts;
  text.trim("()[] ").split(parts, ',', -1, false);
  std::vector<int64_t> shape;
  int64_t size = 1;
  for (StringRef part : parts) {
    int64_t dim = 0;
    if (part.trim().getAsInteger(10, dim) || dim < 1 || dim > 1000 || (size *= dim) > 10000) return {};
    shape.push_back(dim);
  }
  return shape;
}

/// One batch for the first variable, under its name: of the shape that its attribute names if that is small, else (2,
/// 3).
NamedArray examplesFor(const nlohmann::json &graph) {
  NamedArray examples{"x", {DType::Float32, {}, {}}};
  if (graph.is_object() && graph.contains("nodes") && graph["nodes"].is_array())
    for (const nlohmann::json &node : graph["nodes"]) {
      if (!node.is_object() || node.value("op", nlohmann::json()) != "null") continue;
      if (const auto name = node.find("name"); name != node.end() && name->is_string()) examples.name = *name;
      if (const auto attrs = node.find("attrs"); attrs != node.end() && attrs->is_object())
        if (const auto shape = attrs->find("__shape__"); shape != attrs->end() && shape->is_string())
          examples.array.shape = smallShape(shape->get_ref<const std::string &>());
      break;
    }
  if (examples.array.shape.empty()) examples.array.shape = {2, 3};
  int64_t size = 1;
  for (int64_t dim : examples.array.shape) size *= dim;
  examples.array.bytes.resize(static_cast<size_t>(size) * sizeof(float));
  for (int64_t i = 0; i < size; ++i) examples.array.ref().as<float>()[i] = static_cast<float>(i % 7) / 4;
  return examples;
}

struct Answer {
  std::string command;
  ToolResult result;

  bool isDone() const { return result.code == 0; }
  bool isRefused() const { return result.code == 1; }
  SmallVector<StringRef, 2> errors() const {
    SmallVector<StringRef, 2> found;
    for (StringRef line : linesOf(result.err))
      if (line.contains(": error: ")) found.push_back(line);
    return found;
  }
  /// What is in brackets at the end of the error; empty when there is not exactly one error.
  StringRef kind() const {
    SmallVector<StringRef, 2> found = errors();
    if (found.size() != 1 || !found[0].ends_with("]")) return "";
    return found[0].drop_back().rsplit('[').second;
  }
};

bool isClose(StringRef left, StringRef right) {
  double a, b;
  if (left == right) return true;
  if (left.getAsDouble(a) || right.getAsDouble(b)) return false;
  return std::fabs(a - b) <= 1e-3 * std::max(std::fabs(a), std::fabs(b)) + 1e-5;
}

class Subject {
 public:
  Subject(const ScratchFolder &folder, const Case &subject) : folder(folder), subject(subject) {}

  /// All verbs, or those that work out shapes and values and one of the others, which the case's name draws.
  std::string examine(bool wantsAll) {
    folder.write("in.json", subject.graph);
    const NamedArray examples = examplesFor(nlohmann::json::parse(subject.graph, nullptr, false));
    std::string archive;
    raw_string_ostream os(archive);
    cantFail(writeNpz(os, examples));
    folder.write("examples.npz", os.str());
    folder.write("rows", std::to_string(examples.array.shape[0]));
    const Answer inferred = ask(kInfer), ran = ask(kRun);
    // What has shapes has a sound structure.
    const bool isVerified = inferred.isDone() && !wantsAll && subject.wanted("verify") != "refused";
    const Answer verified = isVerified ? inferred : ask(kVerify);
    judgeKind({&verified, &inferred, &ran});
    if (!verified.isDone()) {
      for (const Answer *later : {&inferred, &ran}) sameKind(verified, *later);
      forViews(wantsAll, [&](const Form &, const Answer &answer) { sameKind(verified, answer); });
      return std::move(problems);
    }
    judgeShape(inferred);
    judgeValues(ran);
    notDone(inferred, ran);
    if (wantsAll || inferred.isDone()) {
      notDone(inferred, ask(kPlan));
      const Answer reference = ask(kReference);
      judgeValues(reference);
      sameTables(ran, reference);
      differentiate(kGrad, inferred);
    }
    if (wantsAll || !subject.wanted("order2").empty()) differentiate(kOrder2, inferred);
    if (wantsAll) convertTwice();
    forViews(wantsAll, [&](const Form &form, const Answer &answer) {
      if (form.key == "run" && ran.isDone() != answer.isDone()) complain(answer, "unlike " + ran.command);
    });
    return std::move(problems);
  }

 private:
  Answer ask(const Form &form, StringRef input = "in.json") {
    Answer answer{form.arguments.str(), {kNotAsked, "", ""}};
    if (isBroken) return answer;
    if (input != "in.json") answer.command += (" < " + input).str();
    const StringRef limits = kIsSanitized ? "" : "ulimit -v 6291456; ulimit -t 10; ";
    answer.result =
        runShell(folder.path(), (limits + "exec \"$GRADC\" " + form.arguments + " --error-limit 1 < " + input).str());
    isSound(form, answer);
    if (input == "in.json") judge(form, answer);
    return answer;
  }

  template <class F> void forViews(bool wantsAll, F visit) {
    const uint64_t draw = xxh3_64bits(StringRef(subject.name));
    for (size_t i = 0; i < std::size(kViews); ++i) {
      const StringRef key = kViews[i].key;
      const bool isNamed = (key == "gradcheck" || key == "partial") && !subject.wanted(key).empty();
      if (wantsAll || isNamed || i == draw % std::size(kViews)) visit(kViews[i], ask(kViews[i]));
    }
  }

  void complain(const Answer &answer, const Twine &what) {
    if (answer.result.code != kNotAsked) problems += (subject.name + ": " + answer.command + ": " + what + "\n").str();
  }

  /// An exit code of 0 without errors, or of 1 with one error and nothing else. A check that fails is a result.
  void isSound(const Form &form, const Answer &answer) {
    const ToolResult &result = answer.result;
    SmallVector<StringRef, 2> errors = answer.errors();
    if (!answer.isDone() && !answer.isRefused()) {
      isBroken = true;
      return complain(answer, "exit " + Twine(result.code) + " " + StringRef(result.err).substr(0, 200));
    }
    if (answer.isDone()) {
      if (!errors.empty()) complain(answer, "succeeded with " + errors[0]);
      return haveLengths(form, answer);
    }
    if (form.key == "gradcheck" && !result.out.empty() && errors.empty()) return;
    if (StringRef(result.err).contains("the loss is not finite") && errors.empty()) return;
    if (errors.size() != 1)
      return complain(answer, Twine(errors.size()) + " errors: " + StringRef(result.err).substr(0, 300));
    if (is_contained({"", "internal", "bad_plan", "usage"}, answer.kind()))
      complain(answer, "blames something else: " + errors[0]);
    if (!result.out.empty()) complain(answer, "prints beside the error: " + StringRef(result.out).substr(0, 100));
  }

  /// No length below 0 in a table of shapes.
  void haveLengths(const Form &form, const Answer &answer) {
    if (!form.arguments.starts_with("infer")) return;
    for (StringRef line : linesOf(answer.result.out))
      for (StringRef cell : cellsOf(line))
        if (cell.starts_with("(") && cell.contains('-')) return complain(answer, "a negative length: " + line);
  }

  void judge(const Form &form, const Answer &answer) {
    const StringRef wanted = subject.wanted(form.key);
    if (wanted == "ok" && answer.isRefused())
      complain(answer, "refused: " + (answer.errors().empty() ? StringRef(answer.result.out) : answer.errors()[0]));
    if (wanted == "refused" && answer.isDone()) complain(answer, "accepted, should be refused");
  }

  void judgeKind(ArrayRef<const Answer *> answers) {
    const StringRef wanted = subject.wanted("kind");
    const Answer *const *first = llvm::find_if(answers, [](const Answer *a) { return !a->isDone(); });
    if (wanted.empty() || first == answers.end() || (*first)->kind().empty()) return;
    SmallVector<StringRef, 4> kinds;
    wanted.split(kinds, '|');
    if (!is_contained(kinds, (*first)->kind())) complain(**first, "kind " + (*first)->kind() + ", expected " + wanted);
  }

  void sameKind(const Answer &verified, const Answer &later) {
    if (later.isDone() || later.kind() != verified.kind())
      complain(later, "kind '" + later.kind() + "' where verify says '" + verified.kind() + "'");
  }

  void notDone(const Answer &refused, const Answer &later) {
    if (refused.isRefused() && later.isDone()) complain(later, "accepted, but " + refused.command + " is not");
  }

  /// The last node's row of the table ends in output, shape, type.
  void judgeShape(const Answer &inferred) {
    if (subject.wanted("shape").empty() || !inferred.isDone()) return;
    const std::string last = utostr(nlohmann::json::parse(subject.graph)["nodes"].size() - 1);
    for (StringRef line : linesOf(inferred.result.out)) {
      SmallVector<StringRef, 8> cells = cellsOf(line);
      if (cells.size() < 5 || cells[0] != last || cells[cells.size() - 3] != "0") continue;
      const StringRef shape = cells[cells.size() - 2];
      if (shape != subject.wanted("shape")) complain(inferred, "shape " + shape + ", not " + subject.wanted("shape"));
      return;
    }
    complain(inferred, "no row for node " + last);
  }

  /// The first head's row ends in lowest, mean, highest, and how many are not finite.
  void judgeValues(const Answer &ran) {
    if (subject.wanted("values").empty() || !ran.isDone()) return;
    SmallVector<StringRef, 32> lines = linesOf(ran.result.out);
    SmallVector<StringRef, 8> wanted = cellsOf(subject.wanted("values")), cells;
    if (lines.size() > 1) cells = cellsOf(lines[1]);
    bool isRight = cells.size() >= 7;
    for (size_t i = 0; isRight && i < 3; ++i) isRight = isClose(cells[cells.size() - 4 + i], wanted[i]);
    if (!isRight) complain(ran, "values " + join(cells, " ") + ", expected " + subject.wanted("values"));
  }

  /// Both backends refuse, or both print the same figures.
  void sameTables(const Answer &left, const Answer &right) {
    if (left.isDone() != right.isDone()) return complain(right, "unlike " + left.command);
    if (!left.isDone()) return;
    SmallVector<StringRef, 32> rows = linesOf(left.result.out), others = linesOf(right.result.out);
    if (rows.size() != others.size()) return complain(right, "other heads than " + left.command);
    for (auto [row, other] : zip(rows, others)) {
      SmallVector<StringRef, 8> a = cellsOf(row), b = cellsOf(other);
      const bool isSame = a.size() == b.size() &&
                          all_of(zip(a, b), [](auto pair) { return isClose(std::get<0>(pair), std::get<1>(pair)); });
      if (!isSame) return complain(right, join(b, " ") + ", but " + left.command + " gives " + join(a, " "));
    }
  }

  /// The gradient of a graph whose shapes are right has right shapes. It does not carry those of graph attributes.
  void differentiate(const Form &form, const Answer &inferred) {
    const Answer emitted = ask(form);
    if (!emitted.isDone()) return;
    folder.write("grad.json", emitted.result.out);
    const Answer again = ask(kInfer, "grad.json");
    const bool hasOwnShapes = !StringRef(subject.graph).contains("\"list_shape\"");
    if (inferred.isDone() && again.isRefused() && (hasOwnShapes || again.kind() != "infer_missing"))
      complain(again, "what " + form.arguments + " wrote is refused: " + again.errors().front());
    notDone(again, ask(kRunTraining, "grad.json"));
  }

  void convertTwice() {
    const Answer converted = ask(kConvert);
    if (!converted.isDone()) return complain(converted, "refused, but verify is not");
    folder.write("again.json", converted.result.out);
    const Answer again = ask(kConvert, "again.json");
    if (again.result.out != converted.result.out) complain(again, "converting again gives something else");
  }

  const ScratchFolder &folder;
  const Case &subject;
  std::string problems;
  bool isBroken = false;  // a verb ended without an answer; the others are not tried
};

/// The graph comes last in a line; its text is passed on as it is.
std::vector<Case> readCases(StringRef path) {
  std::vector<Case> cases;
  const std::string text = readText(path);
  for (StringRef line : linesOf(text)) {
    Case read;
    read.expected = nlohmann::json::parse(line.str());
    read.name = (sys::path::stem(path) + "/" + read.wanted("name")).str();
    read.graph = line.split(",\"graph\":").second.drop_back().str();
    cases.push_back(std::move(read));
  }
  return cases;
}

/// kCasesPerTest lines of one file of the corpus.
struct Part {
  std::string path;
  size_t first;
};

std::vector<std::string> corpus() {
  std::vector<std::string> paths;
  std::error_code code;
  for (sys::fs::directory_iterator at("testdata/hostile", code), end; at != end && !code; at.increment(code))
    paths.push_back(at->path());
  llvm::sort(paths);
  return paths;
}

std::vector<Part> parts() {
  std::vector<Part> found;
  for (const std::string &path : corpus())
    for (size_t first = 0, count = StringRef(readText(path)).count('\n'); first < count; first += kCasesPerTest)
      found.push_back({path, first});
  return found;
}

void PrintTo(const Part &part, std::ostream *os) { *os << part.path << " from line " << part.first + 1; }

std::string partName(const ::testing::TestParamInfo<Part> &info) {
  return sys::path::stem(info.param.path).str() + "_" + std::to_string(info.param.first);
}

class Hostile : public ::testing::TestWithParam<Part> {
 protected:
  Hostile() {
    if (!kIsSanitized) return;
    const char *given = std::getenv("ASAN_OPTIONS");
    std::string options = given ? given : "";
    options += ":max_allocation_size_mb=6000:allocator_may_return_null=1";
    setenv("ASAN_OPTIONS", options.c_str(), 1);
  }
  ScratchFolder folder;
};

TEST_P(Hostile, E_50_OneErrorOrARightAnswerFromEveryVerb) {
  const std::vector<Case> cases = readCases(GetParam().path);
  const bool isOriginal = sys::path::stem(GetParam().path) == "originals";
  std::string problems;
  for (size_t i = GetParam().first; i < std::min(cases.size(), GetParam().first + kCasesPerTest); ++i)
    problems += Subject(folder, cases[i]).examine(isOriginal || i % kFullEvery == 0);
  EXPECT_TRUE(problems.empty()) << problems;
}

TEST(HostileCorpus, PutsManyToAllVerbs) {
  size_t numFull = 0;
  for (const std::string &path : corpus()) {
    const size_t count = StringRef(readText(path)).count('\n');
    if (sys::path::stem(path) != "originals") numFull += (count + kFullEvery - 1) / kFullEvery;
  }
  EXPECT_GE(numFull, 500u);
}

TEST(HostileCorpus, HasEveryOperator) {
  std::string text;
  for (const std::string &path : corpus()) text += readText(path);
  const std::string table = runTool(".", "ops").out;
  SmallVector<StringRef, 32> rows = linesOf(table);
  ASSERT_GT(rows.size(), 100u);
  for (StringRef row : ArrayRef(rows).drop_front()) {
    const std::string node = ("\"op\":\"" + row.split(' ').first + "\"").str();
    EXPECT_TRUE(StringRef(text).contains(node)) << node << " is to be in tests/hostile/instances.py or loops.py";
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, Hostile, ::testing::ValuesIn(parts()), partName);

}  // namespace
}  // namespace gradc::testing
