// Where the time of a training step goes, by kernel and by node, beside what was predicted.
// usage: profile [RECIPE.toml | MODULE.pt2] [--set a.b=c ...] [--steps N] [--threads N] [--nodes] [--recompute LEVEL]
//                [--low] [--micro-batch N]
// A recipe's step reads its first micro-batch, or its N-th from 0.
// A module (ramet.torch.save) trains with AdamW, clipping at 1 and products in bf16, on random samples; its integers
// are 1 to 9. With --low the program is that of Options(memory="low") of ramet.torch: nothing is clipped, and weights
// are updated in the backward pass.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ramet/api/contents.h"
#include "ramet/api/engine.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "ramet/measure/probe.h"
#include "ramet/program/compile.h"
#include "ramet/recipe/prepare.h"
#include "ramet/report/memory.h"
#include "ramet/runtime/engine.h"
#include "ramet/sim/step_time.h"
#include "ramet/sim/work_time.h"
#include "ramet/train/compile.h"
#include "ramet/train/initialize.h"
#include "ramet/train/sample_program.h"
#include "ramet/train/step.h"
#include "ramet/transport/process.h"

#include "ramet/import.h"

namespace {

using namespace ramet::bench;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct ProfileArguments {
  std::string recipe;
  std::vector<std::string> settings;
  int64_t steps = 3;
  int64_t micro_batch = 0;  ///< of the recipe's data
  bool nodes = false;
  bool low = false;
  CompileOptions compile;
};

ProfileArguments parse(int count, char** words) {
  ProfileArguments wanted;
  wanted.compile.threads = available_processors();
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto next = [&] { return std::string(i + 1 < count ? words[++i] : ""); };
    if (word == "--set")
      wanted.settings.push_back(next());
    else if (word == "--steps")
      wanted.steps = std::stoll(next());
    else if (word == "--threads")
      wanted.compile.threads = std::stoi(next());
    else if (word == "--recompute")
      wanted.compile.recompute = parse_recompute(next());
    else if (word == "--nodes")
      wanted.nodes = true;
    else if (word == "--micro-batch")
      wanted.micro_batch = std::stoll(next());
    else if (word == "--low")
      wanted.low = true;
    else
      wanted.recipe = word;
  }
  return wanted;
}

/// What is profiled: a model, how it is trained, and a batch of it.
struct Work {
  model::Model model;
  train::TrainOptions options;
  Batch batch;
  double samples = 0;  ///< or tokens, of a step
};

/// Random samples, without meaning: integers from 1 to 9.
Batch random_batch(const std::vector<model::InputSpec>& inputs) {
  Batch batch;
  std::mt19937 random(1);
  for (const model::InputSpec& input : inputs) {
    const TensorType& type = input.type;
    batch.tensors.push_back({input.name, type, {}});
    batch.tensors.back().bytes.resize(static_cast<size_t>(type.bytes()));
    std::byte* bytes = batch.tensors.back().bytes.data();
    for (int64_t i = 0; i < type.elements(); ++i) {
      if (type.dtype == DType::kF32) reinterpret_cast<float*>(bytes)[i] = std::normal_distribution<float>()(random);
      if (type.dtype == DType::kI64) reinterpret_cast<int64_t*>(bytes)[i] = 1 + random() % 9;
      if (type.dtype == DType::kI32) reinterpret_cast<int32_t*>(bytes)[i] = static_cast<int32_t>(1 + random() % 9);
      if (type.dtype == DType::kBool) bytes[i] = std::byte{1};
    }
  }
  return batch;
}

Work work_of_module(const std::string& path, bool low) {
  v0::TorchModule module_options;
  module_options.predicts = !low;
  const v0::Model module = v0::load_torch(path, module_options);
  v0::TrainOptions options;
  options.precision = v0::Precision::kBF16;
  options.max_gradient_norm = low ? 0 : 1;
  options.update_in_backward = low;
  const v0::Model::Contents& contents = module.contents();
  Work work{contents.engine, api::engine_options(options, contents), {}, 0};
  work.batch = random_batch(work.model.inputs);
  work.samples = static_cast<double>(contents.micro_batch);
  return work;
}

Work work_of_recipe(const ProfileArguments& wanted) {
  const Recipe recipe = wanted.recipe.empty()
                            ? parse_recipe("data.kind = \"synthetic\"\n", "settings", ".", wanted.settings)
                            : load_recipe(wanted.recipe, wanted.settings);
  const Preparation ready = prepare(recipe);
  const int64_t samples = ready.recipe.train.micro_batch;
  Batch batch = ready.workload.train->make(wanted.micro_batch * samples, samples);
  // A source may give tensors that the model does not read.
  std::erase_if(batch.tensors, [&](const NamedTensor& tensor) {
    return std::ranges::none_of(ready.workload.model.inputs,
                                [&](const model::InputSpec& input) { return input.name == tensor.name; });
  });
  return {ready.workload.model, ready.options, std::move(batch), static_cast<double>(ready.units_per_step())};
}

Executable compile_work(const Work& work, const ProfileArguments& wanted) {
  train::StepGraph step = make_training_step(work.model, work.options);
  if (!wanted.low) return compile(std::move(step), cpu_backend(), wanted.compile);
  train::Where where;
  where.threads = wanted.compile.threads;
  where.device_memory_share = 0.7;  // as python/ramet/torch/_options.py has it
  return std::move(train::compile_step(std::move(step), work.options, {}, where)[0]);
}

