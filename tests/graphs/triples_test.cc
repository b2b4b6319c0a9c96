#include "ramet/graphs/triple_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "ramet/base/rng.h"
#include "ramet/graphs/read.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using graphs::EntityShards;
using graphs::KnowledgeGraph;
using graphs::KnownAnswers;
using graphs::RankSource;
using graphs::ShardedTripleSource;
using graphs::Triple;
using graphs::TripleEnd;
using graphs::TripleOptions;
using graphs::TripleSource;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kEntities = 23, kRelations = 3;

std::vector<Triple> drawn(int64_t count) {
  const RandomStream random(5, RandomPurpose::kTest, 0, 0);
  std::vector<Triple> triples;
  for (uint64_t i = 0; std::ssize(triples) < count; ++i)
    triples.push_back({static_cast<int32_t>(random.below(3 * i, 4)), static_cast<int32_t>(random.below(3 * i + 1, 3)),
                       static_cast<int32_t>(random.below(3 * i + 2, kEntities))});
  return triples;
}

TripleOptions options(int64_t group, int64_t negatives) {
  return {.group = group, .negatives = negatives, .entities = kEntities, .relations = kRelations, .seed = 7};
}

std::vector<int32_t> ints(const Batch& batch, const std::string& name) {
  const NamedTensor& tensor = batch.at(name);
  const auto* data = reinterpret_cast<const int32_t*>(tensor.bytes.data());
  return {data, data + tensor.type.elements()};
}

TEST(Triples, NamesAndParts) {
  const std::string train = "a\tlikes\tb\nb\tlikes\tc\n", test = "a\tknows\tc\r\n";
  const auto set = std::make_shared<const GraphSet>(
      graphs::parse_triples({{"train", train, "train.txt"}, {"test", test, "test.txt"}}), "names");
  const KnowledgeGraph graph(set);
  EXPECT_EQ(graph.entities(), 3);
  EXPECT_EQ(graph.relations(), 2);
  EXPECT_EQ(graph.triples().size(), 3u);
  EXPECT_THAT(graph.triples("edge.split", "test"),
              ElementsAre(Triple{graph.entity("a"), graph.relation("knows"), graph.entity("c")}));
  EXPECT_EQ(graph.entity_name(graph.entity("b")), "b");
  EXPECT_THAT(error_of([&] { graph.entity("bb"); }), HasSubstr("the knowledge graph has no such entity; found 'bb'"));
  EXPECT_THAT(error_of([&] { graph.relation("like"); }), HasSubstr("Did you mean 'likes'?"));
  EXPECT_THAT(error_of([&] { graph.triples("edge.split", "training"); }), HasSubstr("the triples have no such part"));
  EXPECT_THAT(error_of([&] { graph.triples("edge.split", "validation"); }),
              HasSubstr("a part of the triples is empty"));
}

TEST(Triples, FilesWithoutTriplesAreRefused) {
  const auto set = std::make_shared<const GraphSet>(graphs::parse_triples({{"train", "", "train.txt"}}), "empty");
  EXPECT_THAT(error_of([&] { KnowledgeGraph graph(set); }), HasSubstr("empty: the knowledge graph has no triples"));
}

TEST(Triples, ANegativeIsNeverTrue) {
  const std::vector<Triple> triples = drawn(90);
  const TripleSource source(triples, triples, "", options(1, 11));
  const KnownAnswers tails(triples, TripleEnd::kTail), heads(triples, TripleEnd::kHead);
  std::set<int32_t> seen;
  const Batch batch = source.make(0, 200);
  const auto head = ints(batch, "head"), relation = ints(batch, "relation"), tail = ints(batch, "tail");
  const auto of_tails = ints(batch, "tail_negatives"), of_heads = ints(batch, "head_negatives");
  for (size_t i = 0; i < 200; ++i)
    for (size_t k = 0; k < 11; ++k) {
      const int32_t t = of_tails[i * 11 + k], h = of_heads[i * 11 + k];
      ASSERT_TRUE(t >= 0 && t < kEntities && h >= 0 && h < kEntities);
      const auto known_tails = tails.of(head[i], relation[i]), known_heads = heads.of(tail[i], relation[i]);
      EXPECT_EQ(std::count(known_tails.begin(), known_tails.end(), t), 0);
      EXPECT_EQ(std::count(known_heads.begin(), known_heads.end(), h), 0);
      seen.insert(t);
    }
  EXPECT_EQ(std::ssize(seen), kEntities);
}

