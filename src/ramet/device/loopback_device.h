#pragma once

#include <memory>

#include "ramet/device/device.h"

namespace ramet::device {

/// An accelerator that is not there: the host's processors behind the manners of a GPU, for tests and as the skeleton of
/// a back end.
///
///   * Device memory is hidden: its addresses lie in pages that fault when host code reads or writes them.
///   * Each queue is a thread with a team of `threads` of its own. Calls return at once; results are there after a wait.
///   * Kernels are the CPU's, and run on the hidden memory with its true addresses.
std::unique_ptr<Device> make_loopback_device(int threads);

}  // namespace ramet::device
