#include <CLI/CLI.hpp>
#include <cstdio>
#include <numeric>

#include "ramet/base/clock.h"
#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/layout_search.h"
#include "ramet/kernel/devices.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/probe.h"
#include "ramet/recipe/plan_recipe.h"
#include "ramet/report/devices.h"
#include "ramet/report/layout.h"
#include "ramet/report/memory.h"
#include "ramet/report/sparse.h"
#include "ramet/sim/program_time.h"
#include "ramet/sim/shared_processors.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_log.h"
#include "ramet/train/facts.h"
#include "ramet/train/row_window.h"
#include "ramet/train/run_files.h"
#include "ramet/transport/process.h"

namespace ramet::cli {
namespace {

struct PlanArguments : ModelOptions {
  std::string recipe, svg, schedule_svg, save;
  bool no_time = false, as_ranks = false, keep = false;
  SearchArguments search;
  std::vector<std::string> command;
};

/// The time of a step, and the machine that was assumed.
struct PlannedTime {
  Machine machine;
  Simulation simulation;
};

/// Keeps the plan as a run that was only planned: `ramet runs` and the page show it beside runs.
std::filesystem::path keep_plan(const PlanArguments& arguments, const Preparation& preparation,
                                const CompiledWorkload& compiled, const HostBytes& host,
                                const std::optional<PlannedTime>& time) {
  const std::string& kernel_class = compiled.stages[0].kernel_class;
  const RunDirectory directory =
      RunDirectory::create(arguments.runs, {preparation.recipe.name, print_recipe(preparation.recipe),
                                            arguments.command, kernel_class, compiled.stages[0].threads});
  const RunPrograms programs{compiled.stages, preparation.layout, compiled.seconds};
  write_file_atomic(directory.plan(), plan_json(programs));
  write_file_atomic(directory.liveness(), liveness_json(programs));
  write_file_atomic(directory.program(), program_json(programs));
  if (time)
    write_file_atomic(directory.times(), predicted_times_json(programs, time->simulation.seconds, time->machine));
  JsonLine end;
  end.set("event", "end")
      .set("status", "planned")
      .set("layout", print_layout(preparation.layout))
      .set("devices", static_cast<int64_t>(preparation.layout.devices()))
      .set("planned_bytes", programs.planned_bytes())
      .set("planned_host_bytes", host.total())
      .set("compile_seconds", compiled.seconds)
      .set("time", seconds_since_1970());
  if (time) end.set("step_seconds", time->simulation.seconds);
  RunLogWriter log(directory.log());
  log.event(end.text());
  if (!log.flush())
    throw Error(
        {.what = "the plan's log could not be written (" + log.problem() + ")", .where = directory.path().string()},
        ErrorKind::kFailure);
  return directory.path();
}

/// The machine whose figures stand in for devices that are not here, and a word of it.
Machine stand_in() {
  const DeviceEntry& device = find_device();
  std::fprintf(stderr, "ramet: there is no %s device here: the time is predicted for the machine %s\n",
               std::string(device.name).c_str(), std::string(device.machine).c_str());
  return load_machine(std::string(device.machine));
}

/// Time of a step of all devices on the machine; absent: on this machine, whose processors they share; none for layouts
/// that are too large to run here.
std::optional<PlannedTime> time_of(const CompiledWorkload& compiled, const Preparation& preparation,
                                   const std::optional<Machine>& machine, bool as_ranks, bool json) {
  constexpr int kMostOfEach = 8;  // devices' threads a processor
  const Layout& layout = preparation.layout;
  const SimulationOptions how{.streams_to_files = layout.streams_to_files()};
  if (machine) return PlannedTime{*machine, simulate(compiled.stages, *machine, how)};
  if (!find_device().is_here()) {
    Machine known = stand_in();
    Simulation simulation = simulate(compiled.stages, known, how);
    return PlannedTime{std::move(known), std::move(simulation)};
  }
  if (layout.devices() * compiled.stages[0].threads > kMostOfEach * available_processors()) return std::nullopt;
  if (!json) std::fputs("measuring this machine ...\n", stderr);
  const RealBatch real = real_batch(preparation.workload.train.get(), preparation.options.micro_batch);
  Machine local = local_machine(compiled.stages, layout, as_ranks, real.views);
  Simulation simulation = simulate_sharing(compiled.stages, local, how);
  return PlannedTime{std::move(local), std::move(simulation)};
}

/// Host memory of a process of the layout's, which has all its devices where nothing else is said.
std::pair<HostBytes, int> host_of(const Preparation& preparation, const CompiledWorkload& compiled, bool as_ranks) {
  const Layout& layout = preparation.layout;
  std::vector<int> devices(static_cast<size_t>(layout.per_process > 0 ? layout.per_process
                                               : as_ranks             ? 1
                                                                      : layout.devices()));
  std::iota(devices.begin(), devices.end(), 0);
  HostBytes host = host_memory(preparation.workload, preparation.options, compiled.stages, devices);
  if (layout.offload.rows)
    host.tables += make_row_window(preparation.workload, preparation.options, layout, "layout", 1).host_bytes(layout);
  return {host, static_cast<int>(devices.size())};
}

void tell_kept(const std::filesystem::path& kept) {
  if (!kept.empty()) std::printf("plan %s\n", kept.c_str());
}

/// Many devices, one that streams, or another machine's: what each holds and moves, and the schedule.
int plan_layout(const PlanArguments& arguments, const Preparation& preparation, bool json) {
  if (!arguments.save.empty())
    throw Error({.what = "one file holds the program of one device of this machine with all in its memory",
                 .where = "--save",
                 .found = "'" + preparation.recipe.layout + "'" +
                          (arguments.search.machine.empty() ? "" : " on " + arguments.search.machine),
                 .expected = "p, t, r and phases of 1, no offload, and no --machine"});
  std::optional<Machine> machine;
  if (!arguments.search.machine.empty()) {
    machine = load_machine(arguments.search.machine);
    check_devices(*machine, preparation.layout.mesh());
  }
  const CompiledWorkload compiled = machine ? compile_recipe(preparation, *machine, arguments.where())
                                            : compile_recipe(preparation, arguments.where());
  const LayoutReport schedule =
      layout_report(preparation.layout, layout_facts(preparation.workload.model, preparation.options), compiled.stages);
  DevicesReport devices = devices_report(compiled.stages, schedule.layout, schedule.outcome.bubble);
  std::optional<PlannedTime> time;
  if (!arguments.no_time) time = time_of(compiled, preparation, machine, arguments.as_ranks, json);
  if (time) devices.time = time->simulation;
  if (!arguments.svg.empty()) write_file_atomic(arguments.svg, memory_svg(compiled.stages));
  if (!arguments.schedule_svg.empty())
    write_file_atomic(arguments.schedule_svg, svg_of(schedule.table, schedule.times));
  const std::string& units = preparation.workload.units.name;
  int64_t most = 0;
  for (const auto& stage : devices.stages) most = std::max(most, stage.planned_bytes);
  const auto [host, host_devices] = host_of(preparation, compiled, arguments.as_ranks);
  std::filesystem::path kept;
  if (arguments.keep) kept = keep_plan(arguments, preparation, compiled, host, time);
  if (json) {
    JsonLine line;
    if (devices.time)
      line.set("step_seconds", devices.time->seconds)
          .set(units + "_per_second", static_cast<double>(preparation.units_per_step()) / devices.time->seconds);
    if (!devices.activations.empty()) line.set("activations", devices.activations);
    if (!devices.given_up.empty()) line.set("given_up", devices.given_up);
    line.set("event", "end")
        .set("name", preparation.recipe.name)
        .set("parameters", preparation.workload.model.parameters())
        .set("planned_bytes", most)
        .set("planned_host_bytes", host.total())
        .set("compile_seconds", compiled.seconds)
        .set("threads", static_cast<int64_t>(compiled.stages[0].threads))
        .set("kernel_class", compiled.stages[0].kernel_class)
        .set(units + "_per_step", preparation.units_per_step())
        .set("bubble", devices.bubble_of_step())
        .set_json("sparse", sparse_json(preparation.workload.model))
        .set_json("layout", json_of(schedule))
        .set_json("devices", json_of(devices))
        .set_json("host", json_of(host, host_devices));
    if (!kept.empty()) line.set("run_directory", kept.string());
    line.print();
    return 0;
  }
  std::printf("%s: %s parameters, %s %s a step; compiled in %s for %d threads a device\n",
              preparation.recipe.name.c_str(),
              number_text(static_cast<double>(preparation.workload.model.parameters())).c_str(),
              number_text(static_cast<double>(preparation.units_per_step())).c_str(), units.c_str(),
              duration_text(compiled.seconds).c_str(), compiled.stages[0].threads);
  std::fputs(sparse_text(preparation.workload.model).c_str(), stdout);
  std::printf("%s%s\n%s", text_of(devices).c_str(), text_of(host, host_devices).c_str(), text_of(schedule).c_str());
  tell_kept(kept);
  return 0;
}

int plan(const PlanArguments& arguments, bool json) {
  if (is_automatic_layout(arguments.layout) && arguments.keep)
    throw Error({.what = "a search has many plans",
                 .where = "--keep",
                 .found = "--layout " + arguments.layout,
                 .remedy = "Keep the plan of the layout that the search finds"});
  if (is_automatic_layout(arguments.layout)) return plan_search(arguments.recipe, arguments, arguments.search, json);
  const Preparation preparation = prepare(open_recipe(arguments.recipe, arguments));
  const Recipe& recipe = preparation.recipe;
  tell_before(preparation.workload);
  if (!preparation.layout.is_single() || !arguments.search.machine.empty())
    return plan_layout(arguments, preparation, json);
  if (!arguments.schedule_svg.empty()) {
    const LayoutReport report =
        layout_report(preparation.layout, layout_facts(preparation.workload.model, preparation.options));
    write_file_atomic(arguments.schedule_svg, svg_of(report.table, report.times));
  }
  const CompiledWorkload compiled = compile_recipe(preparation, arguments.where());
  const Executable& exe = compiled.stages[0];
  const double compile_seconds = compiled.seconds;
  // What a process has beside its arena, taken from this one: the program, its libraries, the data it has open.
  const HostBytes host = host_of(preparation, compiled, false).first;
  const bool own_memory = find_device().has_own_memory();
  const int64_t process_bytes = (own_memory ? 0 : exe.planned_bytes()) + host.total() + resident_bytes();
  double step_seconds = 0, after_steps = 0;
  std::optional<PlannedTime> time;
  if (!arguments.no_time && !find_device().is_here()) {
    time = time_of(compiled, preparation, std::nullopt, false, json);
    step_seconds = time->simulation.seconds;
    after_steps = mean_seconds_after_steps(exe, time->machine);
  } else if (!arguments.no_time) {
    if (!json) std::fputs("measuring this machine ...\n", stderr);
    const RealBatch real = real_batch(preparation.workload.train.get(), preparation.options.micro_batch);
    Machine local = local_machine(exe, find_device().backend(), 1.5, {}, real.views);
    step_seconds = predict_step_seconds(exe, local);
    after_steps = mean_seconds_after_steps(exe, local);
    Simulation simulation;
    simulation.seconds = step_seconds;
    time = PlannedTime{std::move(local), std::move(simulation)};
  }
  std::filesystem::path kept;
  if (arguments.keep) kept = keep_plan(arguments, preparation, compiled, host, time);
  const double total_seconds = (step_seconds + after_steps) * static_cast<double>(recipe.train.steps);
  const double done = static_cast<double>(preparation.units_per_step());
  const std::string& units = preparation.workload.units.name;
  const int64_t parameters = preparation.workload.model.parameters();
  if (!arguments.svg.empty()) write_file_atomic(arguments.svg, memory_svg(exe));
  if (!arguments.save.empty()) save_executable(exe, arguments.save);

  const MemoryReport memory = memory_report(exe);
  if (json) {
    JsonLine line;
    if (!exe.activations.empty()) line.set("activations", exe.activations);
    if (!exe.given_up.empty()) line.set("given_up", exe.given_up);
    line.set("event", "end")
        .set("name", recipe.name)
        .set("parameters", parameters)
        .set("planned_bytes", exe.planned_bytes())
        .set("planned_host_bytes", host.total())
        .set("process_bytes", process_bytes)
        .set("bound_bytes", exe.bound_bytes)
        .set("gap", exe.gap())
        .set("compile_seconds", compile_seconds)
        .set("threads", static_cast<int64_t>(exe.threads))
        .set("kernel_class", exe.kernel_class)
        .set(units + "_per_step", preparation.units_per_step());
    if (!arguments.no_time)
      line.set("step_seconds", step_seconds)
          .set(units + "_per_second", done / step_seconds)
          .set("total_seconds", total_seconds);
    if (!kept.empty()) line.set("run_directory", kept.string());
    line.set_json("sparse", sparse_json(preparation.workload.model));
    line.set_json("memory", json_of(memory)).set_json("host", json_of(host, 1)).print();
    return 0;
  }
  std::printf("%s: %s parameters, %s %s a step, %lld steps\n", recipe.name.c_str(),
              number_text(static_cast<double>(parameters)).c_str(), number_text(done).c_str(), units.c_str(),
              static_cast<long long>(recipe.train.steps));
  std::fputs(sparse_text(preparation.workload.model).c_str(), stdout);
  std::printf("compiled in %s for %d threads, kernels %s\n\n", duration_text(compile_seconds).c_str(), exe.threads,
              exe.kernel_class.c_str());
  std::fputs((text_of(memory) + "\n" + text_of(host, 1)).c_str(), stdout);
  if (own_memory) std::printf("\nbeside device memory: %s\n", std::string(find_device().beside).c_str());
  if (!exe.activations.empty()) std::printf("\nactivations, chosen to fit: %s\n", exe.activations.c_str());
  if (!exe.given_up.empty()) std::printf("\ngiven up to fit: %s\n", exe.given_up.c_str());
  std::printf("\nprocess: %s at its peak\n", format_size(process_bytes).c_str());
  if (!arguments.no_time)
    std::printf("time: about %s a step, %s %s/s, %s in all\n", duration_text(step_seconds).c_str(),
                number_text(done / step_seconds).c_str(), units.c_str(), duration_text(total_seconds).c_str());
  tell_kept(kept);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Compile a recipe and say what memory and time it takes, without running it");
  command->add_option("recipe", arguments->recipe, "file of the recipe")->type_name("RECIPE")->required();
  add_model_options(*command, *arguments);
  add_layout_option(*command, *arguments);
  command->add_option("--svg", arguments->svg, "draw the memory over the time of a step")->type_name("FILE");
  command->add_option("--schedule-svg", arguments->schedule_svg, "draw what every stage of the layout does when")
      ->type_name("FILE");
  command->add_option("--save", arguments->save, "keep the compiled program, for `ramet inspect executable`")
      ->type_name("FILE");
  command->add_flag("--keep", arguments->keep,
                    "keep the plan in the folder of runs, so that `ramet runs` and `ramet serve` show it beside runs");
  add_runs_option(*command, arguments->runs);
  command->add_flag("--as-ranks", arguments->as_ranks,
                    "predict the time of a layout whose devices are ranks of mpirun");
  command->add_flag("--no-time", arguments->no_time, "memory only: does not measure this machine's speed");
  add_search_options(*command, arguments->search);
  add_json_option(*command, session);
  command->footer(
      "--layout auto searches: it prints the layouts that fit, their time and memory, and why not others.\n"
      "Keys beside it stay as they are (--layout \"auto p=4 t=1\"). A recipe without train.micro_batch leaves\n"
      "that open, too: the samples of a step stay the same. Ctrl-C ends the search with the best so far.");
  command->callback([arguments, &session] {
    session.action = [arguments, &session] {
      arguments->command = session.command;
      return plan(*arguments, session.json);
    };
  });
}

}  // namespace ramet::cli
