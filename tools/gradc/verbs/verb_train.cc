// `gradc train`: trains a network. Tested by tests/tools/train_cli_test.cc and testdata/cli.
#include "tools/gradc/train/train_report.h"
#include "tools/gradc/train/train_setup.h"
#include "tools/gradc/verbs/verbs.h"

#include "formats/json/writer.h"
#include "ir/base/error.h"
#include "passes/lowering/lower_to.h"
#include "runtime/arrays/params.h"
#include "tools/gradc/common/run_inputs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

class Run {
 public:
  Run(Tool &tool, Trainer &trainer, TrainSetup &setup, TrainReport &report)
      : flags(tool.options.train), trainer(trainer), setup(setup), report(report) {}

  /// Returns exit code 1 once the loss is not finite.
  Expected<int> takeSteps() {
    while (trainer.step() < setup.steps) {
      Expected<Trainer::Report> step = trainer.advance();
      if (!step) return step.takeError();
      report.step(*step);
      if (!std::isfinite(step->score.loss())) {
        failedAt = step->step;
        return 1;
      }
      if (Error error = afterStep()) return error;
    }
    return 0;
  }
  uint64_t whereItFailed() const { return failedAt; }

 private:
  Error afterStep() {
    const uint64_t step = trainer.step(), perEpoch = trainer.stepsPerEpoch();
    const bool isLast = step == setup.steps, endsEpoch = step % perEpoch == 0;
    if (isLast || endsEpoch) {
      if (Error error = evaluate()) return error;
      report.epoch((step - 1) / perEpoch + 1);
    }
    if (flags.checkpoint.empty()) return Error::success();
    const bool isDue = flags.checkpointEvery ? step % flags.checkpointEvery == 0 : endsEpoch;
    if (!isDue && !isLast) return Error::success();
    Expected<OutputFile> file = OutputFile::open(flags.checkpoint);
    if (!file) return file.takeError();
    if (Error error = trainer.writeCheckpoint(file->stream())) return error;
    return file->commit();
  }

  Error evaluate() {
    if (!setup.heldOut) return Error::success();
    Expected<Score> score = trainer.evaluate(*setup.heldOut);
    if (!score) return score.takeError();
    report.evaluation(trainer.step(), *score);
    return Error::success();
  }

  const TrainFlags &flags;
  Trainer &trainer;
  TrainSetup &setup;
  TrainReport &report;
  uint64_t failedAt = 0;
};

/// The training graph in MXNet's operators, which have the learning rate as an attribute.
Expected<Graph> mxnetGraph(Tool &tool, const Trainer &trainer, const RateSchedule &schedule) {
  OptimizerOptions optimizer = trainer.optimizer();
  if (schedule.kind != ScheduleKind::Constant || schedule.warmup > 0 || optimizerInfo(optimizer.kind).hasBiasCorrection)
    return Failure(ErrorKind::UnsupportedOption, "'--dialect mxnet' needs a constant learning rate")
        .note("use '--schedule constant' without '--warmup', and an optimizer without bias correction: the rate of "
              "adam, adamw, ftml and lamb changes from step to step");
  optimizer.fixedRate = schedule.rate;
  Expected<TrainingGraph> appended = appendOptimizer(tool.context, trainer.gradients(), optimizer);
  if (!appended) return appended.takeError();
  return lowerTo(tool.context, appended->graph, kMxnetTarget, nullptr);
}

Error emitGraph(Tool &tool, Trainer &trainer, const RateSchedule &schedule) {
  const TrainFlags &flags = tool.options.train;
  if (flags.graph.empty()) return Error::success();
  Graph graph = trainer.training().graph;
  if (const Target *target = targetOf(tool.options.grad.dialect)) {
    Expected<Graph> lowered = target == &kMxnetTarget
                                  ? mxnetGraph(tool, trainer, schedule)
                                  : lowerTo(tool.context, graph, *target, &trainer.session().inference());
    if (!lowered) return lowered.takeError();
    graph = *lowered;
  }
  return writeFile(flags.graph, [&](raw_ostream &os) { writeJson(os, graph); });
}

Error resume(Tool &tool, Trainer &trainer, uint64_t steps) {
  const TrainFlags &flags = tool.options.train;
  if (flags.resume.empty()) return Error::success();
  Expected<std::vector<NamedArray>> checkpoint = readArchive(tool, flags.resume);
  if (!checkpoint) return checkpoint.takeError();
  if (Error error = trainer.resume(*checkpoint, flags.resume)) return error;
  if (trainer.step() < steps) return Error::success();
  return Failure(ErrorKind::Usage, "checkpoint '" + flags.resume + "' is at step " + Twine(trainer.step()) +
                                       ", and this run ends at step " + Twine(steps) +
                                       ": more --epochs or --steps continue it");
}

