// What a program that runs the passes does best with its heap.
#pragma once

namespace gradc {

/// Has malloc keep freed memory for the next array instead of giving it back to the system and fetching it again, page by
/// page: at 10⁶ nodes those page faults are up to half of a pass. For the whole process, so only a program may call it,
/// first thing in main; gradc and the benchmarks do. Blocks of 512 MiB and more, such as large arenas, still go back.
/// Nothing happens where the C library is not glibc.
void keepFreedMemory();

}  // namespace gradc
