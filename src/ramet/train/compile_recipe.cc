#include "ramet/train/compile_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"
#include "ramet/kernel/kernel.h"
#include "ramet/sim/machine_kernels.h"
#include "ramet/train/step.h"
#include "ramet/transport/mpi_transport.h"
#include "ramet/transport/process.h"

namespace ramet::train {
namespace {

constexpr int64_t kLeftToOthers = 8;  // one part in so many of the memory at hand, where a smaller program can spare it

/// Devices that one process runs.
int devices_of_process(const Preparation& preparation, const TrainerOptions& options) {
  const Layout& layout = preparation.layout;
  const int devices = layout.devices(), ranks = options.mpi ? options.mpi->ranks() : 1;
  const bool as_asked = layout.per_process == 0 || !options.mpi || layout.per_process * ranks == devices;
  if (devices % ranks == 0 && as_asked) return devices / ranks;
  throw Error(
      {.what = "the devices of the layout cannot be spread over the ranks",
       .where = layout_source(preparation.recipe),
       .found = fmt::format("{} devices on {} ranks", devices, ranks),
       .expected = as_asked ? "as many devices on each rank"
                            : fmt::format("{} on each rank, as per_process says", layout.per_process),
       .remedy = fmt::format("Start {} ranks", as_asked ? devices : devices / std::max(1, layout.per_process))});
}

/// Processors of this process: an equal share, where several ranks of a host are bound to none of their own.
int own_processors(const TrainerOptions& options) {
  const int processors = available_processors();
  if (!options.mpi || processors < static_cast<int>(std::thread::hardware_concurrency())) return processors;
  const char* const local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int sharing = local ? std::max(1, std::atoi(local)) : options.mpi->ranks();
  return std::max(1, processors / sharing);
}

double flops_of(const Executable& exe, const Segment& segment) {
  double sum = 0;
  for (const Instruction& instruction : segment.instructions)
    if (instruction.task >= 0) sum += exe.tasks[static_cast<size_t>(instruction.task)].cost.flops;
  return sum;
}

void add_work(const Executable& exe, CompiledRecipe& compiled) {
  int64_t stream = 0;
  double flops = 0;
  std::vector<double> of_segment;
  for (const Segment& segment : exe.segments) of_segment.push_back(flops_of(exe, segment));
  for (const ProgramStep& step : exe.train) {
    if (step.kind == ProgramStep::Kind::kRun) flops += of_segment[static_cast<size_t>(step.subject)];
    if (step.kind == ProgramStep::Kind::kLoad || step.kind == ProgramStep::Kind::kStore)
      stream += exe.transfers[static_cast<size_t>(step.subject)].type.bytes();
  }
  compiled.step_flops += flops * exe.mesh.devices() / exe.mesh.p;
  compiled.step_stream = std::max(compiled.step_stream, stream);
}

/// One device. When no limit is given and the program would take nearly all memory at hand or more, it is compiled once
/// more for a little less than there is; the first is given where that is not possible.
Executable compile_single(const StepGraph& step, CompileOptions compiling) {
  Executable executable = compile(step, cpu_backend(), compiling);
  const int64_t available = available_memory(), limit = available - available / kLeftToOthers;
  if (compiling.device_memory > 0 || executable.planned_bytes() <= limit) return executable;
  compiling.device_memory = limit;
  try {
    return compile(step, cpu_backend(), compiling);
  } catch (const Error&) {
    return executable;  // for a plan to show what is needed; to run it is refused with both sizes
  }
}

/// `here`: for the memory at hand, where nobody gave a limit.
CompiledRecipe compile_with(const KernelLibrary& kernels, const Preparation& preparation,
                            const CompileOptions& compiling, bool here) {
  const auto start = std::chrono::steady_clock::now();
  StepGraph step = make_training_step(preparation.model, with_order_of_sums(preparation.recipe, preparation.layout));
  CompiledRecipe compiled;
  for (const StateKind kind : {StateKind::kWeight, StateKind::kOptimizer})
    for (const StateTensor& state : step.states)
      if (state.kind == kind) compiled.states.push_back(state);
  if (!preparation.layout.is_single())
    compiled.stages = compile(std::move(step), preparation.layout, kernels, compiling);
  else
    compiled.stages.push_back(here ? compile_single(step, compiling) : compile(std::move(step), kernels, compiling));
  for (const Executable& exe : compiled.stages) add_work(exe, compiled);
  compiled.micro_batches = preparation.recipe.train.accumulation / preparation.layout.r;
  compiled.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

}  // namespace

CompileOptions compile_options(const Preparation& preparation, const TrainerOptions& options, int local) {
  const Recipe& recipe = preparation.recipe;
  const Layout& layout = preparation.layout;
  CompileOptions result;
  result.threads = options.threads > 0  ? std::max(1, options.threads / local)
                   : layout.threads > 0 ? layout.threads
                                        : std::max(1, own_processors(options) / local);
  result.device_memory = options.device_memory > 0 ? options.device_memory : layout.device_memory;
  if (layout.recompute) {
    result.recompute = *layout.recompute;
  } else if (recipe.train.recompute != "auto") {
    result.recompute = parse_recompute(recipe.train.recompute);
  } else if (result.device_memory > 0) {
    result.recompute.mode = RecomputeOptions::Mode::kFit;
    result.recompute.byte_limit = result.device_memory;
  }
  return result;
}

CompiledRecipe compile_recipe(const Preparation& preparation, const TrainerOptions& options) {
  return compile_with(cpu_backend(), preparation,
                      compile_options(preparation, options, devices_of_process(preparation, options)), true);
}

CompiledRecipe compile_recipe(const Preparation& preparation, const Machine& machine, const TrainerOptions& options) {
  const std::shared_ptr<const KernelLibrary> kernels = machine_kernels(machine);
  TrainerOptions its = options;
  if (its.threads == 0) its.threads = 1;
  if (const MemoryKind* memory = machine.memory(MemoryRole::kDevice)) {
    const int64_t asked = its.device_memory > 0 ? its.device_memory : preparation.layout.device_memory;
    its.device_memory = asked > 0 ? std::min(asked, memory->bytes) : memory->bytes;
  }
  return compile_with(*kernels, preparation, compile_options(preparation, its), false);
}

std::chrono::milliseconds waiting_limit(const CompiledRecipe& compiled) {
  constexpr double kFlops = 2e10, kBytes = 1e8;  // of a slow machine, in a second
  const double micro = compiled.step_flops / static_cast<double>(std::max<int64_t>(1, compiled.micro_batches));
  const double seconds = 60 + micro / kFlops + static_cast<double>(compiled.step_stream) / kBytes;
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

}  // namespace ramet::train
