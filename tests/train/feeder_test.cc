// What feeds training: the same samples in the same micro-batches whatever the layout, within the planned memory, and
// nothing is lost when the data fails.

#include "ramet/train/feeder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/data/stream.h"
#include "ramet/model/array_file.h"
#include "ramet/recipe/prepare.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Another source's samples, made slowly, or not at all from one sample on.
class Disturbed final : public Source {
 public:
  explicit Disturbed(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  Signature signature(int64_t count) const override {
    Signature signature = source_->signature(count);
    if (!renamed.empty()) signature[0].first = renamed;
    return signature;
  }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    std::this_thread::sleep_for(sleep);
    if (fails_at >= 0 && first + count > fails_at) throw Error({.what = "the disk went away"});
    ++made;
    source_->fill(first, count, places);
  }
  int64_t epoch_of(int64_t index) const override { return source_->epoch_of(index); }
  int64_t epoch_samples(int64_t epoch) const override { return source_->epoch_samples(epoch); }
  Hash identity() const override { return source_->identity(); }

  std::chrono::milliseconds sleep{0};
  std::atomic<int64_t> fails_at = -1;
  std::string renamed;
  mutable std::atomic<int64_t> made = 0;

 private:
  std::shared_ptr<const Source> source_;
};

Preparation tiny(const std::vector<std::string>& more) {
  std::vector<std::string> settings = {
      "model.kind=bert",           "model.preset=tiny",       "model.layers=2",
      "model.hidden=32",           "model.heads=4",           "model.vocabulary_size=96",
      "model.max_positions=12",    "data.sequence_length=12", "train.micro_batch=2",
      "train.accumulation=8",      "train.lanes=4",           "train.chunks=4",
      "train.evaluation.batches=3"};
  settings.insert(settings.end(), more.begin(), more.end());
  return prepare(parse_recipe("", "tiny.toml", ".", settings));
}

/// A preparation whose training data can be disturbed.
std::pair<Preparation, std::shared_ptr<Disturbed>> disturbed(const std::vector<std::string>& more) {
  Preparation preparation = tiny(more);
  auto source = std::make_shared<Disturbed>(preparation.workload.train);
  preparation.workload.train = source;
  return {std::move(preparation), source};
}

const std::vector<std::string> kLayouts = {
    "", "p=2", "r=2", "p=2 r=2 rts=optimizer", "t=2", "phases=2 offload=optimizer"};

std::string hash_after(Preparation preparation, int64_t steps) {
  Training trainer = make_training(std::move(preparation), {.threads = 2});
  trainer.initialize();
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  return trainer.weights_hash();
}

TEST(Feeder, ASlowSourceChangesNoBitAndIsWaitedFor) {
  const std::string expected = hash_after(tiny({}), 2);
  for (const std::string& layout : kLayouts) {
    auto [preparation, source] = disturbed({"layout=" + layout});
    source->sleep = std::chrono::milliseconds(20);  // a busy machine may ask for the batch some of them later
    Training trainer = make_training(std::move(preparation), {.threads = 2});
    trainer.initialize();
    const Numbers numbers = trainer.step();
    EXPECT_GE(number_of(numbers, "data_seconds"), 0.005) << layout << ": nothing was made before the first step";
    EXPECT_LE(number_of(numbers, "data_seconds"), number_of(numbers, "step_seconds")) << layout;
    EXPECT_GT(number_of(numbers, "real_tokens_per_second"), 0) << layout;
    trainer.step();
    EXPECT_EQ(trainer.weights_hash(), expected) << layout;
  }
}

TEST(Feeder, HoldsFourMicroBatchesADeviceAndWhatIsPlanned) {
  for (const std::string& layout : kLayouts) {
    auto [preparation, source] = disturbed({"layout=" + layout, "train.accumulation=64", "data.prefetch=9"});
    Training trainer = make_training(std::move(preparation), {.threads = 2});
    trainer.initialize();
    trainer.step();
    trainer.step();
    const BatchRing& ring = trainer.feeder()->ring();
    const int64_t devices = trainer.cluster().mesh().devices();
    EXPECT_LE(ring.most_held(), 4 * devices) << layout;
    // At worst a micro-batch is made for each read of it: with phases a device comes back to it much later.
    int64_t reads = 0;
    for (const DeviceReads& device : trainer.cluster().reads_of_step()) reads += std::ssize(device.micro);
    EXPECT_LE(source->made, 2 * reads + 4 * devices) << layout;
    const std::vector<int> all = trainer.cluster().local_devices();
    EXPECT_EQ(ring.used_bytes(), Feeder::planned_bytes(*trainer.workload().train, trainer.cluster().stages(), all,
                                                       training_feed(trainer.workload(), trainer.options())));
    EXPECT_GE(trainer.host_memory().batches, ring.used_bytes());
    EXPECT_GT(trainer.host_memory().results, 0);
  }
}

TEST(Feeder, AnErrorInTheMiddleOfAStepLosesNothing) {
  const std::string one = hash_after(tiny({}), 1), three = hash_after(tiny({}), 3);
  for (const std::string& layout : kLayouts) {
    auto [preparation, source] = disturbed({"layout=" + layout});
    Training trainer = make_training(std::move(preparation), {.threads = 2});
    trainer.initialize();
    source->fails_at = 16 + 10;  // the sixth micro-batch of the second step
    trainer.step();
    for (int i = 0; i < 2; ++i) {
      try {
        trainer.step();
        ADD_FAILURE() << layout;
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "the disk went away") << layout;
      }
    }
    EXPECT_TRUE(trainer.whole()) << layout;
    EXPECT_FALSE(trainer.cluster().stopped()) << layout;
    EXPECT_EQ(trainer.weights_hash(), one) << layout;
    EXPECT_EQ(trainer.steps_done(), 1) << layout;
    try {
      trainer.check_numerics();
      ADD_FAILURE() << layout;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the disk went away") << layout;
    }
    source->fails_at = -1;
    trainer.check_numerics();
    trainer.step();
    trainer.step();
    EXPECT_EQ(trainer.weights_hash(), three) << layout;
  }
}

