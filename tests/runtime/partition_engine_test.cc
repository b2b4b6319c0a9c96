#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "ramet/base/host_tensor.h"
#include "ramet/kernel/kernel.h"
#include "ramet/layout/partition.h"
#include "ramet/program/compile.h"
#include "ramet/runtime/device_engine.h"
#include "ramet/runtime/thread_transport.h"
#include "ramet/train/initialize.h"
#include "ramet/train/prepare.h"
#include "ramet/train/step.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/hoist.h"
#include "ramet/transform/simplify.h"

// Partitioned models on device engines, one thread each, against one engine without a layout.

namespace ramet {
namespace {

constexpr int64_t kSteps = 2;

struct Subject {
  Preparation preparation;
  StepGraph step;
  std::map<std::string, HostTensor> weights;

  Subject(const std::string& kind, const std::vector<std::string>& more) {
    std::vector<std::string> settings = {"model.kind=" + kind, "model.preset=" + std::string(kind == "bert" ? "tiny" : "124m"), "model.layers=4", "model.hidden=48", "model.heads=12",
                                         "model.vocabulary_size=96", "model.max_positions=12", "data.sequence_length=12", "train.micro_batch=2",
                                         "train.lanes=4", "train.accumulation=8", "train.chunks=4", "train.clip_norm=0.01"};
    if (kind == "bert") settings.push_back("model.intermediate=96");
    settings.insert(settings.end(), more.begin(), more.end());
    preparation = prepare(parse_recipe("", "subject.toml", ".", settings));
    step = make_training_step(preparation.model, preparation.recipe);
    ThreadTeam team(1);
    for (const StateTensor& state : step.states) {
      if (state.kind != StateKind::kWeight) continue;
      HostTensor tensor(state.type);
      initialize_state(state, 7, tensor.data, team);
      weights.emplace(state.name, std::move(tensor));
    }
  }

