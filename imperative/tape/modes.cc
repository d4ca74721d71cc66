// The live scopes of a thread are a list: there is nothing to allocate, and nothing to restore that an error could
// miss. Tested by tests/imperative/imperative_modes_test.cc
#include "imperative/tape/modes.h"

namespace gradc {
namespace {

constinit thread_local ModeScope *innermost = nullptr;

}  // namespace

ModeScope::ModeScope(const Imperative &imperative)
    : modes(modesOf(imperative)), imperative(&imperative), outer(innermost) {
  innermost = this;
}

// A scope that the host ends out of order does not change the others.
ModeScope::~ModeScope() {
  ModeScope **at = &innermost;
  while (*at && *at != this) at = &(*at)->outer;
  if (*at) *at = outer;
}

Modes modesOf(const Imperative &imperative) {
  for (const ModeScope *scope = innermost; scope; scope = scope->outer)
    if (scope->imperative == &imperative) return scope->modes;
  return {};
}

}  // namespace gradc
