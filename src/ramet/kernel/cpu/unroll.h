#pragma once

/// Before a loop whose trip count is a small constant and whose body indexes arrays of vectors: unrolled, the arrays
/// are registers; as a loop, which is what -O2 leaves, they are memory.
#define RAMET_UNROLL _Pragma("GCC unroll 16")
