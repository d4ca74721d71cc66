// Trainers of test graphs.
#pragma once

#include "runtime/arrays/npz_writer.h"
#include "runtime/training/trainer.h"
#include "tests/support/test_graph.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

namespace gradc::testing {

/// Stops the test program on an error.
inline Trainer openTrainer(TestGraph &g, Dataset data, TrainerOptions options) {
  llvm::Expected<Trainer> trainer = Trainer::create(g.context, g, std::move(data), std::move(options));
  if (!trainer) llvm::report_fatal_error(llvm::Twine(describeError(trainer.takeError())));
  return std::move(*trainer);
}

inline void advance(Trainer &trainer, uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) llvm::cantFail(trainer.advance());
}

/// The arrays as a file, to compare them bit for bit.
inline std::string bytesOf(llvm::ArrayRef<NamedArray> arrays) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::cantFail(writeNpz(os, arrays));
  os.flush();
  return text;
}

}  // namespace gradc::testing
