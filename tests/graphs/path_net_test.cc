#include "ramet/model/path_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/graphs/path_queries.h"
#include "ramet/graphs/read.h"
#include "ramet/kernel/interpret.h"
#include "ramet/recipe/knowledge.h"
#include "support/errors.h"
#include "support/temporary.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using graphs::FactGraph;
using graphs::KnownAnswers;
using graphs::PathQueryOptions;
using graphs::PathQuerySource;
using graphs::PathRankSource;
using graphs::Triple;
using graphs::TripleEnd;
using testing::HasSubstr;
using Row = std::vector<double>;
using Settings = std::vector<std::string>;

constexpr int64_t kEntities = 9, kRelations = 2;

std::vector<Triple> drawn(int64_t count, uint64_t seed = 5) {
  const RandomStream random(seed, RandomPurpose::kTest, 0, 0);
  std::vector<Triple> triples;
  for (uint64_t i = 0; std::ssize(triples) < count; ++i) {
    const Triple triple{static_cast<int32_t>(random.below(3 * i, kEntities)),
                        static_cast<int32_t>(random.below(3 * i + 1, kRelations)),
                        static_cast<int32_t>(random.below(3 * i + 2, kEntities))};
    if (std::find(triples.begin(), triples.end(), triple) == triples.end()) triples.push_back(triple);
  }
  return triples;
}

std::vector<int32_t> ints(const Batch& batch, const std::string& name) {
  const NamedTensor& tensor = batch.at(name);
  const auto* data = reinterpret_cast<const int32_t*>(tensor.bytes.data());
  return {data, data + tensor.type.elements()};
}

// --- loader ---

TEST(PathQueries, LeaveOutTheEdgesThatAreTheAnswer) {
  const std::vector<Triple> triples = drawn(20);
  const auto graph = std::make_shared<const FactGraph>(triples, kEntities, kRelations);
  EXPECT_EQ(graph->edges(), 40);
  constexpr int64_t kGroup = 3, kNegatives = 2, kSamples = 30;
  const PathQuerySource source(triples, triples, graph, "", {.group = kGroup, .negatives = kNegatives, .seed = 3});
  const std::vector<Triple> both = with_reciprocal(triples, {.reciprocal = true, .relations = kRelations});
  const KnownAnswers known(both, TripleEnd::kTail);
  std::multiset<std::pair<int32_t, int32_t>> asked;  // (triple, whether its head is asked for)
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const Batch batch = source.make(sample, 1);
    const auto entity = ints(batch, "entity"), relation = ints(batch, "relation"),
               candidates = ints(batch, "candidates");
    std::set<std::pair<int32_t, int32_t>> pairs;
    for (size_t q = 0; q < kGroup; ++q) {
      const auto answers = known.of(entity[q], relation[q]);
      for (size_t k = 0; k <= kNegatives; ++k) {
        const int32_t candidate = candidates[q * (kNegatives + 1) + k];
        EXPECT_EQ(std::binary_search(answers.begin(), answers.end(), candidate), k == 0);
        pairs.emplace(entity[q], candidate), pairs.emplace(candidate, entity[q]);
      }
      const int32_t back = relation[q] >= kRelations ? 1 : 0, answer = candidates[q * (kNegatives + 1)];
      const Triple triple{back ? answer : entity[q], relation[q] % static_cast<int32_t>(kRelations),
                          back ? entity[q] : answer};
      const auto found = std::find(triples.begin(), triples.end(), triple);
      ASSERT_NE(found, triples.end());
      EXPECT_EQ(back, (sample * kGroup + static_cast<int64_t>(q)) % 2);
      asked.emplace(static_cast<int32_t>(found - triples.begin()), 0);
    }
    // The graph is what is left of all edges.
    const auto from = ints(batch, "source"), kind = ints(batch, "edge_relation"), ptr = ints(batch, "ptr");
    std::vector<Triple> found, expected;
    for (int32_t to = 0; to < kEntities; ++to)
      for (int32_t e = ptr[static_cast<size_t>(to)]; e < ptr[static_cast<size_t>(to) + 1]; ++e)
        found.push_back({from[static_cast<size_t>(e)], kind[static_cast<size_t>(e)], to});
    for (const Triple& edge : both)
      if (!pairs.contains({edge.head, edge.tail})) expected.push_back(edge);
    EXPECT_LT(expected.size(), both.size());
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
  }
  // Four and a half epochs: each triple is asked for as often as any other, up to one.
  for (int32_t i = 0; i < std::ssize(triples); ++i) {
    EXPECT_GE(asked.count({i, 0}), 4u);
    EXPECT_LE(asked.count({i, 0}), 5u);
  }
}

