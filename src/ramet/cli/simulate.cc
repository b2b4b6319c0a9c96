#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "ramet/base/clock.h"
#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/probe.h"
#include "ramet/report/perfetto.h"
#include "ramet/report/simulation.h"
#include "ramet/sim/shared_processors.h"
#include "ramet/train/feeds.h"

namespace ramet::cli {
namespace {

struct SimulateArguments : ModelOptions {
  std::string recipe, machine = "local", trace, svg;
};

/// Reports before the work starts that a file cannot be written afterwards.
void check_target(const std::string& option, const std::string& file) {
  if (file.empty()) return;
  const auto folder = std::filesystem::absolute(file).parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw Error({.what = "the file cannot be written: its folder does not exist",
                 .where = option,
                 .found = "'" + file + "'",
                 .expected = "a file in an existing folder"});
  if (std::filesystem::is_directory(file, error))
    throw Error({.what = "the file cannot be written: there is a folder of this name",
                 .where = option,
                 .found = "'" + file + "'"});
}

int simulate(const SimulateArguments& arguments, bool json) {
  check_target("--trace", arguments.trace);
  check_target("--svg", arguments.svg);
  const Preparation preparation = prepare(open_recipe(arguments.recipe, arguments));
  tell_before(preparation.workload);
  const bool local = arguments.machine == "local";
  Machine machine;
  if (!local) {
    machine = load_machine(arguments.machine);
    check_devices(machine, preparation.layout.mesh());
  }
  if (!json) std::fputs("compiling ...\n", stderr);
  const CompiledWorkload compiled =
      local ? compile_recipe(preparation, arguments.where()) : compile_recipe(preparation, machine, arguments.where());
  if (local) {
    if (!json) std::fputs("measuring this machine ...\n", stderr);
    const RealBatch real = real_batch(preparation.workload.train.get(), preparation.options.micro_batch);
    machine = local_machine(compiled.stages, preparation.layout, false, real.views);
  }
  const auto start = std::chrono::steady_clock::now();
  const SimulationOptions options{.streams_to_files = preparation.layout.streams_to_files(),
                                  .timelines = !arguments.trace.empty() || !arguments.svg.empty()};
  const Simulation simulation =
      local ? simulate_sharing(compiled.stages, machine, options) : sim::simulate(compiled.stages, machine, options);
  const double seconds = seconds_since(start);
  const std::string layout = print_layout(preparation.layout),
                    title = preparation.recipe.name + " on " + machine.name + ", layout " + layout;
  if (!arguments.trace.empty()) write_file_atomic(arguments.trace, perfetto_trace(simulation));
  if (!arguments.svg.empty()) write_file_atomic(arguments.svg, timeline_svg(simulation, title));
  const std::string& units = preparation.workload.units.name;
  const auto done = static_cast<double>(preparation.units_per_step()),
             samples = static_cast<double>(preparation.samples_per_step());
  if (json) {
    JsonLine()
        .set("event", "end")
        .set("name", preparation.recipe.name)
        .set("machine", machine.name)
        .set("machine_devices", static_cast<int64_t>(machine.devices))
        .set("layout", layout)
        .set("samples_per_second", samples / simulation.seconds)
        .set(units + "_per_second", done / simulation.seconds)
        .set("compile_seconds", compiled.seconds)
        .set("simulate_seconds", seconds)
        .set_json("simulation", json_of(simulation, compiled.stages))
        .print();
    return 0;
  }
  std::printf("%s\n%d of %d devices; compiled in %s, simulated in %s (%lld events of %zu devices that differ)\n\n",
              title.c_str(), simulation.devices, std::max(simulation.devices, machine.devices),
              duration_text(compiled.seconds).c_str(), duration_text(seconds).c_str(),
              static_cast<long long>(simulation.events), simulation.timelines.size());
  std::fputs(text_of(simulation, compiled.stages).c_str(), stdout);
  std::printf("\nstep: %.4g s, %s samples/s, %s %s/s\n", simulation.seconds,
              number_text(samples / simulation.seconds).c_str(), number_text(done / simulation.seconds).c_str(),
              units.c_str());
  std::printf("bubble: %.1f%% of it, devices wait for each other; matrix products at %.1f%% of the peak\n",
              100 * simulation.bubble, 100 * simulation.share_of_peak);
  return 0;
}

}  // namespace

void add_simulate(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Compile a recipe for a machine, which need not be here, and play a step of all its devices");
  command->add_option("recipe", arguments->recipe, "file of the recipe")->type_name("RECIPE")->required();
  command
      ->add_option("--machine", arguments->machine,
                   "name of a machine, or a TOML file (docs/machines.md); local: this one, measured now")
      ->type_name("local|MACHINE")
      ->capture_default_str();
  add_model_options(*command, *arguments);
  add_layout_option(*command, *arguments);
  command->add_option("--trace", arguments->trace, "write what every device does when, for ui.perfetto.dev")
      ->type_name("FILE.pftrace");
  command->add_option("--svg", arguments->svg, "draw the same")->type_name("FILE");
  add_json_option(*command, session);
  command->footer(
      "Prints where the time of each stage's devices goes: they compute, exchange in collectives, wait for streaming\n"
      "memory, or wait for each other (the bubble); and what links and memories carry.");
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return simulate(*arguments, session.json); }; });
}

}  // namespace ramet::cli
