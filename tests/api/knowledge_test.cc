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

TEST(KnowledgeModels, RankAndAnswer) {
  for (const int64_t shards : {1, 4}) {
    SCOPED_TRACE(shards);
    std::vector<int32_t> known = ring(), ranked{4, 0, 5, 9, 1, 12};
    // A second right tail of each question, which ranks must leave out.
    known.insert(known.end(), {4, 0, 20, 9, 1, 21});
    const v0::KnowledgeOptions own = v0::with_room_for_ranks(options(shards), ranked, known);
    EXPECT_EQ(own.known_tails, 2);
    v0::Training training(v0::knowledge_model(own), training_options(), v0::Data::triples(own, known));
    for (int step = 0; step < 200; ++step) training.step();
    const v0::KnowledgeRanks ranks = v0::knowledge_ranks(training, own, ranked, known);
    ASSERT_EQ(ranks.tails.size(), 2u);
    ASSERT_EQ(ranks.heads.size(), 2u);
    // By hand: entities of a higher score that make no other true triple.
    const std::vector<int32_t> questions{4, 0, -1, 9, 1, -1, -1, 1, 12};
    v0::KnowledgeOptions all = own;
    all.top = kEntities;
    v0::Training of_all(v0::knowledge_model(all), training_options(), v0::Data::triples(all, known));
    for (const char* name : {"entities.weight", "relations.weight"}) of_all.set_weight(name, training.weight(name));
    const v0::KnowledgeAnswers answers = v0::knowledge_answers(of_all, all, questions);
    ASSERT_EQ(answers.entities.size(), size_t{3 * kEntities});
    const auto place = [&](size_t question, int32_t right, int32_t other) {
      double better = 1;
      for (size_t k = 0; k < static_cast<size_t>(kEntities); ++k) {
        const int32_t entity = answers.entities[question * static_cast<size_t>(kEntities) + k];
        if (entity == right) return better;
        better += entity != other;
      }
      return 0.0;
    };
    EXPECT_EQ(ranks.tails[0], place(0, 5, 20));
    EXPECT_EQ(ranks.tails[1], place(1, 12, 21));
    EXPECT_EQ(ranks.heads[1], place(2, 12 - 3, -1));
    double sum = 0;
    for (const double rank : {ranks.tails[0], ranks.tails[1], ranks.heads[0], ranks.heads[1]}) sum += 1 / rank;
    EXPECT_DOUBLE_EQ(ranks.mrr, sum / 4);
    EXPECT_GT(ranks.mrr, 0.5);
    EXPECT_GE(answers.scores[0], answers.scores[1]);
  }
  const v0::KnowledgeOptions own = options(1);
  v0::Training training(v0::knowledge_model(own), training_options(), v0::Data::triples(own, ring()));
  EXPECT_THAT(error_of([&] {
                v0::knowledge_ranks(training, own, std::vector<int32_t>{4, 0, 5},
                                    std::vector<int32_t>{4, 0, 6, 4, 0, 7});
              }),
              HasSubstr("no room for all that ranks leave out; found 1 and 1; expected at least 2 and 1"));
  EXPECT_THAT(error_of([&] { v0::knowledge_answers(training, own, std::vector<int32_t>{4, 0, 5}); }),
              HasSubstr("questions, triple 0: a question asks for the head or for the tail"));
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
