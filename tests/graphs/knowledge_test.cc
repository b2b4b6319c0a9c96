#include "ramet/model/knowledge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/graphs/read.h"
#include "ramet/graphs/triples.h"
#include "ramet/ir/builder.h"
#include "ramet/kernel/interpret.h"
#include "ramet/recipe/knowledge.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/errors.h"
#include "support/temporary.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

using graphs::KnowledgeGraph;
using graphs::RankSource;
using graphs::Triple;
using graphs::TripleEnd;
using testing::HasSubstr;
using Settings = std::vector<std::string>;
using Row = std::vector<double>;

// --- score functions, against formulas of one triple in double ---

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
Row slice_of(const Row& row, size_t part, size_t parts) {
  const size_t size = row.size() / parts;
  return {row.begin() + static_cast<int64_t>(part * size), row.begin() + static_cast<int64_t>((part + 1) * size)};
}
double norm_of(const Row& x, int64_t norm) {
  double sum = 0;
  for (const double each : x) sum += norm == 1 ? std::fabs(each) : each * each;
  return norm == 1 ? sum : std::sqrt(sum);
}
Row each(size_t size, const std::function<double(size_t)>& of) {
  Row row(size);
  for (size_t i = 0; i < size; ++i) row[i] = of(i);
  return row;
}
double box(double at, double centre, double raw) {
  const double width = std::log1p(std::exp(raw)), size = std::fabs(at - centre);
  return size <= width / 2 ? size / (width + 1) : size * (width + 1) - width / 2 * (width + 1 - 1 / (width + 1));
}

double score_of(const std::string& name, const Row& h, const Row& r, const Row& t, int64_t norm) {
  const size_t n = h.size(), half = n / 2;
  if (name == "transe") return -norm_of(each(n, [&](size_t i) { return h[i] + r[i] - t[i]; }), norm);
  if (name == "transh") {
    const Row shift = slice_of(r, 0, 2);
    Row unit = slice_of(r, 1, 2);
    const double size = norm_of(unit, 2);
    for (double& value : unit) value /= size;
    const double along = dot(unit, h) - dot(unit, t);
    const double distance = norm_of(each(n, [&](size_t i) { return h[i] - t[i] - along * unit[i] + shift[i]; }), 2);
    return -distance * distance;
  }
  if (name == "distmult") return dot(each(n, [&](size_t i) { return h[i] * r[i]; }), t);
  if (name == "complex") {
    double sum = 0;
    for (size_t i = 0; i < half; ++i) {
      const double hr = h[i], hi = h[half + i], rr = r[i], ri = r[half + i], tr = t[i], ti = t[half + i];
      sum += hr * rr * tr + hi * rr * ti + hr * ri * ti - hi * ri * tr;
    }
    return sum;
  }
  if (name == "rotate") {
    Row moduli, parts;
    for (size_t i = 0; i < half; ++i) {
      parts.push_back(h[i] * std::cos(r[i]) - h[half + i] * std::sin(r[i]) - t[i]);
      parts.push_back(h[i] * std::sin(r[i]) + h[half + i] * std::cos(r[i]) - t[half + i]);
      moduli.push_back(std::hypot(parts[2 * i], parts[2 * i + 1]));
    }
    return -norm_of(norm == 1 ? moduli : parts, norm);
  }
  if (name == "pairre") return -norm_of(each(n, [&](size_t i) { return h[i] * r[i] - t[i] * r[n + i]; }), norm);
  if (name == "triplere")
    return -norm_of(each(n, [&](size_t i) { return h[i] * r[i] - t[i] * r[2 * n + i] + r[n + i]; }), norm);
  if (name == "boxe") {
    double sum = 0;
    for (size_t i = 0; i < half; ++i) {
      sum += box(h[i] + t[half + i], r[i], r[2 * half + i]);
      sum += box(t[i] + h[half + i], r[half + i], r[3 * half + i]);
    }
    return -sum;
  }
  return -norm_of(each(half, [&](size_t i) { return h[i] * (t[half + i] + 1) - t[i] * (h[half + i] + 1) + r[i]; }),
                  norm);
}

