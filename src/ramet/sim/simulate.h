#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ramet/sim/step_time.h"

namespace ramet::sim {

/// The activity of a device for a while.
enum class Activity : uint8_t {
  kCompute,
  kExchange,   ///< in a collective that all members have joined; of transfers: a message to or from another stage
  kStreaming,  ///< waits for streaming memory; of transfers: loads and stores
  kWait        ///< for other devices: for a message, for the others of a collective, for the end of the step
};
inline constexpr int kActivities = 4;
/// "compute", "exchange", "streaming", "wait"
const char* name_of(Activity activity);

struct Span {
  double begin = 0, end = 0;  ///< seconds from the beginning of the step
  Activity activity = Activity::kCompute;
  int32_t label = 0;  ///< in Simulation::labels: the layer whose instructions run, the move, or the awaited event
};

/// One device of those that do the same at the same time.
struct DeviceTimeline {
  int32_t stage = 0;
  std::vector<int32_t> devices;  ///< in the layout's mesh
  std::vector<Span> work;        ///< end to end, from the beginning of the step to its end
  std::vector<Span> runs;        ///< of segments, which contain those of `work`: "forward 2, micro-batch 3"
  std::vector<Span> messages;    ///< beside them: from the beginning of a transfer to its end
  std::vector<Span> streams;
};

/// Where the time of one stage's devices is expected to go, their mean.
struct StageTime {
  StepTime work;          ///< their computation; its `seconds` are without exchanges and waits
  double exchanging = 0;  ///< seconds of collectives
  double streaming = 0;   ///< in which they wait for streaming memory
  double waiting = 0;     ///< in which they wait for other devices
};

/// Bytes over the links of one level, or to or from one kind of memory.
struct ChannelTraffic {
  std::string name;
  int64_t links = 0;
  double bandwidth = 0;  ///< bytes a second of one link
  double bytes = 0;      ///< of a step, over all links
  double busiest = 0;    ///< bytes over the link that carries most
  /// From `at` on, bytes a second over all links together, until the next.
  struct Rate {
    double at = 0, rate = 0;
  };
  std::vector<Rate> rates;  ///< empty without timelines
};

/// A training step of all devices of a layout on a machine.
struct Simulation {
  double seconds = 0;
  double bubble = 0;         ///< share of devices x seconds in which devices wait for each other
  double share_of_peak = 0;  ///< matrix products at their types' peak rates, as a share of devices x seconds
  int devices = 0;
  std::vector<StageTime> stages;
  std::vector<ChannelTraffic> channels;
  std::vector<DeviceTimeline> timelines;  ///< `work`, ... of each are empty without timelines
  std::vector<std::string> labels;
  int64_t events = 0;
};

struct SimulationOptions {
  bool streams_to_files = false;  ///< as Layout::streams_to_files: to the machine's disk
  bool timelines = false;         ///< keep what every device does when
  bool fold = true;  ///< simulate one device of all that do the same; false: each (the same result, slower)
};

/// Throws Error when a layout needs more devices than the machine has: what `simulate` asks first, before anything is
/// compiled.
void check_devices(const Machine& machine, const Mesh& mesh);

/// What programs stream more than the memory that they stream to can hold, for people; "" when it holds all.
std::string lack_of_streaming(std::span<const Executable> stages, const Machine& machine, bool to_files);

/// Runs the training programs of all stages, in the order of events, on every device of a machine. Instructions take
/// what call_seconds says; collectives begin when all members have come, messages when both sides have; what moves at
/// the same time shares links as SharedLinks says; each device loads and stores one transfer after another, both ways
/// at once. Devices that are threads of one machine copy what streams from host memory themselves, and compute no
/// further meanwhile; everywhere else transfers go on beside the work. Where a machine's devices have together more
/// threads than it has processors, those that work share these evenly, and waits of some are time for others. Members
/// of a collective wait for the last of them, which DeviceKind::jitter makes late. `stages` must match
/// (program/match.h). Throws Error when the machine has too few devices, or the memory that programs stream to is not
/// there or too small.
Simulation simulate(std::span<const Executable> stages, const Machine& machine, const SimulationOptions& options = {});

}  // namespace ramet::sim
