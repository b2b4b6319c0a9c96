#include "ramet/graphs/pack_text.h"

#include "ramet/base/error.h"
#include "ramet/graphs/graph_cut.h"
#include "ramet/graphs/lines.h"

namespace ramet::graphs {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error({.what = "unknown way to make batches of graphs",
               .found = "'" + text.substr(0, 100) + "'",
               .expected = "count:GRAPHS, pad:GRAPHS, stream:NODES[:EDGES], histogram:NODES:DEPTH, "
                           "neighbors:SEEDS:FANOUT,..., clusters:COUNT, walks:ROOTS:LENGTH[:COUNTED] or cut"});
}

}  // namespace

bool samples_nodes(const std::string& text) { return text.starts_with("neighbors:"); }

std::shared_ptr<const Packs> make_packs(std::shared_ptr<const GraphSet> set, const std::string& text,
                                        const PackRequest& request) {
  const std::vector<std::string_view> words = split_at(text, ':');
  const Lines at("", "'" + text.substr(0, 100) + "'");
  const auto number = [&](size_t i, int64_t low) {
    if (i >= words.size()) refuse(text);
    return at.whole(words[i], low, INT32_MAX);
  };
  const auto only = [&](size_t most) {
    if (words.size() > most) refuse(text);
  };
  const std::string_view kind = words[0];
  GraphPackOptions graphs{.budget = request.budget,
                          .epochs = request.epochs,
                          .oversize = request.oversize,
                          .graphs = request.members,
                          .shuffle = request.shuffle,
                          .seed = request.seed};
  if (kind == "count" || kind == "pad") {
    only(2);
    graphs.packing = kind == "pad" ? GraphPacking::kPadToMax : GraphPacking::kCount;
    graphs.count = number(1, 1);
    return make_graph_packs(std::move(set), std::move(graphs));
  }
  if (kind == "stream") {
    only(3);
    graphs.packing = GraphPacking::kStream;
    graphs.budget.nodes = number(1, 1);
    if (words.size() > 2) graphs.budget.edges = number(2, 1);
    return make_graph_packs(std::move(set), std::move(graphs));
  }
  if (kind == "histogram") {
    only(3);
    graphs.packing = GraphPacking::kHistogram;
    graphs.budget = {number(2, 0), number(1, 1), 0};
    return make_graph_packs(std::move(set), std::move(graphs));
  }
  if (kind == "neighbors") {
    only(3);
    NeighborPackOptions options{.seeds = number(1, 1), .nodes = request.members, .budget = request.budget};
    if (words.size() < 3) refuse(text);
    options.fanout.clear();
    for (const std::string_view word : split_at(words[2], ',')) options.fanout.push_back(at.whole(word, -1, INT32_MAX));
    options.epochs = request.epochs, options.oversize = request.oversize;
    options.shuffle = request.shuffle, options.seed = request.seed;
    return make_neighbor_packs(std::move(set), std::move(options));
  }
  if (kind == "clusters") {
    only(2);
    return make_cluster_packs(
        std::move(set),
        {.per_pack = number(1, 1), .epochs = request.epochs, .shuffle = request.shuffle, .seed = request.seed});
  }
  if (kind == "walks") {
    only(4);
    return make_walk_packs(std::move(set), {.roots = number(1, 1),
                                            .length = number(2, 0),
                                            .counted = words.size() > 3 ? number(3, 1) : 0,
                                            .budget = request.budget,
                                            .epochs = request.epochs,
                                            .oversize = request.oversize,
                                            .seed = request.seed});
  }
  if (kind == "cut") {
    only(1);
    return make_cut_packs(std::move(set));
  }
  refuse(text);
}

}  // namespace ramet::graphs