TEST(PathQueries, ASampleIsAFunctionOfItsNumber) {
  const std::vector<Triple> triples = drawn(20);
  const auto graph = std::make_shared<const FactGraph>(triples, kEntities, kRelations);
  const PathQuerySource source(triples, triples, graph, "", {.group = 4, .negatives = 3, .seed = 3});
  const Batch many = source.make(5, 3), one = source.make(6, 1);
  for (const NamedTensor& tensor : one.tensors) {
    const auto& all = many.at(tensor.name).bytes;
    const auto size = static_cast<int64_t>(tensor.bytes.size());
    EXPECT_EQ(std::vector(all.begin() + size, all.begin() + 2 * size), tensor.bytes) << tensor.name;
  }
  const PathQuerySource other(triples, triples, graph, "", {.group = 4, .negatives = 3, .seed = 4});
  EXPECT_NE(ints(other.make(0, 1), "candidates"), ints(source.make(0, 1), "candidates"));
  EXPECT_NE(other.identity().hex(), source.identity().hex());
  EXPECT_EQ(source.epoch_samples(0) * 4, 20);
  EXPECT_THAT(error_of([&] { PathQuerySource(triples, triples, graph, "", {.group = 21}); }),
              HasSubstr("a group has more triples than there are"));
}

// --- the network, against a plain one in double ---

class PlainNet {
 public:
  PlainNet(const PathNetConfig& config, const std::map<std::string, HostTensor>& weights, const FactGraph& graph)
      : config_(config), weights_(weights), d_(static_cast<size_t>(config.width)) {
    std::vector<int32_t> source(static_cast<size_t>(graph.edges())), relation(source.size()),
        ptr(static_cast<size_t>(graph.entities()) + 1);
    graph.write(nullptr, source.data(), relation.data(), ptr.data());
    edges_.resize(static_cast<size_t>(graph.entities()));
    for (size_t to = 0; to < edges_.size(); ++to)
      for (int32_t e = ptr[to]; e < ptr[to + 1]; ++e)
        edges_[to].emplace_back(source[static_cast<size_t>(e)], relation[static_cast<size_t>(e)]);
  }

  /// The score of every entity.
  Row scores(int32_t entity, int32_t relation) const {
    const Row query = row("query.weight", relation);
    std::vector<Row> own(edges_.size(), Row(d_)), x;
    own[static_cast<size_t>(entity)] = query;
    x = own;
    for (int64_t layer = 0; layer < config_.layers; ++layer) x = next(x, own, query, "layers." + std::to_string(layer));
    Row scores;
    for (const Row& each : x) {
      Row both = each;
      both.insert(both.end(), query.begin(), query.end());
      Row hidden = dense(both, "mlp.0");
      for (double& value : hidden) value = std::max(value, 0.0);
      scores.push_back(dense(hidden, "mlp.1")[0]);
    }
    return scores;
  }

