// Trains a network for four epochs: train NETWORK.json EXAMPLES.npz PARAMETERS.npz
#include "formats/json/reader.h"
#include "ops/registry.h"
#include "runtime/arrays/npz_reader.h"
#include "runtime/training/trainer.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cstdio>

using namespace gradc;

static llvm::Error train(const char *networkPath, const char *examplesPath, const char *parametersPath) {
  Context context;
  registerBuiltinOps(context.ops);

  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text = llvm::MemoryBuffer::getFile(networkPath);
  if (!text) return llvm::errorCodeToError(text.getError());
  llvm::Expected<LoadedGraph> loaded = readJson(context, (*text)->getBuffer(), ReadOptions());
  if (!loaded) return loaded.takeError();
  const Graph &network = loaded->graph;

  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file = llvm::MemoryBuffer::getFile(examplesPath);
  if (!file) return llvm::errorCodeToError(file.getError());
  llvm::Expected<std::vector<NamedArray>> arrays = parseNpz((*file)->getBuffer(), examplesPath);
  if (!arrays) return arrays.takeError();

  // Which variable reads the rows of which array.
  const FeedName feeds[] = {{"data", "train_images"}, {"softmax_label", "train_labels"}};
  llvm::Expected<Dataset> examples = Dataset::select(std::move(*arrays), feeds, examplesPath);
  if (!examples) return examples.takeError();

  TrainerOptions options;
  options.optimizer.momentum = 0.9;
  options.schedule.rate = 0.02;
  llvm::Expected<Trainer> trainer = Trainer::create(context, network, std::move(*examples), std::move(options));
  if (!trainer) return trainer.takeError();

  Score epoch;
  while (trainer->step() < 4 * trainer->stepsPerEpoch()) {
    llvm::Expected<Trainer::Report> report = trainer->advance();  // one batch
    if (!report) return report.takeError();
    epoch.add(report->score);
    if (report->step % trainer->stepsPerEpoch() != 0) continue;
    std::printf("epoch %d: loss %.1f\n", static_cast<int>(report->epoch + 1), epoch.loss());
    epoch = Score();
  }

  std::error_code code;
  llvm::raw_fd_ostream os(parametersPath, code);
  if (code) return llvm::errorCodeToError(code);
  return trainer->writeParameters(os);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  llvm::Error error = train(argv[1], argv[2], argv[3]);
  if (!error) return 0;
  std::fprintf(stderr, "%s\n", llvm::toString(std::move(error)).c_str());
  return 1;
}
