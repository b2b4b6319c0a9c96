#include "ramet/sim/shared_processors.h"

#include <algorithm>

namespace ramet {
namespace {

/// Devices are groups of cores, as many as wanted: what they all share is shared by more of them.
void widen(Machine& machine, int devices) {
  if (machine.devices >= devices) return;
  machine.devices = devices;
  const double bandwidth = machine.bandwidth() / 2;
  for (MemoryKind& memory : machine.memories)
    if (memory.devices > 1) memory.devices = devices;
  LinkLevel shared{.name = "memory", .topology = Topology::kHostGateway, .bandwidth = bandwidth, .latency = 1e-6};
  if (machine.links.size() == 1 && machine.links[0].topology == Topology::kHostGateway) shared = machine.links[0];
  shared.group = devices;
  machine.links = {shared};
}

}  // namespace

Simulation simulate_sharing(std::span<const Executable> stages, Machine machine, const SimulationOptions& options) {
  if (machine.processors == 0) return simulate(stages, machine, options);
  const int devices = static_cast<int>(stages[0].mesh.devices()), threads = stages[0].threads;
  widen(machine, devices);
  Simulation simulation = simulate(stages, machine, options);
  if (devices * threads <= machine.processors) return simulation;
  const double each = static_cast<double>(devices) / static_cast<double>(stages.size());
  double work = 0;
  for (const StageTime& stage : simulation.stages)  // devices copy what streams from host memory themselves
    work += each * (stage.work.seconds + stage.exchanging + (options.streams_to_files ? 0 : stage.streaming));
  const double least = work * threads / machine.processors;
  if (least <= simulation.seconds) return simulation;
  // The picture of who does what when stays that of processors for each.
  simulation.bubble = std::max(0.0, 1 - work / (devices * least));
  simulation.share_of_peak *= simulation.seconds / least;
  simulation.seconds = least;
  return simulation;
}

}  // namespace ramet
