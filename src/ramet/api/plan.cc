#include "ramet/api/engine.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/probe.h"
#include "ramet/plan.h"
#include "ramet/report/devices.h"
#include "ramet/report/memory.h"
#include "ramet/sim/shared_processors.h"
#include "ramet/sim/simulate.h"
#include "ramet/train/facts.h"

namespace ramet::api {

v0::MemoryPlan memory_of(std::span<const program::Executable> stages, const layout::Layout& layout) {
  v0::MemoryPlan memory;
  for (const auto& stage : stages) {
    memory.device_bytes.push_back(stage.planned_bytes());
    memory.streaming_bytes += stage.streaming_bytes * layout.devices() / layout.p;
  }
  memory.svg = layout.is_single() ? report::memory_svg(stages[0]) : report::memory_svg(stages);
  return memory;
}

}  // namespace ramet::api

namespace ramet::v0 {
namespace {

std::string seconds_text(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "time: about %.3g s a step\n", seconds);
  return text;
}

}  // namespace

Plan plan(const Model& model, const TrainOptions& options, const PlanOptions& how) {
  const model::Model engine = model::with_seed(model.contents().engine, static_cast<int64_t>(options.seed));
  const train::TrainOptions asked = api::engine_options(options, model.contents());
  train::Where where = api::engine_where(options.threads, options.device_memory, options.device);
  where.layout_source = "TrainOptions::layout";
  where.device_memory_share = options.device_memory_share;
  std::vector<std::string> remarks;
  const layout::Layout layout = train::fitted_layout(layout::parse_layout(options.layout, where.layout_source), engine,
                                                     asked, where.layout_source, remarks);
  std::optional<machine::Machine> machine;
  if (!how.machine.empty()) {
    machine = machine::load_machine(how.machine);
    sim::check_devices(*machine, layout.mesh());
  }
  const train::CompiledWorkload compiled = machine ? train::compile_workload(engine, asked, layout, *machine, where)
                                                   : train::compile_workload(engine, asked, layout, where);
  Plan plan;
  static_cast<MemoryPlan&>(plan) = api::memory_of(compiled.stages, layout);
  report::DevicesReport devices = report::devices_report(compiled.stages, layout::print_layout(layout), 0);
  if (how.time) {
    const sim::SimulationOptions simulated{.streams_to_files = layout.streams_to_files()};
    devices.time =
        machine ? sim::simulate(compiled.stages, *machine, simulated)
                : sim::simulate_sharing(compiled.stages, measure::local_machine(compiled.stages, layout), simulated);
    plan.step_seconds = devices.time->seconds;
  }
  plan.text =
      layout.is_single() ? report::text_of(report::memory_report(compiled.stages[0])) : report::text_of(devices);
  if (how.time && layout.is_single()) plan.text += seconds_text(plan.step_seconds);
  for (const std::string& remark : remarks) plan.text += remark + "\n";
  return plan;
}

}  // namespace ramet::v0