TEST(Triples, NegativesAreEvenOverTheOthers) {
  // Entities 0, 2 and 4 of 8 are true tails.
  const std::vector<Triple> triples = {{0, 0, 0}, {0, 0, 2}, {0, 0, 4}};
  TripleOptions few = options(1, 8);
  few.entities = 8;
  const TripleSource source(triples, triples, "", few);
  std::map<int32_t, int64_t> counts;
  for (const int32_t entity : ints(source.make(0, 3000), "tail_negatives")) ++counts[entity];
  EXPECT_EQ(counts.size(), 5u);
  double chi = 0;
  for (const auto& [entity, count] : counts) chi += (count - 4800.0) * (count - 4800.0) / 4800;
  EXPECT_LT(chi, 18.5);  // of 4 degrees of freedom, one in a thousand is greater
}

TEST(Triples, AGroupMarksTrueNegatives) {
  const std::vector<Triple> triples = drawn(90);
  const TripleSource source(triples, triples, "", options(6, 20));
  const KnownAnswers tails(triples, TripleEnd::kTail);
  const Batch batch = source.make(3, 2);
  const auto head = ints(batch, "head"), relation = ints(batch, "relation"), negatives = ints(batch, "tail_negatives");
  const auto* marks = reinterpret_cast<const uint8_t*>(batch.at("tail_true").bytes.data());
  int64_t marked = 0;
  for (size_t i = 0; i < 12; ++i)
    for (size_t k = 0; k < 20; ++k) {
      const auto known = tails.of(head[i], relation[i]);
      const bool is_true = std::count(known.begin(), known.end(), negatives[i / 6 * 20 + k]) > 0;
      EXPECT_EQ(marks[i * 20 + k], is_true);
      marked += is_true;
    }
  EXPECT_GT(marked, 0);
}

TEST(Triples, ASampleIsAFunctionOfItsNumber) {
  const std::vector<Triple> triples = drawn(50);
  for (const int64_t group : {1, 7}) {
    const TripleSource source(triples, triples, "", options(group, 5));
    const Batch whole = source.make(0, 40);
    std::vector<Batch> single(40);
    std::vector<std::thread> threads;
    for (int part = 0; part < 4; ++part)
      threads.emplace_back([&, part] {
        for (int64_t i = 39 - part; i >= 0; i -= 4) single[static_cast<size_t>(i)] = source.make(i, 1);
      });
    for (std::thread& thread : threads) thread.join();
    for (size_t tensor = 0; tensor < whole.tensors.size(); ++tensor) {
      std::vector<std::byte> joined;
      for (const Batch& each : single)
        joined.insert(joined.end(), each.tensors[tensor].bytes.begin(), each.tensors[tensor].bytes.end());
      EXPECT_EQ(joined, whole.tensors[tensor].bytes) << whole.tensors[tensor].name;
    }
  }
}

/// Two triples answer (0, 1, ?), three (?, 1, 5); every question is counted from 4.
TEST(Triples, FrequentTriplesWeighLess) {
  const std::vector<Triple> triples{{0, 1, 5}, {0, 1, 6}, {2, 1, 5}, {3, 1, 5}, {0, 0, 5}};
  const std::vector<float> weights = graphs::subsampling_weights(triples);
  const std::vector<int> counts{5 + 6, 5 + 4, 4 + 6, 4 + 6, 4 + 4};
  ASSERT_EQ(weights.size(), triples.size());
  for (size_t i = 0; i < counts.size(); ++i) EXPECT_FLOAT_EQ(weights[i], 1 / std::sqrt(static_cast<float>(counts[i])));
  EXPECT_TRUE(graphs::subsampling_weights({}).empty());
}

