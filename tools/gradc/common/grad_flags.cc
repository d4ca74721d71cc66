// Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/grad_flags.h"

#include "tools/gradc/common/flag_values.h"

using namespace llvm;

namespace gradc {
namespace {

bool setRequest(Options &options, const Flag &, StringRef text) {
  if (!appendPair(options.requests, text)) return false;
  return parseRequest(options.requests.back().value).has_value();
}

bool setSumCap(Options &options, const Flag &, StringRef text) {
  return !text.getAsInteger(10, options.gradient.sumCap) && options.gradient.sumCap > 0;
}

bool setUnused(Options &options, const Flag &flag, StringRef text) {
  if (!choose(flag, text, options.gradient.unused)) return false;
  options.forbidsUnused |= options.gradient.unused == UnusedPolicy::Error;
  return true;
}

bool setMode(Options &options, const Flag &flag, StringRef text) {
  uint8_t position = 0;
  if (!choose(flag, text, position)) return false;
  options.gradient.isTraining = position == 0;
  return true;
}

bool setEmit(Options &options, const Flag &flag, StringRef text) {
  uint8_t position = 0;
  if (!choose(flag, text, position)) return false;
  options.gradient.gradientOnly = position == 1;
  return true;
}

bool setStrict(Options &options, const Flag &, StringRef) {
  options.gradient.duplicates = DuplicatePolicy::Strict;
  return true;
}

bool setOnlyInputs(Options &options, const Flag &flag, StringRef text) {
  uint8_t position = 0;
  if (!choose(flag, text, position)) return false;
  options.onlyInputs = position == 0;
  return true;
}

bool setSeed(Options &options, const Flag &, StringRef text) { return appendPair(options.seeds, text); }

// Enumerators follow the order of the choices.
constexpr Flag kFlags[] = {
    {"of", "ENTRY,...", "what to differentiate (default: every head of the graph)",
     [](Options &o, const Flag &, StringRef v) { return append(o.of, v); }},
    {"wrt", "NAME,...|all", "what to differentiate with respect to (default: all, every floating argument)",
     [](Options &o, const Flag &, StringRef v) {
       o.wrt.push_back(v.str());
       return true;
     }},
    {"loss-scale", "S",
     "multiply every gradient by S, above 0: head gradients are S instead of 1, gradients of losses are multiplied",
     [](Options &o, const Flag &, StringRef v) {
       return parseNumber(v, o.gradient.lossScale) && o.gradient.lossScale > 0;
     }},
    {"seed", "ENTRY=NAME", "head gradient of ENTRY: the entry NAME if there is one, else a new variable of that name",
     setSeed},
    {"heads", "ones|scalar|input|required",
     "head gradient of entries without --seed: ones; ones for scalars only; a new variable each; refuse (default ones)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.gradient.headPolicy); }},
    {"unused", "error|none|zeros", "gradient of an x that no y depends on (default error)", setUnused},
    {"control-only", "unused|zeros",
     "how to treat an x connected only by control dependencies: unused, or reached with a gradient of zeros "
     "(default unused)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.gradient.controlOnly); }},
    {"reach", "path|whole-graph",
     "which operators must have a gradient: those between an x and a y, or all that some y depends on (default path)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.gradient.reach); }},
    {"integers", "stop|permissive",
     "integers and bools: stop: they carry no gradient; permissive: types are not examined (default stop)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.gradient.integers); }},
    {"zero-terms", "drop|keep",
     "a gradient that is zero by definition of an operator: leave it out, or compute with it, so that 0 times inf is nan "
     "(default drop)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.gradient.zeroTerms); }},
    {"only-inputs", "true|false",
     "false, which would also add to the gradients of every leaf, is not available (default true)", setOnlyInputs},
    {"overwritten", "save|error",
     "a gradient that reads a variable as it was before an operator overwrote it: save a copy, or refuse (default save)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.gradient.overwritten); }},
    {"parameters", "NAME,...",
     "of a program of blocks: the parameters that get gradients (default: all that are trainable)",
     [](Options &o, const Flag &, StringRef v) { return append(o.parameters, v); }},
    {"max-iterations", "N",
     "most steps that a loop may run; more are an error (default: 10000 for the loops of a program of blocks, for those of "
     "a graph only its own bound)",
     [](Options &o, const Flag &, StringRef v) {
       return parsePositive(v, o.maxIterations.emplace()) && *o.maxIterations <= INT32_MAX;
     }},
    {"no-grad", "ENTRY,...", "no gradient flows into these entries, as if each were stopped where it is read",
     [](Options &o, const Flag &, StringRef v) { return append(o.noGrad, v); }},
    {"stop", "ENTRY,...", "treat these entries as constants",
     [](Options &o, const Flag &, StringRef v) { return append(o.stop, v); }},
    {"retain", "ENTRY,...", "also emit the gradients of these intermediate entries, after those of the x",
     [](Options &o, const Flag &, StringRef v) { return append(o.retain, v); }},
    {"req", "NAME=write|add|null",
     "what `run` does with a gradient: overwrite the given value, add to it, or skip the gradient; repeatable",
     setRequest},
    {"mode", "train|infer", "form of batch norm, dropout and the like that is differentiated (default train)", setMode},
    {"sum-cap", "N", "sum fewer than N contributions at once, chain additions from N on (default 8)", setSumCap},
    {"chain", "from-cap|up-to-cap",
     "which sums become chains of additions: of --sum-cap contributions and more, or of up to --sum-cap (default from-cap)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.gradient.chain); }},
    {"order", "K", "order of differentiation, 1 to 16 (default 1); every order's gradients become heads",
     [](Options &o, const Flag &, StringRef v) { return parsePositive(v, o.order) && o.order <= 16; }},
    {"naming", "unique|mxnet|nnvm|fluid",
     "naming scheme of generated nodes; nnvm also sums any number of contributions at once (default unique)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.gradient.naming); }},
    {"dialect", "gradc|mxnet|primitives",
     "mxnet: only operators that MXNet 1.9.1 loads and runs; primitives: only those of 'gradc ops --primitives' (default gradc)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.dialect); }},
    {"emit", "combined|gradient",
     "combined: forward heads, then gradients; gradient: gradients alone (default combined)", setEmit},
    {"strict", "", "refuse repeated x and y, and an x that is also in --no-grad", setStrict},
    {"recompute", "POLICY", "recompute forward values instead of keeping them (not available yet)",
     [](Options &o, const Flag &, StringRef v) {
       o.recompute = v.str();
       return true;
     }},
};
static_assert(static_cast<int>(HeadPolicy::Required) == 3 && static_cast<int>(UnusedPolicy::Zeros) == 2 &&
              static_cast<int>(OverwrittenPolicy::Error) == 1 && static_cast<int>(NamingStyle::Fluid) == 3 &&
              static_cast<int>(ControlOnlyPolicy::Zeros) == 1 && static_cast<int>(ReachPolicy::WholeGraph) == 1 &&
              static_cast<int>(IntegerPolicy::Permissive) == 1 && static_cast<int>(ZeroPolicy::Keep) == 1 &&
              static_cast<int>(ChainPolicy::UpToCap) == 1 && static_cast<int>(Dialect::Primitives) == 2);

}  // namespace

ArrayRef<Flag> gradFlags() { return kFlags; }

}  // namespace gradc
