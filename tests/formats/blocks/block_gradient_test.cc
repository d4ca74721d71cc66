// Programs of Paddle as graphs: the values of the loss, of gradients, and what central differences say where Paddle is
// wrong.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/ops/differences.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/block_gradient.h"
#include "runtime/arrays/elements.h"
#include "runtime/arrays/npz_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// A program, its gradient, and the values that it is given.
struct Case {
  BlockFile file;
  std::vector<NamedArray> arrays;
  ArrayNames values;
  BlockGradient asked;
  GradientResult result;
};

Expected<Case> caseOf(Context &context, const PaddleFile &file, const std::string &name) {
  Expected<BlockFile> blocks = readBlocks(context, file.text);
  if (!blocks) return blocks.takeError();
  BlockGraphOptions options;
  options.maxIterations = 20;
  Expected<BlockGradient> asked = gradientOfCall(context, blocks->program, *blocks->call, options);
  if (!asked) return asked.takeError();
  GradientOptions gradientOptions;
  gradientOptions.unused = UnusedPolicy::None;
  GradientResult result;
  result.graph = asked->forward.graph;
  if (!asked->request.wrt.empty()) {
    Expected<GradientResult> made = buildGradient(context, asked->forward.graph, asked->request, gradientOptions);
    if (!made) return made.takeError();
    result = std::move(*made);
  }
  Case made{std::move(*blocks), {}, {}, std::move(*asked), std::move(result)};
  const std::vector<PaddleFile> archive = paddlePrograms("/" + name + ".values.npz");
  if (archive.empty()) return made;
  Expected<std::vector<NamedArray>> arrays = parseNpz(archive.front().text, name);
  if (!arrays) return arrays.takeError();
  made.arrays = std::move(*arrays);
  for (const NamedArray &array : made.arrays) made.values[array.name] = &array;
  return made;
}

struct Outcome {
  size_t numCompared = 0;
  std::string problem;  // empty: every value agrees
};

/// Loss and gradients of a program against those that Paddle computed.
Outcome compare(Context &context, Case &made) {
  Expected<std::vector<Array>> heads =
      runHeads(context, made.result.graph, bindingsFor(made.result.graph, made.values));
  if (!heads) return {0, describeError(heads.takeError())};
  Outcome outcome;
  auto check = [&](const std::string &name, size_t head) {
    const NamedArray *theirs = made.values.lookup("fetch:" + name);
    if (!theirs) return;
    ++outcome.numCompared;
    const bool isSingle = StringRef(made.file.others["case"]).contains("f32");  // computed in float32 on the way
    const double worst = largestDifference((*heads)[head].view(), theirs->array.view());
    if (!(worst <= (isSingle ? 1e-6 : 1e-9))) outcome.problem += name + " differs by " + std::to_string(worst) + "; ";
  };
  const BlockCall &call = *made.file.call;
  const std::vector<std::string> targets = targetsOf(call);
  for (size_t i = 0; i < targets.size(); ++i) check(targets[i], i);
  size_t head = made.asked.forward.graph.heads().size();
  for (size_t i = 0; i < made.asked.wrt.size(); ++i)
    if (made.result.wrt[i].status != SlotStatus::None) check(made.asked.wrt[i] + "@GRAD", head++);
  return outcome;
}

/// Σ seed · target, from the heads: targets, then seeds.
double projected(const Case &made, const std::vector<Array> &heads) {
  double sum = 0;
  size_t nextSeed = made.asked.request.heads.size();
  for (size_t i = 0; i < made.asked.request.heads.size(); ++i) {
    const TensorRef y = heads[i].view();
    const bool hasSeed = made.asked.request.heads[i].seed.has_value();
    for (int64_t k = 0; k < y.size(); ++k)
      sum += readElement(y, k) * (hasSeed ? readElement(heads[nextSeed].view(), k) : 1);
    nextSeed += hasSeed;
  }
  return sum;
}

/// The largest distance from central differences, of every variable requested that is float64.
double centralDifference(Context &context, Case &made) {
  const Graph &forward = made.asked.forward.graph;
  const std::vector<NamedArray> bindings = bindingsFor(made.result.graph, made.values);
  const std::vector<Array> heads = cantFail(runHeads(context, made.result.graph, bindings));
  std::vector<NamedArray> moved = bindingsFor(forward, made.values);
  double worst = 0;
  size_t head = forward.heads().size();
  for (size_t i = 0; i < made.asked.wrt.size(); ++i) {
    if (made.result.wrt[i].status == SlotStatus::None) continue;
    Array gradient = heads[head++];
    for (NamedArray &binding : moved)
      if (binding.name == made.asked.wrt[i]) {
        const std::vector<double> expected = differences(elements(binding.array), 1e-5, [&] {
          return projected(made, cantFail(runHeads(context, forward, moved)));
        });
        worst = std::fmax(worst, relativeDistance(elements(gradient), expected));
      }
  }
  return worst;
}

