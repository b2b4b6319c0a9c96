#pragma once

#include "ramet/transport/transport.h"

namespace ramet::transport {

/// The endpoint of a world of one device. Also the skeleton to copy for a new transport: null_transport.cc says at each
/// function what callers may expect of an implementation.
Transports make_null_transport();

}  // namespace ramet::transport
