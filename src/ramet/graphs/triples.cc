#include "ramet/graphs/triples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/base/words.h"
#include "ramet/data/permutation.h"

namespace ramet::graphs {
namespace {

uint64_t question_of(int32_t entity, int32_t relation) {
  return static_cast<uint64_t>(static_cast<uint32_t>(entity)) << 32 | static_cast<uint32_t>(relation);
}

std::unordered_map<std::string_view, int32_t> numbers_of(const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, int32_t> numbers;
  for (size_t i = 0; i < names.size(); ++i) numbers.emplace(names[i], static_cast<int32_t>(i));
  return numbers;
}

int32_t find(const std::unordered_map<std::string_view, int32_t>& numbers, std::string_view name,
             const std::string& kind, const std::string& where) {
  const auto found = numbers.find(name);
  if (found != numbers.end()) return found->second;
  std::set<std::string> names;
  for (const auto& [each, number] : numbers) names.emplace(each);
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = "the knowledge graph has no such " + kind,
               .where = where,
               .found = "'" + std::string(name.substr(0, 200)) + "'",
               .expected = "one of " + std::to_string(numbers.size()) + " names",
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

/// The entity that is given, and the one that is asked for.
int32_t given(const Triple& triple, TripleEnd answer) { return answer == TripleEnd::kTail ? triple.head : triple.tail; }
int32_t asked(const Triple& triple, TripleEnd answer) { return answer == TripleEnd::kTail ? triple.tail : triple.head; }

constexpr size_t kWeight = 3;  // the place of the tensor "weight", behind head, relation and tail

template <typename T>
T* place(const Places& places, size_t tensor, int64_t element) {
  return reinterpret_cast<T*>(places.tensors[tensor]) + element;
}

void put(const Places& places, int64_t element, const Triple& triple) {
  *place<int32_t>(places, 0, element) = triple.head;
  *place<int32_t>(places, 1, element) = triple.relation;
  *place<int32_t>(places, 2, element) = triple.tail;
}

Signature triple_signature(int64_t count, int64_t group) {
  Signature signature;
  for (const char* const name : {"head", "relation", "tail"})
    signature.emplace_back(name, TensorType{DType::kI32, {count, group}});
  return signature;
}

}  // namespace

std::vector<Triple> with_reciprocal(std::span<const Triple> triples, const TripleOptions& options) {
  std::vector<Triple> all(triples.begin(), triples.end());
  if (!options.reciprocal) return all;
  for (const Triple& triple : triples)
    all.push_back({triple.tail, triple.relation + static_cast<int32_t>(options.relations), triple.head});
  return all;
}

std::vector<float> subsampling_weights(std::span<const Triple> triples) {
  constexpr int64_t kBefore = 3;  // so that a question's first triple counts as the fourth
  std::unordered_map<uint64_t, int64_t> tails, heads;
  for (const Triple& triple : triples)
    ++tails[question_of(triple.head, triple.relation)], ++heads[question_of(triple.tail, triple.relation)];
  std::vector<float> weights;
  weights.reserve(triples.size());
  for (const Triple& triple : triples) {
    const int64_t count = tails[question_of(triple.head, triple.relation)] +
                          heads[question_of(triple.tail, triple.relation)] + 2 * kBefore;
    weights.push_back(static_cast<float>(1 / std::sqrt(static_cast<double>(count))));
  }
  return weights;
}

KnowledgeGraph::KnowledgeGraph(std::shared_ptr<const GraphSet> set, int64_t shards) : set_(std::move(set)) {
  const auto refuse = [&](const std::string& what, const std::string& found) {
    throw Error({.what = what,
                 .where = set_->source(),
                 .found = found,
                 .remedy = "Make the set with `ramet graphs prepare triples`"});
  };
  if (set_->graphs() != 1 || !set_->homogeneous())
    refuse("a knowledge graph is one graph with one type of nodes and of edges",
           std::to_string(set_->graphs()) + " graphs");
  if (!set_->has("edge.relation")) refuse("the graph set has no relations", "no field edge.relation");
  const Field& field = set_->fields()[set_->field("edge.relation")];
  shards_ = {.entities = set_->node_ptr(0)[1], .shards = shards};
  if (entities() < 2 || set_->sources(0).empty())
    refuse("the knowledge graph has no triples", std::to_string(entities()) + " entities");
  if (shards < 1 || shards > entities())
    throw Error({.what = "entities cannot be dealt to so many shards",
                 .where = set_->source(),
                 .found = std::to_string(shards),
                 .expected = "1 to " + std::to_string(entities())});
  if (is_floating(field.dtype) || field.values.empty() || field.shape.rank() > 0)
    refuse("relations must be one category an edge", field.key());
  relation_names_ = field.values;
  if (const auto names = set_->names().find(set_->node_types()[0]); names != set_->names().end())
    entity_names_ = names->second;
  entity_of_ = numbers_of(entity_names_);
  relation_of_ = numbers_of(relation_names_);
}

std::vector<Triple> KnowledgeGraph::triples() const {
  const size_t field = set_->field("edge.relation");
  const std::span<const int32_t> heads = set_->sources(0), tails = set_->targets(0);
  std::vector<Triple> triples;
  triples.reserve(heads.size());
  for (size_t i = 0; i < heads.size(); ++i) {
    const double relation = field_number(set_->fields()[field], set_->bytes(field), static_cast<int64_t>(i));
    if (relation < 0)
      throw Error({.what = "a triple has no relation", .where = set_->source() + ", edge " + std::to_string(i)});
    triples.push_back({shards_.row_of(heads[i]), static_cast<int32_t>(relation), shards_.row_of(tails[i])});
  }
  return triples;
}

std::vector<Triple> KnowledgeGraph::triples(const std::string& split, const std::string& part) const {
  const size_t at = set_->field(split);
  const Field& field = set_->fields()[at];
  const auto found = std::find(field.values.begin(), field.values.end(), part);
  if (field.per != Per::kEdge || found == field.values.end())
    throw Error({.what = "the triples have no such part",
                 .where = set_->source() + ": " + split,
                 .found = "'" + part + "'",
                 .expected = field.values.empty() ? "a category of edges" : "one of " + joined(field.values)});
  const std::vector<Triple> all = triples();
  std::vector<Triple> chosen;
  for (size_t i = 0; i < all.size(); ++i)
    if (static_cast<int64_t>(field_number(field, set_->bytes(at), static_cast<int64_t>(i))) ==
        found - field.values.begin())
      chosen.push_back(all[i]);
  if (chosen.empty())
    throw Error({.what = "a part of the triples is empty", .where = set_->source() + ": " + split, .found = part});
  return chosen;
}

int32_t KnowledgeGraph::entity(std::string_view name) const {
  return shards_.row_of(find(entity_of_, name, "entity", set_->source()));
}
int32_t KnowledgeGraph::relation(std::string_view name) const {
  return find(relation_of_, name, "relation", set_->source());
}
std::string KnowledgeGraph::entity_name(int32_t row) const {
  const int32_t entity = shards_.entity_of(row);
  return entity_names_.empty() ? std::to_string(entity) : entity_names_[static_cast<size_t>(entity)];
}

KnownAnswers::KnownAnswers(std::span<const Triple> triples, TripleEnd answer) {
  std::vector<std::pair<uint64_t, int32_t>> sorted;
  sorted.reserve(triples.size());
  for (const Triple& triple : triples)
    sorted.emplace_back(question_of(given(triple, answer), triple.relation), asked(triple, answer));
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (const auto& [question, entity] : sorted) {
    if (questions_.empty() || questions_.back() != question)
      questions_.push_back(question), ptr_.push_back(std::ssize(answers_));
    answers_.push_back(entity);
    most_ = std::max(most_, std::ssize(answers_) - ptr_.back());
  }
  ptr_.push_back(std::ssize(answers_));
  questions_.shrink_to_fit(), ptr_.shrink_to_fit(), answers_.shrink_to_fit();
}

std::span<const int32_t> KnownAnswers::of(int32_t entity, int32_t relation) const {
  const uint64_t question = question_of(entity, relation);
  const auto found = std::lower_bound(questions_.begin(), questions_.end(), question);
  if (found == questions_.end() || *found != question) return {};
  const auto at = static_cast<size_t>(found - questions_.begin());
  return std::span(answers_).subspan(static_cast<size_t>(ptr_[at]), static_cast<size_t>(ptr_[at + 1] - ptr_[at]));
}

TripleSource::TripleSource(std::vector<Triple> triples, std::span<const Triple> known, std::string contents,
                           TripleOptions options)
    : triples_(with_reciprocal(triples, options)),
      weights_(options.subsampling ? subsampling_weights(triples_) : std::vector<float>()),
      options_(options),
      contents_(std::move(contents)),
      tails_(with_reciprocal(known, options), TripleEnd::kTail),
      heads_(known, TripleEnd::kHead) {
  const auto refuse = [](const std::string& what, int64_t found, const std::string& expected) {
    throw Error({.what = what, .where = "the triples", .found = std::to_string(found), .expected = expected});
  };
  if (triples_.empty()) throw Error({.what = "there are no triples to learn", .where = "the triples"});
  if (options_.reciprocal) options_.heads = false;
  if (options_.group < 1 || options_.group > std::ssize(triples_))
    refuse("a group has more triples than there are", options_.group, "1 to " + std::to_string(std::ssize(triples_)));
  if (options_.negatives < 0 || options_.negatives > options_.entities)
    refuse("there are more negatives than entities", options_.negatives,
           "at most " + std::to_string(options_.entities));
  for (const TripleEnd answer : {TripleEnd::kTail, TripleEnd::kHead})
    if (const int64_t most = this->known(answer).most(); options_.negatives > 0 && most >= options_.entities)
      refuse("every entity is a true answer of a question, so there are no negatives", most,
             "fewer answers than entities");
}

int64_t TripleSource::epoch_samples(int64_t epoch) const {
  const int64_t size = std::ssize(triples_), group = options_.group;
  const auto first_of = [&](int64_t number) { return (number * size + group - 1) / group; };
  return first_of(epoch + 1) - first_of(epoch);
}

Hash TripleSource::identity() const {
  return source_identity("triples", contents_ + (options_.subsampling ? " subsampled" : ""),
                         {static_cast<double>(options_.group), static_cast<double>(options_.negatives),
                          static_cast<double>(options_.tails), static_cast<double>(options_.heads),
                          static_cast<double>(options_.reciprocal), static_cast<double>(options_.shuffle),
                          static_cast<double>(options_.seed)});
}

int64_t TripleSource::host_bytes() const {
  return std::ssize(triples_) * static_cast<int64_t>(sizeof(Triple)) + std::ssize(weights_) * 4 + tails_.host_bytes() +
         heads_.host_bytes();
}

Signature TripleSource::signature(int64_t count) const {
  Signature signature = triple_signature(count, options_.group);
  if (options_.subsampling) signature.emplace_back("weight", TensorType{DType::kF32, {count, options_.group}});
  if (options_.negatives == 0) return signature;
  for (const auto& [side, wanted] : {std::pair("tail", options_.tails), std::pair("head", options_.heads)}) {
    if (!wanted) continue;
    signature.emplace_back(std::string(side) + "_negatives", TensorType{DType::kI32, {count, options_.negatives}});
    if (options_.group > 1)
      signature.emplace_back(std::string(side) + "_true",
                             TensorType{DType::kU8, {count, options_.group, options_.negatives}});
  }
  return signature;
}

void TripleSource::fill(int64_t first, int64_t count, const Places& places) const {
  check_samples(first, count);
  const int64_t size = std::ssize(triples_), group = options_.group;
  std::optional<data::Permutation> order;
  int64_t epoch = -1;
  std::vector<Triple> triples(static_cast<size_t>(group));
  for (int64_t sample = 0; sample < count; ++sample) {
    const int64_t index = first + sample;
    for (int64_t m = 0; m < group; ++m) {
      const int64_t element = index * group + m;
      if (options_.shuffle && element / size != epoch)
        order.emplace(size, options_.seed, static_cast<uint64_t>(epoch = element / size), data::kShuffleSamples);
      const auto at = static_cast<size_t>(order ? (*order)(element % size) : element % size);
      triples[static_cast<size_t>(m)] = triples_[at];
      put(places, sample * group + m, triples_[at]);
      if (options_.subsampling) *place<float>(places, kWeight, sample * group + m) = weights_[at];
    }
    size_t tensor = options_.subsampling ? kWeight + 1 : kWeight;
    for (const TripleEnd answer : {TripleEnd::kTail, TripleEnd::kHead}) {
      if (options_.negatives == 0 || !(answer == TripleEnd::kTail ? options_.tails : options_.heads)) continue;
      int32_t* const negatives = place<int32_t>(places, tensor++, sample * options_.negatives);
      uint8_t* const is_true =
          group > 1 ? place<uint8_t>(places, tensor++, sample * group * options_.negatives) : nullptr;
      fill_negatives(index, answer, triples, negatives, is_true);
    }
  }
}

void draw_others(const RandomStream& stream, std::span<const int32_t> excluded, int64_t entities,
                 std::span<int32_t> drawn) {
  const auto choices = static_cast<uint64_t>(entities - std::ssize(excluded));
  const int64_t count = std::ssize(drawn);
  for (int64_t k = 0; k < count; k += 4) {
    const std::array<uint32_t, 4> words = stream.block(static_cast<uint64_t>(k / 4));
    for (int64_t i = k; i < std::min(k + 4, count); ++i) {
      // The entity of this rank among those that are not excluded.
      const auto rank = static_cast<int32_t>(words[static_cast<size_t>(i - k)] * choices >> 32);
      int64_t low = 0, high = std::ssize(excluded);
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (excluded[static_cast<size_t>(middle)] - static_cast<int32_t>(middle) <= rank)
          low = middle + 1;
        else
          high = middle;
      }
      drawn[static_cast<size_t>(i)] = rank + static_cast<int32_t>(low);
    }
  }
}

void TripleSource::fill_negatives(int64_t index, TripleEnd answer, std::span<const Triple> group, int32_t* negatives,
                                  uint8_t* is_true) const {
  const int64_t count = options_.negatives;
  const RandomStream stream(options_.seed, RandomPurpose::kSampling, 0,
                            static_cast<uint64_t>(index) * 2 + static_cast<uint64_t>(answer));
  const std::span<const int32_t> excluded =
      is_true ? std::span<const int32_t>() : known(answer).of(given(group[0], answer), group[0].relation);
  draw_others(stream, excluded, options_.entities, {negatives, static_cast<size_t>(count)});
  if (!is_true) return;
  std::memset(is_true, 0, group.size() * static_cast<size_t>(count));
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return negatives[a] < negatives[b]; });
  for (size_t m = 0; m < group.size(); ++m)
    for (const int32_t entity : known(answer).of(given(group[m], answer), group[m].relation)) {
      auto at = std::lower_bound(order.begin(), order.end(), entity,
                                 [&](int32_t place, int32_t value) { return negatives[place] < value; });
      for (; at != order.end() && negatives[*at] == entity; ++at)
        is_true[m * static_cast<size_t>(count) + static_cast<size_t>(*at)] = 1;
    }
}

