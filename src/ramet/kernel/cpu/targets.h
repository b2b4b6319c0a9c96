#pragma once

// Included before Highway in every file that compiles for several instruction sets: Ramet tells three apart
// (cpu_features.h); the others would only take time to compile.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