  Feed feed(int64_t number) const {
    return [this, number](int64_t lane, int64_t micro, FeedSink& sink) {
      const int64_t size = preparation.recipe.train.micro_batch, index = number * step.micro_batches() + lane * step.micro_batches_per_lane + micro;
      for (const NamedTensor& tensor : preparation.train->make(index * size, size).tensors) sink.set(tensor.name, tensor.type, tensor.bytes.data());
    };
  }
  /// Scalars that the program takes.
  static std::vector<ScalarValue> scalars(const Executable& exe, int64_t number) {
    const double t = static_cast<double>(number + 1);
    std::vector<ScalarValue> taken;
    for (const ScalarValue& value : {ScalarValue{"learning_rate", 0.01}, ScalarValue{"correction1", 1 - std::pow(0.9, t)}, ScalarValue{"correction2", 1 - std::pow(0.999, t)}})
      if (exe.has_scalar(value.name)) taken.push_back(value);
    return taken;
  }
};

using States = std::map<std::string, std::vector<std::byte>>;

bool is_kept(StateKind kind) { return kind == StateKind::kWeight || kind == StateKind::kOptimizer; }

States run_whole(const Subject& subject, double& norm) {
  Engine engine(compile(subject.step, cpu_backend()), cpu_backend());
  for (const auto& [name, tensor] : subject.weights) engine.write_state(name, tensor.type, tensor.data.data());
  engine.run_derive();
  for (int64_t number = 0; number < kSteps; ++number) norm = engine.run_step(number, subject.feed(number), Subject::scalars(engine.executable(), number)).find("grad_norm")->get();
  States states;
  for (const StateTensor& state : subject.step.states)
    if (is_kept(state.kind)) {
      states[state.name].resize(static_cast<size_t>(state.type.bytes()));
      engine.read_state(state.name, states[state.name]);
    }
  return states;
}

States run_layout(const Subject& subject, const std::string& layout, double& norm) {
  StepGraph step = simplify(fuse(hoist(simplify(subject.step))));
  const DeviceGraphs graphs = partition(step, parse_layout(layout));
  const std::vector<Executable> executables = compile_layout(graphs, cpu_backend());
  Transports transports = make_thread_transports(graphs.mesh.devices(), {.time_limit = std::chrono::milliseconds(60'000)});
  std::mutex mutex;
  States states;
  for (const StateTensor& state : subject.step.states)
    if (is_kept(state.kind)) states[state.name].resize(static_cast<size_t>(state.type.bytes()), std::byte{0xA5});
  const auto drive = [&](int device) {
    const Executable& exe = executables[static_cast<size_t>(graphs.mesh.position(device).stage)];
    DeviceEngine engine(exe, cpu_backend(), {.device = device, .transport = transports[static_cast<size_t>(device)].get()});
    for (const auto& [name, tensor] : subject.weights)
      if (engine.has_state(name)) engine.write_state(name, 0, tensor.data);
    engine.prepare();
    for (int64_t number = 0; number < kSteps; ++number) {
      const StepResults& results = engine.run_step(number, subject.feed(number), Subject::scalars(exe, number));
      EXPECT_EQ(results.not_finite, "");
      if (const TensorView* view = results.find("grad_norm")) {
        std::lock_guard lock(mutex);
        norm = view->get();
      }
    }
    std::lock_guard lock(mutex);
    for (auto& [name, bytes] : states)
      if (engine.has_state(name)) engine.read_state(name, 0, bytes);
  };
  std::vector<std::thread> drivers;
  for (int device = 0; device < graphs.mesh.devices(); ++device)
    drivers.emplace_back([&, device] {
      try {
        drive(device);
      } catch (const std::exception& error) {
        transports[static_cast<size_t>(device)]->stop(error.what());
        std::lock_guard lock(mutex);
        ADD_FAILURE() << "device " << device << ": " << error.what();
      }
    });
  for (std::thread& driver : drivers) driver.join();
  return states;
}

struct Case {
  std::string name, kind;
  std::vector<std::string> settings, layouts;
};
void PrintTo(const Case& given, std::ostream* stream) { *stream << given.name; }

class PartitionedEngine : public testing::TestWithParam<Case> {};

TEST_P(PartitionedEngine, GivesTheBitsOfOneDevice) {
  const Subject subject(GetParam().kind, GetParam().settings);
  double norm = 0;
  const States expected = run_whole(subject, norm);
  for (const std::string& layout : GetParam().layouts) {
    SCOPED_TRACE(layout);
    double other = 0;
    const States states = run_layout(subject, layout, other);
    EXPECT_EQ(other, norm);
    int differ = 0;
    for (const auto& [name, bytes] : expected)
      if (states.at(name) != bytes && ++differ <= 3) ADD_FAILURE() << name << " differs";
    EXPECT_EQ(differ, 0);
  }
}

const std::vector<Case> kCases = {
    {"alone", "bert", {"train.precision=f32"}, {"p=1", "phases=2", "phases=4 offload=optimizer,weights,grads,activations", "offload=optimizer"}},
    {"replicas", "bert", {"train.precision=bf16"}, {"r=2", "r=4 rts=optimizer", "r=4 rts=weights,grads,optimizer", "r=4 rts=weights:2,optimizer:4"}},
    {"stages", "bert", {"train.precision=f32"}, {"p=2 head=first", "p=4 head=first", "p=2 schedule=interleaved:2 head=first", "p=2 schedule=zero-bubble head=first"}},
    {"shards", "gpt2", {"train.precision=bf16"}, {"t=2", "t=1x2", "t=2x2", "t=2 sequence=true"}},
    {"phases", "gpt2", {"train.precision=bf16"}, {"phases=4", "phases=2 offload=optimizer,weights,grads,activations", "r=2 rts=weights,optimizer phases=4"}},
    {"everything", "bert", {"train.precision=bf16", "train.optimizer.kind=lamb"}, {"p=2 t=2 r=2 rts=weights,grads,optimizer phases=2 offload=optimizer head=first"}},
};

INSTANTIATE_TEST_SUITE_P(Layouts, PartitionedEngine, testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ramet
