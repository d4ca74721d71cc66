// Random programs on the tape, with what PyTorch makes of them: writes in place, views, functions, hooks, retained and
// recorded gradients. testdata/tape_programs.txt holds some; tests/oracles/make_tape_programs.py draws more, which
// GRADC_TAPE_PROGRAMS names.
#include "imperative/imperative.h"
#include "tests/support/runs/host_functions.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <map>

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::function;
using testing::Tape;

constexpr StringLiteral kBeside = "testdata/tape_programs.txt";

Doubles numbersOf(StringRef text) {
  Doubles numbers;
  while (!(text = text.ltrim()).empty()) {
    const auto [word, rest] = text.split(' ');
    double number = 0;
    EXPECT_TRUE(to_float(word, number)) << word.str();
    numbers.push_back(number);
    text = rest;
  }
  return numbers;
}

bool areClose(const Doubles &found, const Doubles &expected) {
  if (found.size() != expected.size()) return false;
  double scale = 0;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - expected[i]) <= 1e-9 * scale)) return false;
  return true;
}

/// One program. Statements are run line by line; `error` is that of the one that failed.
class Program {
 public:
  Program() : t(options()) { addFunctions(); }
  ~Program() {
    for (auto &[name, tensor] : tensors)
      if (tensor && tensor.isLeaf() && tensor.isTracked()) cantFail(t.im.setGrad(tensor, Tensor()));  // its history
  }

  Error run(StringRef line) {
    const auto [head, numbers] = line.split(':');
    SmallVector<StringRef, 8> words;
    head.trim().split(words, ' ');
    const StringRef verb = words[0];
    if (verb == "leaf" || verb == "const") return make(words, numbers);
    if (verb == "call" || verb == "quiet" || verb == "into" || verb == "quiet-into") return call(words);
    if (verb == "apply") return apply(words);
    if (verb == "detach") return tensors[words[1].str()] = t.im.detach(at(words[2])), Error::success();
    if (verb == "hook") return hook(words);
    if (verb == "unhook") return hooks[words[1].str()].remove(), Error::success();
    if (verb == "retain") return t.im.retainGrad(at(words[1]));
    if (verb == "free") return tensors.erase(words[1].str()), Error::success();
    if (verb == "clear") return t.im.setGrad(at(words[1]), Tensor());
    if (verb == "gradof") return tensors[words[1].str()] = at(words[2]).grad(), Error::success();
    if (verb == "backward") return backward(words);
    if (verb == "grad") return grad(words);
    return createStringError("'" + line + "' is not a statement");
  }

  /// Compares with a line of the final state.
  void check(StringRef line) {
    const auto [head, numbers] = line.split(':');
    SmallVector<StringRef, 4> words;
    head.trim().split(words, ' ');
    const Tensor &x = at(words[1]);
    if (words[0] == "value") {
      EXPECT_TRUE(x.isTracked() == (words[2] == "1") || (hasRecorded && x.isTracked())) << line.str();
      EXPECT_EQ(Dims(dimsOf(words[3])), x.shape()) << line.str();
    }
    const Tensor value = words[0] == "value" ? x : x.grad();
    if (numbers.trim() == "none") return checkNone(value, line);
    ASSERT_TRUE(value) << line.str();
    EXPECT_TRUE(areClose(doublesOf(value), numbersOf(numbers)))
        << line.str() << "\nis " << ::testing::PrintToString(doublesOf(value));
  }

 private:
  /// HO-08: a recorded gradient may vanish for any values without being none.
  void checkNone(const Tensor &value, StringRef line) const {
    EXPECT_TRUE(!value || (hasRecorded && areClose(doublesOf(value), Doubles(static_cast<size_t>(value.size())))))
        << line.str();
  }

  static ImperativeOptions options() {
    ImperativeOptions options = Tape::referenceOptions();
    options.inplace = InplacePolicy::Rebase;
    return options;
  }

