// The flag table and its parser. Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/options.h"

#include "tools/gradc/common/flag_values.h"
#include "tools/gradc/common/gradient_flags.h"
#include "tools/gradc/common/names.h"

#include "ir/base/error.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {
namespace {

/// "2,3,?" or "(2,3)"; "()" is a scalar.
bool parseDims(StringRef text, DimsBuffer &dims) {
  bool hasParens = text.consume_front("(");
  if (hasParens && !text.consume_back(")")) return false;
  text = text.trim();
  if (text.empty()) return hasParens;
  text.consume_back(",");
  SmallVector<StringRef, 6> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    int64_t dim = kUnknownDim;
    part = part.trim();
    if (part != "?" && (part.getAsInteger(10, dim) || dim < 0)) return false;
    dims.push_back(dim);
  }
  return true;
}

bool setShape(Options &options, const Flag &, StringRef text) {
  size_t at = text.rfind('=');
  if (at == StringRef::npos || at == 0) return false;
  ShapeFlag shape{text.take_front(at).str(), {}};
  if (!parseDims(text.drop_front(at + 1), shape.dims)) return false;
  options.types.shapes.push_back(std::move(shape));
  return true;
}

bool setDType(Options &options, const Flag &, StringRef text) {
  StringRef name, value = text;
  bool hasName = splitPair(text, name, value);
  std::optional<DType> dtype = parseDType(value);
  if (!dtype || *dtype == DType::Unknown) return false;
  if (hasName) {
    options.types.dtypes.push_back({name.str(), *dtype});
    return true;
  }
  options.types.floatAs = *dtype;
  return isFloating(*dtype);
}

/// Bytes, with K, M or G for powers of 1024.
bool setBudget(Options &options, const Flag &, StringRef text) {
  unsigned shift = text.consume_back("K") ? 10 : text.consume_back("M") ? 20 : text.consume_back("G") ? 30 : 0;
  uint64_t count = 0;
  if (!parseCount(text, count) || count > (UINT64_MAX >> shift)) return false;
  options.plan.budget = count << shift;
  return true;
}