TEST(ScoreFunctions, AgreeWithTheirFormulas) {
  constexpr int64_t kWidth = 6, kRows = 3, kColumns = 4;
  for (const ScoreFunction& function : score_functions())
    for (const int64_t norm : {1, 2})
      for (const TripleEnd missing : {TripleEnd::kTail, TripleEnd::kHead}) {
        SCOPED_TRACE(function.name + ", norm " + std::to_string(norm));
        const int64_t entity = function.entity_parts * kWidth, relation = function.relation_parts * kWidth;
        Graph graph("scores");
        GraphBuilder build(graph);
        std::map<std::string, HostTensor> feeds;
        const auto input = [&](const std::string& name, int64_t rows, int64_t width) {
          HostTensor tensor({DType::kF32, {2, rows, width}});
          const RandomStream stream(2, RandomPurpose::kTest, 0, static_cast<uint64_t>(rows * width));
          for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, 0.7 * stream.normal(static_cast<uint64_t>(i)));
          feeds[name] = tensor;
          return build.input(name, DType::kF32, {2, rows, width});
        };
        const Tensor known = input("known", kRows, entity), link = input("relation", kRows, relation),
                     columns = input("columns", kColumns, entity);
        build.output("scores", function.scores(missing, known, link, columns, norm));
        const HostTensor scores = interpret(graph, reference_backend(), feeds).at(0);
        const auto row_of = [&](const std::string& name, int64_t row, int64_t width) {
          return each(static_cast<size_t>(width),
                      [&](size_t i) { return feeds.at(name).get(row * width + static_cast<int64_t>(i)); });
        };
        for (int64_t g = 0; g < 2; ++g)
          for (int64_t m = 0; m < kRows; ++m)
            for (int64_t k = 0; k < kColumns; ++k) {
              const Row given = row_of("known", g * kRows + m, entity),
                        other = row_of("columns", g * kColumns + k, entity);
              const Row link_row = row_of("relation", g * kRows + m, relation);
              const bool tail = missing == TripleEnd::kTail;
              EXPECT_NEAR(scores.get((g * kRows + m) * kColumns + k),
                          score_of(function.name, tail ? given : other, link_row, tail ? other : given, norm), 1e-4);
            }
      }
}

// --- recipes ---

/// Triples of 46 entities in a ring, by part: relation "next" leads to the next one, "second" two further; "drawn" is
/// drawn. Some of the first two are held out.
std::map<std::string, std::string> ring() {
  const RandomStream random(9, RandomPurpose::kTest, 0, 0);
  std::map<std::string, std::string> parts;
  for (int i = 0; i < 46; ++i) {
    const auto add = [&](const std::string& part, const std::string& relation, int to) {
      parts[part] += "e" + std::to_string(i) + "\t" + relation + "\te" + std::to_string(to % 46) + "\n";
    };
    add(i % 5 == 2 ? "validation" : "train", "next", i + 1);
    add(i % 5 == 4 ? "validation" : "train", "second", i + 2);
    add("train", "drawn", static_cast<int>(random.below(static_cast<uint64_t>(i), 46)));
  }
  return parts;
}

class Embeddings : public testing::Test {
 protected:
  void SetUp() override {
    const std::map<std::string, std::string> parts = ring();
    const std::string &train = parts.at("train"), &valid = parts.at("validation");
    set_ = std::make_shared<const GraphSet>(
        graphs::parse_triples({{"train", train, "train.txt"}, {"validation", valid, "valid.txt"}}), "ring");
    set_->save(folder_ / "ring.safetensors");
  }