RankSource::RankSource(std::vector<Triple> triples, std::span<const Triple> known, int64_t group, int64_t stride)
    : triples_(std::move(triples)),
      group_(group),
      stride_(stride),
      tails_(known, TripleEnd::kTail),
      heads_(known, TripleEnd::kHead) {
  if (triples_.empty()) throw Error({.what = "there are no triples to rank", .where = "the triples"});
  if (group_ * stride_ > INT32_MAX)
    throw Error({.what = "a group has too many triples for so many entities", .where = "the triples"});
  for (const TripleEnd answer : {TripleEnd::kTail, TripleEnd::kHead})
    for (int64_t first = 0; first < std::ssize(triples_); first += group_) {
      int64_t room = 0;
      for (int64_t i = first; i < std::min(first + group_, std::ssize(triples_)); ++i)
        for (const int32_t entity : this->known(triples_[static_cast<size_t>(i)], answer))
          room += entity != asked(triples_[static_cast<size_t>(i)], answer);
      int64_t& most = room_[static_cast<size_t>(answer)];
      most = std::max(most, room);
    }
}

std::span<const int32_t> RankSource::known(const Triple& triple, TripleEnd answer) const {
  return (answer == TripleEnd::kTail ? tails_ : heads_).of(given(triple, answer), triple.relation);
}

