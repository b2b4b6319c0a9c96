#include "ramet/graphs/triple_shards.h"

#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/permutation.h"

namespace ramet::graphs {
namespace {

enum Tensor : size_t { kHead, kTail, kRelation, kReal, kWeight };

template <typename T>
T* place(const Places& places, size_t tensor, int64_t element) {
  return reinterpret_cast<T*>(places.tensors[tensor]) + element;
}

}  // namespace

ShardedTripleSource::ShardedTripleSource(std::span<const Triple> triples, std::span<const Triple> known,
                                         EntityShards shards, std::string contents, TripleOptions options)
    : shards_(shards),
      options_(options),
      contents_(std::move(contents)),
      pairs_(static_cast<size_t>(shards.shards * shards.shards)),
      weights_(options.subsampling ? pairs_.size() : 0),
      tails_(with_reciprocal(known, options), TripleEnd::kTail),
      heads_(known, TripleEnd::kHead) {
  const int64_t n = shards_.shards;
  for (const auto& [what, count] : {std::pair("triples of a group", options_.group), {"negatives", options_.negatives}})
    if (count < n || count % n != 0)
      throw Error({.what = std::string("the ") + what + " do not divide among the shards",
                   .where = "the triples",
                   .found = std::to_string(count),
                   .expected = "a multiple of " + std::to_string(n)});
  if (triples.empty()) throw Error({.what = "there are no triples to learn", .where = "the triples"});
  if (options_.reciprocal) options_.heads = false;
  const std::vector<Triple> all = with_reciprocal(triples, options_);
  const std::vector<float> weights = options_.subsampling ? subsampling_weights(all) : std::vector<float>();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto pair = static_cast<size_t>(all[i].head / shards_.room() * n + all[i].tail / shards_.room());
    pairs_[pair].push_back(all[i]);
    if (options_.subsampling) weights_[pair].push_back(weights[i]);
  }
  for (auto& pair : pairs_) {
    pair.shrink_to_fit();
    triples_ += std::ssize(pair);
    steps_ = std::max(steps_, (std::ssize(pair) + pair_places() - 1) / pair_places());
  }
}

Hash ShardedTripleSource::identity() const {
  return source_identity("triples by shards", contents_ + (options_.subsampling ? " subsampled" : ""),
                         {static_cast<double>(shards_.shards), static_cast<double>(options_.group),
                          static_cast<double>(options_.negatives), static_cast<double>(options_.tails),
                          static_cast<double>(options_.heads), static_cast<double>(options_.reciprocal),
                          static_cast<double>(options_.shuffle), static_cast<double>(options_.seed)});
}

std::string ShardedTripleSource::text_of(int64_t index) const {
  return "shard " + std::to_string(index % shards_.shards) + " of step " + std::to_string(index / shards_.shards);
}

int64_t ShardedTripleSource::host_bytes() const {
  return triples_ * static_cast<int64_t>(sizeof(Triple) + (options_.subsampling ? sizeof(float) : 0)) +
         std::ssize(pairs_) * static_cast<int64_t>(sizeof(pairs_[0])) + tails_.host_bytes() + heads_.host_bytes();
}

Signature ShardedTripleSource::signature(int64_t count) const {
  const int64_t n = shards_.shards, group = options_.group, each = options_.negatives / n;
  Signature signature{{"head", {DType::kI32, {count, n, pair_places()}}},
                      {"tail", {DType::kI32, {count, n, pair_places()}}},
                      {"relation", {DType::kI32, {count, group}}},
                      {"real", {DType::kU8, {count, group}}}};
  if (options_.subsampling) signature.emplace_back("weight", TensorType{DType::kF32, {count, group}});
  for (const auto& [side, wanted] : {std::pair("tail", options_.tails), std::pair("head", options_.heads)}) {
    if (!wanted) continue;
    signature.emplace_back(std::string(side) + "_negatives", TensorType{DType::kI32, {count, n, each}});
    signature.emplace_back(std::string(side) + "_true", TensorType{DType::kU8, {count, group, options_.negatives}});
  }
  return signature;
}

void ShardedTripleSource::fill(int64_t first, int64_t count, const Places& places) const {
  check_samples(first, count);
  for (int64_t sample = 0; sample < count; ++sample) fill_sample(first + sample, sample, places);
}

ShardedTripleSource::Chosen ShardedTripleSource::chosen_of(int64_t head_shard, int64_t tail_shard, int64_t step) const {
  const auto number = static_cast<size_t>(head_shard * shards_.shards + tail_shard);
  const std::vector<Triple>& all = pairs_[number];
  Chosen chosen;
  if (all.empty()) return chosen;
  const int64_t size = std::ssize(all), epoch = step / steps_, at = step % steps_;
  const data::Permutation order(size, options_.seed + number, static_cast<uint64_t>(epoch), data::kShuffleSamples);
  for (int64_t i = at * size / steps_; i < (at + 1) * size / steps_; ++i) {
    const auto place = static_cast<size_t>(options_.shuffle ? order(i) : i);
    chosen.triples.push_back(all[place]);
    if (options_.subsampling) chosen.weights.push_back(weights_[number][place]);
  }
  return chosen;
}