  const Tensor &at(StringRef name) { return tensors.at(name.str()); }
  std::vector<Tensor> listOf(StringRef names) {
    std::vector<Tensor> list;
    SmallVector<StringRef, 4> words;
    names.split(words, ',');
    for (StringRef name : words) list.push_back(name == "-" ? Tensor() : at(name));
    return list;
  }
  static std::vector<int64_t> dimsOf(StringRef text) {
    std::vector<int64_t> dims;
    SmallVector<StringRef, 4> words;
    if (text != "-") text.split(words, ',');
    for (StringRef word : words) {
      dims.emplace_back();
      EXPECT_TRUE(to_integer(word, dims.back()));
    }
    return dims;
  }
  static bool has(ArrayRef<StringRef> words, StringRef flag) { return is_contained(words, flag); }

  Error make(ArrayRef<StringRef> words, StringRef numbers) {
    Tensor &tensor = tensors[words[1].str()];
    tensor = t.value(dimsOf(words[2]), numbersOf(numbers));
    return words[0] == "leaf" ? t.im.requireGrad(tensor) : Error::success();
  }

  Error call(ArrayRef<StringRef> words) {
    SmallVector<Tensor, 2> inputs;
    SmallVector<AttrText, 1> attrs;
    for (StringRef word : words.drop_front(3)) {
      const auto [key, value] = word.split('=');
      if (value.empty()) inputs.push_back(at(word));
      else attrs.push_back({key, value});
    }
    const Kind kind = cantFail(t.im.kind(words[2], attrs));
    std::optional<NoGradScope> quiet;
    if (words[0].starts_with("quiet")) quiet.emplace(t.im);
    if (words[0].ends_with("into")) return t.im.callInto(kind, inputs, {at(words[1])});
    Expected<Tensor> made = t.im.call(kind, inputs);
    if (!made) return made.takeError();
    tensors[words[1].str()] = *made;
    return Error::success();
  }

  Error apply(ArrayRef<StringRef> words) {
    Expected<TensorList> made = t.im.apply(functions.at(words[2].str()), {at(words[3]), at(words[4])});
    if (!made) return made.takeError();
    SmallVector<StringRef, 2> names;
    words[1].split(names, ',');
    for (auto [name, tensor] : zip_equal(names, *made)) tensors[name.str()] = tensor;
    return Error::success();
  }

  Error hook(ArrayRef<StringRef> words) {
    const std::string number = words[4].str();
    auto with = [this, number](StringRef op) {
      return [this, number, op](const Tensor &gradient) { return t.attempt(op, {gradient}, {{"scalar", number}}); };
    };
    auto scaleInPlace = [this, number](const Tensor &leaf) -> Expected<Tensor> {
      NoGradScope quiet(t.im);
      if (Error error = t.into("_mul_scalar", {leaf.grad()}, {leaf.grad()}, {{"scalar", number}})) return error;
      return Tensor();
    };
    Expected<HookHandle> made =
        words[3] == "post"    ? t.im.addPostAccumulateHook(at(words[2]), scaleInPlace)
        : words[3] == "see"   ? t.im.addHook(at(words[2]), [](const Tensor &) { return Expected<Tensor>(Tensor()); })
        : words[3] == "scale" ? t.im.addHook(at(words[2]), with("_mul_scalar"))
                              : t.im.addHook(at(words[2]), with("_plus_scalar"));
    if (!made) return made.takeError();
    hooks[words[1].str()] = *made;
    return Error::success();
  }

  Error backward(ArrayRef<StringRef> words) {
    const std::vector<Tensor> ys = listOf(words[1]), heads = headsOf(ys, words[2]), inputs = listOf(words[3]);
    hasRecorded |= has(words, "create");
    BackwardOptions options{.heads = heads, .retain = has(words, "retain"), .createGraph = has(words, "create")};
    if (words[3] != "-") options.inputs = inputs;
    return t.im.backward(ys, options);
  }