void set_weights(Engine& engine, uint64_t seed) {
  ThreadTeam team(engine.threads());
  for (const StatePlace& state : engine.executable().states) {
    if (state.tensor.kind == StateKind::kDerived) continue;
    engine.fill_state(state.tensor.name, state.tensor.type,
                      [&](std::span<std::byte> bytes) { initialize_as_held(state.tensor, seed, bytes, team); });
  }
  engine.run_derive();
}

struct StepSeconds {
  double best = 0, median = 0;
};

/// The first step warms up and is not counted.
StepSeconds run_steps(Engine& engine, const Batch& data, int64_t steps) {
  const Feed feed = [&](int64_t, int64_t, FeedSink& sink) {
    for (const NamedTensor& tensor : data.tensors) sink.set(tensor.name, tensor.type, tensor.bytes.data());
  };
  std::vector<ScalarValue> scalars;
  for (const Segment& segment : engine.executable().segments)
    for (const Binding& scalar : segment.scalars)
      if (scalar.name != "counter")
        scalars.push_back({scalar.name, scalar.name.starts_with("learning_rate") ? 1e-4 : 0.5});
  engine.run_step(0, feed, scalars);
  std::vector<double> all;
  engine.profile(true);
  for (int64_t step = 1; step <= steps; ++step) {
    const auto start = Clock::now();
    engine.run_step(step, feed, scalars);
    all.push_back(since(start));
  }
  engine.profile(false);
  std::sort(all.begin(), all.end());
  return {all.front(), all[all.size() / 2]};
}

/// Prints milliseconds of a step by op, predicted and measured, those that are furthest apart first.
void print_differences(const Engine& engine, const sim::WorkTimes& predicted, int64_t steps, size_t most) {
  struct Times {
    double predicted = 0, measured = 0;
  };
  std::map<std::string, Times> by_op;
  const Executable& exe = engine.executable();
  for (const ProgramStep& step : exe.train().steps) {
    if (step.kind != ProgramStep::Kind::kRun) continue;
    for (const Instruction& instruction : exe.segments[static_cast<size_t>(step.subject)].instructions)
      if (instruction.call >= 0)
        by_op[exe.calls[static_cast<size_t>(instruction.call)].node.op->name].predicted +=
            1e3 * predicted.seconds(instruction);
  }
  for (const ProfileRow& row : engine.profile_by_kernel())
    by_op[row.op].measured += 1e3 * row.seconds / static_cast<double>(steps);
  std::vector<std::pair<std::string, Times>> ops(by_op.begin(), by_op.end());
  std::ranges::sort(ops, std::greater(),
                    [](const auto& op) { return std::abs(op.second.predicted - op.second.measured); });
  std::printf("ms a step: predicted  measured\n");
  for (size_t i = 0; i < std::min(most, ops.size()); ++i)
    std::printf("           %9.3f %9.3f  %s\n", ops[i].second.predicted, ops[i].second.measured, ops[i].first.c_str());
}

}  // namespace

int main(int count, char** words) try {
  const ProfileArguments wanted = parse(count, words);
  const Work work =
      wanted.recipe.ends_with(".pt2") ? work_of_module(wanted.recipe, wanted.low) : work_of_recipe(wanted);
  auto start = Clock::now();
  Executable compiled = compile_work(work, wanted);
  std::printf("compiled in %.2f s\n%s%s\n%s\n", since(start),
              compiled.activations.empty() ? "" : "activations: ", compiled.activations.c_str(),
              text_of(memory_report(compiled, wanted.nodes ? 400 : 5)).c_str());
  start = Clock::now();
  const std::vector<TensorView> views = views_of(work.batch.tensors);
  const Machine machine = local_machine(compiled, cpu_backend(), 1.5, {}, views);
  const StepTime predicted = predict_step(compiled, machine);
  std::printf("%s: %.0f GF/s f32, %.0f GF/s bf16, %.1f GB/s, %.2f us a call; known in %.2f s\n", machine.name.c_str(),
              machine.device.peak(DType::kF32) * 1e-9, machine.device.peak(DType::kBF16) * 1e-9,
              machine.bandwidth() * 1e-9, machine.device.overhead * 1e6, since(start));
  Engine engine(std::move(compiled), cpu_backend());
  set_weights(engine, 1);
  const StepSeconds measured = run_steps(engine, work.batch, wanted.steps);
  const double seconds = measured.best;
  std::printf(
      "predicted %.3f ms a step (%.0f%% of it from measured calls), measured %.3f ms: %+.1f%%; "
      "median %.3f ms: %+.1f%%\n",
      1e3 * predicted.seconds, 100 * predicted.measured_share, 1e3 * seconds, 100 * (predicted.seconds / seconds - 1),
      1e3 * measured.median, 100 * (predicted.seconds / measured.median - 1));
  std::printf("%.1f samples or tokens/s, %.1f GF/s in matrix products by the model's count\n", work.samples / seconds,
              work.model.flops_per_token * work.samples / seconds * 1e-9);
  std::printf("planned %s, peak resident %s\n\n", format_size(engine.executable().planned_bytes()).c_str(),
              format_size(measured_peak_bytes()).c_str());
  print_differences(engine, sim::WorkTimes(engine.executable(), machine), wanted.steps, 8);
  std::printf("\n%s", profile_text(wanted.nodes ? engine.profile_by_node() : engine.profile_by_kernel(), wanted.steps,
                                   wanted.nodes ? 400 : 40)
                          .c_str());
  return 0;
} catch (const std::exception& fault) {
  std::fprintf(stderr, "%s\n", fault.what());
  return 1;
}