int32_t ShardedTripleSource::negative(int64_t index, TripleEnd answer, int64_t k) const {
  const RandomStream stream(options_.seed, RandomPurpose::kSampling, 0,
                            static_cast<uint64_t>(index) * 2 + static_cast<uint64_t>(answer));
  const int64_t owner = k / (options_.negatives / shards_.shards);
  return static_cast<int32_t>(stream.below(static_cast<uint64_t>(k), static_cast<uint32_t>(shards_.size(owner))));
}

void ShardedTripleSource::fill_sample(int64_t index, int64_t sample, const Places& places) const {
  const int64_t n = shards_.shards, room = pair_places(), group = options_.group;
  const int64_t step = index / n, shard = index % n, first = sample * group;
  int32_t *const head = place<int32_t>(places, kHead, first), *const tail = place<int32_t>(places, kTail, first);
  int32_t* const relation = place<int32_t>(places, kRelation, first);
  uint8_t* const real = place<uint8_t>(places, kReal, first);
  for (int32_t* const rows : {head, tail, relation}) std::fill(rows, rows + group, 0);
  std::fill(real, real + group, uint8_t{0});
  float* const weight = options_.subsampling ? place<float>(places, kWeight, first) : nullptr;
  if (weight) std::fill(weight, weight + group, 0.0f);
  const auto base = static_cast<int32_t>(shard * shards_.room());
  std::vector<Chosen> own;  // by the shard of the tail
  for (int64_t other = 0; other < n; ++other) {
    own.push_back(chosen_of(shard, other, step));
    for (int64_t p = 0; p < std::ssize(own.back().triples); ++p) {
      const Triple& triple = own.back().triples[static_cast<size_t>(p)];
      head[other * room + p] = triple.head - base;
      relation[other * room + p] = triple.relation;
      real[other * room + p] = 1;
    }
    if (weight) std::copy(own.back().weights.begin(), own.back().weights.end(), weight + other * room);
    const std::vector<Triple> theirs = other == shard ? own.back().triples : chosen_of(other, shard, step).triples;
    for (int64_t p = 0; p < std::ssize(theirs); ++p)
      tail[other * room + p] = theirs[static_cast<size_t>(p)].tail - base;
  }
  size_t tensor = options_.subsampling ? kWeight + 1 : kWeight;
  const int64_t each = options_.negatives / n;
  for (const TripleEnd answer : {TripleEnd::kTail, TripleEnd::kHead}) {
    if (!(answer == TripleEnd::kTail ? options_.tails : options_.heads)) continue;
    int32_t* const negatives = place<int32_t>(places, tensor++, sample * options_.negatives);
    for (int64_t other = 0; other < n; ++other)
      for (int64_t k = 0; k < each; ++k)
        negatives[other * each + k] = negative(step * n + other, answer, shard * each + k);
    fill_true(index, answer, own, place<uint8_t>(places, tensor++, sample * group * options_.negatives));
  }
}

void ShardedTripleSource::fill_true(int64_t index, TripleEnd answer, const std::vector<Chosen>& own,
                                    uint8_t* is_true) const {
  const int64_t count = options_.negatives, each = count / shards_.shards, room = pair_places();
  std::fill(is_true, is_true + options_.group * count, uint8_t{1});
  std::vector<std::pair<int32_t, int32_t>> drawn;  // row in the table, place
  for (int64_t k = 0; k < count; ++k)
    drawn.emplace_back(static_cast<int32_t>(k / each * shards_.room()) + negative(index, answer, k),
                       static_cast<int32_t>(k));
  std::sort(drawn.begin(), drawn.end());
  const KnownAnswers& known = answer == TripleEnd::kTail ? tails_ : heads_;
  for (size_t block = 0; block < own.size(); ++block)
    for (size_t p = 0; p < own[block].triples.size(); ++p) {
      const Triple& triple = own[block].triples[p];
      uint8_t* const flags = is_true + (static_cast<int64_t>(block) * room + static_cast<int64_t>(p)) * count;
      std::fill(flags, flags + count, uint8_t{0});
      for (const int32_t row : known.of(answer == TripleEnd::kTail ? triple.head : triple.tail, triple.relation))
        for (auto at = std::lower_bound(drawn.begin(), drawn.end(), std::pair(row, 0));
             at != drawn.end() && at->first == row; ++at)
          flags[at->second] = 1;
    }
}

}  // namespace ramet::graphs
