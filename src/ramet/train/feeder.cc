#include "ramet/train/feeder.h"

#include <algorithm>
#include <mutex>

#include "ramet/base/error.h"

namespace ramet::train {
namespace {

/// Whether a feeder with these options gives a segment its data.
bool is_fed(const Executable& exe, const Segment& segment, const FeederOptions& options) {
  return options.program.empty() ? exe.runs_in_step(segment.program)
                                 : exe.find_program(options.program) == segment.program;
}

/// Which tensor of the source each data input of a segment takes.
std::vector<size_t> bind(const Segment& segment, const Signature& signature) {
  std::vector<size_t> tensors;
  for (const Binding& feed : segment.feeds) {
    const auto found =
        std::find_if(signature.begin(), signature.end(), [&](const auto& each) { return each.first == feed.name; });
    if (found == signature.end()) {
      std::vector<std::string> names;
      for (const auto& each : signature) names.push_back(each.first);
      const std::string near = nearest_name(feed.name, names);
      throw Error({.what = "the data has no tensor for an input of the model",
                   .where = "'" + feed.name + "' " + feed.type.text(),
                   .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
    }
    if (found->second != feed.sharding.logical)
      throw Error({.what = "the data gives another type than the model's input has",
                   .where = "'" + feed.name + "'",
                   .found = found->second.text(),
                   .expected = feed.sharding.logical.text()});
    tensors.push_back(static_cast<size_t>(found - signature.begin()));
  }
  return tensors;
}

int64_t micro_batches(const FeederOptions& options, const Executable& exe) {
  return options.program.empty() ? exe.mesh.r * exe.micro_batches() : options.count;
}

RingOptions ring_options(const FeederOptions& options, std::span<const Executable> stages) {
  return {.batch = options.micro_batch,
          .round = micro_batches(options, stages[0]),
          .ahead = std::clamp<int64_t>(options.prefetch + 1, 1, RingOptions::kMostHeld),
          .threads = options.threads,
          .count = options.count_units};
}

std::vector<RingReads> ring_reads(std::vector<DeviceReads> devices) {
  std::vector<RingReads> reads;
  for (DeviceReads& each : devices) reads.push_back(std::move(each.micro));
  return reads;
}

}  // namespace

Feeder::Feeder(std::shared_ptr<const Source> source, const Cluster& cluster, const FeederOptions& options)
    : source_(source),
      micro_batch_(options.micro_batch),
      micro_batches_(micro_batches(options, cluster.stages()[0])),
      devices_([&] {
        const Signature signature = source->signature(options.micro_batch);
        std::vector<Bound> bound(static_cast<size_t>(cluster.mesh().devices()));
        size_t reader = 0;
        for (const int device : cluster.local_devices()) {
          Bound& each = bound[static_cast<size_t>(device)];
          each.reader = reader++;
          const Executable& exe = cluster.stages()[static_cast<size_t>(cluster.mesh().position(device).stage)];
          for (const Segment& segment : exe.segments) {
            each.tensors.push_back(is_fed(exe, segment, options) ? bind(segment, signature) : std::vector<size_t>{});
            each.apart.push_back(options.program.empty() && segment.program != kTrain);
          }
        }
        return bound;
      }()),
      ring_(std::move(source),
            ring_reads(options.program.empty() ? cluster.reads_of_step()
                                               : cluster.reads_of_request(options.program, options.count)),
            ring_options(options, cluster.stages())),
      feed_([this](int64_t micro, const Executable&, FeedSink& sink) { give(micro, sink); }) {}

void Feeder::begin(int64_t round) {
  round_ = round;
  ring_.begin(round);
}

void Feeder::give(int64_t micro, FeedSink& sink) {
  const Bound& bound = devices_[static_cast<size_t>(sink.device())];
  const auto segment = static_cast<size_t>(sink.segment());
  const std::vector<size_t>& tensors = bound.tensors[segment];
  if (bound.apart[segment]) return give_apart(micro, tensors, sink);
  ring_.read(bound.reader, micro, [&](std::span<std::byte* const> data) {
    for (size_t input = 0; input < tensors.size(); ++input) sink.put(input, data[tensors[input]]);
  });
}

void Feeder::give_apart(int64_t micro, const std::vector<size_t>& tensors, FeedSink& sink) {
  if (!source_->repeatable())
    throw Error({.what = "a program that runs in some steps reads data that training has read already",
                 .where = "the training data",
                 .found = "a stream, which gives each sample once",
                 .remedy = "Train on a source that can be read again, or let the program read no data"});
  BatchMemory memory(source_->signature(micro_batch_));
  source_->fill((round_ * micro_batches_ + micro) * micro_batch_, micro_batch_, {.tensors = memory.tensors()});
  for (size_t input = 0; input < tensors.size(); ++input) sink.put(input, memory.tensors()[tensors[input]]);
}

int64_t Feeder::planned_bytes(const Source& source, std::span<const Executable> stages, std::span<const int> devices,
                              const FeederOptions& options) {
  std::vector<DeviceReads> reads;
  for (const int device : devices) {
    const Executable& exe = stages[static_cast<size_t>(stages[0].mesh.position(device).stage)];
    reads.push_back(options.program.empty() ? reads_of_step(exe, device)
                                            : reads_of_request(exe, device, options.program, options.count));
  }
  return BatchRing::planned_bytes(source, ring_reads(std::move(reads)), ring_options(options, stages));
}

ClusterFeed feed_with_progress(ClusterFeed feed, int64_t batch, int64_t total, RequestProgress progress) {
  if (!progress) return feed;
  struct State {
    std::mutex mutex;
    int64_t begun = 0;  ///< micro-batches
  };
  return [feed = std::move(feed), batch, total, progress = std::move(progress), state = std::make_shared<State>()](
             int64_t micro, const Executable& executable, FeedSink& sink) {
    feed(micro, executable, sink);
    const std::lock_guard lock(state->mutex);
    if (micro < state->begun) return;
    state->begun = micro + 1;
    progress(std::min(total, state->begun * batch), total);
  };
}

}  // namespace ramet::train
