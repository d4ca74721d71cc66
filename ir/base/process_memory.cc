// Two settings of glibc's malloc; measured in docs/performance.md.
#include "ir/base/process_memory.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace gradc {

void keepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 512 << 20);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace gradc
