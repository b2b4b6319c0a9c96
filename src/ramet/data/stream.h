#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "ramet/data/source.h"

namespace ramet::data {

struct StreamOptions {
  std::string name = "stream";  ///< what messages call it
  Signature signature;          ///< of one batch
  int64_t batch = 1;            ///< samples of a batch: a micro-batch of training
  /// The sample that the first batch begins with. A run that goes on from a checkpoint needs the checkpoint's position
  /// here, and its caller must feed samples from there on.
  int64_t first_sample = 0;
  int64_t capacity = 4;  ///< batches that were pushed and not taken, at most
};

/// A source of batches that somebody else makes: they are pushed in the order of the samples, and each is taken once. A
/// stream does not know its samples, so it cannot give them again; what resumes a run must begin it at the right place.
/// Under MPI every rank pushes all batches; a rank that does not read a batch drops it.
class StreamSource final : public Source {
 public:
  /// Throws Error for sizes that cannot be.
  explicit StreamSource(StreamOptions options);
  ~StreamSource() override;

  /// Copies the next batch: one tensor's bytes for each of the signature. Blocks while `capacity` batches wait, so it
  /// must not be called by the thread that trains. Throws Error when a tensor has other bytes than its type, and after
  /// `finish` or `fail`.
  void push(std::span<const std::span<const std::byte>> tensors);
  /// The same, but returns false, and takes nothing, instead of blocking.
  bool try_push(std::span<const std::span<const std::byte>> tensors);
  /// There is no batch after the last one that was pushed: a step that wants one fails.
  void finish();
  /// A step that wants a batch after the last one that was pushed fails with `error`.
  void fail(std::exception_ptr error);
  /// The sample that the next batch to be pushed begins with.
  int64_t position() const;

  Signature signature(int64_t count) const override;
  /// Waits for the batch. Throws Error where it was taken before.
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }
  /// Of the name and the signature: a stream cannot tell what its samples are.
  Hash identity() const override;
  bool repeatable() const override { return false; }
  int64_t first_sample() const override;
  int64_t host_bytes() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::data
