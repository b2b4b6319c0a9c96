#include "ramet/runtime/device_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "ramet/program/compile.h"
#include "ramet/runtime/localize.h"
#include "ramet/transport/thread_transport.h"
#include "support/chain.h"
#include "support/devices.h"

namespace ramet::tests {
namespace {

const Backend& backend() {
  static const Backend made = toy::make_backend();
  return made;
}

HostTensor data_of(const std::string& name, int64_t step, int64_t lane, int64_t micro) {
  return toy::numbers({DType::kF32, {96}},
                      static_cast<uint32_t>(1000 * step + 100 * lane + 10 * micro + (name == "x" ? 1 : 2)));
}

Feed feed_of(int64_t step, double spoil = 0) {
  return [step, spoil](int64_t lane, int64_t micro, FeedSink& sink) {
    for (const char* name : {"x", "target"}) {
      HostTensor tensor = data_of(name, step, lane, micro);
      if (spoil != 0 && lane == 0 && micro == 0 && name[0] == 'x')
        for (int64_t i = 7; i < 12; ++i) tensor.set(i, spoil);
      sink.set(name, tensor.type, tensor.data.data());
    }
  };
}

/// What a run left behind.
struct Outcome {
  std::map<std::string, std::vector<std::byte>> states;
  std::vector<double> losses;  // of every step and micro-batch, by lanes
  std::vector<double> norms, evaluations;
  std::string not_finite;
  bool states_changed = false;
  std::optional<NonFinite> first;  // of all devices
};

bool is_kept(const StateTensor& tensor) {
  return tensor.kind == StateKind::kWeight || tensor.kind == StateKind::kOptimizer;
}
HostTensor start_of(const std::string& name) {
  return toy::numbers({DType::kF32, {96}}, static_cast<uint32_t>(std::hash<std::string>()(name) % 1000));
}

Outcome run_whole(const toy::Chain& chain, int64_t steps) {
  Engine engine(compile(chain.whole(), backend()), backend());
  for (const StatePlace& state : engine.executable().states)
    if (is_kept(state.tensor))
      engine.write_state(state.tensor.name, state.tensor.type, start_of(state.tensor.name).data.data());
  engine.run_derive();
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    const StepResults& results = engine.run_step(step, feed_of(step));
    for (int64_t i = 0; i < results.micro_batches(); ++i) outcome.losses.push_back(results.micro(i)[0].get());
    outcome.norms.push_back(results.find("norm")->get());
    outcome.norms.push_back(results.find("after")->get());
    outcome.evaluations.push_back(engine.run("evaluate", feed_of(step + 50))[0].get());
  }
  for (const StatePlace& state : engine.executable().states)
    if (is_kept(state.tensor)) {
      auto& bytes = outcome.states[state.tensor.name];
      bytes.resize(static_cast<size_t>(state.tensor.type.bytes()));
      engine.read_state(state.tensor.name, bytes);
    }
  return outcome;
}

/// Every device on a thread of its own. `spoil` goes into the first micro-batch of the last step.
Outcome run_devices(const toy::Chain& chain, int64_t steps, int threads = 1, double spoil = 0, bool ahead = true) {
  const DeviceGraphs graphs = chain.cut();
  const std::vector<Executable> executables = compile_layout(graphs, backend(), {.threads = threads, .ahead = ahead});
  const int devices = graphs.mesh.devices();
  Transports transports = make_thread_transports(devices, {.time_limit = std::chrono::milliseconds(20'000)});
  Outcome outcome;
  std::mutex mutex;
  const auto drive = [&](int device) {
    const Mesh::Position position = graphs.mesh.position(device);
    DeviceEngine engine(executables[static_cast<size_t>(position.stage)], backend(),
                        {.device = device, .transport = transports[static_cast<size_t>(device)].get()});
    for (const StatePlace& state : engine.executable().states)
      if (is_kept(state.tensor)) engine.write_state(state.tensor.name, 0, start_of(state.tensor.name).data);
    engine.prepare();
    Outcome mine;
    for (int64_t step = 0; step < steps; ++step) {
      const StepResults& results = engine.run_step(step, feed_of(step, step + 1 == steps ? spoil : 0));
      mine.not_finite = results.not_finite;
      mine.states_changed = results.states_changed;
      for (int64_t i = 0; i < results.micro_batches(); ++i)
        for (const TensorView& view : results.micro(i)) mine.losses.push_back(view.get());
      if (spoil != 0 && step + 1 == steps) {  // only some devices have seen it
        mine.first = engine.find_first_nonfinite(step, feed_of(step, spoil));
        break;
      }
      mine.norms.push_back(results.find("norm")->get());
      mine.norms.push_back(results.find("after")->get());
      const auto evaluated = engine.run("evaluate", feed_of(step + 50));
      if (!evaluated.empty()) mine.evaluations.push_back(evaluated[0].get());
    }
    std::lock_guard lock(mutex);
    for (const StatePlace& state : engine.executable().states) {
      if (!is_kept(state.tensor)) continue;
      std::vector<std::byte> bytes(static_cast<size_t>(state.tensor.type.bytes()));
      EXPECT_EQ(engine.read_state(state.tensor.name, 0, bytes), static_cast<int64_t>(bytes.size()));
      const auto [known, fresh] = outcome.states.emplace(state.tensor.name, bytes);
      EXPECT_TRUE(known->second == bytes) << "replicas differ in " << state.tensor.name;
    }
    if (position.replica == 0 && !mine.losses.empty()) outcome.losses = mine.losses;
    if (!mine.evaluations.empty()) outcome.evaluations = mine.evaluations;
    if (!outcome.norms.empty()) {
      EXPECT_EQ(outcome.norms, mine.norms);
    }
    outcome.norms = mine.norms;
    if (!mine.not_finite.empty()) outcome.not_finite += mine.not_finite + " ";
    if (mine.first && (!outcome.first || mine.first->superstep < outcome.first->superstep)) outcome.first = mine.first;
    outcome.states_changed |= mine.states_changed;
  };
  expect_none(on_devices(transports, [&](size_t device) { drive(static_cast<int>(device)); }));
  return outcome;
}

void expect_same(const toy::Chain& chain, int64_t steps = 3, bool ahead = true) {
  SCOPED_TRACE(print_layout(chain.layout) + " lanes " + std::to_string(chain.lanes));
  const Outcome whole = run_whole(chain, steps), cut = run_devices(chain, steps, 1, 0, ahead);
  ASSERT_EQ(cut.states.size(), whole.states.size());
  for (const auto& [name, bytes] : whole.states) EXPECT_TRUE(cut.states.at(name) == bytes) << name << " differs";
  EXPECT_EQ(cut.norms, whole.norms);
  EXPECT_EQ(cut.evaluations, whole.evaluations);
  if (chain.layout.r == 1) {
    EXPECT_EQ(cut.losses, whole.losses);
  }
}

toy::Chain chain_of(const std::string& layout, int64_t lanes = 1, int64_t micro_batches = 2) {
  toy::Chain chain;
  chain.layout = parse_layout(layout);
  chain.lanes = lanes;
  chain.micro_batches_per_lane = micro_batches;
  return chain;
}

/// Losses of micro-batches 0 to count - 1 of the program "evaluate", each device on a thread of its own.
std::map<int64_t, double> losses_of_request(const toy::Chain& chain, int64_t count,
                                            const std::function<Feed(int)>& feed) {
  const DeviceGraphs graphs = chain.cut();
  const std::vector<Executable> executables = compile_layout(graphs, backend());
  Transports transports =
      make_thread_transports(graphs.mesh.devices(), {.time_limit = std::chrono::milliseconds(20'000)});
  std::mutex mutex;
  std::map<int64_t, double> losses;
  expect_none(on_devices(transports, [&](size_t device) {
    const int stage = graphs.mesh.position(static_cast<int>(device)).stage;
    DeviceEngine engine(executables[static_cast<size_t>(stage)], backend(),
                        {.device = static_cast<int>(device), .transport = transports[device].get()});
    for (const StatePlace& state : engine.executable().states)
      if (is_kept(state.tensor)) engine.write_state(state.tensor.name, 0, start_of(state.tensor.name).data);
    engine.prepare();
    engine.run("evaluate", count, feed(stage), {}, [&](int64_t micro, const Binding& result, const std::byte* data) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(losses.emplace(micro, load_element(data, result.type.dtype, 0)).second) << micro;
    });
  }));
  return losses;
}

void requested(int64_t micro, FeedSink& sink) {
  for (const char* name : {"x", "target"}) {
    const HostTensor tensor = data_of(name, 9, 0, micro);
    if (sink.takes(name)) sink.set(name, tensor.type, tensor.data.data());
  }
}

TEST(DeviceEngine, ManyMicroBatchesGoThroughAProgram) {
  const auto plain = [](int) -> Feed { return [](int64_t, int64_t micro, FeedSink& sink) { requested(micro, sink); }; };
  for (const char* text : {"p=1", "p=2", "p=3", "r=2", "p=2 r=2", "p=2 schedule=interleaved:2", "p=2 phases=2",
                           "phases=3", "p=3 phases=2 r=2", "p=4 schedule=interleaved:3"})
    for (int64_t width : {1, 2, 4})
      for (int64_t count : {1, 7}) {
        SCOPED_TRACE(std::string(text) + " width " + std::to_string(width) + " count " + std::to_string(count));
        toy::Chain chain{.layout = parse_layout(text)};
        chain.lanes = chain.layout.r;
        chain.width = width;
        Engine engine(compile(chain.whole(), backend()), backend());
        for (const StatePlace& state : engine.executable().states)
          if (is_kept(state.tensor))
            engine.write_state(state.tensor.name, state.tensor.type, start_of(state.tensor.name).data.data());
        engine.run_derive();
        std::map<int64_t, double> expected;
        engine.run("evaluate", count, plain(0), {}, [&](int64_t micro, const Binding&, const std::byte* data) {
          expected[micro] = load_element(data, DType::kF32, 0);
        });
        ASSERT_EQ(std::ssize(expected), count);
        EXPECT_EQ(losses_of_request(chain, count, plain), expected);
      }
}

// The last stage is never done with a micro-batch before the first has begun with the next.
TEST(DeviceEngine, AProgramKeepsAllStagesBusy) {
  toy::Chain chain{.layout = parse_layout("p=3")};
  chain.width = 2;
  constexpr int64_t kCount = 8;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t begun = -1, overtaken = 0;
  const auto losses = losses_of_request(chain, kCount, [&](int stage) -> Feed {
    return [&, stage](int64_t, int64_t micro, FeedSink& sink) {
      {
        std::unique_lock lock(mutex);
        if (stage == 0) begun = micro, changed.notify_all();
        if (stage == 2 && micro + 1 < kCount)
          overtaken += changed.wait_for(lock, std::chrono::seconds(15), [&] { return begun > micro; });
      }
      requested(micro, sink);
    };
  });
  EXPECT_EQ(std::ssize(losses), kCount);
  EXPECT_EQ(overtaken, kCount - 1);
}

TEST(DeviceEngine, StagesGiveTheBitsOfOneDevice) {
  for (const char* layout : {"p=1", "p=2", "p=2 schedule=gpipe", "p=3", "p=4"})
    for (int64_t lanes : {1, 2, 3}) expect_same(chain_of(layout, lanes, 3));
}

TEST(DeviceEngine, InterleavedAndZeroBubbleSchedulesDoToo) {
  for (const char* layout : {"p=2 schedule=interleaved:2", "p=2 schedule=interleaved:3", "p=3 schedule=zero-bubble",
                             "p=2 schedule=zero-bubble"})
    expect_same(chain_of(layout, 2, 3));
}

TEST(DeviceEngine, ReplicasDoToo) {
  for (const char* layout : {"r=2", "p=2 r=2"})
    for (int64_t lanes : {2, 4}) expect_same(chain_of(layout, lanes, 2));
}

TEST(DeviceEngine, PhasesDoToo) {
  for (const char* layout : {"phases=2", "phases=3", "p=2 phases=2", "p=2 phases=3 r=2"})
    for (int64_t lanes : {2, 4}) expect_same(chain_of(layout, lanes, 2));
}

TEST(DeviceEngine, StreamingMemoryChangesNoBit) {
  for (const char* layout : {"p=1", "p=2", "phases=3", "p=2 phases=2", "p=2 phases=3", "p=3 schedule=zero-bubble"})
    for (int what = 1; what < 16; ++what) {
      toy::Chain chain = chain_of(layout, 2, 2);
      SCOPED_TRACE(what);
      if (what & 1) chain.optimizer = HomeMemory::kStreaming;
      if (what & 2) chain.weights = HomeMemory::kStreaming;
      if (what & 4) chain.gradients = HomeMemory::kStreaming;
      if (what & 8) chain.stash = HomeMemory::kStreaming;
      for (const bool ahead : {true, false}) expect_same(chain, 2, ahead);
    }
}

TEST(DeviceEngine, StreamingNeedsLessDeviceMemory) {
  toy::Chain chain = chain_of("phases=8", 1, 4);
  const auto bytes = [&] { return compile_layout(chain.cut(), backend())[0].arena_bytes; };
  chain.vector = {DType::kF32, {4096}};
  const int64_t resident = bytes();
  chain.optimizer = chain.weights = chain.gradients = chain.stash = HomeMemory::kStreaming;
  const Executable streamed = compile_layout(chain.cut(), backend())[0];
  EXPECT_LT(streamed.arena_bytes, resident / 2);
  EXPECT_GE(streamed.streaming_bytes, chain.layers() * 3 * chain.vector.bytes());
  // Less still without double buffers, which a limit takes away.
  chain.micro_batches_per_lane = 1;
  const auto limited = [&](const CompileOptions& options) {
    return compile_layout(chain.cut(), backend(), options)[0].arena_bytes;
  };
  const int64_t ahead = limited({}), single = limited({.ahead = false});
  EXPECT_LT(single, ahead - 2 * chain.vector.bytes());
  EXPECT_EQ(limited({.device_memory = single}), single);
  EXPECT_EQ(limited({.device_memory = ahead}), ahead);
}

TEST(DeviceEngine, ANumberThatIsNotFiniteEndsTheStepOnAllDevicesBeforeWeightsChange) {
  for (const char* layout : {"p=2", "p=2 r=2", "p=2 phases=2", "phases=2"}) {
    SCOPED_TRACE(layout);
    toy::Chain chain = chain_of(layout, 2, 2);
    if (chain.layout.phases > 1) chain.optimizer = chain.weights = HomeMemory::kStreaming;
    const Outcome before = run_devices(chain, 2);
    // The second is a loss that is finite, of gradients whose sum is not.
    for (const auto& [spoil, result] :
         {std::pair{std::numeric_limits<double>::infinity(), "loss "}, std::pair{3e38, "norm "}}) {
      const Outcome ended = run_devices(chain, 3, 1, spoil);
      EXPECT_EQ(ended.not_finite.substr(0, 5), result);
      ASSERT_TRUE(ended.first.has_value());
      EXPECT_EQ(ended.first->node.rfind(result[0] == 'l' ? "layer0" : "norm", 0), 0u) << ended.first->text();
      EXPECT_FALSE(ended.states_changed);
      for (const auto& [name, bytes] : before.states) EXPECT_TRUE(ended.states.at(name) == bytes) << name << " changed";
    }
  }
}

TEST(DeviceEngine, ReadsAndWritesRangesOfLogicalTensors) {
  Executable exe;
  exe.mesh = {.p = 1, .r = 2, .t1 = 2, .t2 = 1};
  exe.kernel_class = "toy";
  exe.instants = 1;
  Sharding sharding;
  sharding.logical = {DType::kF32, {4, 6}};
  sharding.cuts = {{1, MeshAxis::kTensor1, 2, 1, 1}};
  sharding.flat_parts = 2;
  exe.buffers = {{"w", BufferClass::kWeights, sharding.local().bytes(), 0, 0, 0}};
  exe.states = {{{"w", sharding.local(), StateKind::kWeight, {}, ""}, {0}, sharding, kNoBuffer}};
  exe.arena_bytes = 64;
  verify(exe, "test");
  HostTensor whole = toy::numbers(sharding.logical, 3), read(sharding.logical);
  int64_t given = 0;
  for (int device = 0; device < 4; ++device) {
    DeviceEngine engine(exe, backend(), {.device = device});
    const std::span<const std::byte> bytes(whole.data);
    engine.write_state("w", 0, bytes.first(40));
    engine.write_state("w", 40, bytes.subspan(40));
    for (int64_t at = 0; at < 96; at += 32)
      given += engine.read_state("w", at, std::span(read.data).subspan(static_cast<size_t>(at), 32));
    EXPECT_THROW(engine.read_state("w", 2, std::span(read.data).first(4)), Error);
    EXPECT_THROW(engine.read_state("w", 64, std::span(read.data).first(36)), Error);
  }
  EXPECT_EQ(given, 96);
  EXPECT_EQ(read.data, whole.data);
}

/// Element [o, k, i] of a tensor seen as [outer, parts, run].
struct View {
  int64_t outer, parts, run;
  int64_t at(int64_t o, int64_t k, int64_t i) const { return (o * parts + k) * run + i; }
};
View view_of(const Shape& whole, int dim, int64_t blocks, int64_t parts) {
  int64_t outer = blocks;
  for (int i = 0; i < dim; ++i) outer *= whole[i];
  return {outer, parts, whole.elements() / (outer * parts)};
}

TEST(DeviceEngine, CollectivesMeetWhereTensorsAreCut) {
  constexpr int kParts = 3;
  const TensorType whole{DType::kF32, {4, 6, 12}};
  for (int dim = 0; dim < 3; ++dim)
    for (int64_t blocks : {1, 2}) {
      if (whole.shape[dim] % (blocks * kParts) != 0) continue;
      std::vector<int64_t> dims = whole.shape.dims();
      dims[static_cast<size_t>(dim)] /= kParts;
      const TensorType part{DType::kF32, Shape(dims)};
      DeviceGraphs graphs;
      graphs.layout.t1 = kParts;
      graphs.mesh = graphs.layout.mesh();
      graphs.stages.resize(1);
      graphs.table = make_schedule(graphs.layout, 1);
      graphs.stage_of_part = {0};
      Graph graph("evaluate");
      const auto collective = [&](const char* op, ValueId value, Attributes more) {
        Attributes attributes{{"axis", int64_t{2}}, {"parts", int64_t{kParts}}};
        for (const auto& [name, attribute] : more) attributes.set(name, attribute);
        return graph.node(graph.add_node(OpRegistry::instance().get(op), {value}, attributes, op)).outputs[0];
      };
      const Attributes cut{{"dim", int64_t{dim}}, {"blocks", blocks}};
      const ValueId a = graph.add_input("a", part, InputRole::kData), b = graph.add_input("b", whole, InputRole::kData);
      graph.add_output("gathered", collective("all_gather", a, cut));
      graph.add_output("scattered", collective("reduce_scatter", b, cut));
      graph.add_output("reduced", collective("all_reduce", b, {{"kind", std::string("max")}}));
      graph.add_output("dealt",
                       collective("all_to_all", b, {{"split", int64_t{dim}}, {"concat", int64_t{(dim + 1) % 3}}}));
      if (whole.shape[dim] % kParts != 0) continue;
      graphs.programs = {{.name = "evaluate", .when = When::on_request(), .reads_data = true}};
      graphs.stages[0].pieces = {{.graph = graph, .kind = PieceKind::kProgram, .program = 0}};
      const std::vector<Executable> executables = compile_layout(graphs, backend());
      Transports transports = make_thread_transports(kParts);
      const auto numbers = [&](const char* name, int device) {
        return toy::numbers(name[0] == 'a' ? part : whole, static_cast<uint32_t>(10 * device + name[0]));
      };
      std::vector<std::map<std::string, HostTensor>> results(kParts);
      expect_none(on_devices(transports, [&](size_t index) {
        const int device = static_cast<int>(index);
        DeviceEngine engine(executables[0], backend(),
                            {.device = device, .transport = transports[static_cast<size_t>(device)].get()});
        const Feed feed = [&](int64_t, int64_t, FeedSink& sink) {
          for (const char* name : {"a", "b"}) {
            const HostTensor tensor = numbers(name, device);
            sink.set(name, tensor.type, tensor.data.data());
          }
        };
        for (const TensorView& view : engine.run("evaluate", feed)) {
          HostTensor copy(*view.type);
          std::memcpy(copy.data.data(), view.data, copy.data.size());
          results[static_cast<size_t>(device)].emplace(std::string(view.name), std::move(copy));
        }
      }));
      const View view = view_of(whole.shape, dim, blocks, kParts), plain = view_of(whole.shape, dim, 1, kParts);
      for (int device = 0; device < kParts; ++device) {
        auto& mine = results[static_cast<size_t>(device)];
        const Shape& joined = mine.at("dealt").type.shape;
        const View target = view_of(joined, (dim + 1) % 3, 1, kParts);
        for (int64_t k = 0; k < kParts; ++k) {
          const HostTensor theirs = numbers("a", static_cast<int>(k)), dealt = numbers("b", static_cast<int>(k));
          for (int64_t o = 0; o < view.outer; ++o)
            for (int64_t i = 0; i < view.run; ++i)
              ASSERT_EQ(mine.at("gathered").get(view.at(o, k, i)), theirs.get(o * view.run + i))
                  << dim << " " << blocks;
          // Part `device` of member k, element by element of the joined tensor's part k.
          const int64_t size = whole.elements() / kParts;
          for (int64_t e = 0; e < size; ++e)
            ASSERT_EQ(mine.at("dealt").get(target.at(e / target.run, k, e % target.run)),
                      dealt.get(plain.at(e / plain.run, device, e % plain.run)))
                << dim;
        }
        for (int64_t o = 0; o < view.outer; ++o)
          for (int64_t i = 0; i < view.run; ++i) {
            const int64_t e = view.at(o, device, i);
            const float sum =
                (static_cast<float>(numbers("b", 0).get(e)) + static_cast<float>(numbers("b", 1).get(e))) +
                static_cast<float>(numbers("b", 2).get(e));
            ASSERT_EQ(mine.at("scattered").get(o * view.run + i), sum) << dim << " " << blocks;
          }
        for (int64_t e = 0; e < whole.elements(); ++e)
          ASSERT_EQ(mine.at("reduced").get(e),
                    std::max({numbers("b", 0).get(e), numbers("b", 1).get(e), numbers("b", 2).get(e)}));
      }
    }
}

TEST(DeviceEngine, LocalizeSaysWhichPartADeviceHolds) {
  NodeSignature node;
  node.op = &toy::mirror();
  node.attributes.set("cuts", std::vector<int64_t>{0, 2, 4, 1, 1, 1, 3, 2, 3, 2});
  const NodeSignature local = localize(node, {.stage = 1, .replica = 0, .tensor1 = 3, .tensor2 = 2});
  EXPECT_EQ(local.attributes.get_ints("position"), (std::vector<int64_t>{3, 1}));
  node.attributes = {};
  EXPECT_TRUE(localize(node, {}).attributes.empty());
}

}  // namespace
}  // namespace ramet::tests
