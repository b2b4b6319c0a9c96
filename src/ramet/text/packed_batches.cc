#include <algorithm>
#include <mutex>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/data/permutation.h"
#include "ramet/text/batch_parts.h"

namespace ramet::text {
namespace {

constexpr int64_t kWindow = 4096;  // samples that are packed together where there are no epochs

/// What becomes of a sample's tensor in a row that it shares.
enum class Fate : uint8_t {
  kTokens,    ///< [1,S]: the sequence's tokens keep theirs
  kSegments,  ///< the attention mask gives way to segment_ids and position_ids
  kPlaces,    ///< masked_positions: those of all sequences, with their labels
  kWords,     ///< masked_labels
  kNumber,    ///< [1]: one for each sequence
  kWeighed,   ///< [1] in f32: one for each sequence, with a weight
  kLogits,    ///< [1,C] in f32: C for each sequence
  kPlace      ///< [1]: one for each sequence, a position in the row
};
Fate fate_of(const std::string& name, const TensorType& type) {
  if (name == "attention_mask") return Fate::kSegments;
  if (name == "masked_positions") return Fate::kPlaces;
  if (name == "masked_labels") return Fate::kWords;
  if (name == "start_positions" || name == "end_positions") return Fate::kPlace;
  if (name == "teacher_logits") return Fate::kLogits;
  if (type.shape.rank() == 2) return Fate::kTokens;
  return type.dtype == DType::kF32 ? Fate::kWeighed : Fate::kNumber;
}
/// What says that there is nothing, or that it does not count.
int32_t nothing(const std::string& name, Fate fate) {
  const bool labels = name.ends_with("labels") || name.ends_with("label");
  return fate == Fate::kPlace || (labels && fate != Fate::kWeighed) ? -1 : 0;
}

/// The rows of one epoch: which of its samples each holds.
struct EpochRows {
  int64_t epoch = 0, first_sample = 0;
  std::vector<uint32_t> ends;     ///< of each row in `members`
  std::vector<uint32_t> members;  ///< samples, counted from the epoch's first
  int64_t rows() const { return static_cast<int64_t>(ends.size()); }
};

class PackedSource final : public Source {
 public:
  PackedSource(std::shared_ptr<const SequenceSource> samples, const PackedBatchOptions& options)
      : samples_(std::move(samples)), options_(options) {
    if (options.depth < 1 || options.depth > options.sequence_length)
      throw Error({.what = "the depth of packing is out of range",
                   .found = std::to_string(options.depth),
                   .expected = "1 to " + std::to_string(options.sequence_length) + " sequences a row"});
    const std::lock_guard lock(mutex_);
    epoch_locked(0);  // reports at once if rows cannot be packed
  }

  Signature signature(int64_t count) const override {
    Signature signature;
    for (const auto& [name, type] : samples_->signature(1)) {
      const TensorType tokens{DType::kI32, {count, options_.sequence_length}};
      const TensorType words{DType::kI32, {count, options_.max_predictions}};
      const TensorType numbers{type.dtype, {count, options_.depth}};
      switch (fate_of(name, type)) {
        case Fate::kTokens: signature.emplace_back(name, tokens); break;
        case Fate::kSegments:
          signature.emplace_back("segment_ids", tokens);
          signature.emplace_back("position_ids", tokens);
          break;
        case Fate::kPlaces:
        case Fate::kWords: signature.emplace_back(name, words); break;
        case Fate::kNumber:
        case Fate::kPlace: signature.emplace_back(name, numbers); break;
        case Fate::kWeighed:
          signature.emplace_back(name, numbers);
          signature.emplace_back("label_weights", numbers);
          break;
        case Fate::kLogits:
          signature.emplace_back(name, TensorType{type.dtype, {count, options_.depth, type.shape[1]}});
          break;
      }
    }
    signature.push_back({"first_positions", {DType::kI32, {count, options_.depth}}});
    return signature;
  }

  Hash identity() const override {
    return source_identity(
        "packed", samples_->identity().hex(),
        {static_cast<double>(options_.algorithm), static_cast<double>(options_.depth),
         static_cast<double>(options_.sequence_length), static_cast<double>(options_.max_predictions),
         options_.shuffle ? 1.0 : 0.0, static_cast<double>(options_.seed >> 32),
         static_cast<double>(options_.seed & 0xFFFFFFFFu)});
  }
  /// The rows of two epochs are kept, each with two numbers of 4 bytes a sample at most.
  int64_t host_bytes() const override { return samples_->host_bytes() + 2 * 8 * samples_of(0); }
  int64_t epoch_of(int64_t index) const override { return endless() ? 0 : locate(index).first; }
  int64_t epoch_samples(int64_t epoch) const override {
    const std::lock_guard lock(mutex_);
    return endless() ? 0 : rows_locked(epoch);
  }

  void fill(int64_t first_sample, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first_sample, count, places);
    for (int64_t row = 0; row < count; ++row) {
      const auto [epoch, in_epoch] = locate(first_sample + row);
      const auto epoch_rows = rows_of(epoch);
      const int64_t number = options_.shuffle ? Permutation(epoch_rows->rows(), options_.seed,
                                                            static_cast<uint64_t>(epoch), kShuffleRows)(in_epoch)
                                              : in_epoch;
      write_row(batch, row, *epoch_rows, static_cast<size_t>(number));
    }
  }

 private:
  bool endless() const { return samples_->epoch_samples(0) == 0; }
  int64_t samples_of(int64_t epoch) const { return endless() ? kWindow : samples_->epoch_samples(epoch); }

