#include "ramet/graphs/path_queries.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/permutation.h"

namespace ramet::graphs {
namespace {

/// The triples and, behind these, each of them the other way round.
std::vector<Triple> both_ways(std::span<const Triple> triples, int64_t relations) {
  return with_reciprocal(triples, {.reciprocal = true, .relations = relations});
}

template <typename T>
T* place(const Places& places, size_t tensor, int64_t element) {
  return reinterpret_cast<T*>(places.tensors[tensor]) + element;
}

void add_graph(Signature& signature, int64_t count, const FactGraph& graph) {
  for (const char* const name : {"source", "edge_relation"})
    signature.emplace_back(name, TensorType{DType::kI32, {count, graph.edges()}});
  signature.emplace_back("ptr", TensorType{DType::kI32, {count, graph.entities() + 1}});
}

/// The graph's lists at the tensors `first` on.
void write_graph(const FactGraph& graph, const uint8_t* removed, const Places& places, size_t first, int64_t sample) {
  graph.write(removed, place<int32_t>(places, first, sample * graph.edges()),
              place<int32_t>(places, first + 1, sample * graph.edges()),
              place<int32_t>(places, first + 2, sample * (graph.entities() + 1)));
}

}  // namespace

FactGraph::FactGraph(std::span<const Triple> facts, int64_t entities, int64_t relations)
    : entities_(entities), relations_(relations), ptr_(static_cast<size_t>(entities) + 1) {
  std::vector<Triple> edges = both_ways(facts, relations);
  std::sort(edges.begin(), edges.end(), [](const Triple& a, const Triple& b) {
    return std::tie(a.tail, a.head, a.relation) < std::tie(b.tail, b.head, b.relation);
  });
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  for (const Triple& edge : edges) {
    source_.push_back(edge.head), relation_.push_back(edge.relation);
    ++ptr_[static_cast<size_t>(edge.tail) + 1];
  }
  source_.shrink_to_fit(), relation_.shrink_to_fit();
  for (size_t i = 1; i < ptr_.size(); ++i) ptr_[i] += ptr_[i - 1];
}

void FactGraph::write(const uint8_t* removed, int32_t* source, int32_t* relation, int32_t* ptr) const {
  int32_t at = 0;
  ptr[0] = 0;
  for (size_t row = 0; row + 1 < ptr_.size(); ++row) {
    for (auto e = static_cast<size_t>(ptr_[row]); e < static_cast<size_t>(ptr_[row + 1]); ++e) {
      if (removed && removed[e]) continue;
      source[at] = source_[e], relation[at] = relation_[e], ++at;
    }
    ptr[row + 1] = at;
  }
  std::fill(source + at, source + edges(), 0), std::fill(relation + at, relation + edges(), 0);
}

void FactGraph::remove_between(int32_t a, int32_t b, std::span<uint8_t> removed) const {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const auto begin = source_.begin() + ptr_[static_cast<size_t>(to)],
               end = source_.begin() + ptr_[static_cast<size_t>(to) + 1];
    const auto [first, last] = std::equal_range(begin, end, from);
    std::fill(removed.begin() + (first - source_.begin()), removed.begin() + (last - source_.begin()), uint8_t{1});
  }
}

PathQuerySource::PathQuerySource(std::vector<Triple> triples, std::span<const Triple> known,
                                 std::shared_ptr<const FactGraph> graph, std::string contents, PathQueryOptions options)
    : triples_(std::move(triples)),
      graph_(std::move(graph)),
      options_(options),
      contents_(std::move(contents)),
      known_(both_ways(known, graph_->relations()), TripleEnd::kTail) {
  if (options_.group < 1 || options_.group > std::ssize(triples_))
    throw Error({.what = "a group has more triples than there are",
                 .where = "the triples",
                 .found = std::to_string(options_.group),
                 .expected = "1 to " + std::to_string(triples_.size())});
  if (options_.negatives < 1)
    throw Error({.what = "a query needs wrong answers",
                 .where = "the triples",
                 .found = std::to_string(options_.negatives) + " negatives",
                 .expected = "1 or more"});
  if (known_.most() >= graph_->entities())
    throw Error({.what = "every entity is a right answer to a question, so there is no wrong one",
                 .where = "the triples",
                 .found = std::to_string(known_.most()) + " answers"});
}

int64_t PathQuerySource::epoch_samples(int64_t epoch) const {
  const int64_t size = std::ssize(triples_), group = options_.group;
  const auto first_of = [&](int64_t number) { return (number * size + group - 1) / group; };
  return first_of(epoch + 1) - first_of(epoch);
}

Hash PathQuerySource::identity() const {
  return source_identity("path queries", contents_,
                         {static_cast<double>(options_.group), static_cast<double>(options_.negatives),
                          static_cast<double>(options_.shuffle), static_cast<double>(options_.seed)});
}

int64_t PathQuerySource::host_bytes() const {
  return graph_->host_bytes() + std::ssize(triples_) * static_cast<int64_t>(sizeof(Triple)) + known_.host_bytes();
}

