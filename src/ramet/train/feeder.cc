#include "ramet/train/feeder.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet {
namespace {

bool is_fed(const Segment& segment, bool evaluation) { return (segment.kind == PieceKind::kEvaluate) == evaluation; }

/// Which tensor of the source each data input of a segment takes.
std::vector<size_t> bind(const Segment& segment, const Signature& signature) {
  std::vector<size_t> tensors;
  for (const Binding& feed : segment.feeds) {
    const auto found = std::find_if(signature.begin(), signature.end(), [&](const auto& each) { return each.first == feed.name; });
    if (found == signature.end()) {
      std::vector<std::string> names;
      for (const auto& each : signature) names.push_back(each.first);
      const std::string near = nearest_name(feed.name, names);
      throw Error({.what = "the data has no tensor for an input of the model",
                   .where = "'" + feed.name + "' " + feed.type.text(),
                   .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
    }
    if (found->second != feed.type)
      throw Error({.what = "the data gives another type than the model's input has",
                   .where = "'" + feed.name + "'",
                   .found = found->second.text(),
                   .expected = feed.type.text()});
    tensors.push_back(static_cast<size_t>(found - signature.begin()));
  }
  return tensors;
}

RingOptions ring_options(const FeederOptions& options, std::span<const Executable> stages) {
  const int64_t replicas = stages[0].mesh.r;
  return {.batch = options.micro_batch,
          .round = options.evaluation ? replicas : replicas * stages[0].micro_batches(),
          .batches = options.batches,
          .ahead = std::clamp<int64_t>(options.prefetch + 1, 1, RingOptions::kMostHeld),
          .threads = options.threads,
          .count = options.count};
}

std::vector<RingReads> ring_reads(std::vector<DeviceReads> devices) {
  std::vector<RingReads> reads;
  for (DeviceReads& each : devices) reads.push_back(std::move(each.micro));
  return reads;
}

}  // namespace

Feeder::Feeder(std::shared_ptr<const Source> source, const Cluster& cluster, const FeederOptions& options)
    : devices_([&] {
        const Signature signature = source->signature(options.micro_batch);
        std::vector<Bound> bound(static_cast<size_t>(cluster.mesh().devices()));
        size_t reader = 0;
        for (const int device : cluster.local_devices()) {
          Bound& each = bound[static_cast<size_t>(device)];
          each.reader = reader++;
          for (const Segment& segment :
               cluster.stages()[static_cast<size_t>(cluster.mesh().position(device).stage)].segments)
            each.tensors.push_back(is_fed(segment, options.evaluation) ? bind(segment, signature)
                                                                       : std::vector<size_t>{});
        }
        return bound;
      }()),
      ring_(std::move(source), ring_reads(cluster.reads(options.evaluation)), ring_options(options, cluster.stages())),
      feed_([this](int64_t micro, const Executable&, FeedSink& sink) { give(micro, sink); }) {}

void Feeder::give(int64_t micro, FeedSink& sink) {
  const Bound& bound = devices_[static_cast<size_t>(sink.device())];
  ring_.read(bound.reader, micro, [&](std::span<std::byte* const> data) {
    const std::vector<size_t>& tensors = bound.tensors[static_cast<size_t>(sink.segment())];
    for (size_t input = 0; input < tensors.size(); ++input) sink.put(input, data[tensors[input]]);
  });
}

int64_t Feeder::planned_bytes(const Source& source, std::span<const Executable> stages, std::span<const int> devices,
                              const FeederOptions& options) {
  std::vector<DeviceReads> reads;
  for (const int device : devices)
    reads.push_back(reads_of(stages[static_cast<size_t>(stages[0].mesh.position(device).stage)], device,
                             options.evaluation));
  return BatchRing::planned_bytes(source, ring_reads(std::move(reads)), ring_options(options, stages));
}

}  // namespace ramet
