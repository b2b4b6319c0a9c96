// Whole training steps of small models: what must not change a bit, and what was planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/layout/layout.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/probe.h"
#include "ramet/measure/rehearsal.h"
#include "ramet/program/compile.h"
#include "ramet/recipe/prepare.h"
#include "ramet/runtime/engine.h"
#include "ramet/sim/program_time.h"
#include "ramet/sim/step_time.h"
#include "ramet/train/step.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

struct Outcome {
  Hash weights;
  std::vector<double> losses;
  int64_t planned = 0;
};

Preparation small_model(const std::string& kind, std::vector<std::string> settings) {
  const std::vector<std::string> base = {"model.kind=" + kind,
                                         "model.layers=2",
                                         "model.hidden=32",
                                         "model.heads=2",
                                         kind == "bert" ? "model.intermediate=64" : "model.max_positions=32",
                                         "model.vocabulary_size=128",
                                         "data.sequence_length=16",
                                         "train.micro_batch=2"};
  settings.insert(settings.begin(), base.begin(), base.end());
  return prepare(parse_recipe("data.kind = \"synthetic\"\n", "test", ".", settings));
}

void initialize(Engine& engine) {
  for (const StatePlace& state : engine.executable().states) {
    if (state.tensor.kind != StateKind::kWeight) continue;
    HostTensor tensor(state.tensor.type);
    const RandomStream random(1, RandomPurpose::kInit, 0, hash64(state.tensor.name));
    const bool gain = state.tensor.init.kind == StateInit::Kind::kConstant;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, gain ? state.tensor.init.a : 0.05 * random.normal(static_cast<uint64_t>(i)));
    engine.write_state(state.tensor.name, tensor.type, tensor.data.data());
  }
  engine.run_derive();
}

Outcome train(const Preparation& ready, const Backend& backend, int threads, const std::string& recompute,
              int64_t steps, const WeightCopies& copies = {}, int64_t device_memory = 0) {
  CompileOptions options;
  options.threads = threads;
  options.recompute = parse_recompute(recompute);
  options.copies = copies, options.device_memory = device_memory;
  Engine engine(compile(make_training_step(ready.workload.model, ready.options), backend, options), backend);
  initialize(engine);
  Outcome run;
  run.planned = engine.executable().planned_bytes();
  const int64_t batch = ready.recipe.train.micro_batch;
  for (int64_t step = 0; step < steps; ++step) {
    const double beta1 = ready.recipe.train.optimizer.beta1, beta2 = ready.recipe.train.optimizer.beta2;
    const ScalarValue scalars[] = {{"learning_rate", 1e-3},
                                   {"correction1", 1 - std::pow(beta1, static_cast<double>(step + 1))},
                                   {"correction2", 1 - std::pow(beta2, static_cast<double>(step + 1))}};
    int64_t index = 0;  // the same samples in every step: there is something to learn
    const StepResults& results = engine.run_step(
        step,
        [&](int64_t, int64_t, FeedSink& sink) {
          const Batch data = ready.workload.train->make(batch * index++, batch);
          for (const NamedTensor& tensor : data.tensors) sink.set(tensor.name, tensor.type, tensor.bytes.data());
        },
        scalars);
    EXPECT_EQ(results.not_finite, "");
    run.losses.push_back(results.sum("loss") / static_cast<double>(engine.executable().micro_batches()));
  }
  run.weights = engine.weights_hash();
  return run;
}

class Models : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Models, BitsDependOnTheRecipeAlone) {
  const auto [kind, precision] = GetParam();
  const Preparation ready =
      small_model(kind, {std::string("train.precision=") + precision, "train.accumulation=3", "train.lanes=3"});
  const Outcome one = train(ready, cpu_backend(), 1, "none", 3);
  EXPECT_LT(one.losses.back(), one.losses.front());
  EXPECT_EQ(train(ready, cpu_backend(), 2, "none", 3).weights, one.weights) << "threads";
  EXPECT_EQ(train(ready, cpu_backend(), 3, "none", 3).weights, one.weights) << "threads";
  const int64_t some = std::ssize(ready.workload.model.weights) / 2;
  for (const WeightCopies& copies : {WeightCopies{some, 0}, WeightCopies{kAllWeights, 0}, WeightCopies{some, some},
                                     WeightCopies{kAllWeights, some}, WeightCopies{kAllWeights, kAllWeights}}) {
    const Outcome other = train(ready, cpu_backend(), 2, "none", 3, copies);
    EXPECT_EQ(other.weights, one.weights) << copies.unblocked << " unblocked, " << copies.remade << " remade";
  }
  for (const char* recompute : {"cheap", "layer", "layer:1", "all"}) {
    const Outcome other = train(ready, cpu_backend(), 2, recompute, 3);
    EXPECT_EQ(other.weights, one.weights) << recompute;
    EXPECT_EQ(other.losses, one.losses) << recompute;
  }
}