 private:
  Row row(const std::string& name, int64_t number) const {
    const HostTensor& table = weights_.at(name);
    const int64_t width = table.type.shape.dim(-1);
    Row row;
    for (int64_t i = 0; i < width; ++i) row.push_back(table.get(number * width + i));
    return row;
  }
  Row dense(const Row& x, const std::string& name) const {
    Row y = row(name + ".bias", 0);
    for (size_t o = 0; o < y.size(); ++o) {
      const Row w = row(name + ".weight", static_cast<int64_t>(o));
      for (size_t i = 0; i < x.size(); ++i) y[o] += w[i] * x[i];
    }
    return y;
  }
  Row message(const Row& x, const Row& r) const {
    Row m(d_);
    for (size_t i = 0; i < d_; ++i)
      if (config_.message == "distmult")
        m[i] = x[i] * r[i];
      else if (config_.message == "transe")
        m[i] = x[i] + r[i];
      else if (const size_t h = d_ / 2; i < h)
        m[i] = x[i] * r[i] - x[i + h] * r[i + h], m[i + h] = x[i] * r[i + h] + x[i + h] * r[i];
    return m;
  }
  double log_degree(size_t i) const { return std::log(static_cast<double>(edges_[i].size()) + 1); }

  std::vector<Row> next(const std::vector<Row>& x, const std::vector<Row>& own, const Row& query,
                        const std::string& name) const {
    const Row relations = dense(query, name + ".relation_linear");
    double mean_log = 0;
    for (size_t i = 0; i < x.size(); ++i) mean_log += log_degree(i) / static_cast<double>(x.size());
    std::vector<Row> result;
    for (size_t i = 0; i < x.size(); ++i) {
      std::vector<Row> messages{own[i]};
      for (const auto& [from, kind] : edges_[i]) {
        const auto at = relations.begin() + kind * static_cast<int64_t>(d_);
        messages.push_back(message(x[static_cast<size_t>(from)], Row(at, at + static_cast<int64_t>(d_))));
      }
      Row in = x[i], kinds;
      const auto each = [&](auto of) {
        for (size_t f = 0; f < d_; ++f) {
          Row column;
          for (const Row& m : messages) column.push_back(m[f]);
          kinds.push_back(of(column));
        }
      };
      const auto sum = [](const Row& c) { return std::accumulate(c.begin(), c.end(), 0.0); };
      const auto mean = [&](const Row& c) { return sum(c) / static_cast<double>(c.size()); };
      if (config_.aggregate == "sum") {
        each(sum);
        in.insert(in.end(), kinds.begin(), kinds.end());
      } else {
        each(mean);
        each([](const Row& c) { return *std::max_element(c.begin(), c.end()); });
        each([](const Row& c) { return *std::min_element(c.begin(), c.end()); });
        each([&](const Row& c) {
          Row squares = c;
          for (double& value : squares) value *= value;
          return std::sqrt(std::max(mean(squares) - mean(c) * mean(c), 1e-6));
        });
        const double s = log_degree(i) / mean_log;
        for (const double factor : {1.0, s, 1 / std::max(s, 0.01)})
          for (const double kind : kinds) in.push_back(factor * kind);
      }
      Row y = dense(in, name + ".linear");
      const double middle = mean(y);
      double variance = 0;
      for (const double value : y) variance += (value - middle) * (value - middle) / static_cast<double>(d_);
      const Row gain = row(name + ".layer_norm.weight", 0), shift = row(name + ".layer_norm.bias", 0);
      for (size_t f = 0; f < d_; ++f)
        y[f] = std::max((y[f] - middle) / std::sqrt(variance + 1e-5) * gain[f] + shift[f], 0.0) + x[i][f];
      result.push_back(y);
    }
    return result;
  }

  const PathNetConfig config_;
  const std::map<std::string, HostTensor>& weights_;
  const size_t d_;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> edges_;  ///< of each entity: source and relation
};

HostTensor copy_of(const NamedTensor& tensor) {
  HostTensor copy(tensor.type);
  for (int64_t i = 0; i < copy.elements(); ++i) copy.set(i, load_element(tensor.bytes.data(), DType::kI32, i));
  return copy;
}

