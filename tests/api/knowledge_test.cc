// Models of knowledge graphs, as a user of the library sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <algorithm>
#include <cmath>

#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr int64_t kEntities = 30;

/// Entity i leads to i + 1 by relation 0, and to i + 3 by relation 1.
std::vector<int32_t> ring() {
  std::vector<int32_t> triples;
  for (int32_t i = 0; i < kEntities; ++i)
    for (const int32_t relation : {0, 1})
      triples.insert(triples.end(), {i, relation, (i + 1 + 2 * relation) % static_cast<int32_t>(kEntities)});
  return triples;
}

v0::KnowledgeOptions options(int64_t shards) {
  return {.function = "rotate",
          .entities = kEntities,
          .relations = 2,
          .width = 8,
          .margin = 3,
          .temperature = 0.5,
          .deviation = 0.3,
          .micro_batch = shards > 1 ? shards : 4,
          .group = 8,
          .negatives = 12,
          .shards = shards,
          .top = 3,
          .seed = 5};
}

v0::TrainOptions training_options(const std::string& layout = "") {
  return {.optimizer = v0::Adam{}, .schedule = {.learning_rate = 0.05}, .layout = layout, .threads = 1};
}

TEST(KnowledgeModels, LearnAndAnswerQueries) {
  for (const int64_t shards : {1, 4}) {
    SCOPED_TRACE(shards);
    const v0::KnowledgeOptions own = options(shards);
    const v0::Model model = v0::knowledge_model(own);
    EXPECT_EQ(model.micro_batch(), 4);
    EXPECT_THAT(model.inputs(), IsSupersetOf({"head", "relation", "tail", "tail_negatives", "head_negatives"}));
    v0::Training training(model, training_options(), v0::Data::triples(own, ring()));
    double first = 0, last = 0;
    for (int step = 0; step < 200; ++step) {
      last = training.step().loss;
      if (step == 0) first = last;
    }
    EXPECT_LT(last, first / 2);
    // Entity 4, relation 1: 7 is the likeliest tail. Rows of the table stand for entities.
    const int64_t room = (kEntities + shards - 1) / shards;
    const auto row_of = [&](int64_t e) { return static_cast<int32_t>(e % shards * room + e / shards); };
    const std::vector<int32_t> head(32, row_of(4)), relation(32, 1), tail(32, row_of(7));
    const v0::Arrays found = training.run("predict", {{"head", head}, {"relation", relation}, {"tail", tail}});
    EXPECT_EQ(found["tails"].at(0), row_of(7));
    EXPECT_EQ(found["heads"].at(0), row_of(4));
    EXPECT_GT(found["tail_scores"].at(0), found["tail_scores"].at(1));
  }
}

TEST(KnowledgeModels, ShardsHaveTheSameBitsOnAnyNumberOfDevices) {
  const v0::KnowledgeOptions own = options(4);
  std::string expected;
  for (const char* layout : {"", "g=2", "g=4"}) {
    v0::Training training(v0::knowledge_model(own), training_options(layout), v0::Data::triples(own, ring()));
    for (int step = 0; step < 3; ++step) training.step();
    if (expected.empty()) expected = training.weights_hash();
    EXPECT_EQ(training.weights_hash(), expected) << layout;
  }
}

TEST(KnowledgeModels, BadOptionsAreNamed) {
  EXPECT_THAT(v0::score_functions(), Contains("boxe"));
  v0::KnowledgeOptions wrong = options(1);
  wrong.function = "rotat";
  EXPECT_THAT(error_of([&] { v0::knowledge_model(wrong); }), HasSubstr("unknown score function"));
  wrong = options(1);
  wrong.sides = "left";
  EXPECT_THAT(error_of([&] { v0::knowledge_model(wrong); }), HasSubstr("KnowledgeOptions::sides: unknown ends"));
  const auto data = [&](const std::vector<int32_t>& triples) {
    return error_of([&] { v0::Data::triples(options(1), triples); });
  };
  EXPECT_THAT(data({0, 2, 1}), HasSubstr("triples, triple 0: a triple has a relation that there is not; found 2"));
  EXPECT_THAT(data({0, 1, 30}), HasSubstr("a triple has an entity that there is not; found 30; expected 0 to 29"));
  EXPECT_THAT(data({0, 1}), HasSubstr("triples must be head, relation and tail"));
  EXPECT_THAT(data({}), HasSubstr("there are no triples to learn"));
  v0::KnowledgeOptions other = options(1);
  other.negatives = 6;
  EXPECT_THAT(error_of([&] {
                v0::Training(v0::knowledge_model(options(1)), training_options(), v0::Data::triples(other, ring()));
              }),
              HasSubstr("the triples were made with other options than the model"));
}

}  // namespace
}  // namespace ramet::tests
