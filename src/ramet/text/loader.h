#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ramet/text/batches.h"

namespace ramet::text {

/// Makes batches ahead of their use on one background thread. The order is that of the samples; what `next` returns
/// does not depend on timing. An Error while making a batch reaches the caller of `next` in its place in the order.
class Loader {
 public:
  /// Batches of `batch` samples from sample `first_sample` on, at most `ahead` >= 1 of them made and not yet taken.
  /// `batches` < 0 goes on without end; else `next` after the last is an Error. Batches for whose number (0 is the
  /// first) `wanted` says no come in their places without tensors; it is asked on the background thread.
  Loader(std::shared_ptr<const BatchSource> source, int64_t first_sample, int64_t batch, int ahead = 2,
         int64_t batches = -1, std::function<bool(int64_t number)> wanted = {});
  /// Stops the thread and waits for it (at most for the batch at work).
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch; waits for it.
  Batch next();
  /// Seconds that `next` has waited so far: above zero when data is slower than training.
  double waited_seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::text
