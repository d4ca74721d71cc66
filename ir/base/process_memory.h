// Heap settings for programs that run the passes.
#pragma once

namespace gradc {

/// Makes glibc's malloc keep freed blocks below 512 MiB for reuse instead of returning them to the system and faulting
/// them in again: at 10⁶ nodes those page faults are up to half of a pass. Affects the whole process, so only a program
/// may call it, first thing in main. No effect with another C library.
void keepFreedMemory();

}  // namespace gradc
