// Networks that read graphs and messages of one's own, as a user of the library sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

/// Rings of 3 to 8 nodes, with all that any network reads. The label of a graph is whether it has more than 5 nodes.
struct Rings {
  v0::GraphLists lists{.node_ptr = {0}, .edge_ptr = {0}, .source = {}, .target = {}};
  std::vector<float> x, weight, bond, distance, size;
  std::vector<int32_t> kind, y, colour, split;

  explicit Rings(int32_t count) {
    for (int32_t g = 0; g < count; ++g) {
      const int32_t nodes = 3 + g * 5 % 6;
      for (int32_t i = 0; i < nodes; ++i) {
        kind.push_back((i + g) % 3);
        x.push_back(static_cast<float>(kind.back())), x.push_back(1);
        colour.push_back((i + g) % 3 == 1);
        // In the order of the global edge order, so that a row of a field is a row of the set.
        std::vector<int32_t> sources{(i + 1) % nodes, (i + nodes - 1) % nodes};
        std::sort(sources.begin(), sources.end());
        for (const int32_t source : sources) {
          lists.source.push_back(source), lists.target.push_back(i);
          weight.push_back(0.5f), distance.push_back(1.25f);
          bond.push_back(static_cast<float>((source + i) % 2)), bond.push_back(0.5f);
        }
      }
      y.push_back(nodes > 5), size.push_back(static_cast<float>(nodes)), split.push_back(g % 4 == 3);
      lists.node_ptr.push_back(std::ssize(kind)), lists.edge_ptr.push_back(std::ssize(lists.source));
    }
  }
  v0::GraphSet set() const {
    return v0::GraphSet(lists, {{"node.x", x},
                                {"node.kind", kind},
                                {"node.colour", colour},
                                {"edge.weight", weight},
                                {"edge.bond", bond},
                                {"edge.distance", distance},
                                {"graph.y", y},
                                {"graph.size", size},
                                {"graph.split", split}});
  }
};

v0::GraphNetOptions options(const std::string& kind, bool of_graphs = true) {
  v0::GraphNetOptions made{.kind = kind, .hidden = 8, .heads = 2, .dropout = 0, .batch = "count:8", .seed = 3};
  made.label = of_graphs ? "graph.y" : "node.colour";
  if (kind == "gine" || kind == "mpnn" || kind == "gps") made.edge_features = {"edge.bond"};
  if (kind == "schnet") made.features = {"node.kind"}, made.label = "graph.size", made.cutoff = 3, made.gaussians = 8;
  return made;
}

v0::TrainOptions training_options(const std::string& layout = "") {
  return {.optimizer = v0::Adam{}, .schedule = {.learning_rate = 0.01}, .layout = layout, .threads = 1};
}

TEST(GraphNets, EveryKindLearns) {
  const v0::GraphSet set = Rings(48).set();
  EXPECT_EQ(set.graphs(), 48);
  EXPECT_THAT(set.fields(), IsSupersetOf({"node.x", "edge.bond", "graph.y"}));
  EXPECT_EQ(v0::graph_net_kinds().size(), 12u);
  for (const std::string& kind : v0::graph_net_kinds()) {
    SCOPED_TRACE(kind);
    const v0::GraphNetOptions own = options(kind);
    const v0::Model model = v0::graph_net(own, set);
    EXPECT_EQ(model.type_of(kind == "schnet" ? "targets" : "labels").shape.dim(1), 8);
    EXPECT_THAT(model.metrics(), Contains(kind == "schnet" ? "absolute" : "accuracy"));
    v0::Training training(model, training_options(), v0::Data::graphs(own, set));
    double first = 0, last = 0;
    for (int step = 0; step < 120; ++step) {
      const double loss = training.step().loss;
      (step < 6 ? first : last) += step < 6 || step >= 114 ? loss : 0;
    }
    EXPECT_LT(last, 0.9 * first);
    const v0::Arrays found = v0::graph_answers(training, own, set);
    ASSERT_EQ(found["graph"].elements(), 48);
    EXPECT_EQ(found["graph"].at(47), 47);
    if (kind == "schnet") {
      EXPECT_EQ(found["values"].shape(), (Shape{48, 1}));
      EXPECT_EQ(found["targets"].at(2), 7);
      continue;
    }
    EXPECT_EQ(found["logits"].shape(), (Shape{48, 2}));
    int64_t right = 0, logits = 0;
    for (int64_t g = 0; g < 48; ++g) right += found["classes"].at(g) == found["labels"].at(g);
    for (int64_t g = 0; g < 48; ++g)
      logits += found["logits"].argmax()[static_cast<size_t>(g)] == found["classes"].at(g);
    EXPECT_EQ(logits, 48);
    EXPECT_GE(right, 24);
  }
}

