#include "ramet/sim/shared_processors.h"

namespace ramet::sim {
namespace {

/// Devices are groups of cores, and there may be any number of them: they all share the machine's processors and
/// memories.
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
  if (machine.processors > 0) widen(machine, static_cast<int>(stages[0].mesh.devices()));
  return simulate(stages, machine, options);
}

}  // namespace ramet::sim
