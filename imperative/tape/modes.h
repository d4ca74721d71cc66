// What a thread records, and in which form operators run: nested scopes, each for one Imperative.
//
// | scope                         | leaves of requiresGrad | leaves of attachGrad | form      |
// |-------------------------------|------------------------|----------------------|-----------|
// | none                          | recorded               | not recorded         | predict   |
// | RecordScope                   | recorded               | recorded             | its option|
// | PauseScope                    | not recorded           | not recorded         | its option|
// | NoGradScope, InferenceScope   | not recorded           | not recorded         | unchanged |
// | EnableGradScope               | recorded               | as the RecordScope around it, if one does | unchanged |
// | TrainScope, PredictScope      | unchanged              | unchanged            | train, predict |
// Tested by tests/imperative/imperative_modes_test.cc
#pragma once

#include <cstdint>

namespace gradc {

class Imperative;

/// Off: nothing is recorded. On: calls that read a tracked value. ByLeaf: calls that read a value that depends on a
/// leaf marked by `requiresGrad`.
enum class Recording : uint8_t { Off, On, ByLeaf };

struct Modes {
  Recording recording = Recording::ByLeaf;
  bool isTraining = false;
  bool isInference = false;
  bool checksNaN = false;
};

/// The modes of the calling thread.
Modes modesOf(const Imperative &imperative);

/// Sets modes of the calling thread until the scope ends, in whatever way.
class ModeScope {
 public:
  ModeScope(const ModeScope &) = delete;
  ModeScope &operator=(const ModeScope &) = delete;

 protected:
  explicit ModeScope(const Imperative &imperative);
  ~ModeScope();
  Modes modes;

 private:
  friend Modes modesOf(const Imperative &imperative);
  const Imperative *imperative;
  ModeScope *outer;
};

struct FormOptions {
  bool isTraining = false;
};
struct RecordOptions {
  bool isTraining = true;
};

class RecordScope : ModeScope {
 public:
  explicit RecordScope(const Imperative &imperative, RecordOptions options = {}) : ModeScope(imperative) {
    modes.recording = Recording::On;
    modes.isTraining = options.isTraining;
    modes.isInference = false;
  }
};
class PauseScope : ModeScope {
 public:
  explicit PauseScope(const Imperative &imperative, FormOptions options = {}) : ModeScope(imperative) {
    modes.recording = Recording::Off;
    modes.isTraining = options.isTraining;
  }
};
class NoGradScope : ModeScope {
 public:
  explicit NoGradScope(const Imperative &imperative) : ModeScope(imperative) { modes.recording = Recording::Off; }
};
class EnableGradScope : ModeScope {
 public:
  explicit EnableGradScope(const Imperative &imperative) : ModeScope(imperative) {
    if (modes.recording == Recording::Off) modes.recording = Recording::ByLeaf;
    modes.isInference = false;
  }
};
class TrainScope : ModeScope {
 public:
  explicit TrainScope(const Imperative &imperative) : ModeScope(imperative) { modes.isTraining = true; }
};
class PredictScope : ModeScope {
 public:
  explicit PredictScope(const Imperative &imperative) : ModeScope(imperative) { modes.isTraining = false; }
};
/// Nothing is recorded, and no gradient may keep a value made inside.
class InferenceScope : ModeScope {
 public:
  explicit InferenceScope(const Imperative &imperative) : ModeScope(imperative) {
    modes.recording = Recording::Off;
    modes.isInference = true;
  }
};
/// HOOK-09: gradients that are computed inside are checked. The first operator whose output has a NaN ends the backward
/// with an error that names it and the user's call that it differentiates.
class AnomalyScope : ModeScope {
 public:
  explicit AnomalyScope(const Imperative &imperative, bool checksNaN = true) : ModeScope(imperative) {
    modes.checksNaN = checksNaN;
  }
};

}  // namespace gradc