/// Each triple of a sample stands beside its own weight, on one table and on shards.
TEST(Triples, SamplesHoldTheWeightsOfTheirTriples) {
  const std::vector<Triple> triples = drawn(50);
  for (const bool reciprocal : {false, true}) {
    TripleOptions weighted = options(8, 4), plain = weighted;
    weighted.reciprocal = plain.reciprocal = reciprocal;
    weighted.subsampling = true;
    const std::vector<Triple> all = with_reciprocal(triples, weighted);
    const std::vector<float> weights = graphs::subsampling_weights(all);
    const auto weight_of = [&](const Triple& triple) {
      return weights[static_cast<size_t>(std::find(all.begin(), all.end(), triple) - all.begin())];
    };
    const TripleSource source(triples, triples, "", weighted);
    EXPECT_NE(source.identity(), TripleSource(triples, triples, "", plain).identity());
    const Batch batch = source.make(0, 30);
    const std::vector<int32_t> head = ints(batch, "head"), relation = ints(batch, "relation"),
                               tail = ints(batch, "tail");
    const auto* found = reinterpret_cast<const float*>(batch.at("weight").bytes.data());
    for (size_t i = 0; i < head.size(); ++i) EXPECT_EQ(found[i], weight_of({head[i], relation[i], tail[i]}));

    const EntityShards shards{kEntities, 4};
    std::vector<Triple> rows = triples;
    for (Triple& each : rows) each.head = shards.row_of(each.head), each.tail = shards.row_of(each.tail);
    const ShardedTripleSource sharded(rows, rows, shards, "", weighted);
    EXPECT_NE(sharded.identity(), ShardedTripleSource(rows, rows, shards, "", plain).identity());
    const Batch step = sharded.make(0, sharded.epoch_samples(0));
    const NamedTensor& real = step.at("real");
    const auto* of_places = reinterpret_cast<const float*>(step.at("weight").bytes.data());
    std::vector<float> seen;
    for (size_t i = 0; i < real.bytes.size(); ++i) {
      if (real.bytes[i] == std::byte{1}) seen.push_back(of_places[i]);
      EXPECT_EQ(of_places[i] > 0, real.bytes[i] == std::byte{1});
    }
    std::vector<float> expected = weights;
    std::sort(seen.begin(), seen.end()), std::sort(expected.begin(), expected.end());
    EXPECT_EQ(seen, expected);
  }
}

