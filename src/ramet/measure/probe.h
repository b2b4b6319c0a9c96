#pragma once

#include <filesystem>
#include <span>

#include "ramet/kernel/kernel.h"
#include "ramet/layout/layout.h"
#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"
#include "ramet/runtime/engine.h"

namespace ramet::measure {

/// Measures this machine with the backend's own kernels: products, element-wise traffic, the cost of a call; under a
/// second. Devices with memory of their own have the figures of their machine file instead.
Machine probe_machine(const Backend& backend, int threads);

/// Measures the executable's calls one by one on memory of their own, the most expensive first, until all are known or
/// `budget_seconds` are spent, and notes the times in the machine. Calls that the machine already knows are not
/// measured again. `beside`: number of devices that do the same at the same time, as the others of a layout do.
void measure_calls(Machine& machine, const Executable& executable, const Backend& backend, double budget_seconds = 1.5,
                   int beside = 0);

/// Measures the files of a folder as streaming memory (streaming_store.h), a few hundred MiB of traffic, and notes them
/// as the machine's disk, which all its devices share. A machine that has measured this folder keeps its figures.
/// Returns false, and leaves the machine without a disk, when no file can be made in the folder.
bool measure_files(Machine& machine, const std::filesystem::path& folder);

/// The machine at hand, with this executable's calls: from the cache (one file a CPU model, kernel class, number of
/// threads and of devices at work at once, under $XDG_CACHE_HOME/ramet or ~/.cache/ramet), measured where it is not
/// there yet, and kept. A cache that was measured on a busier machine than now, or cannot be read, is measured again;
/// one that cannot be written is done without. `streaming`: the folder of streaming files, whose speed is measured too;
/// empty: none. `batch`: a micro-batch of real samples to rehearse with (measure/rehearsal.h).
Machine local_machine(const Executable& executable, const Backend& backend, double budget_seconds = 1.5,
                      const std::filesystem::path& streaming = {}, std::span<const TensorView> batch = {});
/// The same for the stages of a layout, which have equally many threads. As many devices as find processors are at work
/// while calls are measured. `between_processes`: devices are ranks of MPI.
Machine local_machine(std::span<const Executable> stages, const Backend& backend, double budget_seconds = 1.5,
                      const std::filesystem::path& streaming = {}, bool between_processes = false,
                      std::span<const TensorView> batch = {});
/// The same with the processor's own kernels, and the files that the layout streams to.
Machine local_machine(std::span<const Executable> stages, const Layout& layout, bool between_processes = false,
                      std::span<const TensorView> batch = {});

/// "AMD EPYC 9R45 96-Core Processor"
std::string cpu_name();

}  // namespace ramet::measure
