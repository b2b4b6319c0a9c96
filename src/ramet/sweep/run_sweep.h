#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "ramet/sweep/plan_point.h"
#include "ramet/sweep/sweep_folder.h"
#include "ramet/train/training_loop.h"

namespace ramet::sweep {

/// How far a sweep is.
struct SweepProgress {
  int64_t points = 0;   ///< drawn so far
  int64_t settled = 0;  ///< of these refused, or ended on the first rung
  int64_t running = 0;  ///< runs
  int64_t best = -1;
  std::string doing{};  ///< what the sweep's own process does now: "planning point 3"; "": it waits
};

struct RunSweepOptions {
  std::string program;                ///< the file of `ramet`
  const StopRequest* stop = nullptr;  ///< asked: runs save checkpoints and end, and so does the sweep
  std::function<void(const std::string& json)> on_event{};
  std::function<void(const SweepProgress& progress)> on_progress{};
};

/// Settles what a sweep's file leaves open about this machine: cores, threads, memory. Throws Error when the machine
/// has less than the file asks for.
SweepOptions settle_resources(SweepOptions options);
/// What a point may take of them.
PointLimits limits_of(const SweepOptions& settled);

/// Runs a sweep, or goes on with it: points are drawn (sweep/draw.h), planned, and tried by processes of `ramet train`.
/// All that happens is an event in the sweep's log, from which a sweep goes on after any end; the runs' own logs say
/// how far runs are. Returns the state at the end. Throws Error when another process runs the sweep, and when runs log
/// no number of the metric's name.
SweepState run_sweep(const SweepFolder& folder, const RunSweepOptions& options);

}  // namespace ramet::sweep