TEST(PathNet, ScoresAndLossAreThoseOfItsDefinition) {
  const std::vector<Triple> triples = drawn(14);
  const auto graph = std::make_shared<const FactGraph>(triples, kEntities, kRelations);
  constexpr int64_t kGroup = 3, kNegatives = 4;
  for (const std::string message : {"distmult", "transe", "rotate"})
    for (const std::string aggregate : {"pna", "sum"}) {
      SCOPED_TRACE(message + " " + aggregate);
      const PathNetConfig config{
          .layers = 3, .width = 4, .message = message, .aggregate = aggregate, .temperature = 1.5};
      const PathGraphSize size{.entities = kEntities, .edges = graph->edges()};
      const Model model = build_path_net(config, {.group = kGroup,
                                                  .negatives = kNegatives,
                                                  .relations = kRelations,
                                                  .train = size,
                                                  .ranked = size,
                                                  .top = kEntities});
      std::map<std::string, HostTensor> weights;
      for (const StateTensor& weight : model.weights) {
        const RandomStream stream(8, RandomPurpose::kTest, 0, weights.size());
        HostTensor values(weight.type);
        for (int64_t i = 0; i < values.elements(); ++i) values.set(i, 0.6 * stream.normal(static_cast<uint64_t>(i)));
        weights[weight.name] = values;
      }
      const PlainNet whole(config, weights, *graph);
      const Batch questions = PathRankSource(triples, triples, graph, kGroup).make(2, 1);
      std::map<std::string, HostTensor> feeds = weights;
      for (const NamedTensor& tensor : questions.tensors) feeds[tensor.name] = copy_of(tensor);
      const auto program = std::find_if(model.programs.begin(), model.programs.end(),
                                        [](const NamedGraph& each) { return each.name == "predict"; });
      const auto found = interpret(program->graph, reference_backend(), feeds);
      for (int64_t q = 0; q < kGroup; ++q) {
        const Row expected = whole.scores(ints(questions, "entity")[static_cast<size_t>(q)],
                                          ints(questions, "relation")[static_cast<size_t>(q)]);
        for (int64_t k = 0; k < kEntities; ++k)
          EXPECT_NEAR(found[1].get(q * kEntities + k), expected[static_cast<size_t>(found[0].get(q * kEntities + k))],
                      1e-4);
      }

      // The loss, on the graph that is left.
      const Batch batch =
          PathQuerySource(triples, triples, graph, "", {.group = kGroup, .negatives = kNegatives, .seed = 1})
              .make(1, 1);
      feeds = weights;
      for (const NamedTensor& tensor : batch.tensors) feeds[tensor.name] = copy_of(tensor);
      const auto entity = ints(batch, "entity"), relation = ints(batch, "relation"),
                 answers = ints(batch, "candidates");
      std::vector<Triple> left;
      const auto from = ints(batch, "source"), kind = ints(batch, "edge_relation"), ptr = ints(batch, "ptr");
      for (int32_t to = 0; to < kEntities; ++to)
        for (int32_t e = ptr[static_cast<size_t>(to)]; e < ptr[static_cast<size_t>(to) + 1]; ++e)
          if (kind[static_cast<size_t>(e)] < kRelations)
            left.push_back({from[static_cast<size_t>(e)], kind[static_cast<size_t>(e)], to});
      const FactGraph rest(left, kEntities, kRelations);
      const PlainNet net(config, weights, rest);
      const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
      double loss = 0;
      for (size_t q = 0; q < kGroup; ++q) {
        const Row scores = net.scores(entity[q], relation[q]);
        const auto score = [&](size_t k) { return scores[static_cast<size_t>(answers[q * (kNegatives + 1) + k])]; };
        double weight = 0, wrong = 0;
        for (size_t k = 1; k <= kNegatives; ++k) {
          weight += std::exp(1.5 * score(k));
          wrong += std::exp(1.5 * score(k)) * softplus(score(k));
        }
        loss += (softplus(-score(0)) + wrong / weight) / 2 / kGroup;
      }
      EXPECT_NEAR(interpret(model.evaluate, reference_backend(), feeds)[0].get(0), loss, 1e-4);
    }
}