  Recipe recipe(const std::string& function, const Settings& more = {}) const {
    return adam_recipe(
        "ring.toml",
        {"model.kind=" + function, "model.knowledge.width=8", "model.knowledge.deviation=0.3", "model.knowledge.pad=8",
         "model.knowledge.margin=1", "model.knowledge.temperature=0.5", "data.kind=triples",
         "data.triples.set=" + (folder_ / "ring.safetensors").string(), "data.triples.group=6",
         "data.triples.negatives=16", "train.micro_batch=2", "train.accumulation=4", "train.lanes=4", "train.chunks=4",
         "train.steps=20", "train.schedule.learning_rate=0.05"},
        more);
  }

  TemporaryFolder folder_;
  std::shared_ptr<const GraphSet> set_;
};

TEST_F(Embeddings, HaveTheSameBitsOnEveryLayout) {
  for (const ScoreFunction& function : score_functions()) {
    const bool all = function.name == "distmult" || function.name == "complex";
    Settings settings;
    if (all) settings = {"model.knowledge.loss=all", "data.triples.reciprocal=true"};
    if (function.name == "rotate" || function.name == "complex") settings.emplace_back("data.triples.subsampling=true");
    const Recipe own = recipe(function.name, settings);
    const Trained expected = train(own);
    EXPECT_TRUE(std::isfinite(expected.losses.back()));
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    for (const std::string layout : {"threads=2", "r=2", "t=2", "t=4", "t=2 r=2", "phases=1 offload=optimizer",
                                     "r=2 rts=weights,grads,optimizer"}) {
      SCOPED_TRACE(function.name + " " + layout);
      expect_same(train(own, layout, 3, 2), expected);
    }
  }
}

const Settings kShards{"model.knowledge.shards=8", "model.knowledge.pad=1", "data.triples.group=16",
                       "data.triples.negatives=16", "train.micro_batch=8"};

TEST_F(Embeddings, ShardsHaveTheSameBitsOnAnyNumberOfDevices) {
  for (const std::string function : {"transe", "rotate", "complex", "pairre"}) {
    Settings settings = kShards;
    if (function == "pairre") settings.insert(settings.end(), {"data.triples.subsampling=true"});
    if (function == "complex")
      settings.insert(settings.end(), {"model.knowledge.loss=softmax", "model.knowledge.penalty=0.01"});
    if (function == "transe") settings.insert(settings.end(), {"model.knowledge.loss=margin"});
    const Recipe own = recipe(function, settings);
    const Trained expected = train(own);
    EXPECT_TRUE(std::isfinite(expected.losses.back()));
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    Settings layouts{"g=2", "g=4", "g=8"};
    if (function == "rotate")
      for (const char* more : {"threads=2", "t=2", "r=2", "g=2 r=2", "g=4 recompute=layer",
                               "g=2 phases=1 offload=optimizer", "g=2 r=2 rts=weights,grads,optimizer"})
        layouts.emplace_back(more);
    for (const std::string& layout : layouts) {
      SCOPED_TRACE(function + " " + layout);
      expect_same(train(own, layout, 3, 2), expected);
    }
  }
}

/// Rows travel in one exchange each way, and a device has the rows of its own shards alone.
TEST_F(Embeddings, ShardsExchangeRowsOnceEachWay) {
  Recipe own = recipe("rotate", kShards);
  set_layout(own, "g=4");
  const Training training = make_training(prepare(own), {.threads = 1});
  const Executable& exe = training.cluster().stages()[0];
  int64_t exchanges = 0;
  for (const Segment& segment : exe.segments)
    for (const Instruction& each : segment.instructions)
      exchanges += exe.programs[static_cast<size_t>(segment.program)].name == "train" && each.call >= 0 &&
                   exe.calls[static_cast<size_t>(each.call)].node.op->name == "all_to_all";
  EXPECT_EQ(exchanges, 2);
  const auto place = std::find_if(exe.states.begin(), exe.states.end(),
                                  [](const StatePlace& each) { return each.tensor.name == "entities.weight"; });
  ASSERT_NE(place, exe.states.end());
  EXPECT_EQ(place->sharding.logical.shape, (Shape{8, 6, 16}));
  EXPECT_EQ(place->sharding.local().shape, (Shape{2, 6, 16}));
}

