#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "graphs/made_graphs.h"
#include "ramet/graphs/graph_set.h"
#include "ramet/model/graph_net.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

constexpr int64_t kGraphs = 200;  // that a micro-batch has

/// Graphs whose nodes take fewer than 1,024 rows, and more with padding: products cut longer sums into blocks.
class GraphPadding : public GraphNets {
 protected:
  void SetUp() override {
    GraphTables graphs = made_graphs(kGraphs), points = made_points(kGraphs);
    ASSERT_LT(graphs.nodes[0].ptr.back(), 1000);
    GraphSet(std::move(graphs), "graphs").save(folder_ / "many.safetensors");
    GraphSet(std::move(points), "points").save(folder_ / "points.safetensors");
  }

  /// The first steps, each of one micro-batch with the same graphs: in `packs` packs, made by `batch`. Dropout is drawn
  /// by place, so padding moves it.
  Trained trained(const std::string& kind, const std::string& batch, int64_t packs, Settings more = {}) const {
    Settings settings{"data.graphs.batch=" + batch,
                      "train.micro_batch=" + std::to_string(packs),
                      "data.graphs.split=",
                      "train.accumulation=1",
                      "train.lanes=1",
                      "train.precision=f32",
                      "train.sums=in-order",
                      "model.graph.dropout=0",
                      "model.graph.attention_dropout=0",
                      "model.graph.drop_path=0"};
    settings.insert(settings.end(), more.begin(), more.end());
    return train(recipe(kind, true, settings), "", 2);
  }

  void expect_equal_bits(const std::string& kind, const Settings& more = {}) const {
    SCOPED_TRACE(kind + (more.empty() ? "" : " " + more[0]));
    const auto number = [](int64_t graphs) { return std::to_string(graphs); };
    const Trained expected = trained(kind, "count:" + number(kGraphs), 1, more);
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    for (const auto& [batch, packs] : std::vector<std::pair<std::string, int64_t>>{{"pad:" + number(kGraphs), 1},
                                                                                   {"count:" + number(kGraphs / 2), 2},
                                                                                   {"pad:" + number(kGraphs / 8), 8},
                                                                                   {"count:1", kGraphs}}) {
      SCOPED_TRACE(batch);
      const Trained found = trained(kind, batch, packs, more);
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.norms, expected.norms);
      EXPECT_EQ(found.hash, expected.hash);
    }
  }
};

// Batch norms too: their statistics are sums in order over the nodes that a micro-batch has, in whatever packs.
TEST_F(GraphPadding, PacksAndPaddingChangeNoBitOfSumsInOrder) {
  for (const std::string& kind : model::graph_kinds()) expect_equal_bits(kind);
  expect_equal_bits("schnet", {"model.graph.filter_points=64"});
}

}  // namespace
}  // namespace ramet::tests