// --- recipes ---

/// A ring of `size` entities, by part: "next" leads to the next one, "second" two further, "third" three. Some of the
/// last two are held out: paths along "next" say where they lead.
std::shared_ptr<const GraphSet> ring(const std::string& letter, int size) {
  std::map<std::string, std::string> parts;
  for (int i = 0; i < size; ++i) {
    const auto add = [&](const std::string& part, const std::string& relation, int to) {
      parts[part] += letter + std::to_string(i) + "\t" + relation + "\t" + letter + std::to_string(to % size) + "\n";
    };
    add("train", "next", i + 1);
    add(i % 5 == 4 ? "validation" : "train", "second", i + 2);
    add(i % 5 == 2 ? "validation" : "train", "third", i + 3);
  }
  return std::make_shared<const GraphSet>(
      graphs::parse_triples({{"train", parts["train"], "train.txt"}, {"validation", parts["validation"], "valid.txt"}}),
      letter);
}

class PathNets : public testing::Test {
 protected:
  void SetUp() override {
    ring("e", 23)->save(folder_ / "train.safetensors");
    ring("f", 31)->save(folder_ / "other.safetensors");
  }
  Recipe recipe(const Settings& more = {}) const {
    return adam_recipe(
        "ring.toml",
        {"model.kind=nbfnet", "model.paths.layers=4", "model.knowledge.width=8", "model.knowledge.temperature=2",
         "data.kind=triples", "data.triples.set=" + (folder_ / "train.safetensors").string(),
         "data.triples.ranked_set=" + (folder_ / "other.safetensors").string(), "data.triples.group=3",
         "data.triples.negatives=6", "train.micro_batch=2", "train.accumulation=4", "train.lanes=4", "train.chunks=4",
         "train.steps=20", "train.schedule.learning_rate=0.01"},
        more);
  }

  TemporaryFolder folder_;
};

TEST_F(PathNets, HaveTheSameBitsOnEveryLayout) {
  const Recipe own = recipe();
  const Trained expected = train(own);
  EXPECT_TRUE(std::isfinite(expected.losses.back()));
  EXPECT_NE(expected.losses.front(), expected.losses.back());
  for (const std::string layout : {"threads=2",
                                   "r=2",
                                   "r=4",
                                   "t=2",
                                   "t=4",
                                   "p=2",
                                   "p=4",
                                   "p=2 r=2",
                                   "t=2 r=2",
                                   "p=2 t=2",
                                   "p=2 t=2 r=2",
                                   "phases=2",
                                   "phases=4 recompute=layer",
                                   "recompute=layer",
                                   "recompute=all",
                                   "recompute=layer r=2",
                                   "recompute=layer p=2",
                                   "phases=1 offload=optimizer",
                                   "phases=2 offload=weights,grads,optimizer,activations",
                                   "p=2 phases=2 offload=optimizer",
                                   "r=2 rts=weights,grads,optimizer",
                                   "r=4 rts=grads",
                                   "p=2 schedule=gpipe",
                                   "p=2 t=2 r=2 rts=optimizer recompute=layer"}) {
    SCOPED_TRACE(layout);
    expect_same(train(own, layout, 3, 2), expected);
  }
}

TEST_F(PathNets, OtherMessagesAndSumsHaveThemToo) {
  for (const std::string message : {"transe", "rotate"}) {
    const Recipe own = recipe({"model.paths.message=" + message, "model.paths.aggregate=sum"});
    const Trained expected = train(own);
    for (const std::string layout : {"threads=2", "r=2", "t=2", "p=2", "recompute=layer"}) {
      SCOPED_TRACE(message + " " + layout);
      expect_same(train(own, layout, 3, 2), expected);
    }
  }
}

