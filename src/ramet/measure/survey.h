#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "ramet/kernel/kernel.h"
#include "ramet/machine/machine.h"
#include "ramet/transport/transport.h"

namespace ramet::measure {

struct SurveyOptions {
  int threads = 1;                     ///< of a device
  double seconds = 60;                 ///< that all measurements together take, about
  std::filesystem::path folder = ".";  ///< where a file is streamed; it leaves nothing behind
  /// The measurement in progress, and the share of the survey that is done.
  std::function<void(const std::string& what, double done)> progress{};
};

/// Measures the machine at hand with the backend's own kernels: matrix products by shape and dtype, element-wise work
/// in each cache and in memory, gathers, the cost of an instruction, streaming from memory and from a file, messages
/// and meetings between devices. Each figure is a median, with its spread and the word "measured" in `notes`. A device
/// is `threads` cores; the machine has as many devices as its processors make.
///
/// Under MPI every rank calls it together with its endpoint: rank 0 measures the device, and all measure the links
/// between ranks. The machine's devices are then the ranks. All get what rank 0 returns but for figures of the device.
Machine survey_machine(const Backend& backend, const SurveyOptions& options, Transport* rank = nullptr);

}  // namespace ramet::measure
