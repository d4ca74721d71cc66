// Heap settings for programs that run the passes.
#pragma once

namespace gradc {

/// Makes malloc keep freed memory for the next array instead of returning it to the system and faulting it in again,
/// page by page: at 10⁶ nodes those page faults are up to half of a pass. Affects the whole process, so only a program
/// may call it, first thing in main; gradc and the benchmarks do. Blocks of 512 MiB and more, such as large arenas, are
/// still returned. No effect unless the C library is glibc.
void keepFreedMemory();

}  // namespace gradc