  void write_row(const Rows& batch, int64_t row, const EpochRows& epoch_rows, size_t number) const {
    int32_t begin = 0, word = 0, sequence = 0;
    for (size_t i = number == 0 ? 0 : epoch_rows.ends[number - 1]; i < epoch_rows.ends[number]; ++i, ++sequence) {
      const Batch sample = samples_->make(epoch_rows.first_sample + epoch_rows.members[i], 1);
      if (sequence == 0) clear_row(batch, row, sample);
      const int32_t length = samples_->sample_length(epoch_rows.first_sample + epoch_rows.members[i]);
      size_t at = 0;  // tensors come in the samples' order, some of them as two
      for (const NamedTensor& tensor : sample.tensors) {
        int32_t* const to = batch.of(at++, row);
        const int32_t* const from = numbers_of(tensor);
        switch (fate_of(tensor.name, tensor.type)) {
          case Fate::kTokens: std::copy_n(from, length, to + begin); break;
          case Fate::kSegments:
            std::fill_n(to + begin, length, sequence + 1);
            std::iota(batch.of(at, row) + begin, batch.of(at, row) + begin + length, 0);
            ++at;
            break;
          case Fate::kPlaces: break;  // with their labels
          case Fate::kWords:
            word += add_words({numbers_of(sample.at("masked_positions")), from, tensor.type.elements()}, begin, word,
                              batch.of(at - 2, row), to);
            break;
          case Fate::kNumber: to[sequence] = *from; break;
          case Fate::kPlace: to[sequence] = *from < 0 ? *from : begin + *from; break;
          case Fate::kWeighed:
            to[sequence] = *from;  // the bits of a float
            reinterpret_cast<float*>(batch.of(at++, row))[sequence] = 1;
            break;
          case Fate::kLogits: std::copy_n(from, tensor.type.elements(), to + sequence * tensor.type.elements()); break;
        }
      }
      batch.of(at, row)[sequence] = begin;
      begin += length;
    }
  }

  /// Nothing where no sequence will be.
  static void clear_row(const Rows& batch, int64_t row, const Batch& sample) {
    for (const NamedTensor& tensor : sample.tensors)
      for (size_t i = 0; i < batch.signature().size(); ++i)
        if (const auto& [name, type] = batch.signature()[i]; name == tensor.name)
          std::fill_n(batch.of(i, row), type.elements() / batch.count(),
                      nothing(tensor.name, fate_of(tensor.name, tensor.type)));
  }

  struct Words {
    const int32_t *places, *labels;
    int64_t count;
  };
  /// Masked words of a sequence that begins at `begin`, behind the `word` that the row has; returns how many.
  int32_t add_words(const Words& words, int32_t begin, int32_t word, int32_t* places, int32_t* labels) const {
    int32_t added = 0;
    for (int64_t k = 0; k < words.count; ++k) {
      if (words.labels[k] < 0) continue;
      if (word + added == options_.max_predictions)
        internal_error("make_packed_batches", "a row of more masked words than it has room for");
      places[word + added] = begin + words.places[k];
      labels[word + added++] = words.labels[k];
    }
    return added;
  }

  static const int32_t* numbers_of(const NamedTensor& tensor) {
    return reinterpret_cast<const int32_t*>(tensor.bytes.data());
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

  std::shared_ptr<const EpochRows> rows_of(int64_t epoch) const {
    const std::lock_guard lock(mutex_);
    return epoch_locked(epoch);
  }
  int64_t rows_locked(int64_t epoch) const {
    while (std::ssize(rows_) <= epoch) epoch_locked(std::ssize(rows_));
    return rows_[static_cast<size_t>(epoch)];
  }

  /// Those of the last two epochs stay: an epoch's end lies in a batch with the next one's begin.
  std::shared_ptr<const EpochRows> epoch_locked(int64_t epoch) const {
    for (const auto& epoch_rows : epochs_)
      if (epoch_rows && epoch_rows->epoch == epoch) return epoch_rows;
    std::swap(epochs_[0], epochs_[1]);
    epochs_[0] = make_rows(epoch);
    if (std::ssize(rows_) == epoch) {
      rows_.push_back(epochs_[0]->rows());
      firsts_.push_back(epochs_[0]->first_sample + samples_of(epoch));
    }
    return epochs_[0];
  }

  std::shared_ptr<const EpochRows> make_rows(int64_t epoch) const {
    auto epoch_rows = std::make_shared<EpochRows>();
    epoch_rows->epoch = epoch;
    epoch_rows->first_sample = firsts_[static_cast<size_t>(epoch)];
    std::vector<int32_t> lengths(static_cast<size_t>(samples_of(epoch)));
    for (size_t i = 0; i < lengths.size(); ++i)
      lengths[i] = samples_->sample_length(epoch_rows->first_sample + static_cast<int64_t>(i));
    epoch_rows->members.reserve(lengths.size());
    for (const auto& pack : pack_sequences(lengths, options_.sequence_length, options_.algorithm, options_.depth)) {
      epoch_rows->members.insert(epoch_rows->members.end(), pack.begin(), pack.end());
      epoch_rows->ends.push_back(static_cast<uint32_t>(epoch_rows->members.size()));
    }
    return epoch_rows;
  }

  std::shared_ptr<const SequenceSource> samples_;
  PackedBatchOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const EpochRows> epochs_[2];
  mutable std::vector<int64_t> rows_;       // of each epoch so far
  mutable std::vector<int64_t> firsts_{0};  // first sample of each epoch, and of the next
};

}  // namespace

std::unique_ptr<Source> make_packed_batches(std::shared_ptr<const SequenceSource> samples,
                                            const PackedBatchOptions& options) {
  return std::make_unique<PackedSource>(std::move(samples), options);
}

}  // namespace ramet::text