Signature PathQuerySource::signature(int64_t count) const {
  Signature signature;
  for (const char* const name : {"entity", "relation"})
    signature.emplace_back(name, TensorType{DType::kI32, {count, options_.group}});
  signature.emplace_back("candidates", TensorType{DType::kI32, {count, options_.group, 1 + options_.negatives}});
  add_graph(signature, count, *graph_);
  return signature;
}

void PathQuerySource::fill(int64_t first, int64_t count, const Places& places) const {
  check_samples(first, count);
  const int64_t size = std::ssize(triples_), group = options_.group;
  const auto candidates = static_cast<size_t>(1 + options_.negatives);
  std::optional<data::Permutation> order;
  int64_t epoch = -1;
  std::vector<uint8_t> removed(static_cast<size_t>(graph_->edges()));
  for (int64_t sample = 0; sample < count; ++sample) {
    std::fill(removed.begin(), removed.end(), uint8_t{0});
    for (int64_t q = 0; q < group; ++q) {
      const int64_t element = (first + sample) * group + q, at = sample * group + q;
      if (options_.shuffle && element / size != epoch)
        order.emplace(size, options_.seed, static_cast<uint64_t>(epoch = element / size), data::kShuffleSamples);
      const Triple& triple = triples_[static_cast<size_t>(order ? (*order)(element % size) : element % size)];
      const bool back = element % 2 != 0;
      const int32_t entity = back ? triple.tail : triple.head,
                    relation = triple.relation + (back ? static_cast<int32_t>(graph_->relations()) : 0);
      *place<int32_t>(places, 0, at) = entity, *place<int32_t>(places, 1, at) = relation;
      const std::span answers(place<int32_t>(places, 2, at * static_cast<int64_t>(candidates)), candidates);
      answers[0] = back ? triple.head : triple.tail;
      draw_others(RandomStream(options_.seed, RandomPurpose::kSampling, 0, static_cast<uint64_t>(element)),
                  known_.of(entity, relation), graph_->entities(), answers.subspan(1));
      for (const int32_t answer : answers) graph_->remove_between(entity, answer, removed);
    }
    write_graph(*graph_, removed.data(), places, 3, sample);
  }
}

PathRankSource::PathRankSource(std::span<const Triple> triples, std::span<const Triple> known,
                               std::shared_ptr<const FactGraph> graph, int64_t group)
    : queries_(both_ways(triples, graph->relations())),
      graph_(std::move(graph)),
      group_(group),
      known_(both_ways(known, graph_->relations()), TripleEnd::kTail) {
  if (queries_.empty()) throw Error({.what = "there are no triples to rank", .where = "the triples"});
  if (group_ * graph_->entities() > INT32_MAX)
    throw Error({.what = "a group has too many triples for so many entities", .where = "the triples"});
  for (int64_t first = 0; first < queries(); first += group_) {
    int64_t room = 0;
    for (int64_t i = first; i < std::min(first + group_, queries()); ++i) room += std::ssize(this->known(i));
    room_ = std::max(room_, room);
  }
}

std::span<const int32_t> PathRankSource::known(int64_t i) const {
  const Triple& query = queries_[static_cast<size_t>(i)];
  return known_.of(query.head, query.relation);
}

int64_t PathRankSource::epoch_samples(int64_t) const { return (queries() + group_ - 1) / group_; }

Signature PathRankSource::signature(int64_t count) const {
  Signature signature;
  for (const char* const name : {"entity", "relation", "answer"})
    signature.emplace_back(name, TensorType{DType::kI32, {count, group_}});
  signature.emplace_back("known", TensorType{DType::kI32, {count, room_}});
  signature.emplace_back("known_ptr", TensorType{DType::kI32, {count, group_ + 1}});
  add_graph(signature, count, *graph_);
  return signature;
}

void PathRankSource::fill(int64_t first, int64_t count, const Places& places) const {
  check_samples(first, count);
  for (int64_t sample = 0; sample < count; ++sample) {
    const int64_t begin = (first + sample) % epoch_samples(0) * group_;
    int32_t* const list = place<int32_t>(places, 3, sample * room_);
    int32_t* const ptr = place<int32_t>(places, 4, sample * (group_ + 1));
    int32_t at = 0;
    ptr[0] = 0;
    for (int64_t q = 0; q < group_; ++q) {
      const int64_t i = std::min(begin + q, queries() - 1);
      const Triple& query = queries_[static_cast<size_t>(i)];
      const int64_t element = sample * group_ + q;
      *place<int32_t>(places, 0, element) = query.head, *place<int32_t>(places, 1, element) = query.relation;
      *place<int32_t>(places, 2, element) = query.tail;
      if (begin + q < queries())
        for (const int32_t entity : known(i))
          if (entity != query.tail) list[at++] = static_cast<int32_t>(q * graph_->entities() + entity);
      ptr[q + 1] = at;
    }
    std::fill(list + at, list + room_, 0);
    write_graph(*graph_, nullptr, places, 5, sample);
  }
}

}  // namespace ramet::graphs
