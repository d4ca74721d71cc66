// What the command line requested, in groups of flags that verbs share, and the table of flags that fills them.
//
// A flag is one row: name, placeholder of its value, help, setter. Verbs list the flags they take (verbs.h). Values
// stay text where their meaning needs the graph (entries, names); everything else is parsed here. Nothing is printed
// here. Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/common/train_flags.h"

#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"
#include "passes/targets/target.h"
#include "runtime/executor/executor.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace gradc {

struct KeyValue {
  std::string key, value;
};
struct ShapeFlag {
  std::string name;
  DimsBuffer dims;  // kUnknownDim where the user wrote `?`
};
struct DTypeFlag {
  std::string name;
  DType dtype;
};

enum class ShowForm : uint8_t { Text, Dot, Svg, Stats, Graph, Blocks };
enum class ConvertForm : uint8_t { Json, Text, Cbor, Blocks };
enum class FuseChoice : uint8_t { All, None, Elements, Norms };
enum class Dialect : uint8_t { Gradc, Mxnet, Primitives };
/// What the dialect's graphs are lowered to; null: nothing.
const Target *targetOf(Dialect dialect);

/// What is known of shapes and types: for the verbs that infer.
struct TypeFlags {
  std::vector<ShapeFlag> shapes;
  std::vector<DTypeFlag> dtypes;
  std::optional<DType> floatAs;  // `--dtype D` without a name
  UnknownDim unknownDim = UnknownDim::Auto;
  bool isPartial = false;

  InferOptions inferOptions() const;
};

/// A gradient request: grad, gradcheck and train.
struct GradFlags {
  std::vector<std::string> of, wrt, noGrad, stop, retain;  // each a comma-separated list of entries
  std::vector<KeyValue> seeds, requests;
  bool forbidsUnused = false;  // '--unused error' was given, not only implied
  bool onlyInputs = true;      // false: also accumulate into every leaf, which is refused (XS-12)
  GradientOptions options;
  Dialect dialect = Dialect::Gradc;
  std::string recompute;
  uint64_t order = 1;
  std::vector<std::string> parameters;  // each a comma-separated list of names
};

/// Values of variables and how nodes run: run, train and gradcheck.
struct SessionFlags {
  std::vector<KeyValue> inputFiles;   // --input NAME=FILE.npy
  std::vector<std::string> archives;  // --inputs FILE.npz
  std::optional<uint64_t> initSeed;
  bool isTraining = false;
  uint64_t threads = 0;  // 0: all
  Backend backend = Backend::Auto;
  FuseChoice fuse = FuseChoice::All;
};

struct RunFlags {
  std::string outputsFile, profileFile;
  uint64_t repeat = 1, step = 0;
};

struct PlanFlags {
  bool keepsForward = false;
  std::optional<uint64_t> budget;  // bytes
};

/// Of gradcheck.
struct CheckFlags {
  std::optional<uint64_t> samples;
  double eps = 1e-5, rtol = 1e-6, atol = 1e-8;
};

/// Of show, plan and train.
struct PictureFlags {
  std::string svgFile;
  std::optional<uint64_t> maxNodes;
};

struct OpsFlags {
  std::optional<uint64_t> missingOrder;
  bool wantsCoverage = false, wantsPrimitives = false, wantsReference = false;
};

/// The flags of all verbs: those of every verb, then groups.
struct Options {
  std::vector<std::string> files;      // positional arguments
  std::vector<llvm::StringRef> given;  // names of the flags, in order
  std::string output;                  // empty: standard output
  bool wantsHelp = false;
  uint64_t errorLimit = 20;

  TypeFlags types;
  GradFlags grad;
  SessionFlags session;
  RunFlags run;
  TrainFlags train;
  PlanFlags plan;
  CheckFlags check;
  PictureFlags picture;
  OpsFlags ops;

  std::optional<uint64_t> maxIterations;  // of a loop; none: those of a program have a bound, others none
  bool wantsReport = false, isJson = false;
  ShowForm show = ShowForm::Text;           // of show and grad
  ConvertForm convert = ConvertForm::Json;  // of convert
  std::vector<std::string> passes;          // of opt, in order
  bool ignoresNames = false;                // of diff
};

struct Flag {
  llvm::StringRef name;   // without the dashes
  llvm::StringRef value;  // placeholder; `a|b|c` are the choices; empty: a switch without value
  llvm::StringRef help;
  bool (*set)(Options &options, const Flag &flag, llvm::StringRef value);  // false: the value does not fit
};

/// Every flag there is, by name; null for an unknown one.
const Flag *findFlag(llvm::StringRef name);

/// Reads `args` (after the verb) into `options`; only `allowed` flags are accepted, and `NAME=VALUE` once for each
/// name, head gradients apart. Usage errors name the flag, what it takes, and the closest flag of the verb.
llvm::Error parseFlags(llvm::ArrayRef<llvm::StringRef> args, llvm::ArrayRef<llvm::StringRef> allowed, Options &options);

}  // namespace gradc
