#include <CLI/CLI.hpp>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/report/layout.h"
#include "ramet/report/memory.h"
#include "ramet/runtime/probe.h"
#include "ramet/runtime/process.h"
#include "ramet/sim/step_time.h"

namespace ramet::cli {
namespace {

struct PlanArguments : ModelOptions {
  std::string recipe, svg, schedule_svg, save;
  bool no_time = false;
};

/// Several devices: their schedule. What each holds and how long it takes is planned for one device so far.
int plan_schedule(const Preparation& preparation, bool json) {
  const LayoutReport report = layout_report(preparation.layout, layout_facts(preparation.recipe));
  if (json)
    JsonLine().set("event", "end").set("name", preparation.recipe.name).set_json("layout", json_of(report)).print();
  else
    std::fputs(text_of(report).c_str(), stdout);
  warn("this version plans the memory and the time of one device only: of this layout, the schedule");
  return 0;
}

int plan(const PlanArguments& arguments, bool json) {
  const Preparation preparation = prepare(open_recipe(arguments.recipe, arguments));
  const Recipe& recipe = preparation.recipe;
  for (const auto& remark : preparation.remarks) warn(remark);
  if (!arguments.schedule_svg.empty()) {
    const LayoutReport report = layout_report(preparation.layout, layout_facts(recipe));
    write_file_atomic(arguments.schedule_svg, svg_of(report.table, report.times));
  }
  if (!preparation.layout.is_single()) {
    if (!arguments.svg.empty() || !arguments.save.empty()) refuse_several_devices(preparation);
    return plan_schedule(preparation, json);
  }
  const Executable exe = compile_step(preparation, arguments.trainer());
  double compile_seconds = 0;
  for (const auto& [pass, seconds] : exe.pass_seconds) compile_seconds += seconds;
  // What a process has beside its arena, taken from this one: the program, its libraries, the data it has open.
  const int64_t process_bytes = exe.planned_bytes() + resident_bytes();
  double step_seconds = 0;
  if (!arguments.no_time) {
    if (!json) std::fputs("measuring this machine ...\n", stderr);
    step_seconds = predict_step_seconds(exe, local_machine(exe, cpu_backend()));
  }
  const double tokens = static_cast<double>(preparation.tokens_per_step());
  int64_t parameters = 0;
  for (const auto& weight : preparation.model.weights) parameters += weight.type.elements();
  if (!arguments.svg.empty()) write_file_atomic(arguments.svg, memory_svg(exe));
  if (!arguments.save.empty()) save_executable(exe, arguments.save);

  const MemoryReport memory = memory_report(exe);
  if (json) {
    JsonLine line;
    line.set("event", "end")
        .set("name", recipe.name)
        .set("parameters", parameters)
        .set("planned_bytes", exe.planned_bytes())
        .set("process_bytes", process_bytes)
        .set("bound_bytes", exe.bound_bytes)
        .set("gap", exe.gap())
        .set("compile_seconds", compile_seconds)
        .set("threads", static_cast<int64_t>(exe.threads))
        .set("kernel_class", exe.kernel_class)
        .set("tokens_per_step", preparation.tokens_per_step());
    if (!arguments.no_time)
      line.set("step_seconds", step_seconds)
          .set("tokens_per_second", tokens / step_seconds)
          .set("total_seconds", step_seconds * static_cast<double>(recipe.train.steps));
    line.set_json("memory", json_of(memory)).print();
    return 0;
  }
  std::printf("%s: %s parameters, %s tokens a step, %lld steps\n", recipe.name.c_str(),
              number_text(static_cast<double>(parameters)).c_str(), number_text(tokens).c_str(),
              static_cast<long long>(recipe.train.steps));
  std::printf("compiled in %s for %d threads, kernels %s\n\n", duration_text(compile_seconds).c_str(), exe.threads,
              exe.kernel_class.c_str());
  std::fputs(text_of(memory).c_str(), stdout);
  std::printf("\nprocess: %s at its peak\n", format_size(process_bytes).c_str());
  if (!arguments.no_time)
    std::printf("time: about %s a step, %s tokens/s, %s in all\n", duration_text(step_seconds).c_str(),
                number_text(tokens / step_seconds).c_str(),
                duration_text(step_seconds * static_cast<double>(recipe.train.steps)).c_str());
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
  command->add_flag("--no-time", arguments->no_time, "memory only: does not measure this machine's speed");
  add_json_option(*command, session);
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return plan(*arguments, session.json); }; });
}

}  // namespace ramet::cli
