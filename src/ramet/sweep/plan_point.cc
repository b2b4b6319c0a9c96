#include "ramet/sweep/plan_point.h"

#include <numeric>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/measure/probe.h"
#include "ramet/recipe/prepare.h"
#include "ramet/sim/shared_processors.h"
#include "ramet/transport/process.h"

namespace ramet::sweep {
namespace {

/// A process of ramet before it has opened a recipe.
constexpr int64_t kProcessBytes = 32 << 20;

struct Compiled {
  CompiledWorkload workload;
  int64_t planned = 0, host = 0;
  int64_t process() const { return planned + host + kProcessBytes; }
};

Compiled compile(const Preparation& preparation, int threads, int64_t device_memory) {
  Where where{.threads = threads};
  where.device_memory = device_memory;
  Compiled result{.workload = compile_recipe(preparation, where)};
  const auto& stages = result.workload.stages;
  const Mesh mesh = preparation.layout.mesh();
  std::vector<int> devices(static_cast<size_t>(mesh.devices()));
  std::iota(devices.begin(), devices.end(), 0);
  for (const int device : devices) {
    const Executable& exe = stages[static_cast<size_t>(mesh.position(device).stage)];
    result.planned += exe.planned_bytes() + (preparation.layout.streams_to_files() ? 0 : exe.streaming_bytes);
  }
  result.host = host_memory(preparation.workload, preparation.options, stages, devices).total();
  return result;
}

/// The same for a device's program that leaves the process within `bytes`, where the compiler finds one.
std::optional<Compiled> compile_within(const Preparation& preparation, const PointLimits& limits, int64_t bytes,
                                       const Compiled& free, int64_t& device_memory) {
  device_memory = (bytes - kProcessBytes - free.host) / preparation.layout.devices();
  if (device_memory <= 0) return {};
  try {
    Compiled result = compile(preparation, limits.threads, device_memory);
    if (result.process() <= bytes) return result;
  } catch (const Error&) {  // it does not fit
  }
  return {};
}

double step_seconds_of(const Preparation& preparation, const CompiledWorkload& compiled) {
  const RealBatch real = real_batch(preparation.workload.train.get(), preparation.options.micro_batch);
  const SimulationOptions how{.streams_to_files = preparation.layout.streams_to_files()};
  return simulate_sharing(compiled.stages, local_machine(compiled.stages, preparation.layout, false, real.views), how)
      .seconds;
}

}  // namespace

PointPlan plan_point(const Recipe& recipe, const PointLimits& limits) {
  PointPlan plan;
  try {
    const Preparation preparation = prepare(recipe);
    plan.steps = preparation.recipe.train.steps;
    if (!preparation.workload.train)
      throw Error({.what = "there is nothing to train on", .where = preparation.workload.model.name});
    Compiled compiled = compile(preparation, limits.threads, 0);
    for (const int64_t bytes : {limits.share, limits.memory}) {
      if (compiled.process() <= bytes) break;
      int64_t device_memory = 0;
      auto smaller = compile_within(preparation, limits, bytes, compiled, device_memory);
      if (!smaller) continue;
      compiled = std::move(*smaller), plan.device_memory = device_memory;
      break;
    }
    plan.planned_bytes = compiled.planned, plan.host_bytes = compiled.host, plan.process_bytes = compiled.process();
    plan.compile_seconds = compiled.workload.seconds;
    if (plan.process_bytes > limits.memory)
      plan.refusal = "does not fit: needs " + format_size(plan.process_bytes) + " (" + format_size(compiled.planned) +
                     " planned, " + format_size(compiled.host) + " for data on the host, " +
                     format_size(kProcessBytes) + " for the process), and the sweep has " + format_size(limits.memory);
    else if (limits.time)
      plan.step_seconds = step_seconds_of(preparation, compiled.workload);
  } catch (const Error& error) {
    plan.refusal = error.what();
  }
  return plan;
}

}  // namespace ramet::sweep
