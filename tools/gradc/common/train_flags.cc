// Tested by tests/tools/train_cli_test.cc
#include "tools/gradc/common/flag_values.h"

using namespace llvm;

namespace gradc {
namespace {

bool setCount(std::optional<uint64_t> &out, StringRef value) { return parsePositive(value, out.emplace()); }

bool setShuffle(Options &options, const Flag &, StringRef value) {
  options.train.isInOrder = value == "none";
  return options.train.isInOrder || parseCount(value, options.train.shuffle.emplace());
}

bool setRescale(Options &options, const Flag &, StringRef value) {
  options.train.hasOwnRescale = value != "auto";
  return !options.train.hasOwnRescale || parseNumber(value, options.train.optimizer.rescale);
}

bool setFraction(double &out, StringRef value) { return parseNumber(value, out) && out < 1; }

// Enumerators follow the order of the choices.
constexpr Flag kFlags[] = {
    {"data", "FILE.npz", "the training data: arrays whose first axis is the index of the example",
     [](Options &o, const Flag &, StringRef v) { return setText(o.train.data, v); }},
    {"feed", "VARIABLE=ARRAY",
     "which array a variable reads its rows from; repeatable (default: the array with the name of the variable)",
     [](Options &o, const Flag &, StringRef v) { return appendPair(o.train.feeds, v); }},
    {"eval", "FILE.npz", "examples to evaluate on after every epoch (default with --eval-feed: those of --data)",
     [](Options &o, const Flag &, StringRef v) { return setText(o.train.evalData, v); }},
    {"eval-feed", "VARIABLE=ARRAY", "like --feed, for the --eval examples; repeatable (default with --eval: as --feed)",
     [](Options &o, const Flag &, StringRef v) { return appendPair(o.train.evalFeeds, v); }},
    {"batch", "N", "examples per step (default 64)",
     [](Options &o, const Flag &, StringRef v) {
       return parsePositive(v, o.train.batch) && o.train.batch <= INT32_MAX;
     }},
    {"epochs", "N", "how often to go through the examples, in all (default 1)",
     [](Options &o, const Flag &, StringRef v) { return setCount(o.train.epochs, v); }},
    {"steps", "N", "how many steps to take, in all, instead of --epochs",
     [](Options &o, const Flag &, StringRef v) { return setCount(o.train.steps, v); }},
    {"optimizer", "sgd|adam|nag|signsgd|signum|rmsprop|rmspropalex|adagrad|ftrl|ftml|adamw|lamb",
     "optimizer to use (default sgd)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.train.optimizer.kind); }},
    {"lr", "RATE", "learning rate (default by optimizer: 0.05 for sgd, 0.001 for adam)",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.train.rate.emplace()); }},
    {"momentum", "M", "of sgd, nag and signum: how much of the last step is kept (default 0)",
     [](Options &o, const Flag &, StringRef v) { return setFraction(o.train.optimizer.momentum, v); }},
    {"wd", "D", "weight decay (default 0)",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.train.optimizer.weightDecay); }},
    {"decay", "weights|all",
     "what decays: variables named ..._weight or ..._gamma, or every parameter; __wd_mult__ of a variable takes "
     "precedence "
     "(default weights)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.train.optimizer.decayRule); }},
    {"beta1", "B", "of adam, adamw, lamb and ftml: decay of the mean (default 0.9; ftml 0.6)",
     [](Options &o, const Flag &, StringRef v) { return setFraction(o.train.optimizer.beta1.emplace(), v); }},
    {"beta2", "B", "for the same optimizers: decay of the mean of squares (default 0.999)",
     [](Options &o, const Flag &, StringRef v) { return setFraction(o.train.optimizer.beta2.emplace(), v); }},
    {"epsilon", "E", "keeps denominators from 0 (default by optimizer: 1e-8 for adam)",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.train.optimizer.epsilon.emplace()); }},
    {"optimizer-attr", "NAME=VALUE",
     "another attribute of the optimizer's operator, such as gamma1 of rmsprop; repeatable",
     [](Options &o, const Flag &, StringRef v) { return appendPair(o.train.optimizerAttrs, v); }},
    {"clip", "C", "cut every element of a gradient to between -C and C",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.train.optimizer.clip); }},
    {"rescale", "auto|FACTOR",
     "factor of gradients; auto: 1 / batch, or 1 when the loss is a mean already (default auto)", setRescale},
    {"schedule", "constant|step|cosine", "course of the learning rate after the warm-up (default constant)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.train.schedule.kind); }},
    {"warmup", "N", "steps in which the rate rises from 0 (default 0)",
     [](Options &o, const Flag &, StringRef v) { return parseCount(v, o.train.schedule.warmup); }},
    {"drop-every", "N", "of --schedule=step: steps between drops of the rate (default 1000)",
     [](Options &o, const Flag &, StringRef v) { return parsePositive(v, o.train.schedule.every); }},
    {"drop-factor", "F", "of --schedule=step: factor of each drop (default 0.1)",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.train.schedule.factor); }},
    {"final-lr", "RATE", "of --schedule=cosine: the rate at the end (default 0)",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.train.schedule.lowest); }},
    {"shuffle", "SEED|none",
     "order of the examples, drawn anew every epoch; none: in the order of the file (default: the seed of --init)",
     setShuffle},
    {"freeze", "NAME,...", "parameters and moving statistics that keep their values bit for bit; repeatable",
     [](Options &o, const Flag &, StringRef v) { return append(o.train.frozen, v); }},
    {"checkpoint", "FILE.npz",
     "keep the state of the run in FILE.npz, replaced as a whole after every epoch and at the end",
     [](Options &o, const Flag &, StringRef v) { return setText(o.train.checkpoint, v); }},
    {"checkpoint-every", "N", "write the checkpoint every N steps instead",
     [](Options &o, const Flag &, StringRef v) { return parsePositive(v, o.train.checkpointEvery); }},
    {"resume", "FILE.npz", "continue from a checkpoint, bit for bit as if the run had not stopped there",
     [](Options &o, const Flag &, StringRef v) { return setText(o.train.resume, v); }},
    {"log", "FILE", "write one JSON object per step and evaluation; with --resume they are appended",
     [](Options &o, const Flag &, StringRef v) { return setText(o.train.log, v); }},
    {"emit-graph", "FILE",
     "write the graph that is run: network, gradients and optimizer, in the operators of --dialect",
     [](Options &o, const Flag &, StringRef v) { return setText(o.train.graph, v); }},
};
static_assert(static_cast<size_t>(OptimizerKind::Lamb) + 1 == kNumOptimizers && static_cast<int>(DecayRule::All) == 1 &&
              static_cast<int>(ScheduleKind::Cosine) == 2);

}  // namespace

ArrayRef<Flag> trainFlags() { return kFlags; }

}  // namespace gradc