TEST(GraphNets, NodesHeldOutGraphsAndLayouts) {
  const v0::GraphSet set = Rings(24).set();
  v0::GraphNetOptions own = options("gin");
  own.split = "graph.split", own.train = "0", own.held_out = "1";
  const v0::Data data = v0::Data::graphs(own, set);
  std::string hash;
  for (const char* layout : {"", "p=2", "phases=2 offload=optimizer"}) {
    v0::Training training(v0::graph_net(own, set), training_options(layout), data, data.held_out());
    for (int step = 0; step < 10; ++step) training.step();
    if (hash.empty()) hash = training.weights_hash();
    EXPECT_EQ(training.weights_hash(), hash) << layout;
    EXPECT_TRUE(std::isfinite(training.evaluate()["loss"]));
    EXPECT_EQ(v0::graph_answers(training, own, set)["graph"].elements(), 6);
  }
  for (const std::string& kind : v0::graph_net_kinds()) {
    if (kind == "schnet") continue;
    const v0::GraphNetOptions of_nodes = options(kind, false);
    v0::Training training(v0::graph_net(of_nodes, set), training_options(), v0::Data::graphs(of_nodes, set));
    EXPECT_TRUE(std::isfinite(training.step().loss)) << kind;
    EXPECT_EQ(v0::graph_answers(training, of_nodes, set)["node"].elements(), Rings(24).lists.node_ptr.back());
  }
}

TEST(GraphNets, APredictorAnswersWithSavedWeightsAndASavedSet) {
  const TemporaryFolder folder;
  const v0::GraphSet set = Rings(12).set();
  const v0::GraphNetOptions own = options("sage");
  v0::Training training(v0::graph_net(own, set), training_options(), v0::Data::graphs(own, set));
  for (int step = 0; step < 5; ++step) training.step();
  training.save_weights((folder / "weights.safetensors").string());
  set.save((folder / "set.safetensors").string());
  const v0::GraphSet again = v0::GraphSet::open((folder / "set.safetensors").string());
  v0::Predictor predictor(v0::graph_net(own, again), (folder / "weights.safetensors").string(),
                          {.programs = {"predict"}});
  EXPECT_EQ(v0::graph_answers(predictor, own, again)["logits"].floats(),
            v0::graph_answers(training, own, set)["logits"].floats());
}

