// The command line tool: finds the verb, reads its flags, runs it, turns errors into messages and exit codes.
// Nothing else in the project prints or exits. Tested by tests/tools/cli_test.cc
#include "tools/gradc/file_clashes.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/base/process_memory.h"

#include "llvm/ADT/SmallVector.h"

#include <new>
#include <system_error>

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
  if (Error wrong = checkFiles(verb, tool.options)) return wrong;
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

/// What the standard library throws becomes an error.
Expected<int> runGuarded(ArrayRef<StringRef> args, Tool &tool) {
  try {
    return catchingBadAlloc("to go on", [&] { return run(args, tool); });
  } catch (const std::system_error &error) {  // a thread that cannot be started
    return Failure(ErrorKind::TooLarge, "the system refuses what is needed to go on: " + Twine(error.what()));
  }
}

int runMain(int argc, char **argv) {
  DiagForm form = DiagForm::Text;
  try {
    const SmallVector<StringRef, 16> args(argv + 1, argv + argc);
    form = diagForm(args);
    Diagnostics diagnostics(errs(), form);
    Tool tool(diagnostics);  // outlives the report: messages describe nodes of its context
    Expected<int> code = runGuarded(args, tool);
    return code ? *code : diagnostics.report(code.takeError());
  } catch (const std::bad_alloc &) {  // no memory for a regular message
    sayOutOfMemory(form == DiagForm::Json);
    return 1;
  }
}

}  // namespace
}  // namespace gradc

int main(int argc, char **argv) {
  gradc::occupyStandardDescriptors();
  gradc::keepFreedMemory();
  gradc::installCrashHandlers();
  const int code = gradc::runMain(argc, argv);
  errs().clear_error();  // messages that could not be written do not change the code; the stream would abort
  return code;
}
