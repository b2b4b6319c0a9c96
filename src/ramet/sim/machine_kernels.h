#pragma once

#include <memory>

#include "ramet/machine/machine.h"
#include "ramet/program/kernel_library.h"

namespace ramet::sim {

/// What compiling for a machine may know of its kernels: those of this build, where the machine's are of their class;
/// else a model of them, of tiles (model_library.h) or of cores: these need no scratch, and write in place wherever the
/// op allows it.
std::shared_ptr<const KernelLibrary> machine_kernels(const Machine& machine);

}  // namespace ramet::sim