// Shared flags, then those of the verbs in turn, `grad` and `train` apart. Enumerators follow the order of the choices.
constexpr Flag kFlags[] = {
    {"output", "FILE", "write the result to FILE instead of standard output; FILE appears whole or not at all",
     [](Options &o, const Flag &, StringRef v) { return setText(o.output, v); }},
    {"diag", "text|json", "form of messages on standard error: for people, or one JSON object per line",
     [](Options &, const Flag &f, StringRef v) {
       uint8_t form = 0;
       return choose(f, v, form);
     }},
    {"error-limit", "N", "stop after N errors of the structure check (default 20)",
     [](Options &o, const Flag &, StringRef v) { return parsePositive(v, o.errorLimit); }},
    {"unknown-dim", "auto|0|-1",
     "how the file's shape attributes write an unknown dimension; auto: as usual for the file's version",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.types.unknownDim); }},
    {"help", "", "print this help", [](Options &o, const Flag &, StringRef) { return turnOn(o.wantsHelp); }},

    {"shape", "NAME=2,3,...", "shape of a variable; `?` for an unknown dimension, `()` for a scalar; repeatable",
     setShape},
    {"dtype", "[NAME=]DTYPE",
     "element type of a variable (float32, float64, float16, int32, ...); repeatable. Without NAME: every floating "
     "value; for a 16-bit type, only floating variables whose type nothing else determines",
     setDType},

    {"partial", "", "allow shapes and types that stay unknown",
     [](Options &o, const Flag &, StringRef) { return turnOn(o.types.isPartial); }},
    {"report", "", "print a table instead of the graph; with -o the graph is written there as well",
     [](Options &o, const Flag &, StringRef) { return turnOn(o.wantsReport); }},
    {"keep-forward", "",
     "keep what the gradient reads of the forward part until the end, so that the gradient can run again",
     [](Options &o, const Flag &, StringRef) { return turnOn(o.plan.keepsForward); }},
    {"budget", "BYTES", "exit with 1 when the arena is larger; K, M and G are powers of 1024", setBudget},

    {"input", "NAME=FILE.npy", "value of a variable; repeatable",
     [](Options &o, const Flag &, StringRef v) { return appendPair(o.session.inputFiles, v); }},
    {"inputs", "FILE", "values of variables by name, NPZ or MXNet's .params; repeatable, --input takes precedence",
     [](Options &o, const Flag &, StringRef v) { return append(o.session.archives, v); }},
    {"init", "SEED", "fill variables that were given no value, as a function of SEED",
     [](Options &o, const Flag &, StringRef v) { return parseCount(v, o.session.initSeed.emplace()); }},
    {"outputs", "FILE.npz", "write the heads, and after --train the auxiliary states, to FILE.npz",
     [](Options &o, const Flag &, StringRef v) { return setText(o.run.outputsFile, v); }},
    {"train", "", "training form of batch norm, dropout and the like; moving statistics are updated",
     [](Options &o, const Flag &, StringRef) { return turnOn(o.session.isTraining); }},
    {"repeat", "N", "run N steps and print how long they took (default 1)",
     [](Options &o, const Flag &, StringRef v) { return parsePositive(v, o.run.repeat); }},
    {"step", "N", "number of the first step; random operators draw by it (default 0)",
     [](Options &o, const Flag &, StringRef v) { return parseCount(v, o.run.step); }},
    {"profile", "FILE", "write the time of every node as a Chrome trace",
     [](Options &o, const Flag &, StringRef v) { return setText(o.run.profileFile, v); }},
    {"backend", "auto|reference", "reference: the plain kernels, bit-reproducible (default auto)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.session.backend); }},
    {"fuse", "all|none|elements|norms",
     "which nodes run as one on fast kernels: elements: consecutive element-wise ones; norms: batch norm with a "
     "sum or a relu "
     "(default all)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.session.fuse); }},
    {"threads", "N",
     "threads of the fast kernels, 1 to 1024 (default: $GRADC_NUM_THREADS, else the processors that affinity and "
     "quota allow)",
     [](Options &o, const Flag &, StringRef v) {
       return parsePositive(v, o.session.threads) && o.session.threads <= 1024;
     }},

    {"samples", "N", "checks in all, two forward evaluations each (default 40, or more: one of each variable)",
     [](Options &o, const Flag &, StringRef v) {
       return parsePositive(v, o.check.samples.emplace()) && *o.check.samples <= UINT32_MAX;
     }},
    {"eps", "STEP", "step of the differences, times max(1, |x|); positive (default 1e-5)",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.check.eps) && o.check.eps > 0; }},
    {"rtol", "R", "relative tolerance (default 1e-6)",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.check.rtol); }},
    {"atol", "A", "absolute tolerance (default 1e-8)",
     [](Options &o, const Flag &, StringRef v) { return parseNumber(v, o.check.atol); }},

    {"to", "json|text|cbor|blocks",
     "form to write (default json; cbor is not available yet; blocks: of programs of blocks)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.convert); }},
    {"passes", "NAME,...", "passes to run, in this order: unroll, inline",
     [](Options &o, const Flag &, StringRef v) { return append(o.passes, v); }},
    {"as", "text|dot|svg|stats|graph|blocks",
     "show: one line per node, Graphviz, a picture, or counts (default text); grad, of a program of blocks: a "
     "graph, or "
     "the program with its gradient (default blocks)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.show); }},
    {"max-nodes", "N", "draw graphs of up to N nodes (default 2000 for a graph, 20000 for a plan)",
     [](Options &o, const Flag &, StringRef v) { return parsePositive(v, o.picture.maxNodes.emplace()); }},
    {"svg", "FILE",
     "write a picture to FILE: of the plan, addresses over steps; of training, loss and metric over steps",
     [](Options &o, const Flag &, StringRef v) { return setText(o.picture.svgFile, v); }},
    {"primitives", "", "list the operators that all others decompose to, and what each of these ends in",
     [](Options &o, const Flag &, StringRef) { return turnOn(o.ops.wantsPrimitives); }},
    {"reference", "", "explain every operator that a model may contain",
     [](Options &o, const Flag &, StringRef) { return turnOn(o.ops.wantsReference); }},
    {"coverage", "", "which operators of the given networks are known, can run and can be differentiated",
     [](Options &o, const Flag &, StringRef) { return turnOn(o.ops.wantsCoverage); }},
    {"json", "", "print the result as JSON", [](Options &o, const Flag &, StringRef) { return turnOn(o.isJson); }},
    {"missing-order", "K", "list the operators that cannot be differentiated K times, and why",
     [](Options &o, const Flag &, StringRef v) { return parsePositive(v, o.ops.missingOrder.emplace()); }},
    {"ignore", "names", "compare without the names of nodes",
     [](Options &o, const Flag &, StringRef v) {
       o.ignoresNames = true;
       return v == "names";
     }},
};
static_assert(static_cast<int>(UnknownDim::MinusOne) == 2 && static_cast<int>(Backend::Reference) == 1 &&
              static_cast<int>(ConvertForm::Blocks) == 3 && static_cast<int>(ShowForm::Blocks) == 5 &&
              static_cast<int>(FuseChoice::Norms) == 3);

Error unknownFlag(StringRef name, ArrayRef<StringRef> allowed) {
  Failure failure(ErrorKind::Usage, findFlag(name) ? "flag '--" + name + "' does not belong to this verb"
                                                   : "unknown flag '--" + name + "'");
  std::string close = joinMatches(closeMatches(name, allowed), "--");
  if (!close.empty()) return std::move(failure).note("did you mean " + close + "?");
  return failure;
}

/// One `--name[=value]` at args[at]; moves `at` past a value given as the next argument.
Error parseFlag(ArrayRef<StringRef> args, size_t &at, ArrayRef<StringRef> allowed, Options &options) {
  StringRef text = args[at];
  bool isShort = !text.consume_front("--");
  if (isShort) text.consume_front("-");
  size_t equals = isShort ? StringRef::npos : text.find('=');
  StringRef name = text.take_front(equals);
  if (isShort) name = text == "o" ? StringRef("output") : text == "h" ? StringRef("help") : text;
  const Flag *flag = is_contained(allowed, name) ? findFlag(name) : nullptr;
  if (!flag) return unknownFlag(name, allowed);

  StringRef value;
  if (flag->value.empty()) {
    if (equals != StringRef::npos) return Failure(ErrorKind::Usage, "flag '--" + name + "' takes no value");
  } else if (equals != StringRef::npos) {
    value = text.drop_front(equals + 1);
  } else if (at + 1 < args.size()) {
    value = args[++at];
  } else {
    return Failure(ErrorKind::Usage, "flag '--" + name + "' needs a value: " + flag->value);
  }
  options.given.push_back(flag->name);
  if (flag->set(options, *flag, value)) return Error::success();
  Failure failure(ErrorKind::Usage, "flag '--" + name + "' takes " + flag->value + ", got '" + value + "'");
  if (flag->value.contains('|')) return failure;  // the choices say it all
  return std::move(failure).note("--" + name + " " + flag->value + ": " + flag->help);
}

/// What a flag says of one name; of two answers, one would be ignored.
Error checkNames(StringRef flag, const auto &rows, auto name) {
  StringSet<> seen;
  for (const auto &row : rows)
    if (!seen.insert(row.*name).second)
      return Failure(ErrorKind::Usage, "flag '--" + flag + "' is given twice for '" + row.*name + "'");
  return Error::success();
}

Error checkRepeated(const Options &options) {
  if (Error error = checkNames("shape", options.types.shapes, &ShapeFlag::name)) return error;
  if (Error error = checkNames("dtype", options.types.dtypes, &DTypeFlag::name)) return error;
  const std::pair<StringRef, const std::vector<KeyValue> *> pairs[] = {
      {"req", &options.grad.requests},
      {"input", &options.session.inputFiles},
      {"feed", &options.train.feeds},
      {"eval-feed", &options.train.evalFeeds},
      {"optimizer-attr", &options.train.optimizerAttrs},
  };
  for (const auto &[flag, rows] : pairs)
    if (Error error = checkNames(flag, *rows, &KeyValue::key)) return error;
  return Error::success();
}

}  // namespace

