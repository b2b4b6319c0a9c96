#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/front/open_model.h"
#include "ramet/ir/text.h"
#include "ramet/model/model_file.h"
#include "ramet/model/model_text.h"
#include "ramet/report/memory.h"
#include "ramet/track/run_record.h"
#include "ramet/train/step.h"

namespace ramet::cli {
namespace {

struct InspectArguments : ModelOptions {
  std::string subject, model, part = "all";
  bool dot = false, verify = false, instructions = false, program = false;
};

int inspect_graph(const InspectArguments& arguments) {
  StepGraph step;
  std::error_code error;
  if (!arguments.subject.ends_with(".toml") && std::filesystem::is_regular_file(arguments.subject, error)) {
    const Graph graph = parse_graph(read_file(arguments.subject), arguments.subject);
    std::fputs((arguments.dot ? print_dot(graph) : print(graph)).c_str(), stdout);
    return 0;
  }
  const Preparation preparation = prepare(open_recipe(arguments.subject, arguments));
  if (arguments.part == "forward") {
    std::fputs(
        (arguments.dot ? print_dot(preparation.workload.model.forward) : print(preparation.workload.model.forward))
            .c_str(),
        stdout);
    return 0;
  }
  step = make_training_step(preparation.workload.model, with_order_of_sums(preparation.options, preparation.layout));
  if (arguments.part == "all" && !arguments.dot) {
    std::fputs(print(step).c_str(), stdout);
    return 0;
  }
  const StepProgram* program = step.find_program(arguments.part);
  if (!program && arguments.part != "micro" && arguments.part != "update" && arguments.part != "all") {
    std::vector<std::string> known = {"all", "forward", "micro", "update"};
    for (const StepProgram& each : step.programs) known.push_back(each.name);
    throw Error({.what = "the step has no such graph",
                 .where = "--part",
                 .found = "'" + arguments.part + "'",
                 .expected = fmt::format("{}", fmt::join(known, ", "))});
  }
  const Graph& graph = program ? program->graph : arguments.part == "update" ? step.update : step.micro;
  std::fputs((arguments.dot ? print_dot(graph) : print(graph)).c_str(), stdout);
  return 0;
}

int inspect_model(const InspectArguments& arguments, bool json) {
  const auto [model, units] = open_model(arguments.subject);
  const std::vector<InputSpec> inputs = checked_inputs(model);
  if (json) {
    JsonLine line;
    std::vector<std::string> names, programs, metrics;
    for (const InputSpec& input : inputs) names.push_back(input.name + " " + input.type.text());
    for (const NamedGraph& program : model.programs) programs.push_back(program.name);
    for (const Metric& metric : model.metrics) metrics.push_back(metric.name);
    line.set("name", model.name)
        .set("identity", model.identity().hex())
        .set("parameters", model.parameters())
        .set("inputs", names)
        .set("weights", static_cast<int64_t>(model.weights.size()))
        .set("states", static_cast<int64_t>(model.states.size()))
        .set("metrics", metrics)
        .set("programs", programs)
        .set("units", units.name)
        .print();
    return 0;
  }
  std::printf("# %s parameters, identity %s\n%s", number_text(static_cast<double>(model.parameters())).c_str(),
              model.identity().hex().c_str(), print_model(model, units).c_str());
  return 0;
}

void print_instructions(const Executable& exe, const Segment& segment) {
  if (segment.instructions.empty()) return;
  std::vector<std::vector<std::string>> rows = {{segment.name, "op", "kernel", "result", "at", "bytes", "of"}};
  for (const auto& instruction : segment.instructions) {
    const bool copies = instruction.call < 0;
    const Call* call = copies ? nullptr : &exe.calls[static_cast<size_t>(instruction.call)];
    const Buffer* out =
        instruction.outputs.empty() ? nullptr : &exe.buffers[static_cast<size_t>(instruction.outputs[0])];
    rows.push_back({instruction.name, copies ? "copy" : call->node.op->name, copies ? "" : call->kernel,
                    copies || call->node.outputs.empty() ? "" : call->node.outputs[0].text(),
                    out ? std::to_string(out->offset) : "", out ? std::to_string(out->bytes) : "", instruction.origin});
  }
  std::fputs((table_text(rows) + "\n").c_str(), stdout);
}

void print_program(const Executable& exe) {
  std::vector<std::vector<std::string>> rows = {{"superstep", "program", "what"}};
  for (const Program& program : exe.programs)
    for (const ProgramStep& step : program.steps)
      rows.push_back({std::to_string(step.superstep), program.name, exe.text_of(step)});
  std::fputs(("\n" + table_text(rows)).c_str(), stdout);
}

int inspect_executable(const InspectArguments& arguments, bool json) {
  Executable exe;
  if (arguments.subject.ends_with(".toml")) {
    const Preparation preparation = prepare(open_recipe(arguments.subject, arguments));
    if (!preparation.layout.is_single())
      throw Error({.what = "the layout has many programs",
                   .where = layout_source(preparation.recipe),
                   .found = "'" + preparation.recipe.layout + "'",
                   .expected = "p, t, r and phases of 1, and no offload",
                   .remedy = "`ramet plan --layout` shows what each device does"});
    exe = std::move(compile_recipe(preparation, arguments.where()).stages[0]);
  } else {
    exe = load_executable(arguments.subject);
  }
  const MemoryReport memory = memory_report(exe);
  if (json) {
    JsonLine line;
    line.set("key", exe.key.hex())
        .set("kernel_class", exe.kernel_class)
        .set("threads", static_cast<int64_t>(exe.threads))
        .set("lanes", exe.lanes)
        .set("micro_batches_per_lane", exe.micro_batches_per_lane)
        .set("buffers", static_cast<int64_t>(exe.buffers.size()))
        .set("tasks", static_cast<int64_t>(exe.calls.size()));
    for (const auto& segment : exe.segments)
      line.set(segment.name + "_instructions", static_cast<int64_t>(segment.instructions.size()));
    line.set_json("memory", json_of(memory)).print();
    return 0;
  }
  std::printf("executable %s\nkernels %s, %d threads, %lld lanes of %lld micro-batches%s\n", exe.key.hex().c_str(),
              exe.kernel_class.c_str(), exe.threads, static_cast<long long>(exe.lanes),
              static_cast<long long>(exe.micro_batches_per_lane), exe.joined ? ", micro and update joined" : "");
  for (const auto& segment : exe.segments)
    if (!segment.instructions.empty())
      std::printf("  %s: %zu instructions\n", segment.name.c_str(), segment.instructions.size());
  std::printf("  %zu calls, %zu buffers, %zu states\n\n", exe.calls.size(), exe.buffers.size(), exe.states.size());
  std::fputs(text_of(memory).c_str(), stdout);
  if (arguments.program) print_program(exe);
  if (arguments.instructions) {
    std::fputs("\n", stdout);
    for (const auto& segment : exe.segments) print_instructions(exe, segment);
  }
  return 0;
}

int inspect_checkpoint(const InspectArguments& arguments, bool json) {
  std::filesystem::path path = arguments.subject;
  std::error_code error;
  if (!std::filesystem::exists(path / "manifest.json", error)) {
    const auto run = find_run(arguments.subject, arguments.runs);
    const auto all = list_checkpoints(run / "checkpoints");
    if (all.empty()) throw Error({.what = "the run has no checkpoint", .where = run.string()});
    if (!path.filename().string().starts_with("step-")) path = all.back();
  }
  const Checkpoint checkpoint(path);
  if (arguments.verify) checkpoint.verify();
  const CheckpointInfo& info = checkpoint.info();
  if (json) {
    JsonLine()
        .set("path", path.string())
        .set("step", info.step)
        .set("samples", info.samples)
        .set("recipe_hash", info.recipe_hash)
        .set("data_hash", info.data_hash)
        .set("kernel_class", info.kernel_class)
        .set("version", info.version)
        .set("weights_hash", info.weights_hash)
        .set("tensors", static_cast<int64_t>(checkpoint.tensors().size()))
        .set("bytes", checkpoint.bytes())
        .set("verified", arguments.verify)
        .print();
    return 0;
  }
  std::printf("checkpoint %s\nstep %lld, %lld samples; %zu tensors, %s\n", path.c_str(),
              static_cast<long long>(info.step), static_cast<long long>(info.samples), checkpoint.tensors().size(),
              format_size(checkpoint.bytes()).c_str());
  std::printf("weights %s\nrecipe %s, kernels %s, Ramet %s\n", info.weights_hash.c_str(), info.recipe_hash.c_str(),
              info.kernel_class.c_str(), info.version.c_str());
  if (arguments.verify) std::printf("every checksum holds\n");
  std::vector<std::vector<std::string>> rows = {{"tensor", "type", "kind", "file"}};
  for (const auto& tensor : checkpoint.tensors())
    rows.push_back({tensor.name, tensor.type.text(), std::string(name_of(tensor.kind)), tensor.file});
  std::fputs(("\n" + table_text(rows)).c_str(), stdout);
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* inspect = app.add_subcommand("inspect", "Look inside: model, graph, executable, checkpoint");
  inspect->require_subcommand(0, 1);
  inspect->add_option("model", arguments->model, "a model's file: the same as `ramet inspect model FILE`")
      ->type_name("FILE.ramet");
  inspect->callback([arguments, inspect, &session] {
    if (!inspect->get_subcommands().empty()) return;
    if (arguments->model.empty())
      throw Error({.what = "nothing to look at",
                   .where = "inspect",
                   .remedy = "`ramet inspect --help` lists what can be named"});
    arguments->subject = arguments->model;
    session.action = [arguments] { return inspect_model(*arguments, false); };
  });

  CLI::App* model =
      inspect->add_subcommand("model", "A model's file: its inputs, states, metrics, programs and graphs");
  model->add_option("subject", arguments->subject, "a file that save_model or `ramet export` wrote")
      ->type_name("FILE.ramet")
      ->required();
  add_json_option(*model, session);
  model->callback([arguments, &session] {
    session.action = [arguments, &session] { return inspect_model(*arguments, session.json); };
  });

  CLI::App* graph =
      inspect->add_subcommand("graph", "The graphs of a recipe's training step, or a file of a graph's text, checked");
  graph->add_option("subject", arguments->subject, "a recipe (*.toml) or a file with a graph's text")
      ->type_name("RECIPE|FILE")
      ->required();
  graph
      ->add_option("--part", arguments->part,
                   "which graph: all, forward (the model as it was built), micro, update, or a program's name")
      ->type_name("all|forward|micro|update|PROGRAM")
      ->capture_default_str();
  graph->add_flag("--dot", arguments->dot, "as Graphviz (all: micro alone)");
  add_model_options(*graph, *arguments);
  graph->callback([arguments, &session] { session.action = [arguments] { return inspect_graph(*arguments); }; });

  CLI::App* executable = inspect->add_subcommand("executable", "A compiled program: its instructions and memory");
  executable->add_option("subject", arguments->subject, "a recipe (*.toml) or a file of `ramet plan --save`")
      ->type_name("RECIPE|FILE")
      ->required();
  executable->add_flag("--instructions", arguments->instructions,
                       "every instruction with its kernel and the address of its result");
  executable->add_flag("--program", arguments->program, "every step of the programs: what runs for which micro-batch");
  add_model_options(*executable, *arguments);
  add_json_option(*executable, session);
  executable->callback([arguments, &session] {
    session.action = [arguments, &session] { return inspect_executable(*arguments, session.json); };
  });

  CLI::App* checkpoint = inspect->add_subcommand("checkpoint", "What a checkpoint holds");
  checkpoint->add_option("subject", arguments->subject, "a checkpoint's folder, or a run (its newest)")
      ->type_name("CHECKPOINT|RUN")
      ->required();
  checkpoint->add_flag("--verify", arguments->verify, "read every byte and check every checksum");
  add_runs_option(*checkpoint, arguments->runs);
  add_json_option(*checkpoint, session);
  checkpoint->callback([arguments, &session] {
    session.action = [arguments, &session] { return inspect_checkpoint(*arguments, session.json); };
  });
}

}  // namespace ramet::cli