/// Whether a checkpoint can be written is found out before the first step, too.
Error tryCheckpoint(const TrainFlags &flags) {
  if (flags.checkpoint.empty()) return Error::success();
  return OutputFile::open(flags.checkpoint).takeError();
}

/// As NPZ, or for a name in .params as MXNet's file, where auxiliary states are those variables of the network that an
/// operator overwrites.
Error writeParameters(raw_ostream &os, StringRef path, const Graph &graph, const Trainer &trainer) {
  if (!path.ends_with(".params")) return trainer.writeParameters(os);
  StringSet<> states;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (auto [i, v] : enumerate(graph.inputs(NodeId(n))))
      if (graph.kind(NodeId(n)).isMutated(i) && graph.isVariable(v.node)) states.insert(graph.name(v.node));
  return writeParams(os, trainer.parameters(), [&](StringRef name) { return states.contains(name); });
}

/// What appears at the end. Opened before the first step: where nothing can be written, no training is lost.
struct Results {
  std::optional<OutputFile> parameters, picture;

  static Expected<Results> open(const Options &options) {
    Results results;
    for (auto [path, file] : {std::pair(StringRef(options.output), &results.parameters),
                              std::pair(StringRef(options.picture.svgFile), &results.picture)}) {
      if (path.empty()) continue;
      Expected<OutputFile> opened = OutputFile::open(path);
      if (!opened) return opened.takeError();
      file->emplace(std::move(*opened));
    }
    return results;
  }

  Error write(const Options &options, const Graph &graph, const Trainer &trainer, const TrainReport &report) {
    SmallVector<OutputFile *, 2> files;
    if (parameters) {
      if (Error error = writeParameters(parameters->stream(), options.output, graph, trainer)) return error;
      files.push_back(&*parameters);
    }
    if (picture) {
      const std::string network = options.files.empty() ? "-" : sys::path::filename(options.files[0]).str();
      writeLossChart(picture->stream(), report.curves(), "Training of " + network);
      files.push_back(&*picture);
    }
    return commitAll(files);
  }
};

/// "'a' (64,10), 'b' (64,5) and 9 more".
std::string listHeads(const Tool &tool, const Graph &graph, const Inference &inference, ArrayRef<size_t> heads) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t h : heads.take_front(kShown)) {
    const Value head = graph.heads()[h];
    const std::string name = h < tool.headNames.size() ? tool.headNames[h] : graph.listedName(head);
    text += (text.empty() ? "'" : ", '") + name + "' " + toString(inference.shapeOf(graph.entry(head)));
  }
  if (heads.size() > kShown) text += " and " + std::to_string(heads.size() - kShown) + " more";
  return text;
}

/// Without a loss, training goes on all the same: what it minimizes must not be a surprise.
void warnOfHeads(Tool &tool, const Graph &graph, const Trainer &trainer) {
  const ArrayRef<size_t> heads = trainer.headsUnlikeLosses();
  if (heads.empty()) return;
  const bool isAll = heads.size() == graph.heads().size();
  const std::string sum = "the sum of all elements of " + countOf(heads.size(), "head") + ": " +
                          listHeads(tool, graph, trainer.forwardInference(), heads);
  tool.diagnostics.warning(isAll ? "the network has no loss; what is minimized is " + sum
                                 : "not every head is a loss; what is minimized includes " + sum);
  tool.diagnostics.note(
      tool.headNames.empty()
          ? "give the network a loss as its head: an operator with a loss of its own (SoftmaxOutput, "
            "LinearRegressionOutput, "
            "MakeLoss, ...), a single number, or one number per example"
          : "name the loss in the file's 'call' ({\"api\": \"append_backward\", \"loss\": NAME}): without it, every "
            "variable that no operator reads is a head");
}