TEST_F(Embeddings, ShardsContinueOnOtherDevices) {
  const Recipe own = recipe("rotate", kShards);
  const Trained expected = train(own, "", 6);
  Recipe first = own, second = own;
  set_layout(first, "g=4"), set_layout(second, "g=2");
  Training before = make_training(prepare(first), {.threads = 1});
  before.initialize();
  for (int i = 0; i < 3; ++i) before.step();
  const std::filesystem::path checkpoint = before.save(folder_.path(), 3);
  Training after = make_training(prepare(second), {.threads = 1});
  after.restore(Checkpoint(checkpoint));
  const Trained rest = train_steps(after, 3);
  EXPECT_EQ(rest.hash, expected.hash);
  EXPECT_EQ(rest.evaluation, expected.evaluation);
}

TEST_F(Embeddings, ShardsLearn) {
  Settings settings = kShards;
  settings.insert(settings.end(), {"model.knowledge.width=16", "model.knowledge.margin=3", "train.steps=150",
                                   "train.accumulation=1", "train.lanes=1"});
  Training training = make_training(prepare(recipe("rotate", settings)), {.threads = 1});
  training.initialize();
  const double before = number_of(training.evaluate(), "mrr");
  train_steps(training, 150);
  EXPECT_GT(number_of(training.evaluate(), "mrr"), 2 * before);
}

/// The loss of two triples with weights is the weighted mean of the losses of each.
TEST_F(Embeddings, ALossWeighsItsTriples) {
  for (const std::string loss : {"log-sigmoid", "margin", "softmax", "all"})
    for (const double temperature : {0.0, 0.5}) {
      if (temperature > 0 && loss != "log-sigmoid") continue;
      SCOPED_TRACE(loss + ", temperature " + std::to_string(temperature));
      const KnowledgeConfig config{
          .function = "transe", .width = 4, .loss = loss, .margin = 1, .temperature = temperature};
      const auto loss_of = [&](std::vector<int> triples, bool subsampling) {
        const int64_t group = std::ssize(triples), negatives = 5;
        const KnowledgeTask task{.group = group,
                                 .negatives = negatives,
                                 .entities = 9,
                                 .relations = 3,
                                 .subsampling = subsampling,
                                 .top = 1};
        std::map<std::string, HostTensor> feeds;
        for (const auto& [name, rows] : {std::pair("entities.weight", int64_t{9}), {"relations.weight", int64_t{3}}}) {
          const RandomStream stream(4, RandomPurpose::kTest, 0, static_cast<uint64_t>(rows));
          HostTensor& table = feeds[name] = HostTensor({DType::kF32, {rows, 4}});
          for (int64_t i = 0; i < table.elements(); ++i) table.set(i, stream.normal(static_cast<uint64_t>(i)));
        }
        for (const char* name : {"head", "relation", "tail", "weight"})
          feeds[name] = HostTensor({name[0] == 'w' ? DType::kF32 : DType::kI32, {1, group}});
        for (const char* side : {"tail", "head"}) {
          HostTensor& wrong = feeds[side + std::string("_negatives")] = HostTensor({DType::kI32, {1, negatives}});
          for (int64_t k = 0; k < negatives; ++k) wrong.set(k, static_cast<double>((3 * k + 1) % 9));
          feeds[side + std::string("_true")] = HostTensor({DType::kU8, {1, group, negatives}});
        }
        for (int64_t m = 0; m < group; ++m) {
          const int number = triples[static_cast<size_t>(m)];
          feeds["head"].set(m, number), feeds["relation"].set(m, number), feeds["tail"].set(m, number + 4);
          feeds["weight"].set(m, number + 0.25);
        }
        const Model model = build_knowledge(config, task);
        return interpret(model.forward, reference_backend(), feeds).at(0).get(0);
      };
      EXPECT_NEAR(loss_of({1, 2}, true), (1.25 * loss_of({1}, false) + 2.25 * loss_of({2}, false)) / 3.5, 1e-5);
      EXPECT_NEAR(loss_of({1}, true), loss_of({1}, false), 1e-5);
      EXPECT_NEAR(loss_of({1, 2}, false), (loss_of({1}, false) + loss_of({2}, false)) / 2, 1e-5);
    }
}

