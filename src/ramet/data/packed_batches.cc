#include <algorithm>
#include <mutex>

#include "ramet/base/error.h"
#include "ramet/data/batch_parts.h"
#include "ramet/data/permutation.h"

namespace ramet {
namespace {

constexpr int64_t kWindow = 4096;  // samples that are packed together where there are no epochs

enum Part : size_t { kIds, kTypes, kSegments, kPositions, kPlaces, kLabels, kFirsts, kNext };

/// The rows of one epoch: which of its samples each holds.
struct EpochPlan {
  int64_t epoch = 0, first_sample = 0;
  std::vector<uint32_t> ends;     ///< of each row in `members`
  std::vector<uint32_t> members;  ///< samples, counted from the epoch's first
  int64_t rows() const { return static_cast<int64_t>(ends.size()); }
};

class PackedSource final : public BatchSource {
 public:
  PackedSource(std::shared_ptr<const BatchSource> samples, const PackedBatchOptions& options)
      : samples_(std::move(samples)), options_(options) {
    if (options.depth < 1 || options.depth > options.sequence_length)
      throw Error({.what = "the depth of packing is out of range",
                   .found = std::to_string(options.depth),
                   .expected = "1 to " + std::to_string(options.sequence_length) + " sequences a row"});
    const std::lock_guard lock(mutex_);
    plan_locked(0);  // what cannot be packed is told at once
  }

  Signature signature(int64_t count) const override {
    const TensorType tokens{DType::kI32, {count, options_.sequence_length}};
    const TensorType words{DType::kI32, {count, options_.max_predictions}};
    const TensorType sequences{DType::kI32, {count, options_.depth}};
    return {{"input_ids", tokens},        {"token_type_ids", tokens}, {"segment_ids", tokens},
            {"position_ids", tokens},     {"masked_positions", words}, {"masked_labels", words},
            {"first_positions", sequences}, {"next_sentence_label", sequences}};
  }

  int64_t epoch_of(int64_t index) const override { return endless() ? 0 : locate(index).first; }
  int64_t epoch_samples(int64_t epoch) const override {
    const std::lock_guard lock(mutex_);
    return endless() ? 0 : rows_locked(epoch);
  }

  Batch make(int64_t first_sample, int64_t count) const override {
    Batch batch = empty_batch(signature(count), first_sample, count);
    for (int64_t row = 0; row < count; ++row) {
      const auto [epoch, in_epoch] = locate(first_sample + row);
      const auto plan = plan_of(epoch);
      const int64_t number =
          options_.shuffle
              ? Permutation(plan->rows(), options_.seed, static_cast<uint64_t>(epoch), kShuffleRows)(in_epoch)
              : in_epoch;
      write_row(batch, row, *plan, static_cast<size_t>(number));
    }
    return batch;
  }

 private:
  bool endless() const { return samples_->epoch_samples(0) == 0; }
  int64_t samples_of(int64_t epoch) const { return endless() ? kWindow : samples_->epoch_samples(epoch); }

  void write_row(Batch& batch, int64_t row, const EpochPlan& plan, size_t number) const {
    std::fill_n(row_of(batch, kLabels, row), options_.max_predictions, -1);
    std::fill_n(row_of(batch, kNext, row), options_.depth, -1);
    int32_t begin = 0, word = 0, sequence = 0;
    for (size_t i = number == 0 ? 0 : plan.ends[number - 1]; i < plan.ends[number]; ++i, ++sequence) {
      const Batch sample = samples_->make(plan.first_sample + plan.members[i], 1);
      const auto part = [&](const char* name) {
        return reinterpret_cast<const int32_t*>(sample.at(name).bytes.data());
      };
      const int32_t* seen = part("attention_mask");
      const auto length = static_cast<int32_t>(std::count(seen, seen + options_.sequence_length, 1));
      std::copy_n(part("input_ids"), length, row_of(batch, kIds, row) + begin);
      std::copy_n(part("token_type_ids"), length, row_of(batch, kTypes, row) + begin);
      std::fill_n(row_of(batch, kSegments, row) + begin, length, sequence + 1);
      for (int32_t p = 0; p < length; ++p) row_of(batch, kPositions, row)[begin + p] = p;
      const int32_t *places = part("masked_positions"), *labels = part("masked_labels");
      for (int64_t k = 0; k < sample.at("masked_labels").type.elements(); ++k) {
        if (labels[k] < 0) continue;
        if (word == options_.max_predictions)
          internal_error("make_packed_batches", "a row of more masked words than it has room for");
        row_of(batch, kPlaces, row)[word] = begin + places[k];
        row_of(batch, kLabels, row)[word++] = labels[k];
      }
      row_of(batch, kFirsts, row)[sequence] = begin;
      row_of(batch, kNext, row)[sequence] = *part("next_sentence_label");
      begin += length;
    }
  }

  /// The epoch of row `index` and its number there.
  std::pair<int64_t, int64_t> locate(int64_t index) const {
    const std::lock_guard lock(mutex_);
    for (int64_t epoch = 0;; ++epoch) {
      const int64_t rows = rows_locked(epoch);
      if (index < rows) return {epoch, index};
      index -= rows;
    }
  }

  std::shared_ptr<const EpochPlan> plan_of(int64_t epoch) const {
    const std::lock_guard lock(mutex_);
    return plan_locked(epoch);
  }
  int64_t rows_locked(int64_t epoch) const {
    while (std::ssize(rows_) <= epoch) plan_locked(std::ssize(rows_));
    return rows_[static_cast<size_t>(epoch)];
  }

  /// The last two plans stay: an epoch's end lies in a batch with the next one's begin.
  std::shared_ptr<const EpochPlan> plan_locked(int64_t epoch) const {
    for (const auto& plan : plans_)
      if (plan && plan->epoch == epoch) return plan;
    std::swap(plans_[0], plans_[1]);
    plans_[0] = make_plan(epoch);
    if (std::ssize(rows_) == epoch) {
      rows_.push_back(plans_[0]->rows());
      firsts_.push_back(plans_[0]->first_sample + samples_of(epoch));
    }
    return plans_[0];
  }

  std::shared_ptr<const EpochPlan> make_plan(int64_t epoch) const {
    auto plan = std::make_shared<EpochPlan>();
    plan->epoch = epoch;
    plan->first_sample = firsts_[static_cast<size_t>(epoch)];
    std::vector<int32_t> lengths(static_cast<size_t>(samples_of(epoch)));
    for (size_t i = 0; i < lengths.size(); ++i)
      lengths[i] = samples_->sample_length(plan->first_sample + static_cast<int64_t>(i));
    plan->members.reserve(lengths.size());
    for (const auto& pack : pack_sequences(lengths, options_.sequence_length, options_.algorithm, options_.depth)) {
      plan->members.insert(plan->members.end(), pack.begin(), pack.end());
      plan->ends.push_back(static_cast<uint32_t>(plan->members.size()));
    }
    return plan;
  }

  std::shared_ptr<const BatchSource> samples_;
  PackedBatchOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const EpochPlan> plans_[2];
  mutable std::vector<int64_t> rows_;          // of each epoch so far
  mutable std::vector<int64_t> firsts_{0};     // first sample of each epoch, and of the next
};

}  // namespace

std::unique_ptr<BatchSource> make_packed_batches(std::shared_ptr<const BatchSource> samples,
                                                 const PackedBatchOptions& options) {
  return std::make_unique<PackedSource>(std::move(samples), options);
}

}  // namespace ramet