TEST(Feeder, AnErrorInAnEvaluationEndsThatAlone) {
  for (const std::string& layout : kLayouts) {
    Preparation preparation = tiny({"layout=" + layout});
    const auto source = std::make_shared<Disturbed>(preparation.workload.held_out);
    preparation.workload.held_out = source;
    Training trainer = make_training(std::move(preparation), {.threads = 2});
    trainer.initialize();
    const double loss = number_of(trainer.evaluate(), "loss");  // three micro-batches, two at once with r=2
    source->fails_at = 4;
    EXPECT_THROW(trainer.evaluate(), Error) << layout;
    source->fails_at = -1;
    EXPECT_EQ(number_of(trainer.evaluate(), "loss"), loss) << layout;
    EXPECT_EQ(loss, [&] {
      Training single = make_training(tiny({}), {.threads = 2});
      single.initialize();
      return number_of(single.evaluate(), "loss");
    }()) << layout;
  }
}

TEST(Feeder, NamesAnInputThatTheDataDoesNotGive) {
  auto [preparation, source] = disturbed({});
  source->renamed = "input_id";
  try {
    make_training(std::move(preparation), {.threads = 1});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the tensors are not those that the model reads"),
                                    HasSubstr("'input_ids' i32[2,12] is missing (there is 'input_id')")));
  }
}

TEST(Feeder, ArraysTrainAsTheSamplesThatTheyHold) {
  const std::string expected = hash_after(tiny({}), 2);
  const Batch samples = tiny({}).workload.train->make(0, 2 * 16);
  std::vector<ArrayColumn> columns;
  for (const NamedTensor& tensor : samples.tensors)
    columns.push_back({.name = tensor.name,
                       .stored = std::string(name_of(tensor.type.dtype)),
                       .shape = tensor.type.shape,
                       .data = tensor.bytes.data()});
  for (const std::string layout : {"", "p=2 r=2"}) {
    Preparation preparation = tiny({"layout=" + layout});
    std::vector<InputSpec> inputs;
    for (const auto& [name, type] : preparation.workload.train->signature(2))
      inputs.push_back({.name = name, .type = type});
    inputs[0].low = 0, inputs[0].high = 95;
    preparation.workload.train = check_inputs(make_array_source(columns, {.shuffle = false}), inputs, 2);
    EXPECT_EQ(hash_after(std::move(preparation), 2), expected) << layout;
  }
}

/// A stream that somebody pushes the samples of another source into, on a thread of its own.
struct Pushed {
  Pushed(const Source& samples, int64_t batch, int64_t first, int64_t batches)
      : stream(std::make_shared<StreamSource>(StreamOptions{
            .signature = samples.signature(batch), .batch = batch, .first_sample = first, .capacity = 2})),
        pusher([this, &samples, batch, batches] {
          for (int64_t i = 0; i < batches; ++i) {
            const Batch made = samples.make(stream->position(), batch);
            std::vector<std::span<const std::byte>> tensors;
            for (const NamedTensor& tensor : made.tensors) tensors.emplace_back(tensor.bytes);
            stream->push(tensors);
          }
        }) {}
  std::shared_ptr<StreamSource> stream;
  std::jthread pusher;
};

TEST(Feeder, AStreamTrainsAsItsSamplesDoAndGoesOnWhereItIsTold) {
  const TemporaryFolder folder;
  const std::string two = hash_after(tiny({}), 2), four = hash_after(tiny({}), 4);
  const std::shared_ptr<const Source> samples = tiny({}).workload.train;
  for (const std::string layout : {"", "p=2 r=2"}) {
    Preparation preparation = tiny({"layout=" + layout});
    Pushed pushed(*samples, 2, 0, 16);
    preparation.workload.train = pushed.stream;
    Training trainer = make_training(std::move(preparation), {.threads = 2});
    trainer.initialize();
    trainer.step();
    trainer.step();
    EXPECT_EQ(trainer.weights_hash(), two) << layout;
    EXPECT_THROW(
        {
          pushed.stream->finish();
          trainer.step();
        },
        Error)
        << layout;
    const Checkpoint checkpoint(trainer.save(folder / ("checkpoints" + layout)));

    for (const int64_t first : {int64_t{0}, int64_t{32}}) {
      Preparation again = tiny({"layout=" + layout});
      Pushed more(*samples, 2, first, first == 0 ? 1 : 16);
      again.workload.train = more.stream;
      Training resumed = make_training(std::move(again), {.threads = 2});
      if (first == 0) {
        try {
          resumed.restore(checkpoint);
          ADD_FAILURE();
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), AllOf(HasSubstr("does not begin where the checkpoint stands"),
                                          HasSubstr("found sample 0; expected sample 32")));
        }
        continue;
      }
      EXPECT_THAT(resumed.restore(checkpoint), HasSubstr("the data is a stream"));
      resumed.step();
      resumed.step();
      EXPECT_EQ(resumed.weights_hash(), four) << layout;
      EXPECT_THROW(resumed.feeder() && (more.stream->finish(), resumed.check_numerics(), true), Error);
    }
  }
}

}  // namespace
}  // namespace ramet::tests
