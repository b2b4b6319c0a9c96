#pragma once

#include "ramet/transport/transport.h"

namespace ramet::transport {

/// Endpoints of `devices` devices in this process, each to be driven by its own thread. Any memory of the process is
/// shared, so collectives and messages read and write callers' buffers in place. Endpoints may be destroyed in any
/// order.
Transports make_thread_transports(int devices, const TransportOptions& options = {});

}  // namespace ramet::transport
