#pragma once

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// The kernel of maps over edges (ops/edge_map.h).
void add_cpu_edge_map(Backend& backend);

}  // namespace ramet::kernel
