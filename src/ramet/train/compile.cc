#include "ramet/train/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"
#include "ramet/device/host_reserve.h"
#include "ramet/kernel/devices.h"
#include "ramet/kernel/kernel.h"
#include "ramet/sim/machine_kernels.h"
#include "ramet/train/step.h"
#include "ramet/transport/mpi_transport.h"
#include "ramet/transport/process.h"

namespace ramet::train {
namespace {

constexpr int64_t kLeftToOthers = 8;  // one part in so many of the memory at hand, where a smaller program can spare it

/// Devices that one process runs.
int devices_of_process(const Layout& layout, const Where& where) {
  const int devices = layout.devices(), ranks = where.mpi ? where.mpi->ranks() : 1;
  const bool as_asked = layout.per_process == 0 || !where.mpi || layout.per_process * ranks == devices;
  if (devices % ranks == 0 && as_asked) return devices / ranks;
  throw Error(
      {.what = "the devices of the layout cannot be spread over the ranks",
       .where = where.layout_source,
       .found = fmt::format("{} devices on {} ranks", devices, ranks),
       .expected = as_asked ? "as many devices on each rank"
                            : fmt::format("{} on each rank, as per_process says", layout.per_process),
       .remedy = fmt::format("Start {} ranks", as_asked ? devices : devices / std::max(1, layout.per_process))});
}

/// Processors of this process: an equal share, where several ranks of a host are bound to none of their own.
int own_processors(const Where& where) {
  const int processors = available_processors();
  if (!where.mpi || processors < static_cast<int>(std::thread::hardware_concurrency())) return processors;
  const char* const local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int sharing = local ? std::max(1, std::atoi(local)) : where.mpi->ranks();
  return std::max(1, processors / sharing);
}

double flops_of(const Executable& exe, const Segment& segment) {
  double sum = 0;
  for (const Instruction& instruction : segment.instructions)
    if (instruction.call >= 0) sum += exe.calls[static_cast<size_t>(instruction.call)].cost.flops;
  return sum;
}

void add_work(const Executable& exe, CompiledWorkload& compiled) {
  int64_t stream = 0;
  double flops = 0;
  std::vector<double> of_segment;
  for (const Segment& segment : exe.segments) of_segment.push_back(flops_of(exe, segment));
  for (const ProgramStep& step : exe.train().steps) {
    if (step.kind == ProgramStep::Kind::kRun) flops += of_segment[static_cast<size_t>(step.subject)];
    if (step.kind == ProgramStep::Kind::kLoad || step.kind == ProgramStep::Kind::kStore)
      stream += exe.transfers[static_cast<size_t>(step.subject)].type.bytes();
  }
  compiled.step_flops += flops * exe.mesh.devices() / exe.mesh.p;
  compiled.step_stream = std::max(compiled.step_stream, stream);
}

/// One device. When no limit is given and the program would take nearly all memory at hand or more, it is compiled once
/// more for a little less than there is; the first is given where that is not possible.
Executable compile_single(const StepGraph& step, const KernelLibrary& kernels, CompileOptions compiling) {
  Executable executable = compile(step, kernels, compiling);
  const int64_t available = available_memory(), limit = available - available / kLeftToOthers;
  if (compiling.device_memory > 0 || executable.planned_bytes() <= limit) return executable;
  compiling.device_memory = limit;
  try {
    return compile(step, kernels, compiling);
  } catch (const Error&) {
    return executable;  // so that a plan shows the bytes that are needed; a run is refused with both sizes
  }
}

std::vector<Executable> compile_freely(StepGraph step, const Layout& layout, const KernelLibrary& kernels,
                                       const CompileOptions& compiling) {
  if (!layout.is_single()) return compile(std::move(step), layout, kernels, compiling);
  std::vector<Executable> stages;
  stages.push_back(compile(std::move(step), kernels, compiling));
  return stages;
}

/// `share` of the bytes that the largest stage takes without a limit, or as few as there can be.
std::vector<Executable> compile_share(StepGraph step, double share, const Layout& layout, const KernelLibrary& kernels,
                                      CompileOptions compiling) {
  int64_t most = 0;
  for (const Executable& exe : compile_freely(step, layout, kernels, compiling))
    most = std::max(most, exe.planned_bytes());
  compiling.device_memory = static_cast<int64_t>(share * static_cast<double>(most));
  // The program will take about so much, the compiler until then a part of the rest.
  if (layout.is_single()) device::HostReserve::expect(compiling.device_memory / 10 * 9);
  compiling.least = compiling.copies_first = true;
  if (!layout.recompute && compiling.recompute.mode == RecomputeOptions::Mode::kNone) {
    compiling.recompute.mode = RecomputeOptions::Mode::kFit;
    compiling.recompute.byte_limit = compiling.device_memory;
  }
  return compile_freely(std::move(step), layout, kernels, compiling);
}

/// `here`: with this machine's memory as the limit, when none is given.
std::vector<Executable> compile_stages(StepGraph step, const Layout& layout, const KernelLibrary& kernels,
                                       const CompileOptions& compiling, double share, bool here) {
  if (share > 0 && compiling.device_memory == 0)
    return compile_share(std::move(step), share, layout, kernels, compiling);
  if (!layout.is_single()) return compile(std::move(step), layout, kernels, compiling);
  std::vector<Executable> stages;
  stages.push_back(here ? compile_single(step, kernels, compiling) : compile(std::move(step), kernels, compiling));
  return stages;
}

CompiledWorkload compile_with(const KernelLibrary& kernels, const Model& model, const TrainOptions& options,
                              const Layout& layout, const CompileOptions& compiling, double share, bool here) {
  const auto start = std::chrono::steady_clock::now();
  StepGraph step = make_training_step(model, with_order_of_sums(options, layout));
  CompiledWorkload compiled;
  for (const StateKind kind : {StateKind::kWeight, StateKind::kOptimizer, StateKind::kPattern, StateKind::kDeferred,
                               StateKind::kChained, StateKind::kKept, StateKind::kConstant})
    for (const StateTensor& state : step.states)
      if (state.kind == kind) compiled.states.push_back(state);
  compiled.stages = compile_stages(std::move(step), layout, kernels, compiling, share, here);
  for (const Executable& exe : compiled.stages) add_work(exe, compiled);
  compiled.micro_batches = options.accumulation / layout.r;
  compiled.seconds = seconds_since(start);
  return compiled;
}

}  // namespace

CompileOptions compile_options(const TrainOptions& options, const Layout& layout, const Where& where, int local) {
  CompileOptions result;
  result.threads = where.threads > 0    ? std::max(1, where.threads / local)
                   : layout.threads > 0 ? layout.threads
                                        : std::max(1, own_processors(where) / local);
  result.device_memory = where.device_memory > 0 ? where.device_memory : layout.device_memory;
  if (layout.recompute) {
    result.recompute = *layout.recompute;
  } else if (options.recompute != "auto") {
    result.recompute = parse_recompute(options.recompute);
  } else if (result.device_memory > 0) {
    result.recompute.mode = RecomputeOptions::Mode::kFit;
    result.recompute.byte_limit = result.device_memory;
  }
  return result;
}

std::vector<Executable> compile_step(StepGraph step, const TrainOptions& options, const Layout& layout,
                                     const Where& where) {
  return compile_stages(std::move(step), layout, find_device(where.device).backend(),
                        compile_options(options, layout, where, devices_of_process(layout, where)),
                        where.device_memory_share, true);
}

CompiledWorkload compile_workload(const Model& model, const TrainOptions& options, const Layout& layout,
                                  const Where& where) {
  return compile_with(find_device(where.device).backend(), model, options, layout,
                      compile_options(options, layout, where, devices_of_process(layout, where)),
                      where.device_memory_share, true);
}

CompiledWorkload compile_workload(const Model& model, const TrainOptions& options, const Layout& layout,
                                  const Machine& machine, const Where& where) {
  const std::shared_ptr<const KernelLibrary> kernels = machine_kernels(machine);
  Where there = where;
  if (there.threads == 0) there.threads = 1;
  if (const MemoryKind* memory = machine.memory(MemoryRole::kDevice)) {
    const int64_t asked = there.device_memory > 0 ? there.device_memory : layout.device_memory;
    there.device_memory = asked > 0 ? std::min(asked, memory->bytes) : memory->bytes;
  }
  return compile_with(*kernels, model, options, layout, compile_options(options, layout, there), 0, false);
}

namespace {

std::chrono::milliseconds waiting_limit(double flops, double stream) {
  constexpr double kFlops = 2e10, kBytes = 1e8;  // of a slow machine, in a second
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * (60 + flops / kFlops + stream / kBytes)));
}

}  // namespace

std::chrono::milliseconds waiting_limit(const CompiledWorkload& compiled) {
  const double micro = compiled.step_flops / static_cast<double>(std::max<int64_t>(1, compiled.micro_batches));
  return waiting_limit(micro, static_cast<double>(compiled.step_stream));
}

std::chrono::milliseconds waiting_limit(const std::vector<Executable>& stages) {
  double flops = 0, stream = 0;
  for (const Executable& exe : stages) {
    for (const Segment& segment : exe.segments) flops += flops_of(exe, segment);
    stream += static_cast<double>(exe.streaming_bytes);
  }
  return waiting_limit(flops, stream);
}

}  // namespace ramet::train
