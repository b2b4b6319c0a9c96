#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>

#include "ramet/base/error.h"
#include "ramet/base/host_tensor.h"
#include "ramet/kernel/kernel.h"
#include "ramet/layout/partition.h"
#include "ramet/program/compile.h"
#include "ramet/runtime/cluster.h"
#include "ramet/runtime/device_engine.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/hoist.h"
#include "ramet/transform/simplify.h"
#include "ramet/transport/thread_transport.h"
#include "support/devices.h"
#include "support/small_training.h"

// Partitioned models on device engines, one thread each, against one engine without a layout.

namespace ramet::tests {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 2;

struct Subject : SmallTraining {
  using SmallTraining::SmallTraining;

  Feed feed(int64_t number) const {
    return [this, number](int64_t lane, int64_t micro, FeedSink& sink) {
      const int64_t size = preparation.recipe.train.micro_batch,
                    index = number * step.micro_batches() + lane * step.micro_batches_per_lane + micro;
      for (const NamedTensor& tensor : preparation.workload.train->make(index * size, size).tensors)
        sink.set(tensor.name, tensor.type, tensor.bytes.data());
    };
  }
  /// Scalars that the program takes.
  static std::vector<ScalarValue> scalars(const Executable& exe, int64_t number) {
    std::vector<ScalarValue> taken;
    for (const auto& [name, value] : SmallTraining::scalars(number))
      if (exe.has_scalar(name)) taken.push_back({name, value});
    return taken;
  }
};

using States = std::map<std::string, std::vector<std::byte>>;

bool is_kept(StateKind kind) { return kind == StateKind::kWeight || kind == StateKind::kOptimizer; }

States run_whole(const Subject& subject, double& norm) {
  Engine engine(compile(subject.step, cpu_backend()), cpu_backend());
  for (const auto& [name, tensor] : subject.weights) engine.write_state(name, tensor.type, tensor.data.data());
  engine.run_derive();
  for (int64_t number = 0; number < kSteps; ++number)
    norm = engine.run_step(number, subject.feed(number), Subject::scalars(engine.executable(), number))
               .find("grad_norm")
               ->get();
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
  Transports transports =
      make_thread_transports(graphs.mesh.devices(), {.time_limit = std::chrono::milliseconds(60'000)});
  std::mutex mutex;
  States states;
  for (const StateTensor& state : subject.step.states)
    if (is_kept(state.kind)) states[state.name].resize(static_cast<size_t>(state.type.bytes()), std::byte{0xA5});
  const auto drive = [&](int device) {
    const Executable& exe = executables[static_cast<size_t>(graphs.mesh.position(device).stage)];
    DeviceEngine engine(exe, cpu_backend(),
                        {.device = device, .transport = transports[static_cast<size_t>(device)].get()});
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
  expect_none(on_devices(transports, [&](size_t device) { drive(static_cast<int>(device)); }));
  return states;
}

// A stage that is late with all that others wait for, as one whose messages are lost.
TEST(Cluster, NamesWhoseMessageNeverComes) {
  const Subject subject("gpt2", {"train.precision=f32"});
  const DeviceGraphs graphs = partition(simplify(fuse(hoist(simplify(subject.step)))), parse_layout("p=2 head=first"));
  Cluster cluster(compile_layout(graphs, cpu_backend()), cpu_backend(), {.time_limit = std::chrono::milliseconds(300)});
  for (const StateTensor& state : subject.preparation.workload.model.weights)
    cluster.write_state(state, 0, subject.weights.at(state.name).data);
  cluster.run_derive();
  const ClusterFeed feed = [&](int64_t micro, const Executable& exe, FeedSink& sink) {
    if (exe.stage == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    const int64_t size = subject.preparation.recipe.train.micro_batch;
    for (const NamedTensor& tensor : subject.preparation.workload.train->make(micro * size, size).tensors)
      if (exe.has_feed(tensor.name)) sink.set(tensor.name, tensor.type, tensor.bytes.data());
  };
  try {
    cluster.run_step(0, feed, Subject::scalars(cluster.stages()[0], 0));
    FAIL() << "the step should not have ended well";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no answer within 0.3 s"));
    EXPECT_THAT(error.what(), ContainsRegex("device 0 last finished superstep [0-9]+"));
    EXPECT_THAT(error.what(), HasSubstr("others wait in"));
    EXPECT_EQ(error.kind(), ErrorKind::kFailure);
  }
  EXPECT_TRUE(cluster.stopped());
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
    {"alone",
     "bert",
     {"train.precision=f32"},
     {"p=1", "phases=2", "phases=4 offload=optimizer,weights,grads,activations", "offload=optimizer"}},
    {"replicas",
     "bert",
     {"train.precision=bf16"},
     {"r=2", "r=4 rts=optimizer", "r=4 rts=weights,grads,optimizer", "r=4 rts=weights:2,optimizer:4"}},
    {"stages",
     "bert",
     {"train.precision=f32"},
     {"p=2 head=first", "p=4 head=first", "p=2 schedule=interleaved:2 head=first",
      "p=2 schedule=zero-bubble head=first", "p=3 layers=0+2+2 head=first"}},
    {"shards", "gpt2", {"train.precision=bf16"}, {"t=2", "t=1x2", "t=2x2", "t=2 sequence=true"}},
    {"phases",
     "gpt2",
     {"train.precision=bf16"},
     {"phases=4", "phases=2 offload=optimizer,weights,grads,activations", "r=2 rts=weights,optimizer phases=4"}},
    {"scaled_replicas_and_stages",
     "bert",
     {"train.precision=f16", "train.scaling=unit"},
     {"r=4 rts=weights,grads,optimizer", "p=2 head=first schedule=zero-bubble", "p=4 head=first"}},
    {"scaled_shards",
     "gpt2",
     {"train.precision=f8", "train.scaling=unit"},
     {"t=2", "t=2x2", "t=2 sequence=true", "phases=4 offload=weights"}},
    {"scaled_everything",
     "bert",
     {"train.precision=f8", "train.scaling=u-mup"},
     {"p=2 t=2 r=2 rts=weights,grads,optimizer phases=2 offload=optimizer head=first"}},
    {"everything",
     "bert",
     {"train.precision=bf16", "train.optimizer.kind=lamb"},
     {"p=2 t=2 r=2 rts=weights,grads,optimizer phases=2 offload=optimizer head=first"}},
};

INSTANTIATE_TEST_SUITE_P(Layouts, PartitionedEngine, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ramet::tests