TEST_F(Embeddings, LearnWithEveryLoss) {
  const std::vector<Settings> losses = {
      {"model.knowledge.loss=all"},
      {"model.knowledge.loss=all", "data.triples.reciprocal=true", "model.knowledge.penalty=0.001"},
      {"model.knowledge.loss=log-sigmoid", "model.knowledge.margin=2"},
      {"model.knowledge.loss=log-sigmoid", "model.knowledge.temperature=0", "data.triples.group=1",
       "train.micro_batch=12"},
      {"model.knowledge.loss=margin", "data.triples.sides=tails"},
      {"model.knowledge.loss=log-sigmoid", "data.triples.subsampling=true"},
      {"model.knowledge.loss=softmax", "data.triples.sides=heads"}};
  for (const std::string function : {"transe", "complex", "rotate", "boxe"})
    for (const Settings& loss : losses) {
      SCOPED_TRACE(function + " " + testing::PrintToString(loss));
      const Trained found = train(recipe(function, loss), "", 20);
      EXPECT_LT(found.losses.back(), 0.97 * found.losses.front());
    }
}

/// Filtered ranks as their definition has them, from DistMult's weights.
TEST_F(Embeddings, RanksAreThoseOfTheirDefinition) {
  const KnowledgeGraph graph(set_);
  const std::vector<Triple> held_out = graph.triples("edge.split", "validation"), all = graph.triples();
  const int64_t group = 4, entities = graph.entities();
  const KnowledgeTask sizes{.micro_batch = 1, .group = group, .entities = entities, .pad = 8, .relations = 3};
  const auto source = std::make_shared<const RankSource>(held_out, all, group, sizes.rows());
  KnowledgeTask task = sizes;
  task.known_tails = source->room(TripleEnd::kTail), task.known_heads = source->room(TripleEnd::kHead);
  const Model model = build_knowledge({.function = "distmult", .width = 2, .loss = "all"}, task);
  const auto program = std::find_if(model.programs.begin(), model.programs.end(),
                                    [](const NamedGraph& each) { return each.name == "rank"; });
  std::map<std::string, HostTensor> feeds;
  for (const auto& [name, rows] : {std::pair("entities.weight", sizes.rows()), {"relations.weight", int64_t{3}}}) {
    HostTensor table({DType::kF32, {rows, 2}});
    const RandomStream stream(4, RandomPurpose::kTest, 0, static_cast<uint64_t>(rows));
    // Few values, so that many scores are equal.
    for (int64_t i = 0; i < table.elements(); ++i) table.set(i, 1.0 + stream.below(static_cast<uint64_t>(i), 3));
    feeds[name] = table;
  }
  const auto score = [&](int32_t h, int32_t r, int32_t t) {
    double sum = 0;
    for (int64_t d = 0; d < 2; ++d)
      sum += feeds["entities.weight"].get(2 * h + d) * feeds["relations.weight"].get(2 * r + d) *
             feeds["entities.weight"].get(2 * t + d);
    return sum;
  };
  for (int64_t sample = 0; sample < source->epoch_samples(0); ++sample) {
    const Batch batch = source->make(sample, 1);
    for (const NamedTensor& tensor : batch.tensors) {
      HostTensor copy(tensor.type);
      for (int64_t i = 0; i < copy.elements(); ++i) copy.set(i, load_element(tensor.bytes.data(), DType::kI32, i));
      feeds[tensor.name] = copy;
    }
    const auto results = interpret(program->graph, reference_backend(), feeds);
    for (int64_t m = 0; m < group && sample * group + m < std::ssize(held_out); ++m) {
      const Triple triple = held_out[static_cast<size_t>(sample * group + m)];
      for (const bool tail : {true, false}) {
        double rank = 1;
        const double right = score(triple.head, triple.relation, triple.tail);
        for (int32_t e = 0; e < entities; ++e) {
          const Triple other{tail ? triple.head : e, triple.relation, tail ? e : triple.tail};
          if (std::find(all.begin(), all.end(), other) != all.end()) continue;
          const double found = score(other.head, other.relation, other.tail);
          rank += found > right ? 1 : found == right ? 0.5 : 0;
        }
        EXPECT_EQ(results.at(tail ? 0 : 1).get(m), rank) << sample << " " << m << (tail ? " tail" : " head");
      }
    }
  }
}