Expected<int> runTrain(Tool &tool) {
  const Options &options = tool.options;
  const TrainFlags &flags = options.train;
  Expected<Graph> input = loadInOrder(tool);
  if (!input) return input.takeError();
  Expected<TrainSetup> setup = setUpTraining(tool, *input);
  if (!setup) return setup.takeError();
  const RateSchedule schedule = setup->options.schedule;
  Expected<Trainer> trainer =
      Trainer::create(tool.context, *input, std::move(setup->examples), std::move(setup->options));
  if (!trainer) return trainer.takeError();
  warnOfHeads(tool, *input, *trainer);
  if (Error error = emitGraph(tool, *trainer, schedule)) return error;
  if (Error error = resume(tool, *trainer, setup->steps)) return error;
  Expected<Results> results = Results::open(options);
  if (!results) return results.takeError();
  if (Error error = tryCheckpoint(flags)) return error;

  Expected<OutputFile> lines = OutputFile::open("");
  if (!lines) return lines.takeError();
  TrainReport report(options.output == "-" ? nullptr : &lines->stream(), trainer->metric(), setup->steps);
  if (!flags.log.empty())
    if (Error error = report.openLog(flags.log, !flags.resume.empty())) return error;
  Run run(tool, *trainer, *setup, report);
  Expected<int> code = run.takeSteps();
  if (!code) return code.takeError();
  if (*code == 0)
    if (Error error = results->write(options, *input, *trainer, report)) return error;
  // After the results, which a log or lines that cannot be written must not cost.
  if (Error error = report.close()) return error;
  if (Error error = lines->commit()) return error;
  if (*code != 0)
    tool.diagnostics.warning("the loss is not finite at step " + Twine(run.whereItFailed()) +
                             ": a lower --lr, a --warmup or --clip may help; nothing more was written");
  return *code;
}

constexpr StringRef kFlags[] = {"data",
                                "feed",
                                "eval",
                                "eval-feed",
                                "batch",
                                "epochs",
                                "steps",
                                "optimizer",
                                "lr",
                                "momentum",
                                "wd",
                                "decay",
                                "beta1",
                                "beta2",
                                "epsilon",
                                "optimizer-attr",
                                "clip",
                                "rescale",
                                "loss-scale",
                                "schedule",
                                "warmup",
                                "drop-every",
                                "drop-factor",
                                "final-lr",
                                "init",
                                "inputs",
                                "input",
                                "freeze",
                                "shuffle",
                                "checkpoint",
                                "checkpoint-every",
                                "resume",
                                "log",
                                "svg",
                                "emit-graph",
                                "dialect",
                                "output",
                                "backend",
                                "fuse",
                                "threads",
                                "shape",
                                "dtype",
                                "max-iterations",
                                "unknown-dim",
                                "error-limit",
                                "diag",
                                "help"};

}  // namespace

constinit const Verb kTrain = {
    .name = "train",
    .arguments = "[FILE]",
    .summary = "train a network",
    .description =
        "Differentiates the network, appends one optimizer step per parameter to the graph (--emit-graph shows "
        "it), and "
        "runs that graph on one batch of examples after the other. Every floating-point variable that the "
        "heads depend on is trained, unless it is fed or frozen; --freeze also leaves moving statistics unchanged.\n"
        "The loss printed is the mean per example of the losses that the network's operators imply "
        "(SoftmaxOutput: the "
        "cross entropy); other heads count with the sum of their elements, with a warning unless they look like a "
        "loss: one "
        "number, or one per example. SoftmaxOutput and LogisticRegressionOutput "
        "also give an accuracy, the other regressions a mean error.\n"
        "Parameters start from the arrays of --inputs; the others are drawn by --init SEED (default 0). -o writes the "
        "trained parameters and auxiliary states, as `gradc run --inputs` reads them.\n"
        "A run that goes on from its --checkpoint with --resume, the same flags and files, ends with the same bytes as "
        "one that was never stopped.",
    .examples = "gradc train digits.json --data digits.npz --feed data=train_images \\\n"
                "    --feed softmax_label=train_labels --eval-feed data=test_images \\\n"
                "    --eval-feed softmax_label=test_labels --epochs 20 -o trained.npz --svg loss.svg\n"
                "gradc train model.json --data set.npz --optimizer adam --lr 0.002 --epochs 10\n"
                "gradc train model.json --data set.npz --momentum 0.9 --wd 1e-4 --schedule cosine \\\n"
                "    --warmup 100 --epochs 10 --checkpoint run.npz --log run.jsonl\n"
                "gradc train model.json --data set.npz --momentum 0.9 --wd 1e-4 --schedule cosine \\\n"
                "    --warmup 100 --epochs 10 --checkpoint run.npz --log run.jsonl --resume run.npz",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .run = runTrain,
};

}  // namespace gradc
