#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ramet/data/source.h"

namespace ramet::data {

/// How a ring deals a source's samples. A micro-batch has `batch` samples; micro-batch k of round n (a training step)
/// is number n x round + k, and has the samples from number x batch on.
struct RingOptions {
  int64_t batch = 1;     ///< samples of a micro-batch
  int64_t round = 1;     ///< micro-batches of a round
  int64_t batches = -1;  ///< numbers there are in all, -1: without end; a round that reaches beyond the last repeats it
  int64_t ahead = kMostHeld;  ///< micro-batches held for each reader, the one that it reads included; 1 to kMostHeld
  int threads = 0;            ///< that make batches; 0: by the processors
  /// The count of a micro-batch (as its tokens without padding), for `counted`; called on the threads that make
  /// batches.
  std::function<int64_t(std::span<std::byte* const> tensors)> count{};

  static constexpr int64_t kMostHeld = 4;
};

/// The micro-batches of one reader in a round, in the order in which it reads them; some may come more than once.
using RingReads = std::vector<int32_t>;

/// Micro-batches made ahead of their use by several threads, straight into a fixed number of slots. Each reader (a
/// device) reads those of a round in an order of its own, known beforehand; a micro-batch that several readers read is
/// made once as long as they are near each other. A slot is free again when no reader is about to read it; a
/// micro-batch that a reader far behind the others still needs is made again. So the data that a reader gets depends on
/// its reads alone, never on time, and no reader ever waits for another. From a source that is not repeatable every
/// micro-batch is kept until its last reader has read it, so that with several readers the ring holds a whole round.
class BatchRing {
 public:
  /// Takes the memory and starts the threads. Nothing is made before `begin`.
  BatchRing(std::shared_ptr<const Source> source, std::vector<RingReads> reads, RingOptions options);
  /// Stops the threads and waits for them (at most for the batches at work).
  ~BatchRing();
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;

  /// All readers begin round `round`: the next one, the same one again, or any other. No reader may be reading. Throws
  /// Error for a round whose samples were read before from a source that is not repeatable.
  void begin(int64_t round);
  /// Waits for reader `reader`'s next micro-batch, which must be `micro` of the round, and calls `visit` with its
  /// tensors, which hold during the call. What went wrong while it was made is thrown here; the next `begin` has it
  /// made again.
  void read(size_t reader, int64_t micro, const std::function<void(std::span<std::byte* const>)>& visit);

  /// Seconds that the reader that waited longest has waited since `begin`.
  double waited_seconds() const;
  /// Sum of the counts of the round's micro-batches; nothing until all were read, each by one reader at least.
  std::optional<int64_t> counted() const;
  /// Bytes of the slots, as they were allocated.
  int64_t used_bytes() const;
  /// Most micro-batches that were in memory at any one time, made or being made.
  int64_t most_held() const;
  int64_t slots() const;

  /// Slots of a ring with such reads, and their bytes and those of its tables, before there is one.
  static int64_t planned_slots(std::span<const RingReads> reads, const RingOptions& options, bool repeatable = true);
  static int64_t planned_bytes(const Source& source, std::span<const RingReads> reads, const RingOptions& options);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::data