TEST_F(Embeddings, RanksGetBetterAndQueriesAreAnswered) {
  Recipe own = recipe("rotate", {"model.knowledge.width=16", "model.knowledge.margin=3", "train.steps=150",
                                 "train.micro_batch=4", "train.accumulation=1", "train.lanes=1"});
  Training training = make_training(prepare(own), {.threads = 1});
  training.initialize();
  const double before = number_of(training.evaluate(), "mrr");
  train_steps(training, 150);
  const Numbers after = training.evaluate();
  EXPECT_GT(number_of(after, "mrr"), 2 * before);
  EXPECT_GE(number_of(after, "hits@10"), number_of(after, "hits@3"));
  EXPECT_GE(number_of(after, "hits@3"), number_of(after, "hits@1"));
}

TEST_F(Embeddings, BadRecipesAreNamed) {
  const auto error = [&](const Settings& more) { return error_of([&] { prepare(recipe("rotate", more)); }); };
  EXPECT_THAT(error({"data.triples.negatives=100"}), HasSubstr("there are more negatives than entities; found 100"));
  EXPECT_THAT(error({"data.triples.negatives=100"}), HasSubstr("data.triples.negatives"));
  EXPECT_THAT(error({"data.triples.negatives=0"}), HasSubstr("the loss compares with wrong answers"));
  EXPECT_THAT(error({"data.triples.group=5000"}), HasSubstr("data.triples.group"));
  EXPECT_THAT(error({"data.triples.held_out=tests"}), HasSubstr("the triples have no such part; found 'tests'"));
  EXPECT_THAT(error({"data.triples.held_out=test"}), HasSubstr("a part of the triples is empty"));
  EXPECT_THAT(error({"model.knowledge.loss=margin", "model.knowledge.margin=0"}),
              HasSubstr("the margin loss needs a margin"));
  const auto sharded = [&](const Settings& more) {
    Settings settings = kShards;
    settings.insert(settings.end(), more.begin(), more.end());
    return error(settings);
  };
  EXPECT_THAT(
      sharded({"model.knowledge.shards=6", "train.micro_batch=6", "data.triples.group=6", "data.triples.negatives=6"}),
      HasSubstr("the shards of entities must be a power of two; found 6"));
  EXPECT_THAT(sharded({"train.micro_batch=4"}), HasSubstr("a micro-batch of triples by shards has one sample of each"));
  EXPECT_THAT(sharded({"data.triples.group=12"}), HasSubstr("the triples of a group do not divide among the shards"));
  EXPECT_THAT(sharded({"model.knowledge.loss=all"}), HasSubstr("compares with all entities reads every shard's rows"));
  EXPECT_THAT(error_of([&] { train(recipe("rotate", kShards), "g=2 deal=random:1", 1); }),
              HasSubstr("parts of a table lie on devices in order"));
  EXPECT_THAT(error({"data.triples.reciprocal=true", "data.triples.sides=tails"}),
              HasSubstr("reciprocal triples ask for tails alone"));
}

}  // namespace
}  // namespace ramet::tests
