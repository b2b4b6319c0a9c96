#pragma once

#include "ramet/base/house.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ramet/api/contents.h"
#include "ramet/array.h"
#include "ramet/data.h"
#include "ramet/data/source.h"

namespace ramet::api {

/// Types of the inputs that are wanted of some data, of one micro-batch.
using Inputs = std::vector<std::pair<std::string, TensorType>>;
Inputs inputs_of(const model::Model& model);
Inputs inputs_of(const Graph& graph);
/// The type of so many samples.
TensorType of_samples(const TensorType& micro_batch, int64_t samples);

/// Throws one Error that names all in which arrays are not these inputs. Returns how many samples they have. `where`
/// says whose they are.
int64_t check_views(const Inputs& inputs, const v0::NamedViews& views, const std::string& where);

/// Arrays of a caller, as a source: samples from number `first` on. Samples behind the last one are the last one again.
class ViewSource : public Source {
 public:
  /// `views` have passed check_views.
  ViewSource(Inputs inputs, const v0::NamedViews& views, int64_t first, int64_t samples);
  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }
  Hash identity() const override { return hash_text("arrays of the caller"); }

 private:
  Inputs inputs_;
  std::vector<const std::byte*> data_;  ///< one an input
  int64_t first_, samples_;
};

/// What feeds a training whose caller brings the samples of each step: only those of the step at hand are there.
class StepSource : public Source {
 public:
  explicit StepSource(Inputs inputs) : inputs_(std::move(inputs)) {}
  /// The samples from `first` on are these, as long as the guard lives.
  class Guard {
   public:
    Guard(StepSource& source, const v0::NamedViews& views, int64_t first, int64_t samples);
    ~Guard();
    Guard(const Guard&) = delete;

   private:
    StepSource& source_;
  };

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }
  Hash identity() const override { return hash_text("samples of the caller"); }
  bool by_step() const override { return true; }

 private:
  const Inputs inputs_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int readers_ = 0;  ///< that copy samples right now
  std::unique_ptr<ViewSource> now_;
  int64_t first_ = 0, samples_ = 0;
};

}  // namespace ramet::api

namespace ramet::v0 {

/// Where samples come from, once the model is known.
struct Data::Contents {
  std::function<std::shared_ptr<const data::Source>(const Model::Contents& model, bool held_out)> bind;
  bool held_out = false;

  /// The samples of `data` for a model; null for none.
  static std::shared_ptr<const data::Source> source_of(const Data& data, const Model::Contents& model);
};

}  // namespace ramet::v0
