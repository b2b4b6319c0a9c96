#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/base/shape.h"

namespace ramet::data {

/// Names and types of the tensors of some samples, in a fixed order.
using Signature = std::vector<std::pair<std::string, TensorType>>;

/// A dense row-major tensor by name.
struct NamedTensor {
  std::string name;
  TensorType type;
  std::vector<std::byte> bytes;
};

/// Samples [first_sample, first_sample + count) of a run, as the model's inputs.
struct Batch {
  int64_t first_sample = 0, count = 0;
  std::vector<NamedTensor> tensors;
  /// The tensor of that name; Error naming those there are.
  const NamedTensor& at(std::string_view name) const;
};

/// Where a source writes samples: one place for each tensor of its signature, in that order, as long as the tensor's
/// bytes and aligned to 16 bytes at least. A place holds anything before it is written.
struct Places {
  std::span<std::byte* const> tensors;
  /// Requested when the samples are not wanted any more. A source that waits for something must then throw.
  std::stop_token stop{};
};
inline constexpr int64_t kPlaceAlignment = 64;  // of the memory that training uses

/// An endless sequence of training samples. Sample i is a pure function of the source's options and i: it does not
/// depend on which batch, process, replica or machine asks for it, nor on earlier requests. All functions may be
/// called from many threads at once.
class Source {
 public:
  virtual ~Source() = default;
  /// Names and types of the tensors of `count` samples.
  virtual Signature signature(int64_t count) const = 0;
  /// Writes samples [first, first + count), every byte of signature(count), to `places`. Throws Error when the samples
  /// cannot be made; the contents of the places are then undefined.
  virtual void fill(int64_t first, int64_t count, const Places& places) const = 0;
  /// The epoch that sample `index` belongs to (0 for data without epochs).
  virtual int64_t epoch_of(int64_t index) const = 0;
  /// Samples in epoch `epoch`; 0 for data without epochs.
  virtual int64_t epoch_samples(int64_t epoch) const = 0;
  /// Hash of all that decides the samples: the contents of the data and the options. May read all data when it is
  /// first called.
  virtual Hash identity() const = 0;
  /// Whether a sample can be made again and in any order. A source that cannot gives each sample once, in order, from
  /// `first_sample` on, and is asked by one thread at a time (data/stream.h).
  virtual bool repeatable() const { return true; }
  virtual int64_t first_sample() const { return 0; }
  /// Whether the source has only the samples of the current step, because a caller feeds them. Then no sample is asked
  /// for before its step begins, and a step that is begun again may get other samples.
  virtual bool by_step() const { return false; }
  /// What messages call a sample: "sample 17", or where it stands in a file.
  virtual std::string text_of(int64_t index) const { return "sample " + std::to_string(index); }
  /// Bytes of host memory that the source itself keeps: tables, and data that is not mapped from files.
  virtual int64_t host_bytes() const { return 0; }

  /// The samples in memory of their own.
  Batch make(int64_t first, int64_t count) const;
};

/// Hash of a kind of source, of the data that it reads, and of its options, each as a number.
Hash source_identity(std::string_view kind, std::string_view contents, std::initializer_list<double> options);
/// Throws Error when the range of samples cannot be.
void check_samples(int64_t first, int64_t count);
/// Bytes of a place for each tensor, each a multiple of kPlaceAlignment.
int64_t place_bytes(const Signature& signature);

/// Memory with a place for each tensor of a signature.
class BatchMemory {
 public:
  explicit BatchMemory(const Signature& signature);
  std::span<std::byte* const> tensors() const { return places_; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  int64_t bytes_ = 0;
  std::unique_ptr<std::byte, Free> data_;
  std::vector<std::byte*> places_;
};

}  // namespace ramet::data