int64_t RankSource::epoch_samples(int64_t) const { return (std::ssize(triples_) + group_ - 1) / group_; }

Signature RankSource::signature(int64_t count) const {
  Signature signature = triple_signature(count, group_);
  for (const auto& [side, answer] : {std::pair("tail", TripleEnd::kTail), std::pair("head", TripleEnd::kHead)}) {
    signature.emplace_back(std::string(side) + "_known", TensorType{DType::kI32, {count, room(answer)}});
    signature.emplace_back(std::string(side) + "_known_ptr", TensorType{DType::kI32, {count, group_ + 1}});
  }
  return signature;
}

void RankSource::fill(int64_t first, int64_t count, const Places& places) const {
  check_samples(first, count);
  const int64_t samples = epoch_samples(0);
  for (int64_t sample = 0; sample < count; ++sample) {
    const int64_t begin = (first + sample) % samples * group_;
    for (int64_t m = 0; m < group_; ++m)
      put(places, sample * group_ + m, triples_[static_cast<size_t>(std::min(begin + m, std::ssize(triples_) - 1))]);
    for (const TripleEnd answer : {TripleEnd::kTail, TripleEnd::kHead}) {
      const size_t tensor = answer == TripleEnd::kTail ? 3 : 5;
      int32_t* const list = place<int32_t>(places, tensor, sample * room(answer));
      int32_t* const ptr = place<int32_t>(places, tensor + 1, sample * (group_ + 1));
      int64_t at = 0;
      ptr[0] = 0;
      for (int64_t m = 0; m < group_; ++m) {
        if (const int64_t i = begin + m; i < std::ssize(triples_)) {
          const Triple& triple = triples_[static_cast<size_t>(i)];
          for (const int32_t entity : known(triple, answer))
            if (entity != asked(triple, answer)) list[at++] = static_cast<int32_t>(m * stride_ + entity);
        }
        ptr[m + 1] = static_cast<int32_t>(at);
      }
      std::fill(list + at, list + room(answer), 0);
    }
  }
}

}  // namespace ramet::graphs
