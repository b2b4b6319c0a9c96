#pragma once

#include <memory>

#include "ramet/machine/machine.h"
#include "ramet/program/kernel_library.h"

namespace ramet::sim {

/// The kernel library to compile with for a machine: this build's, when the machine's kernels are of its class; else a
/// model of the kernels, for tiles or for cores (model_library.h).
std::shared_ptr<const KernelLibrary> machine_kernels(const Machine& machine);

}  // namespace ramet::sim
