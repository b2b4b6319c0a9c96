#include "ramet/runtime/engine.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "ramet/program/compile.h"
#include "ramet/transport/process.h"
#include "support/toy.h"

namespace ramet::tests {
namespace {

const TensorType kVector{DType::kF32, {1000}};

void expect_error(const std::function<void()>& run, const std::string& part) {
  try {
    run();
    FAIL() << "no error with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// loss = sum of halves of blend(x, w); the weight moves by a blend with the gradient.
StepGraph small_step(int64_t lanes, int64_t micro_batches) {
  StepGraph step;
  step.lanes = lanes;
  step.micro_batches_per_lane = micro_batches;
  step.states = {{"w", kVector, StateKind::kWeight, {}, ""}, {"grad.w", kVector, StateKind::kAccumulator, {}, ""}};
  Graph& micro = step.micro;
  const ValueId x = micro.add_input("x", kVector, InputRole::kData),
                w = micro.add_input("w", kVector, InputRole::kState);
  const ValueId sum = micro.add_input("grad.w", kVector, InputRole::kState);
  const NodeId y = micro.add_node(toy::blend(), {x, w}, {}, "body/blend"),
               loss = micro.add_node(toy::halve_and_sum(), {micro.node(y).outputs[0]}, {}, "loss");
  micro.add_output("loss", micro.node(loss).outputs[1]);
  const NodeId total = micro.add_node(toy::add(), {sum, micro.node(loss).outputs[0]}, {}, "accumulate");
  micro.add_output("grad.w", micro.node(total).outputs[0], OutputRole::kState);
  Graph& update = step.update;
  const ValueId old = update.add_input("w", kVector, InputRole::kState),
                g = update.add_input("grad.w", kVector, InputRole::kState);
  const NodeId next = update.add_node(toy::blend(), {old, g}, {}, "update");
  update.add_output("w", update.node(next).outputs[0], OutputRole::kState);
  Graph evaluate("evaluate");
  const ValueId ex = evaluate.add_input("x", kVector, InputRole::kData),
                ew = evaluate.add_input("w", kVector, InputRole::kState);
  const NodeId ey = evaluate.add_node(toy::blend(), {ex, ew}, {}, "body/blend");
  evaluate.add_output("y", evaluate.node(ey).outputs[0]);
  step.programs.push_back({"evaluate", std::move(evaluate), When::on_request()});
  step.guards = {"loss"};
  return step;
}

Engine make_engine(int64_t lanes, int64_t micro_batches, int threads) {
  static const Backend backend = toy::make_backend();
  return Engine(compile(small_step(lanes, micro_batches), backend, {.threads = threads}), backend);
}

Feed feed_of(float scale = 1) {
  return [scale](int64_t lane, int64_t micro, FeedSink& sink) {
    HostTensor x = toy::numbers(kVector, static_cast<uint32_t>(10 * lane + micro));
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, x.get(i) * scale);
    sink.set("x", x.type, x.data.data());
  };
}

void set_weight(Engine& engine, uint32_t seed = 5) {
  const HostTensor w = toy::numbers(kVector, seed);
  engine.write_state("w", w.type, w.data.data());
}

TEST(Engine, WeightsDoNotDependOnThreads) {
  std::vector<Hash> hashes;
  for (int threads = 1; threads <= 3; ++threads) {
    Engine engine = make_engine(3, 2, threads);
    set_weight(engine);
    for (int64_t step = 0; step < 5; ++step) EXPECT_EQ(engine.run_step(step, feed_of()).not_finite, "");
    hashes.push_back(engine.weights_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

TEST(Engine, HashSeesEveryBit) {
  Engine a = make_engine(1, 1, 1), b = make_engine(1, 1, 1);
  set_weight(a);
  set_weight(b);
  EXPECT_EQ(a.weights_hash(), b.weights_hash());
  HostTensor w = toy::numbers(kVector, 5);
  w.data[3999] ^= std::byte{1};
  b.write_state("w", w.type, w.data.data());
  EXPECT_NE(a.weights_hash(), b.weights_hash());
}

TEST(Engine, ArenaIsWhatWasPlannedAndAligned) {
  Engine engine = make_engine(2, 1, 2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(engine.state("w").data) % 64, 0u);
  EXPECT_EQ(engine.executable().planned_bytes(), engine.executable().arena_bytes);
  EXPECT_GT(measured_peak_bytes(), engine.executable().planned_bytes());
}

TEST(Engine, StatesAreReadAndWrittenByName) {
  Engine engine = make_engine(1, 2, 1);
  set_weight(engine, 9);
  std::vector<std::byte> bytes(static_cast<size_t>(kVector.bytes()));
  engine.read_state("w", bytes);
  EXPECT_EQ(bytes, toy::numbers(kVector, 9).data);
  expect_error([&] { engine.read_state("w", std::span(bytes).first(8)); },
               "'w': a state is read into a buffer of another size; found 8 bytes; expected 4000");
  expect_error([&] { engine.write_state("w", {DType::kF32, {10}}, bytes.data()); },
               "'w': a state is given another type than it has; found f32[10]; expected f32[1000]");
  expect_error([&] { (void)engine.state("grad.v"); },
               "the step has no state of this name; found 'grad.v'. Did you mean 'grad.w'?");
}

TEST(Engine, RefusesFeedsThatDoNotFit) {
  Engine engine = make_engine(1, 2, 1);
  const HostTensor x = toy::numbers(kVector, 1);
  const auto step = [&](const Feed& feed, std::span<const ScalarValue> scalars = {}) {
    return [&, feed, scalars] { engine.run_step(0, feed, scalars); };
  };
  expect_error(step([](int64_t, int64_t, FeedSink&) {}), "a data input was not fed; expected 'x' f32[1000]");
  expect_error(step([&](int64_t, int64_t, FeedSink& sink) { sink.set("x", {DType::kF32, {999}}, x.data.data()); }),
               "'x': a feed is of another type than the input; found f32[999]; expected f32[1000]");
  expect_error(step([&](int64_t, int64_t, FeedSink& sink) { sink.set("xx", kVector, x.data.data()); }),
               "there is no data input of this name; found 'xx'");
  const ScalarValue scalars[] = {{"learning_rate", 1}};
  expect_error(step(feed_of(), scalars), "the step has no scalar input of this name; found 'learning_rate'");
}

TEST(Engine, RefusesOtherKernelsAndThreads) {
  static const Backend backend = toy::make_backend(), other("other");
  const Executable exe = compile(small_step(1, 1), backend, {.threads = 2});
  expect_error([&] { Engine(exe, other); }, "compiled for other kernels; found toy; expected other");
  expect_error([&] { Engine(exe, backend, 3); },
               "compiled for another number of threads; found 2; expected 3. Compile it with --threads 3");
}

TEST(Engine, RefusesAnArenaThatIsNotThere) {
  static const Backend backend = toy::make_backend();
  Executable exe = compile(small_step(1, 1), backend);
  exe.arena_bytes = int64_t{1} << 50;
  expect_error([&] { Engine(exe, backend); }, "device memory: not enough memory for the arena");
}

TEST(Engine, EvaluatesWithoutChangingTheWeights) {
  Engine engine = make_engine(1, 2, 1);
  set_weight(engine);
  const Hash before = engine.weights_hash();
  const auto results = engine.run("evaluate", feed_of());
  ASSERT_EQ(results.size(), 1u);
  const HostTensor x = toy::numbers(kVector, 0), w = toy::numbers(kVector, 5);
  for (int64_t i = 0; i < 1000; ++i) EXPECT_NEAR(results[0].get(i), x.get(i) / 2 + w.get(i) / 3, 1e-6);
  EXPECT_EQ(engine.weights_hash(), before);
}

// A step that a guard ends has no after: the programs that would follow it do not run, nor later in its place.
TEST(Engine, ProgramsDoNotFollowAStepThatAGuardEnds) {
  for (int64_t micro_batches : {1, 3}) {
    static const Backend backend = toy::make_backend();
    StepGraph step = small_step(1, micro_batches);
    Graph halve("halve");
    const ValueId w = halve.add_input("w", kVector, InputRole::kState);
    const NodeId half = halve.add_node(toy::halve_and_sum(), {w}, {}, "halve");
    halve.add_output("w", halve.node(half).outputs[0], OutputRole::kState);
    halve.add_output("sum", halve.node(half).outputs[1]);
    step.programs.push_back({"halve", std::move(halve), When::each_step(2)});
    Engine engine(compile(step, backend, {.threads = 2}), backend);
    set_weight(engine);
    EXPECT_EQ(engine.run_step(0, feed_of()).not_finite, "");
    EXPECT_TRUE(engine.run_step(0, feed_of()).program("halve").empty());
    const Hash before = engine.weights_hash();
    EXPECT_EQ(engine.run_step(1, feed_of(std::numeric_limits<float>::infinity())).not_finite, "loss");
    EXPECT_TRUE(engine.run_step(2, feed_of()).program("halve").empty());
    EXPECT_NE(engine.weights_hash(), before);
    EXPECT_EQ(engine.run_step(3, feed_of()).program("halve").size(), 1u);
    expect_error([&] { (void)engine.run("halve", feed_of()); },
                 "a program does not run on request; found 'halve', every 2 steps");
    expect_error([&] { (void)engine.run("evalute", feed_of()); }, "Did you mean 'evaluate'?");
  }
}

// What is no guard may be anything: a ratio of 0 to 0, for one.
TEST(Engine, OnlyGuardsEndAStep) {
  static const Backend backend = toy::make_backend();
  StepGraph step = small_step(1, 3);
  step.guards.clear();
  Engine engine(compile(step, backend), backend);
  set_weight(engine);
  const StepResults& results = engine.run_step(0, feed_of(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(results.not_finite, "");
  EXPECT_TRUE(std::isnan(results.find("loss")->get()));
}

TEST(Engine, StopsAtALossThatIsNotFiniteAndNamesItsOrigin) {
  for (int64_t micro_batches : {1, 3}) {
    Engine engine = make_engine(1, micro_batches, 2);
    set_weight(engine);
    const Hash before = engine.weights_hash();
    const Feed bad = [](int64_t, int64_t micro, FeedSink& sink) {
      HostTensor x = toy::numbers(kVector, 3);
      if (micro == 0) x.set(417, std::numeric_limits<double>::infinity());
      sink.set("x", x.type, x.data.data());
    };
    const StepResults& results = engine.run_step(0, bad);
    EXPECT_EQ(results.not_finite, "loss");
    EXPECT_EQ(engine.weights_hash(), before);
    EXPECT_FALSE(results.states_changed);
    const auto found = engine.find_first_nonfinite(0, bad);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->node, "body/blend");
    EXPECT_EQ(found->op, "toy_blend");
    EXPECT_EQ(found->first, 417);
    EXPECT_EQ(found->count, 1);
    ASSERT_EQ(found->inputs.size(), 2u);
    EXPECT_NE(found->inputs[0].find("f32[1000] from -"), std::string::npos) << found->inputs[0];
    EXPECT_NE(found->inputs[0].find("1 not finite"), std::string::npos);
    EXPECT_NE(found->text().find("toy_blend 'body/blend' in "), std::string::npos) << found->text();
    EXPECT_EQ(engine.weights_hash(), before);
    EXPECT_EQ(engine.run_step(1, feed_of()).not_finite, "") << "the engine goes on";
  }
}

TEST(Engine, NamesAStateThatWasBadBeforeTheStep) {
  Engine engine = make_engine(1, 2, 1);
  HostTensor w = toy::numbers(kVector, 5);
  w.set(3, std::numeric_limits<double>::quiet_NaN());
  engine.write_state("w", w.type, w.data.data());
  const auto found = engine.find_first_nonfinite(0, feed_of());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text().substr(0, 43), "weight 'w' in the states before the step ga") << found->text();
}

TEST(Engine, FindsNothingWhereAllIsFinite) {
  Engine engine = make_engine(2, 2, 1);
  set_weight(engine);
  const Hash before = engine.weights_hash();
  EXPECT_FALSE(engine.find_first_nonfinite(0, feed_of()).has_value());
  EXPECT_EQ(engine.weights_hash(), before);
}

TEST(Engine, ProfileCountsEveryCall) {
  Engine engine = make_engine(2, 3, 1);
  set_weight(engine);
  engine.run_step(0, feed_of());
  engine.profile(true);
  for (int64_t step = 1; step < 3; ++step) engine.run_step(step, feed_of());
  engine.profile(false);
  engine.run_step(3, feed_of());
  int64_t blends = 0;
  for (const ProfileRow& row : engine.profile_by_kernel())
    if (row.op == "toy_blend" && row.segment == "micro") {
      blends += row.calls;
      EXPECT_DOUBLE_EQ(row.flops, 12 * 4000.0);
      EXPECT_GT(row.seconds, 0);
    }
  EXPECT_EQ(blends, 12);
  EXPECT_NE(profile_text(engine.profile_by_kernel(), 2).find("toy_blend"), std::string::npos);
}

TEST(Process, KnowsItsMemory) {
  EXPECT_GT(resident_bytes(), 1 << 20);
  EXPECT_GE(measured_peak_bytes(), resident_bytes() / 2);
  EXPECT_GT(available_memory(), 1 << 20);
}

}  // namespace
}  // namespace ramet::tests