TEST_F(PathNets, ContinueInTheMiddleOfAnEpoch) {
  const Recipe own = recipe();
  const Trained expected = train(own, "", 3);
  Recipe first = own, second = own;
  set_layout(first, "r=2"), set_layout(second, "p=2");
  Training before = make_training(prepare(first), {.threads = 1});
  before.initialize();
  before.step();
  const std::filesystem::path checkpoint = before.save(folder_.path(), 1);
  Training after = make_training(prepare(second), {.threads = 1});
  after.restore(Checkpoint(checkpoint));
  const Trained rest = train_steps(after, 2);
  EXPECT_EQ(rest.hash, expected.hash);
  EXPECT_EQ(rest.evaluation, expected.evaluation);
}

/// The recipe that a run keeps has every key, and is read again.
TEST_F(PathNets, AreRecipesWhenEveryKeyIsWritten) {
  const Settings embeddings{"model.kind=rotate", "data.kind=triples",
                            "data.triples.set=" + (folder_ / "train.safetensors").string()};
  for (const Recipe& own : {recipe(), parse_recipe("", "ring.toml", ".", embeddings)}) {
    const std::string text = print_recipe(own);
    EXPECT_THAT(text, HasSubstr("loss = \"log-sigmoid\""));
    EXPECT_EQ(print_recipe(parse_recipe(text, "run.toml", ".", {})), text);
  }
}

/// What is learned on one ring holds on a longer one, whose entities no weight knows.
TEST_F(PathNets, LearnWhatHoldsForOtherEntities) {
  const Recipe own = recipe({"train.accumulation=1", "train.lanes=1", "train.steps=120"});
  Training training = make_training(prepare(own), {.threads = 1});
  training.initialize();
  const double before = number_of(training.evaluate(), "mrr");
  train_steps(training, 120);
  const Numbers after = training.evaluate();
  EXPECT_GT(number_of(after, "mrr"), std::max(0.8, 2 * before));
  EXPECT_GE(number_of(after, "hits@10_of_50"), 0.9);

  QueryAnswerer answerer(complete_recipe(own), 3, {}, {.threads = 1});
  answerer.predictor().load(Checkpoint(training.save(folder_.path(), 120)));
  const auto answers = answerer.answer({"f4\tsecond\t?", "?\tthird\tf5"});
  EXPECT_EQ(answers[0][0].entity, "f6");
  EXPECT_EQ(answers[1][0].entity, "f2");
}

TEST_F(PathNets, BadRecipesAreNamed) {
  const auto error = [&](const Settings& more) { return error_of([&] { prepare(recipe(more)); }); };
  EXPECT_THAT(error({"model.knowledge.shards=2"}), HasSubstr("the model does not read this key"));
  EXPECT_THAT(error({"model.kind=rotate"}), HasSubstr("found model.paths.layers with model.kind 'rotate'"));
  EXPECT_THAT(error({"data.triples.negatives=0"}), HasSubstr("a query needs wrong answers"));
  EXPECT_THAT(error({"data.triples.group=500"}), HasSubstr("data.triples.group"));
  EXPECT_THAT(error({"model.knowledge.width=7", "model.paths.message=rotate"}),
              HasSubstr("complex numbers have an even number of features"));
  EXPECT_THAT(error({"data.triples.held_out=test"}), HasSubstr("a part of the triples is empty"));
  const std::string strange = "a\tafter\tb\nb\tnext\tc\n";
  GraphSet(graphs::parse_triples({{"train", strange, "train.txt"}}), "strange").save(folder_ / "strange.safetensors");
  EXPECT_THAT(error({"data.triples.ranked_set=" + (folder_ / "strange.safetensors").string()}),
              HasSubstr("the knowledge graph has no such relation; found 'after'"));
}

}  // namespace
}  // namespace ramet::tests
