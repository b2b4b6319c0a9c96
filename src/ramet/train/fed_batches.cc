#include "ramet/train/fed_batches.h"

#include "ramet/base/error.h"

namespace ramet {

void put_batch(const Batch& batch, FeedSink& sink) {
  for (const auto& tensor : batch.tensors)
    if (sink.takes(tensor.name)) sink.set(tensor.name, tensor.type, tensor.bytes.data());
}

FedBatches::FedBatches(Loader& loader, const Cluster& cluster, std::string program, int64_t count)
    : loader_(loader), cluster_(cluster), program_(std::move(program)), count_(count) {}

ClusterFeed FedBatches::feed() {
  return [this](int64_t micro, const Executable&, FeedSink& sink) { put_batch(*take(micro), sink); };
}

std::shared_ptr<const Batch> FedBatches::take(int64_t micro) {
  const std::lock_guard lock(mutex_);
  for (; next_ <= micro; ++next_) {
    auto batch = std::make_shared<const Batch>(loader_.next());
    if (const int64_t reads = cluster_.reads_of_request(program_, next_, count_); reads > 0)
      kept_[next_] = {std::move(batch), reads};
  }
  const auto found = kept_.find(micro);
  if (found == kept_.end())
    internal_error("FedBatches", "micro-batch " + std::to_string(micro) + " is read more often than was expected");
  const std::shared_ptr<const Batch> batch = found->second.batch;
  if (--found->second.reads == 0) kept_.erase(found);
  return batch;
}

}  // namespace ramet
