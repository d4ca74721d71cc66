// Tested by tests/tools/cli_files_test.cc
#include "tools/gradc/file_clashes.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;

namespace gradc {
namespace {

/// A file that a flag names.
struct Named {
  std::string who;  // "'--log'"
  StringRef path;   // "-": a standard stream
};

std::string keyOf(const struct stat &status) {
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

/// The same text for two names of one regular file, also of one that does not exist yet. Empty if the file may be
/// shared.
Expected<std::string> identityOf(StringRef path, int stream) {
  struct stat status;
  if (path == "-") return fstat(stream, &status) == 0 && S_ISREG(status.st_mode) ? keyOf(status) : std::string();
  if (stat(path.str().c_str(), &status) == 0) return S_ISREG(status.st_mode) ? keyOf(status) : std::string();
  Expected<std::string> place = followLinks(path);
  if (!place) return place;
  SmallString<256> folder(*place);
  sys::fs::make_absolute(folder);
  const std::string name = sys::path::filename(folder).str();
  sys::path::remove_filename(folder);
  if (stat(folder.c_str(), &status) == 0) return keyOf(status) + "/" + name;
  return *place;  // cannot be written
}

std::vector<Named> filesWritten(const Options &options) {
  const std::pair<StringRef, StringRef> flags[] = {
      {"output", options.output},           {"outputs", options.run.outputsFile},
      {"profile", options.run.profileFile}, {"svg", options.picture.svgFile},
      {"log", options.train.log},           {"checkpoint", options.train.checkpoint},
      {"emit-graph", options.train.graph},
  };
  std::vector<Named> files;
  for (const auto &[flag, path] : flags)
    if (!path.empty()) files.push_back({("'--" + flag + "'").str(), path});
  const bool isPrinted = options.output.empty() && none_of(files, [](const Named &file) { return file.path == "-"; });
  if (isPrinted) files.push_back({"standard output", "-"});
  return files;
}

std::vector<Named> filesRead(const Verb &verb, const Options &options) {
  std::vector<Named> files;
  if (!verb.takesOperators || options.ops.wantsCoverage)
    for (StringRef path : options.files) files.push_back({"'gradc " + verb.name.str() + "'", path});
  for (const KeyValue &input : options.session.inputFiles) files.push_back({"'--input'", input.value});
  for (StringRef path : options.session.archives) files.push_back({"'--inputs'", path});
  const TrainFlags &train = options.train;
  const std::pair<StringRef, StringRef> flags[] = {
      {"data", train.data}, {"eval", train.evalData}, {"resume", train.resume}};
  for (const auto &[flag, path] : flags)
    if (!path.empty()) files.push_back({("'--" + flag + "'").str(), path});
  return files;
}

bool mayReplace(const Verb &verb, const Options &options, const Named &written, const Named &read) {
  if (written.who == "'--checkpoint'") return read.who == "'--resume'";
  const bool isGraph = verb.writesGraph && options.convert != ConvertForm::Text;
  return isGraph && written.who == "'--output'" && StringRef(read.who).starts_with("'gradc ");
}

/// Of two results that are written to one file, the later one would replace the other.
Error checkWritten(ArrayRef<Named> written, ArrayRef<std::string> identities) {
  StringMap<size_t> first;
  bool isStreamTaken = false;
  for (auto [i, file] : enumerate(written)) {
    const bool isStream = file.path == "-";
    const auto [at, isNew] = identities[i].empty() ? std::pair(first.end(), true) : first.try_emplace(identities[i], i);
    if (isNew && !(isStream && std::exchange(isStreamTaken, true))) continue;
    const Named &other =
        isNew ? *find_if(written, [](const Named &named) { return named.path == "-"; }) : written[at->second];
    return Failure(ErrorKind::Usage, Twine(other.who) + " and " + file.who + " both name '" +
                                         (file.path == "-" ? other.path : file.path) + "'");
  }
  return Error::success();
}

}  // namespace

Error checkFiles(const Verb &verb, const Options &options) {
  const std::vector<Named> written = filesWritten(options);
  std::vector<std::string> identities;
  for (const Named &file : written) {
    Expected<std::string> identity = identityOf(file.path, STDOUT_FILENO);
    if (!identity) return identity.takeError();
    identities.push_back(std::move(*identity));
  }
  if (Error error = checkWritten(written, identities)) return error;
  for (const Named &file : filesRead(verb, options)) {
    Expected<std::string> identity = identityOf(file.path, STDIN_FILENO);
    if (!identity) {
      consumeError(identity.takeError());  // whoever reads it says so
      continue;
    }
    for (auto [i, other] : enumerate(written))
      if (!identity->empty() && identities[i] == *identity && !mayReplace(verb, options, other, file))
        return Failure(ErrorKind::Usage, Twine(other.who) + " would overwrite '" +
                                             (other.path == "-" ? file.path : other.path) + "', which " + file.who +
                                             " reads");
  }
  return Error::success();
}

}  // namespace gradc
