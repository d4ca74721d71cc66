// What the command line requested: one plain struct for all verbs, and the table of flags that fills it.
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

struct Options {
  std::vector<std::string> files;      // positional arguments
  std::vector<llvm::StringRef> given;  // names of the flags, in order
  std::string output;                  // empty: standard output
  bool wantsHelp = false;
  UnknownDim unknownDim = UnknownDim::Auto;
  uint64_t errorLimit = 20;

  std::vector<ShapeFlag> shapes;
  std::vector<DTypeFlag> dtypes;
  std::optional<DType> floatAs;  // `--dtype D` without a name

  std::vector<std::string> of, wrt, noGrad, stop, retain;  // each a comma-separated list of entries
  std::vector<KeyValue> seeds, requests;
  bool forbidsUnused = false;  // '--unused error' was given, not only implied
  bool onlyInputs = true;      // false: also accumulate into every leaf, which is refused (XS-12)
  GradientOptions gradient;
  Dialect dialect = Dialect::Gradc;
  std::string recompute;
  uint64_t order = 1;
  std::vector<std::string> parameters;    // each a comma-separated list of names
  std::optional<uint64_t> maxIterations;  // of a loop; none: those of a program have a bound of their own, others none

  bool isPartial = false;
  bool wantsReport = false;
  bool keepsForward = false;
  std::optional<uint64_t> budget;  // bytes

  std::vector<KeyValue> inputFiles;   // --input NAME=FILE.npy
  std::vector<std::string> archives;  // --inputs FILE.npz
  std::optional<uint64_t> initSeed;
  std::string outputsFile, profileFile;
  bool isTraining = false;
  uint64_t repeat = 1, step = 0, threads = 0;  // 0: all
  Backend backend = Backend::Auto;
  FuseChoice fuse = FuseChoice::All;

  std::optional<uint64_t> samples;
  double eps = 1e-5, rtol = 1e-6, atol = 1e-8;

  ShowForm show = ShowForm::Text;
  std::optional<uint64_t> maxNodes;  // of a picture
  std::string svgFile;
  ConvertForm convert = ConvertForm::Json;
  std::vector<std::string> passes;  // --passes, in order
  std::optional<uint64_t> missingOrder;
  bool wantsCoverage = false, wantsPrimitives = false, wantsReference = false, isJson = false;
  bool ignoresNames = false;

  TrainFlags train;
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