TEST(Triples, AnEpochHasEveryTripleOnce) {
  const std::vector<Triple> triples = drawn(50);
  TripleOptions both = options(7, 0);
  both.reciprocal = true;
  const TripleSource source(triples, triples, "", both);
  std::map<std::vector<int32_t>, int> seen;
  int64_t samples = 0;
  for (int64_t epoch = 0; epoch < 7; ++epoch) samples += source.epoch_samples(epoch);
  EXPECT_EQ(samples, 100);  // seven epochs of 100 triples in groups of 7
  const Batch batch = source.make(0, samples);
  const auto head = ints(batch, "head"), relation = ints(batch, "relation"), tail = ints(batch, "tail");
  for (size_t i = 0; i < head.size(); ++i) ++seen[{head[i], relation[i], tail[i]}];
  std::map<std::vector<int32_t>, int> expected;
  for (const Triple& t : triples) {
    expected[{t.head, t.relation, t.tail}] += 7;
    expected[{t.tail, t.relation + static_cast<int32_t>(kRelations), t.head}] += 7;
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(source.epoch_of(14), 0);
  EXPECT_EQ(source.epoch_of(15), 1);
}

TEST(TripleShards, EntitiesHaveTheirRows) {
  const EntityShards shards{.entities = kEntities, .shards = 4};
  EXPECT_EQ(shards.room(), 6);
  EXPECT_EQ(shards.rows(), 24);
  std::set<int32_t> rows;
  int64_t sizes = 0;
  for (int64_t shard = 0; shard < 4; ++shard) sizes += shards.size(shard);
  EXPECT_EQ(sizes, kEntities);
  for (int32_t entity = 0; entity < kEntities; ++entity) {
    const int32_t row = shards.row_of(entity);
    EXPECT_EQ(shards.entity_of(row), entity);
    EXPECT_EQ(row / shards.room(), entity % 4);
    EXPECT_LT(row % shards.room(), shards.size(entity % 4));
    rows.insert(row);
  }
  EXPECT_EQ(std::ssize(rows), kEntities);
}

TEST(TripleShards, AnEpochHasEveryTripleOnceBesideItsNegatives) {
  constexpr int64_t kShards = 4, kGroup = 8, kNegatives = 12, kRoom = kGroup / kShards, kEach = kNegatives / kShards;
  const EntityShards shards{.entities = kEntities, .shards = kShards};
  std::vector<Triple> triples;
  for (const Triple& t : drawn(90)) triples.push_back({shards.row_of(t.head), t.relation, shards.row_of(t.tail)});
  std::set<std::vector<int32_t>> known;
  for (const Triple& t : triples) known.insert({t.head, t.relation, t.tail});
  const ShardedTripleSource source(triples, triples, shards, "", options(kGroup, kNegatives));
  EXPECT_EQ(source.triples(), 90);
  const int64_t steps = source.epoch_samples(0) / kShards;
  for (const int64_t epoch : {0, 1}) {
    std::map<std::vector<int32_t>, int> seen, expected;
    for (const Triple& t : triples) ++expected[{t.head, t.relation, t.tail}];
    for (int64_t step = epoch * steps; step < (epoch + 1) * steps; ++step) {
      EXPECT_EQ(source.epoch_of(step * kShards), epoch);
      const Batch batch = source.make(step * kShards, kShards);
      const auto head = ints(batch, "head"), tail = ints(batch, "tail"), relation = ints(batch, "relation");
      const auto tails = ints(batch, "tail_negatives"), heads = ints(batch, "head_negatives");
      const auto byte = [&](const char* name, int64_t at) {
        return static_cast<int>(batch.at(name).bytes[static_cast<size_t>(at)]);
      };
      // Place `at` of shard k's list for shard j.
      const auto row = [&](const std::vector<int32_t>& list, int64_t k, int64_t j, int64_t size, int64_t at) {
        const int32_t local = list[static_cast<size_t>((k * kShards + j) * size + at)];
        EXPECT_GE(local, 0);
        EXPECT_LT(local, shards.size(k));
        return static_cast<int32_t>(k * shards.room()) + local;
      };
      for (int64_t j = 0; j < kShards; ++j)
        for (int64_t m = 0; m < kGroup; ++m) {
          const bool real = byte("real", j * kGroup + m) == 1;
          const int64_t k = m / kRoom;  // the tail's shard
          const int32_t h = row(head, j, k, kRoom, m % kRoom), t = row(tail, k, j, kRoom, m % kRoom);
          const int32_t r = relation[static_cast<size_t>(j * kGroup + m)];
          if (real) ++seen[{h, r, t}];
          for (int64_t n = 0; n < kNegatives; ++n) {
            const int32_t wrong_tail = row(tails, n / kEach, j, kEach, n % kEach),
                          wrong_head = row(heads, n / kEach, j, kEach, n % kEach);
            EXPECT_EQ(byte("tail_true", (j * kGroup + m) * kNegatives + n), !real || known.count({h, r, wrong_tail}));
            EXPECT_EQ(byte("head_true", (j * kGroup + m) * kNegatives + n), !real || known.count({wrong_head, r, t}));
          }
        }
      // A sample is the same alone.
      const Batch alone = source.make(step * kShards + 2, 1);
      for (const NamedTensor& tensor : alone.tensors) {
        const std::vector<std::byte>& all = batch.at(tensor.name).bytes;
        const auto first = all.begin() + 2 * std::ssize(tensor.bytes);
        EXPECT_EQ(tensor.bytes, std::vector<std::byte>(first, first + std::ssize(tensor.bytes))) << tensor.name;
      }
    }
    EXPECT_EQ(seen, expected);
  }
}

TEST(Triples, RanksLeaveOutTheOtherAnswers) {
  const std::vector<Triple> triples = {{0, 0, 1}, {0, 0, 2}, {0, 0, 5}, {3, 0, 1}, {4, 1, 1}};
  const RankSource source({triples[1], triples[3], triples[4]}, triples, 2, 10);
  EXPECT_EQ(source.epoch_samples(0), 2);
  EXPECT_EQ(source.room(TripleEnd::kTail), 2);
  EXPECT_EQ(source.room(TripleEnd::kHead), 1);
  const Batch batch = source.make(0, 2);
  EXPECT_THAT(ints(batch, "tail"), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(ints(batch, "tail_known"), ElementsAre(1, 5, 0, 0));
  EXPECT_THAT(ints(batch, "tail_known_ptr"), ElementsAre(0, 2, 2, 0, 0, 0));
  EXPECT_THAT(ints(batch, "head_known"), ElementsAre(10, 0));
  EXPECT_THAT(ints(batch, "head_known_ptr"), ElementsAre(0, 0, 1, 0, 0, 0));
}

TEST(Triples, BadOptionsAreNamed) {
  const std::vector<Triple> triples = drawn(20);
  const auto make = [&](TripleOptions changed) {
    return error_of([&] { TripleSource source(triples, triples, "", changed); });
  };
  EXPECT_THAT(make(options(1, 24)), HasSubstr("there are more negatives than entities; found 24"));
  EXPECT_THAT(make(options(21, 1)), HasSubstr("a group has more triples than there are; found 21"));
  TripleOptions few = options(1, 2);
  few.entities = KnownAnswers(triples, TripleEnd::kTail).most();
  EXPECT_THAT(make(few), HasSubstr("every entity is a true answer of a question"));
}

}  // namespace
}  // namespace ramet::tests
