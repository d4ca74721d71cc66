// Programs of blocks that differ in one place from a sound one: each slot of each operator with @EMPTY@, without a name
// or with one too many, each integer attribute with numbers from the ends of its range, other names in attributes,
// other sub-blocks, other declarations. Whatever the program, every use of it ends soon, with a result or an error that
// blames the program.
//
// A use that crashes or takes more than kSeconds ends the test, after the name of the program.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/draw_blocks.h"
#include "tests/support/blocks/rule_samples.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/backward/minimize.h"
#include "formats/blocks/graph/block_gradient.h"
#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/tables/gradient_forms.h"
#include "formats/blocks/tables/op_slots.h"
#include "ir/rules/verify.h"
#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/time.h>
#include <unistd.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

constexpr time_t kSeconds = 20;  // of processor time, for all uses of one program
constexpr int64_t kNumbers[] = {-1, 0, INT64_MIN, INT64_MAX, 1LL << 32, 200'000'000};

std::string current;  // the program in use

extern "C" void onSignal(int signal) {
  constexpr StringLiteral kText = "\nblock_hostile_test ends at: ";
  (void)!write(STDERR_FILENO, kText.data(), kText.size());
  (void)!write(STDERR_FILENO, current.data(), current.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// 0: no limit.
void limitTime(time_t seconds) {
  const itimerval limit = {{}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

/// The uses of a program that its call differentiates.
class Uses {
 public:
  Uses(const BlockCall &call) : call(call) {}

  void run(const BlockProgram &program) {
    limitTime(kSeconds);
    BlockGraphOptions options;
    options.maxIterations = 4;
    examine(graphOfBlocks(context, program, options));
    if (Expected<BlockGradient> asked = gradientOfCall(context, program, call, options)) {
      GradientOptions zeros;
      zeros.unused = UnusedPolicy::Zeros;
      if (Expected<GradientResult> made = buildGradient(context, asked->forward.graph, asked->request, zeros))
        examineGraph(made->graph);
      else judge(made.takeError());
    } else {
      judge(asked.takeError());
    }
    FluidOptimizer optimizer;
    optimizer.name = "Momentum";
    optimizer.clip = FluidOptimizer::Clip::GlobalNorm;
    for (uint32_t priorCalls : {0u, 1u}) {
      FluidRequest request = lossOf(call.loss);
      request.priorCalls = priorCalls;
      if (Expected<FluidResult> made = minimize(context, BlockProgram(program), request, optimizer)) {
        judge(verifyBlocks(made->program));
        if (priorCalls == 0) examine(graphOfBlocks(context, made->program, options));
      } else {
        judge(made.takeError());
      }
    }
    FluidRequest toFirst = gradientsOf({call.loss}, {program.text(program.blocks[0].variables.front().name).str()});
    if (Expected<FluidResult> made = appendBackward(context, BlockProgram(program), toFirst))
      judge(verifyBlocks(made->program));
    else judge(made.takeError());
    limitTime(0);
    ++numPrograms;
  }

  size_t numPrograms = 0, numRefused = 0;

 private:
  void examine(Expected<BlockGraph> read) {
    if (read) examineGraph(read->graph);
    else judge(read.takeError());
  }
  void examineGraph(const Graph &graph) {
    judge(verifyGraph(graph, 1));
    InferOptions partly;
    partly.allowUnknown = true;
    if (Expected<Inference> inference = infer(context, graph, InferRequest(), partly)) return;
    else judge(inference.takeError());
  }
  void judge(Error error) {
    if (!error) return;
    ++numRefused;
    error = handleErrors(std::move(error), [&](const GradcError &info) {
      EXPECT_NE(info.kind, ErrorKind::Internal) << current << ": " << info.message;
    });
    EXPECT_EQ(describeError(std::move(error)), "success") << current;
  }

  const BlockCall &call;
  TestContext context;
};

/// Visits the relatives of a program that differ in one operator or in one declaration.
class Relatives {
 public:
  using Visit = function_ref<void(const BlockProgram &, const std::string &what)>;

  Relatives(const BlockProgram &program, Visit visit) : program(program), visit(visit) {}

  void ofOperator(uint32_t block, size_t at) {
    place = {block, at};
    where = describe(program, block, at);
    const BlockOp &op = program.blocks[block].ops[at];
    for (bool isOut : {false, true})
      for (size_t s = 0; s < (isOut ? op.outputs : op.inputs).size(); ++s) ofSlot(isOut, s);
    for (const AttrText &attr : op.attrs.pairs()) ofAttribute(attr.key.str());
    for (uint32_t sub = 0; op.subBlock && sub <= program.blocks.size(); ++sub)
      with("sub_block " + Twine(sub), [&](BlockOp &changed) { changed.subBlock = sub; });
    if (op.subBlock) with("no sub_block", [&](BlockOp &changed) { changed.subBlock.reset(); });
  }

  void ofVariable(uint32_t block, size_t at) {
    const TextId name = program.blocks[block].variables[at].name;
    auto with = [&](const Twine &what, function_ref<void(BlockVariable &)> edit) {
      BlockProgram changed(program);
      edit(changed.blocks[block].variables[at]);
      visit(changed, ("variable " + program.text(name) + " of block " + Twine(block) + ", " + what).str());
    };
    for (const std::vector<int64_t> &shape :
         std::vector<std::vector<int64_t>>{{}, {-1}, {0}, {1}, {kNumbers[1]}, {kNumbers[2], 2}, {2, 2, 2, 2, 2}})
      with("shape " + Twine(shape.size()),
           [&](BlockVariable &variable) { variable.shape.assign(shape.begin(), shape.end()); });
    with("no type", [](BlockVariable &variable) { variable.dtype.reset(); });
    with("a count", [](BlockVariable &variable) { variable.dtype = FluidType::Int64; });
    for (FluidType kind : {FluidType::LodTensor, FluidType::LodTensorArray, FluidType::SelectedRows})
      with("kind", [&](BlockVariable &variable) { variable.kind = kind; });
    with("flag", [](BlockVariable &variable) { variable.stopsGradient = !variable.stopsGradient; });
  }

 private:
  void with(const Twine &what, function_ref<void(BlockOp &)> edit) {
    BlockProgram changed(program);
    edit(changed.blocks[place.first].ops[place.second]);
    visit(changed, where + ", " + what.str());
  }

  void ofSlot(bool isOut, size_t s) {
    const BlockOp &op = program.blocks[place.first].ops[place.second];
    const BlockSlot &slot = (isOut ? op.outputs : op.inputs)[s];
    const std::string name = (isOut ? "output " : "input ") + program.text(slot.name).str();
    auto withSlot = [&](const Twine &what, function_ref<void(SmallVectorImpl<TextId> &)> edit) {
      with(name + what, [&](BlockOp &changed) { edit((isOut ? changed.outputs : changed.inputs)[s].variables); });
    };
    for (size_t i = 0; i < slot.variables.size(); ++i)
      withSlot(" with @EMPTY@ at " + Twine(i), [&](auto &names) { names[i] = kEmptyName; });
    withSlot(" without a name", [](auto &names) { names.clear(); });
    for (TextId more : {kEmptyName, program.blocks[0].variables.front().name, program.blocks[0].variables.back().name})
      withSlot(" and " + program.text(more), [&](auto &names) { names.push_back(more); });
    if (!slot.variables.empty()) withSlot(" twice", [&](auto &names) { names.push_back(names.back()); });
    with("no " + name, [&](BlockOp &changed) {
      std::vector<BlockSlot> &slots = isOut ? changed.outputs : changed.inputs;
      slots.erase(slots.begin() + static_cast<ptrdiff_t>(s));
    });
  }

  void ofAttribute(const std::string &key) {
    const Attrs &attrs = program.blocks[place.first].ops[place.second].attrs;
    const AttrTag tag = *attrTag(attrs, key);
    with("no " + key, [&](BlockOp &changed) { changed.attrs = without(attrs, key); });
    if (tag == AttrTag::Int || tag == AttrTag::Long)
      for (int64_t number : kNumbers) replace(key, intAttrText(tag, number));
    if (const std::optional<bool> flag = boolAttr(attrs, key)) replace(key, boolAttrText(!*flag));
    if (std::optional<std::vector<int64_t>> numbers = intsAttr(attrs, key)) {
      for (int64_t number : kNumbers) {
        for (size_t i = 0; i <= numbers->size(); ++i) {
          std::vector<int64_t> changed = *numbers;
          if (i < changed.size()) changed[i] = number;
          else changed.push_back(number);
          replace(key, intsAttrText(tag, changed));
        }
        replace(key, intsAttrText(tag, std::vector<int64_t>(numbers->size(), number)));
      }
      replace(key, intsAttrText(tag, {}));
    }
    if (std::optional<std::vector<std::string>> names = stringsAttr(attrs, key)) {
      for (const char *name : {"@EMPTY@", "nowhere"}) {
        for (size_t i = 0; i <= names->size(); ++i) {
          std::vector<std::string> changed = *names;
          if (i < changed.size()) changed[i] = name;
          else changed.push_back(name);
          replace(key, stringsAttrText(tag, changed));
        }
      }
      if (!names->empty()) replace(key, stringsAttrText(tag, ArrayRef(*names).drop_back()));
    }
  }

  Attrs without(const Attrs &attrs, StringRef key) {
    SmallVector<AttrText, 8> kept;
    for (const AttrText &attr : attrs.pairs())
      if (attr.key != key) kept.push_back(attr);
    return context.attrs(kept);
  }
  void replace(const std::string &key, const std::string &value) {
    SmallVector<AttrText, 8> pairs;
    for (const AttrText &attr : program.blocks[place.first].ops[place.second].attrs.pairs())
      pairs.push_back({attr.key, attr.key == key ? StringRef(value) : attr.value});
    with(key + " " + value, [&](BlockOp &changed) { changed.attrs = context.attrs(pairs); });
  }

  const BlockProgram &program;
  Visit visit;
  std::pair<uint32_t, size_t> place;
  std::string where;
  TestContext context;  // of the attributes
};

struct BlockHostile : ::testing::Test {
  BlockHostile() {
    for (int signal : {SIGSEGV, SIGABRT, SIGPROF, SIGFPE, SIGBUS}) std::signal(signal, onSignal);
  }

  /// The program, then its relatives in the operators that are chosen.
  void put(const std::string &name, const BlockProgram &program, const BlockCall &call,
           function_ref<bool(const BlockOp &)> isChosen) {
    Uses uses(call);
    current = name;
    uses.run(program);
    auto visit = [&](const BlockProgram &changed, const std::string &what) {
      current = name + ": " + what;
      uses.run(changed);
    };
    Relatives relatives(program, visit);  // refers to it
    for (uint32_t block = 0; block < program.blocks.size(); ++block) {
      for (size_t at = 0; at < program.blocks[block].ops.size(); ++at)
        if (isChosen(program.blocks[block].ops[at])) relatives.ofOperator(block, at);
      for (size_t at = 0; at < program.blocks[block].variables.size(); ++at) relatives.ofVariable(block, at);
    }
    EXPECT_GT(uses.numPrograms, 1u) << name;
    EXPECT_GT(uses.numRefused, 0u) << name;
  }
  void put(const std::string &name, const BlockProgram &program, const BlockCall &call) {
    put(name, program, call, [](const BlockOp &) { return true; });
  }
  static BlockCall lossCall() {
    BlockCall call;
    call.api = "append_backward";
    call.loss = "loss";
    return call;
  }

  TestContext context;
};

/// Operators that only compute gradients, for which the program has no forward operator.
BlockProgram withoutForward(const BlockProgram &program, StringRef type) {
  BlockProgram alone(program);
  erase_if(alone.blocks[0].ops, [&](const BlockOp &op) { return program.text(op.type) == type; });
  return alone;
}

TEST_F(BlockHostile, E_48_RowsAndTheirGradients) {
  for (const RuleSample &sample : ruleSamples()) {
    const BlockFile file = programOfSample(context, sample);
    const TextId first = file.program.blocks[0].ops[0].type;
    put(sample.name, file.program, *file.call, [&](const BlockOp &op) { return op.type == first; });
    FluidResult made = cantFail(appendBackward(context, BlockProgram(file.program), lossOf()));
    const BlockOp &last = made.program.blocks[0].ops.back();
    put(sample.name + " with its gradient", made.program, *file.call,
        [&](const BlockOp &op) { return op.type == last.type; });
    const BlockProgram alone = withoutForward(made.program, sample.type);
    if (isGradientType(made.program.text(last.type)))
      put(sample.name + " with its gradient alone", alone, *file.call,
          [&](const BlockOp &op) { return op.type == last.type; });
  }
}

TEST_F(BlockHostile, E_48_RowsWithoutAGradient) {
  const std::string one = intsAttrText(AttrTag::Longs, {1, 2}), zero = intAttrText(AttrTag::Int, 0),
                    type = intAttrText(AttrTag::Int, 6), value = floatAttrText(AttrTag::Float, 2);
  for (const BlockOpRow *row : allBlockOps()) {
    const std::optional<StringRef> form = gradientForm(row->type);
    if (form && !form->empty() && *form != "none" && row->type != "increment") continue;
    const OpSlots slots = *slotsOfType(row->type);
    std::string op = row->type.str(), results;
    for (const OpSlot &slot : slots.inputs)
      if (!slot.isOptional) op += (" " + slot.name + "=p").str();
    for (const OpSlot &slot : slots.outputs)
      results += (" " + slot.name + "=" + (results.empty() ? "a" : slot.name)).str();
    BlockProgram program = programOf(op + " ->" + results + "\nreduce_sum X=a -> Out=loss");
    program.blocks[0].ops[0].attrs = context.attrs({{"axis", zero},
                                                    {"dtype", type},
                                                    {"input_dim_idx", zero},
                                                    {"output_dim_idx", zero},
                                                    {"shape", one},
                                                    {"step", value},
                                                    {"value", value}});
    put(row->type.str(), program, lossCall(), [&](const BlockOp &op) { return &op == &program.blocks[0].ops[0]; });
  }
}

constexpr std::pair<const char *, const char *> kNested[] = {
    {"branch", "conditional_block:1 Cond=c Input=p -> Out=a Scope=s\n"
               "reduce_sum X=a -> Out=loss\n"
               "block 1 in 0\n"
               "tanh X=p -> Out=a"},
    {"select", "select_output Mask=c X=p -> Out=a,b\n"
               "tanh X=a -> Out=d\n"
               "select_input Mask=c X=d,b -> Out=e\n"
               "reduce_sum X=e -> Out=loss"},
};

TEST_F(BlockHostile, E_48_BranchesAndTheirGradients) {
  for (const auto &[name, text] : kNested) {
    const BlockProgram program = programOf(text);
    put(name, program, lossCall());
    put(name + std::string(" with its gradient"),
        cantFail(appendBackward(context, BlockProgram(program), lossOf())).program, lossCall());
  }
}

TEST_F(BlockHostile, E_48_LoopsStepsAndTheirGradients) {
  for (const std::string name : {"power", "static_rnn"}) {
    auto buffer = cantFail(errorOrToExpected(MemoryBuffer::getFile("testdata/blocks/" + name + ".json")));
    const BlockFile file = cantFail(readBlocks(context, buffer->getBuffer()));
    put(name, file.program, *file.call);
    FluidResult made = cantFail(appendBackward(context, BlockProgram(file.program), lossOf(file.call->loss)));
    put(name + " with its gradient", made.program, *file.call);
  }
}

TEST_F(BlockHostile, E_48_DrawnPrograms) {
  BlockDraw draw;
  draw.numOps = 3;
  draw.rewritePercent = draw.flaggedPercent = draw.inPlacePercent = draw.arrayPercent = 25;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const BlockProgram program = drawBlocks(context, seed, draw);
    put("drawn " + std::to_string(seed), program, lossCall());
  }
}

TEST_F(BlockHostile, E_48_Arrays) {
  BlockProgram program = programOf("write_to_array X=p I=i -> Out=a\nread_from_array X=a I=i -> Out=b\n"
                                   "lod_array_length X=a -> Out=n\nreduce_sum X=b -> Out=loss");
  program.find(0, program.texts.find("a"))->kind = FluidType::LodTensorArray;
  for (const char *count : {"i", "n"}) {
    BlockVariable &variable = *program.find(0, program.texts.find(count));
    variable.dtype = FluidType::Int64;
    variable.shape = {1};
    variable.stopsGradient = true;
  }
  put("array", program, lossCall());
  put("array with its gradient", cantFail(appendBackward(context, BlockProgram(program), lossOf())).program,
      lossCall());
}

}  // namespace
}  // namespace gradc
