// Freeing the memory of containers.
#pragma once

namespace gradc {

/// Empties a container and frees its memory. `x = {}` only empties it: it assigns an empty list, which keeps the
/// capacity.
template <class T> void release(T &x) {
  T none;
  x.swap(none);
}

}  // namespace gradc
