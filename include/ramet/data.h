#pragma once

#include <memory>
#include <span>
#include <string>

#include "ramet/array.h"

namespace ramet::v0 {

/// Where a source writes samples for one input: a row-major tensor of this type, whose first dimension are samples.
struct Place {
  std::string name;  ///< the input's
  TensorType type;
  std::byte* data = nullptr;

  template <typename T>
  std::span<T> as() const {
    if (dtype_of<T>() != type.dtype) throw Error({.what = "numbers of another type", .found = type.text()});
    return {reinterpret_cast<T*>(data), static_cast<size_t>(type.elements())};
  }
};

/// Samples that a program makes by itself. Sample i is a pure function of i: several threads ask for any samples in any
/// order, and for the same ones again.
class RAMET_API Source {
 public:
  virtual ~Source();
  /// Writes every number of samples [first, first + count) to `places`, one for each input of the model. What it throws
  /// ends the step that wants the samples, which changes no weight.
  virtual void fill(int64_t first, int64_t count, std::span<const Place> places) const = 0;
  /// Samples of an epoch; 0: the source has no epochs.
  virtual int64_t samples() const { return 0; }
  /// Tells data of one kind apart: a checkpoint keeps it, and is not resumed on other data.
  virtual std::string identity() const { return ""; }
};

struct ArrayOptions {
  bool shuffle = true;  ///< a new order every epoch
  uint64_t seed = 0;    ///< of that order
  double held_out = 0;  ///< share of the samples that `held_out()` of the same arrays gives, and `train()` leaves out
};

/// Samples for training or evaluation, epoch after epoch. Cheap to copy.
class RAMET_API Data {
 public:
  /// None.
  Data() = default;
  /// Arrays of the caller's memory, which must stay as long as the data is used: for each input of the model all of its
  /// samples, one behind another.
  static Data arrays(const NamedViews& arrays, const ArrayOptions& options = {});
  /// Arrays of a file (.npy, .npz, .safetensors) or of a folder of .npy files, named as the model's inputs, whose first
  /// dimension are samples. Mapped, not read.
  static Data file(const std::string& path, const ArrayOptions& options = {});
  static Data source(std::shared_ptr<const Source> source);
  /// The samples that were held out of these, in order. Throws Error where there are none.
  Data held_out() const;

  bool empty() const { return contents_ == nullptr; }
  struct RAMET_PRIVATE Contents;
  const std::shared_ptr<const Contents>& contents() const { return contents_; }  ///< the library's

 private:
  explicit Data(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

}  // namespace ramet::v0