TEST(GraphNets, RefuseWhatTheyCannotRead) {
  const Rings rings(8);
  const v0::GraphSet set = rings.set();
  const auto error = [&](const v0::GraphNetOptions& own) { return error_of([&] { v0::graph_net(own, set); }); };
  EXPECT_THAT(error(options("gnc")), HasSubstr("unknown network for graphs"));
  v0::GraphNetOptions own = options("gine");
  own.edge_features = {};
  EXPECT_THAT(error(own), HasSubstr("gine reads features of edges"));
  own = options("gin"), own.dropout = 1.5;
  EXPECT_THAT(error(own), HasSubstr("model.graph.dropout"));
  own = options("gin"), own.features = {"node.y"};
  EXPECT_THAT(error(own), HasSubstr("data.graphs.features"));
  own = options("gin"), own.layers = 0;
  EXPECT_THAT(error(own), HasSubstr("model.graph.layers"));
  own = options("gin");
  EXPECT_THAT(error_of([&] {
                v0::Training(v0::graph_net(own, set), training_options(), {}, v0::Data::graphs(own, set).held_out());
              }),
              HasSubstr("the graphs hold nothing out"));
  EXPECT_THAT(error_of([&] {
                v0::Training(v0::graph_net(own, set), training_options(), v0::Data::graphs(options("schnet"), set));
              }),
              HasSubstr("batched with other options"));
  EXPECT_THAT(error_of([&] { v0::GraphSet(rings.lists, {{"node.x", std::vector<float>(3)}}); }),
              HasSubstr("a field of another length"));
  EXPECT_THAT(error_of([&] { v0::GraphSet(rings.lists, {{"x", rings.x}}); }), HasSubstr("node.NAME"));
  std::vector<float> sizes(8, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(error_of([&] { v0::GraphSet(rings.lists, {{"graph.size", sizes}}); }), HasSubstr("not finite"));
  EXPECT_NO_THROW(v0::GraphSet(rings.lists, {{"graph.size", sizes}}, {"graph.size"}));
}

/// What all functions of GraphEdges make of random rows, computed by hand.
TEST(GraphEdges, MessagesAgreeWithLoops) {
  const v0::GraphEdgesOptions sizes{.nodes = 4, .edges = 7, .samples = 2};
  v0::ModelBuilder m("messages");
  const v0::GraphEdges graph(m, sizes);
  const v0::Tensor x = m.input("x", DType::kF32, {2, 4, 3});
  const v0::Tensor messages = v0::relu(graph.of_targets(x) - graph.of_sources(x));
  m.output("sum", graph.sum(messages)), m.output("mean", graph.mean(messages));
  m.output("max", graph.max(messages)), m.output("min", graph.min(messages));
  m.output("softmax", graph.softmax(messages)), m.output("neighbors", graph.neighbor_sum(x));
  m.output("weighted", graph.neighbor_sum(x, graph.neighbor_dot(x, x)));
  m.loss(v0::reduce_mean(graph.sum(messages) * m.weight("gain", {3}, v0::Init::ones())));
  const v0::Model model = m.build();

  const std::vector<std::vector<int32_t>> sources{{3, 0, 1, 1, 2}, {2, 2, 0, 3, 3, 1, 0}},
      targets{{0, 0, 3, 3, 1}, {1, 1, 1, 0, 2, 2, 2}};
  v0::EdgeLists lists(sizes);
  EXPECT_EQ(lists.add(sources[0], targets[0]), (std::vector<int64_t>{1, 0, 4, 2, 3}));
  lists.add(sources[1], targets[1]);
  std::vector<float> rows(24);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i * 7 % 11) - 4;
  v0::NamedViews views = lists.views();
  views.emplace_back("x", rows);
  v0::Training training(model, training_options());
  const v0::Arrays found = training.predict(views);
  const auto at = [&](size_t sample, int32_t node, size_t k) {
    return static_cast<double>(rows[(sample * 4 + static_cast<size_t>(node)) * 3 + k]);
  };
  for (size_t sample = 0; sample < 2; ++sample)
    for (int32_t node = 0; node < 4; ++node)
      for (size_t k = 0; k < 3; ++k) {
        double sum = 0, most = 0, least = 1e9, count = 0, neighbors = 0, weighted = 0;
        for (size_t e = 0; e < sources[sample].size(); ++e) {
          if (targets[sample][e] != node) continue;
          const int32_t source = sources[sample][e];
          const double message = std::max(0.0, at(sample, node, k) - at(sample, source, k));
          double dot = 0;
          for (size_t i = 0; i < 3; ++i) dot += at(sample, node, i) * at(sample, source, i);
          sum += message, ++count, most = std::max(most, message), least = std::min(least, message);
          neighbors += at(sample, source, k), weighted += dot * at(sample, source, k);
        }
        const auto place = static_cast<int64_t>((sample * 4 + static_cast<size_t>(node)) * 3 + k);
        EXPECT_FLOAT_EQ(found["sum"].at(place), sum);
        EXPECT_FLOAT_EQ(found["mean"].at(place), count > 0 ? sum / count : 0);
        EXPECT_FLOAT_EQ(found["max"].at(place), most);
        EXPECT_FLOAT_EQ(found["min"].at(place), count > 0 ? least : 0);
        EXPECT_FLOAT_EQ(found["neighbors"].at(place), neighbors);
        EXPECT_FLOAT_EQ(found["weighted"].at(place), weighted);
      }
  // The shares of node 0's two edges, the first two of the first sample.
  EXPECT_NEAR(found["softmax"].at(0) + found["softmax"].at(3), 1, 1e-6);
}

TEST(GraphEdges, BadInputIsRefused) {
  const v0::GraphEdgesOptions sizes{.nodes = 4, .edges = 2};
  v0::EdgeLists lists(sizes);
  EXPECT_THAT(error_of([&] { lists.add(std::vector<int32_t>{0, 1, 2}, std::vector<int32_t>{0, 1, 2}); }),
              HasSubstr("at most 2"));
  EXPECT_THAT(error_of([&] { lists.add(std::vector<int32_t>{4}, std::vector<int32_t>{0}); }),
              HasSubstr("an edge has a source that there is not; found 4; expected 0 to 3"));
  EXPECT_THAT(error_of([&] { lists.add(std::vector<int32_t>{1}, std::vector<int32_t>{-1}); }), HasSubstr("target"));
  v0::ModelBuilder m("none");
  EXPECT_THAT(error_of([&] { v0::GraphEdges(m, {.nodes = 0, .edges = 2}); }), HasSubstr("room for nodes and edges"));
}

}  // namespace
}  // namespace ramet::tests