/// Programs whose values are not Paddle's, with the reason: a defect of Paddle's, for central differences of its own
/// forward part contradict it (../shared/programs/README.md), or a part of the call that a graph does not have.
const std::map<std::string, std::string> kDifferent = {
    {"assign_same_name", "a name written twice gets the gradients of both definitions"},
    {"cond_no_else_assign", "a name written twice gets the gradients of both definitions"},
    {"gradients_multi_target", "the seed of a target in the interior is overwritten"},
    {"gradients_target_is_interior", "the seed of a target in the interior is overwritten"},
    {"loss_nonscalar", "the seed of a loss of several elements is read out of bounds"},
    {"while_cond", "a state read in a nested block"},
    {"while_nested", "a state read in a nested block"},
    {"while_passthrough_state", "a state passed through unchanged"},
    {"while_swap", "a state written twice"},
    {"while_swap_copy", "a state written twice"},
};
const std::map<std::string, std::string> kNotCompared = {
    {"backward_inside_cond", "[foreign_entry] the loss is in a branch, expected in the root"},
    {"dropout", "draws of its own"},
    {"error_clip", "a callback clips gradients on the way"},
    {"grad_clip_sgd", "gradients are clipped by their global norm"},
};

TEST(BlockGradient, ProgramsOfPaddleHaveItsValues) {
  const std::vector<PaddleFile> files = paddlePrograms(".forward.json");
  if (files.empty()) GTEST_SKIP() << "no programs in " << paddleFolder();
  size_t numEqual = 0, numValues = 0, numDifferent = 0;
  for (const PaddleFile &file : files) {
    const std::string name = StringRef(file.name).drop_back(StringRef(".forward.json").size()).str();
    if (paddlePrograms("/" + name + ".values.npz").empty() || kNotCompared.contains(name)) continue;
    TestContext context;
    Expected<Case> made = caseOf(context, file, name);
    if (!made) {
      ADD_FAILURE() << name << ": " << describeError(made.takeError());
      continue;
    }
    const Outcome outcome = compare(context, *made);
    if (kDifferent.contains(name)) {
      EXPECT_NE(outcome.problem, "") << name << " is listed as different";
      EXPECT_LE(centralDifference(context, *made), 1e-7) << name;
      ++numDifferent;
    } else {
      EXPECT_EQ(outcome.problem, "") << name;
      ++numEqual;
    }
    numValues += outcome.numCompared;
  }
  EXPECT_EQ(numEqual, 53u);
  EXPECT_EQ(numDifferent, kDifferent.size());
  EXPECT_EQ(numValues, 140u);
}

BlockCall gradientsCall(std::vector<std::string> targets, std::vector<std::string> inputs) {
  BlockCall call;
  call.api = "gradients";
  call.targets = std::move(targets);
  call.inputs = std::move(inputs);
  return call;
}

std::string errorOf(const BlockProgram &program, const BlockCall &call) {
  TestContext context;
  return describeWithNotes(gradientOfCall(context, program, call, {}).takeError());
}

TEST(BlockGradient, FlaggedDataHasNoGradient) {
  TestContext context;
  const BlockProgram program = programOf("elementwise_mul X=c Y=x -> Out=a");  // c stops the gradient
  const BlockGradient asked = cantFail(gradientOfCall(context, program, gradientsCall({"a"}, {"c", "x"}), {}));
  EXPECT_EQ(asked.wrt, std::vector<std::string>{"x"});
  EXPECT_EQ(asked.unreached, std::vector<std::string>{"c"});
}

TEST(BlockGradient, E_04_ALossThatNoOperatorWrites) {
  BlockCall call;
  call.api = "append_backward";
  call.loss = "p";
  EXPECT_EQ(errorOf(programOf("exp X=p -> Out=a"), call), "[no_graph] no operator of block 0 writes the loss 'p'");
}

TEST(BlockGradient, ErrorsAreThoseOfTheEmittedProgram) {
  const BlockProgram program = programOf("exp X=p -> Out=a\nassign X=a -> Out=loss\nblock 1 in 0\nexp X=p -> Out=b");
  BlockCall call = gradientsCall({"a"}, {"p"});
  call.targetGradients = {{std::nullopt, std::nullopt}};
  EXPECT_EQ(errorOf(program, call), "[head_count] 1 targets with 2 gradients");
  call = gradientsCall({"a"}, {"p"});
  call.noGradSet = {{"q"}};
  EXPECT_EQ(errorOf(program, call), "[unknown_name] no-gradient variable 'q' is not in the program");
  EXPECT_EQ(errorOf(program, gradientsCall({"b"}, {"p"})),
            "[foreign_entry] target 'b' is a variable of block 1, expected one that block 0 sees");
  EXPECT_EQ(errorOf(program, gradientsCall({"a"}, {"q"})),
            "[unknown_name] input 'q' is not declared in block 0 or in a block that encloses it");
}

TEST(BlockGradient, CentralDifferencesAgreeWhereverPaddleDoesNot) {
  // Those without values of their own, too: what Paddle leaves out or cannot run.
  for (const char *name : {"assign_same_name_nouse", "while_two_state"}) {
    const std::vector<PaddleFile> files = paddlePrograms("/" + std::string(name) + ".forward.json");
    if (files.empty()) GTEST_SKIP() << "no programs in " << paddleFolder();
    TestContext context;
    Case made = cantFail(caseOf(context, files.front(), name));
    EXPECT_FALSE(made.asked.wrt.empty());
    EXPECT_LE(centralDifference(context, made), 1e-7) << name;
  }
}

}  // namespace
}  // namespace gradc
