// The command line tool: finds the verb, reads its flags, runs it, turns errors into messages and exit codes.
// Nothing else in the project prints or exits. Tested by tests/cli_test.cc
#include "verbs.h"

#include "ir/count_of.h"
#include "ir/error.h"
#include "ir/out_of_memory.h"
#include "ir/process_memory.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <new>

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kVersion = "gradc 0.1\n";

/// Determined before anything else, so that even usage errors have the requested form.
DiagForm diagForm(ArrayRef<StringRef> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") break;
    if (args[i] == "--diag=json" || (args[i] == "--diag" && i + 1 < args.size() && args[i + 1] == "json"))
      return DiagForm::Json;
  }
  return DiagForm::Text;
}

Error printText(void (*print)(raw_ostream &)) {
  Expected<OutputFile> file = OutputFile::open("");
  if (!file) return file.takeError();
  print(file->stream());
  return file->commit();
}

Error printVerbHelp(const Verb &verb) {
  Expected<OutputFile> file = OutputFile::open("");
  if (!file) return file.takeError();
  printHelp(file->stream(), verb);
  return file->commit();
}

Error checkNumFiles(const Verb &verb, const Options &options) {
  size_t given = options.files.size();
  if (given >= verb.minFiles && given <= verb.maxFiles) return Error::success();
  if (given > verb.maxFiles)
    return Failure(ErrorKind::Usage, "unexpected argument '" + options.files[verb.maxFiles] + "'")
        .note("usage: gradc " + verb.name + " [FLAGS] " + verb.arguments);
  return Failure(ErrorKind::Usage,
                 "'gradc " + verb.name + "' needs " + verb.arguments + ", got " + countOf(given, "argument"))
      .note("`gradc help " + verb.name + "` explains it");
}

/// Of two results that are written to one file, the later one would replace the other.
Error checkOutputs(const Options &options) {
  const std::pair<StringRef, StringRef> outputs[] = {
      {"output", options.output},          {"outputs", options.outputsFile},
      {"profile", options.profileFile},    {"svg", options.svgFile},
      {"log", options.train.log},          {"checkpoint", options.train.checkpoint},
      {"emit-graph", options.train.graph},
  };
  StringMap<StringRef> flagOf;
  for (const auto &[flag, path] : outputs) {
    sys::fs::file_status status;
    const bool isDevice = !sys::fs::status(path, status) && sys::fs::exists(status) && !is_regular_file(status);
    if (path.empty() || isDevice) continue;
    SmallString<256> place(path);
    if (path != "-") sys::fs::make_absolute(place);
    sys::path::remove_dots(place, /*remove_dot_dot=*/true);
    const auto [at, isNew] = flagOf.try_emplace(place, flag);
    if (!isNew)
      return Failure(ErrorKind::Usage, "'--" + at->second + "' and '--" + flag + "' both name '" + path + "'");
  }
  return Error::success();
}

/// `gradc help [VERB]`.
Error help(ArrayRef<StringRef> args) {
  if (args.empty() || args[0] == "--help") return printText([](raw_ostream &os) { printHelp(os); });
  Expected<const Verb *> verb = findVerb(args[0]);
  if (!verb) return verb.takeError();
  return printVerbHelp(**verb);
}

Expected<int> runVerb(const Verb &verb, ArrayRef<StringRef> args, Tool &tool) {
  Error error = parseFlags(args, verb.flags, tool.options);
  if (tool.options.wantsHelp) {
    consumeError(std::move(error));
    if (Error failed = printVerbHelp(verb)) return failed;
    return 0;
  }
  if (error) return error;
  if (Error wrong = checkNumFiles(verb, tool.options)) return wrong;
  if (Error wrong = checkOutputs(tool.options)) return wrong;
  return verb.run(tool);
}

Expected<int> run(ArrayRef<StringRef> args, Tool &tool) {
  if (args.empty()) return Failure(ErrorKind::Usage, "no verb given").note("`gradc --help` lists the verbs");
  StringRef first = args[0];
  args = args.drop_front();
  Error error = Error::success();
  if (first == "--help" || first == "-h" || first == "help") error = help(args);
  else if (first == "--version") error = printText([](raw_ostream &os) { os << kVersion; });
  else if (Expected<const Verb *> verb = findVerb(first)) return runVerb(**verb, args, tool);
  else return verb.takeError();
  if (error) return error;
  return 0;
}

}  // namespace
}  // namespace gradc

int main(int argc, char **argv) {
  gradc::keepFreedMemory();
  gradc::installCrashHandlers();
  gradc::DiagForm form = gradc::DiagForm::Text;
  try {
    SmallVector<StringRef, 16> args(argv + 1, argv + argc);
    form = gradc::diagForm(args);
    gradc::Diagnostics diagnostics(errs(), form);
    gradc::Tool tool(diagnostics);  // outlives the report: messages describe nodes of its context
    Expected<int> code = gradc::catchingBadAlloc("to go on", [&] { return gradc::run(args, tool); });
    return code ? *code : diagnostics.report(code.takeError());
  } catch (const std::bad_alloc &) {  // no memory for a regular message
    gradc::sayOutOfMemory(form == gradc::DiagForm::Json);
    return 1;
  }
}