  Error grad(ArrayRef<StringRef> words) {
    const std::vector<Tensor> ys = listOf(words[2]), xs = listOf(words[3]), heads = headsOf(ys, words[4]);
    hasRecorded |= has(words, "create");
    Expected<std::vector<Tensor>> found =
        t.im.grad(ys, xs,
                  {.heads = heads,
                   .retain = has(words, "retain"),
                   .createGraph = has(words, "create"),
                   .unused = has(words, "zeros") ? UnusedPolicy::Zeros : UnusedPolicy::None});
    if (!found) return found.takeError();
    SmallVector<StringRef, 2> names;
    words[1].split(names, ',');
    for (auto [name, tensor] : zip_equal(names, *found)) {
      if (name == "-") checkNone(tensor, words[1]);
      else tensors[name.str()] = tensor;
    }
    return Error::success();
  }

  /// "-" alone: all gaps.
  std::vector<Tensor> headsOf(ArrayRef<Tensor> ys, StringRef names) {
    return names == "-" ? std::vector<Tensor>(ys.size()) : listOf(names);
  }

  void addFunctions() {
    functions["product"] = testing::product(t);
    functions["first"] = function(
        "first",
        [this](const FunctionContext &, Tensors in) -> Expected<TensorList> { return TensorList{t.add(in[0], in[1])}; },
        [this](const FunctionContext &, Tensors dy) -> Expected<TensorList> {
          return TensorList{t.times(dy[0], "0.5"), Tensor()};
        });
    functions["pair"] = function(
        "pair",
        [this](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
          const Tensor y = t("exp", {in[0]});
          context.save({y, in[0], in[1]});
          return TensorList{y, t.mul(in[0], in[1])};
        },
        [this](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
          Expected<TensorList> saved = context.saved();
          if (!saved) return saved.takeError();
          return TensorList{t.add(t.mul(dy[0], (*saved)[0]), t.mul(dy[1], (*saved)[2])), t.mul(dy[1], (*saved)[1])};
        });
  }

  Tape t;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, HookHandle> hooks;
  std::map<std::string, std::shared_ptr<Function>> functions;
  bool hasRecorded = false;  // a gradient
};

struct Counts {
  size_t numRun = 0, numRefused = 0;
};

void runProgram(ArrayRef<StringRef> lines, Counts &counts) {
  SCOPED_TRACE(join(lines, "\n"));
  Program program;
  for (StringRef line : lines.drop_front()) {
    if (line.starts_with("value ") || line.starts_with("gradient ")) {
      program.check(line);
      continue;
    }
    Error error = program.run(line);
    if (!error) continue;
    const GradcError found = errorOf(std::move(error));
    // What is overwritten may be an output that PyTorch keeps in other memory.
    if (found.kind != ErrorKind::StaleVersion) ADD_FAILURE() << line.str() << ": " << found.message;
    ++counts.numRefused;
    return;
  }
  ++counts.numRun;
}

TEST(ImperativePrograms, TA_06_TA_48_TA_57_TA_65_HO_07_AsPyTorchRunsThem) {
  const char *const given = std::getenv("GRADC_TAPE_PROGRAMS");
  const auto file = MemoryBuffer::getFile(given && *given ? StringRef(given) : StringRef(kBeside));
  ASSERT_TRUE(static_cast<bool>(file));
  SmallVector<StringRef, 0> lines;
  (*file)->getBuffer().split(lines, '\n', -1, false);
  Counts counts;
  for (size_t first = 0; first < lines.size() && !HasFailure();) {
    size_t last = first + 1;
    while (last < lines.size() && !lines[last].starts_with("program ")) ++last;
    runProgram(ArrayRef(lines).slice(first, last - first), counts);
    first = last;
  }
  RecordProperty("run", static_cast<int>(counts.numRun));
  RecordProperty("refused", static_cast<int>(counts.numRefused));
  if (HasFailure()) return;
  EXPECT_GE(counts.numRun, 30 * counts.numRefused);
}

}  // namespace
}  // namespace gradc