InferOptions TypeFlags::inferOptions() const {
  InferOptions options;
  options.allowUnknown = isPartial;
  options.floatAs = floatAs;
  options.unknownDim = unknownDim;
  return options;
}

const Target *targetOf(Dialect dialect) {
  switch (dialect) {
    case Dialect::Gradc: break;
    case Dialect::Mxnet: return &kMxnetTarget;
    case Dialect::Primitives: return &kPrimitivesTarget;
  }
  return nullptr;
}

const Flag *findFlag(StringRef name) {
  for (ArrayRef<Flag> table : {ArrayRef<Flag>(kFlags), gradFlags(), trainFlags()})
    for (const Flag &flag : table)
      if (flag.name == name) return &flag;
  return nullptr;
}

Error parseFlags(ArrayRef<StringRef> args, ArrayRef<StringRef> allowed, Options &options) {
  bool isPastFlags = false;
  for (size_t at = 0; at < args.size(); ++at) {
    StringRef arg = args[at];
    if (!isPastFlags && arg == "--") {
      isPastFlags = true;
    } else if (isPastFlags || arg == "-" || !arg.starts_with("-")) {
      options.files.push_back(arg.str());
    } else if (Error error = parseFlag(args, at, allowed, options)) {
      return error;
    }
  }
  return checkRepeated(options);
}

}  // namespace gradc