TEST(WeightCopies, DeviceMemoryTakesAsManyAsItMust) {
  const Preparation ready = small_model(
      "bert", {"train.precision=bf16", "train.accumulation=3", "train.lanes=3", "model.vocabulary_size=8192"});
  const auto under = [&](int64_t device_memory) {
    return train(ready, cpu_backend(), 2, "none", 2, {}, device_memory);
  };
  const Outcome one = under(0);
  const int64_t unblocked = train(ready, cpu_backend(), 2, "none", 1, {kAllWeights, 0}).planned;
  const int64_t remade = train(ready, cpu_backend(), 2, "none", 1, {kAllWeights, kAllWeights}).planned;
  ASSERT_LT(unblocked, one.planned);
  ASSERT_LT(remade, unblocked);
  for (const int64_t limit : {one.planned - 1, (one.planned + unblocked) / 2, unblocked, unblocked - 1, remade}) {
    const Outcome fitted = under(limit);
    EXPECT_EQ(fitted.weights, one.weights) << limit;
    EXPECT_LE(fitted.planned, limit);
  }
}

TEST_P(Models, JoinedStepsLearn) {
  const auto [kind, precision] = GetParam();
  const Preparation ready = small_model(kind, {std::string("train.precision=") + precision});
  const Outcome plain = train(ready, cpu_backend(), 2, "none", 4), again = train(ready, cpu_backend(), 1, "all", 4);
  EXPECT_EQ(plain.weights, again.weights);
  EXPECT_LT(plain.losses.back(), plain.losses.front());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Models,
                         testing::Combine(testing::Values("bert", "gpt2"), testing::Values("f32", "bf16")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

TEST(Probe, MeasuresTheFilesOfAFolder) {
  const TemporaryFolder folder;
  Machine machine = probe_machine(cpu_backend(), 1);
  ASSERT_TRUE(measure_files(machine, folder.path()));
  const MemoryKind* disk = machine.memory(MemoryRole::kDisk);
  ASSERT_NE(disk, nullptr);
  EXPECT_GT(disk->read, 1e6);
  EXPECT_GT(disk->write, 1e6);
  EXPECT_LE(std::max(disk->read, disk->write), machine.bandwidth());
  EXPECT_EQ(disk->devices, machine.devices);
  const Machine same = parse_machine(print_machine(machine), "test");
  EXPECT_EQ(print_machine(same), print_machine(machine));
  const double read = disk->read;
  ASSERT_TRUE(measure_files(machine, folder.path()));
  EXPECT_EQ(machine.memory(MemoryRole::kDisk)->read, read) << "what is known is not measured again";
  EXPECT_FALSE(measure_files(machine, folder.path() / "missing"));
  EXPECT_EQ(machine.memory(MemoryRole::kDisk), nullptr);
  EXPECT_NO_THROW(parse_machine(print_machine(machine), "test"));
}

TEST(Plans, RecomputeTakesLessMemoryAndPlacementMeetsTheBound) {
  const Preparation ready =
      prepare(parse_recipe("data.kind = \"synthetic\"\n", "test", ".",
                           std::vector<std::string>{"model.kind=bert", "model.preset=mini", "train.micro_batch=32"}));
  const StepGraph step = make_training_step(ready.workload.model, ready.options);
  int64_t before = INT64_MAX;
  for (const char* recompute : {"none", "cheap", "layer"}) {
    const Executable exe = compile(step, cpu_backend(), {.threads = 2, .recompute = parse_recompute(recompute)});
    EXPECT_LT(exe.planned_bytes(), before) << recompute;
    EXPECT_LE(exe.gap(), 0.01) << recompute;
    before = exe.planned_bytes();
  }
}

/// Rehearses with a budget that a busy machine needs, too: more is given where one round takes longer than two of it.
bool rehearse_in_time(Machine& machine, std::span<const Executable> stages, int beside,
                      bool between_processes = false) {
  for (const double seconds : {0.5, 5.0, 50.0})
    if (rehearse(machine, stages, cpu_backend(), seconds, beside, between_processes)) return true;
  return false;
}

TEST(Prediction, RestsOnMeasuredCalls) {
  const Preparation ready = small_model("bert", {});
  const Executable exe =
      compile(make_training_step(ready.workload.model, ready.options), cpu_backend(), {.threads = 1});
  Machine machine = probe_machine(cpu_backend(), 1);
  const double rough = predict_step_seconds(exe, machine);
  measure_calls(machine, exe, cpu_backend(), 600);  // all of them, on a busy machine under a sanitizer too
  const StepTime time = predict_step(exe, machine);
  // Rates of large work predict tasks this small to an order of magnitude.
  EXPECT_GT(rough, time.seconds / 20);
  EXPECT_LT(rough, time.seconds * 20);
  EXPECT_GT(time.measured_share, 0.8);
  for (const Segment& segment : exe.segments)
    for (const Instruction& instruction : segment.instructions)
      if (instruction.call >= 0 && segment.kind != PieceKind::kProgram) {
        const Call& call = exe.calls[static_cast<size_t>(instruction.call)];
        EXPECT_TRUE(machine.measured_calls.count(timing_key(call.node, call.kernel))) << call.node.text();
      }
  EXPECT_NEAR(time.seconds, time.micro + time.update + time.derive + time.lanes, 1e-12);
  const Machine same = parse_machine(print_machine(machine), "test");
  EXPECT_EQ(predict_step_seconds(exe, same), time.seconds);
}

TEST(Prediction, RehearsesEveryCallOfTheStep) {
  for (const bool between_processes : {false, true}) {
    for (const char* kind : {"bert", "gpt2"}) {
      const Preparation ready = small_model(kind, {"train.precision=bf16", "train.accumulation=2"});
      const Executable exe =
          compile(make_training_step(ready.workload.model, ready.options), cpu_backend(), {.threads = 1});
      Machine machine = probe_machine(cpu_backend(), 1);
      ASSERT_TRUE(rehearse_in_time(machine, {&exe, 1}, 1, between_processes)) << kind;
      EXPECT_GT(machine.device.jitter, 0);
      EXPECT_NEAR(predict_step(exe, machine).measured_share, 1, 0.1) << "all but copies and lanes";
      for (const ProgramStep& run : distinct_runs(exe.train().steps))
        for (const Instruction& instruction : exe.segments[static_cast<size_t>(run.subject)].instructions)
          if (instruction.call >= 0) {
            const Call& call = exe.calls[static_cast<size_t>(instruction.call)];
            EXPECT_TRUE(machine.measured_calls.contains(timing_key(call.node, call.kernel))) << call.node.text();
          }
    }
  }
}

/// Of a step of one micro-batch, whose number says where the running statistics of batch norms are added.
TEST(Prediction, RehearsesRunningStatistics) {
  const std::vector<std::string> settings = {"model.kind=resnet", "model.blocks=1,1,1,1", "model.width=8",
                                             "data.height=16", "train.micro_batch=2"};
  const Preparation ready = prepare(parse_recipe("data.kind = \"synthetic\"\n", "test", ".", settings));
  const Executable exe =
      compile(make_training_step(ready.workload.model, ready.options), cpu_backend(), {.threads = 1});
  ASSERT_TRUE(std::ranges::any_of(exe.calls, [](const Call& call) { return call.node.op->name == "scatter_add"; }));
  Machine machine = probe_machine(cpu_backend(), 1);
  EXPECT_TRUE(rehearse_in_time(machine, {&exe, 1}, 0));
}

/// Every stage rehearses, whatever the number of its devices.
TEST(Prediction, RehearsesEveryStage) {
  const Preparation ready = small_model("bert", {"model.layers=4", "train.accumulation=8", "train.chunks=2"});
  const auto stages = compile(make_training_step(ready.workload.model, ready.options),
                              parse_layout("p=4 t=2 head=first"), cpu_backend(), {.threads = 1});
  Machine machine = probe_machine(cpu_backend(), 1);
  ASSERT_TRUE(rehearse_in_time(machine, stages, 1));
  EXPECT_GT(machine.device.jitter, 0);
  size_t timed = 0;
  for (const Executable& exe : stages)
    for (const ProgramStep& run : distinct_runs(exe.train().steps))
      for (const Instruction& instruction : exe.segments[static_cast<size_t>(run.subject)].instructions) {
        if (instruction.call < 0) continue;
        const Call& call = exe.calls[static_cast<size_t>(instruction.call)];
        const auto found = machine.measured_calls.find(timing_key(call.node, call.kernel));
        EXPECT_EQ(found != machine.measured_calls.end(), call.node.op->exchange == Exchange::kNone) << call.node.text();
        if (found == machine.measured_calls.end()) continue;
        EXPECT_GT(found->second, 0) << call.node.text();
        ++timed;
      }
  EXPECT_GT(timed, 100);
}

/// Kernels of sparse products refuse an index of zeros.
TEST(Prediction, MeasuresSparseProductsWithTheirPatterns) {
  const Preparation ready =
      small_model("bert", {"sparse.weights=bert.encoder.*", "sparse.density=0.4", "sparse.block=2"});
  std::vector<Executable> stages;
  stages.push_back(compile(make_training_step(ready.workload.model, ready.options), cpu_backend(), {.threads = 1}));
  Machine rehearsed = probe_machine(cpu_backend(), 1), measured = rehearsed;
  ASSERT_TRUE(rehearse_in_time(rehearsed, stages, 0));
  measure_calls(measured, stages[0], cpu_backend(), 60, 0);
  int sparse = 0;
  for (const Call& call : stages[0].calls) {
    if (!call.node.op->name.starts_with("sparse_")) continue;
    ++sparse;
    for (const Machine* machine : {&rehearsed, &measured})
      EXPECT_TRUE(machine->measured_calls.contains(timing_key(call.node, call.kernel))) << call.node.text();
  }
  EXPECT_GE(sparse, 8);
}

/// A change of patterns that reads a gradient takes about as long as a micro-batch.
TEST(Prediction, CountsWhatFollowsEveryNthStep) {
  Machine machine = probe_machine(cpu_backend(), 1);
  const auto mean_of_changes = [&](const std::string& every, const std::string& regrow) {
    const Preparation ready = small_model("bert", {"sparse.weights=bert.encoder.*", "sparse.density=0.4",
                                                   "sparse.every=" + every, "sparse.regrow=" + regrow});
    const Executable exe =
        compile(make_training_step(ready.workload.model, ready.options), cpu_backend(), {.threads = 1});
    measure_calls(machine, exe, cpu_backend(), 60);
    for (const Call& call : exe.calls)
      if (call.node.op->name.starts_with("sparse_"))
        EXPECT_TRUE(machine.measured_calls.contains(timing_key(call.node, call.kernel))) << call.node.text();
    return mean_seconds_after_steps(exe, machine);
  };
  const double gradient = mean_of_changes("2", "gradient"), random = mean_of_changes("2", "random");
  EXPECT_GT(random, 0);
  EXPECT_GT(gradient, random);
  EXPECT_NEAR(mean_of_changes("8", "gradient"), gradient / 4, 1e-9);
}

TEST(Prediction, RehearsesNothingThatTakesTooLong) {
  const Preparation ready = small_model("bert", {});
  const Executable exe =
      compile(make_training_step(ready.workload.model, ready.options), cpu_backend(), {.threads = 1});
  Machine machine = probe_machine(cpu_backend(), 1);
  EXPECT_FALSE(rehearse(machine, {&exe, 1}, cpu_backend(), 1e-9, 0));
  EXPECT_TRUE(machine.measured_calls.empty());
}

}  // namespace
}  // namespace ramet::tests
