#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/device/cuda/cuda_kernel.h"
#include "ramet/device/cuda/driver.h"

namespace ramet::device {

/// What a loaded function takes of the card, as the driver says.
struct LoadedFunction {
  std::string source;  ///< with its definitions: "rows.cu kWidth=64"
  std::string name;
  int registers = 0;          ///< of a thread
  int64_t local_bytes = 0;    ///< of a thread, in memory: 0, or registers did not suffice
  int64_t shared_bytes = 0;   ///< of a block, fixed
  int64_t dynamic_bytes = 0;  ///< of a block, at most
  int most_threads = 0;       ///< of a block
};

/// All functions that this process has loaded, in order. RAMET_VERBOSE=dispatch prints each when it is loaded.
std::vector<LoadedFunction> loaded_functions();

/// Launches a function that takes one struct, which is copied at the call.
void launch_on(CuStream stream, const CudaFunction& function, const CudaGrid& grid, const void* arguments);

/// A cubin of `source`: from the folder "cuda" of the cache, or compiled now and put there.
std::string cubin_of(const CudaSource& source);

}  // namespace ramet::device
