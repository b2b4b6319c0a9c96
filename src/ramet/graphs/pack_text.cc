#include "ramet/graphs/pack_text.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/graphs/graph_cut.h"
#include "ramet/graphs/lines.h"

namespace ramet::graphs {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error({.what = "unknown way to make batches of graphs",
               .found = "'" + text.substr(0, 100) + "'",
               .expected = "count:GRAPHS, pad:GRAPHS, stream:NODES[:EDGES[:GRAPHS]], histogram:NODES:DEPTH[:EDGES], "
                           "neighbors:SEEDS:FANOUT,..., clusters:COUNT, walks:ROOTS:LENGTH[:COUNTED] or cut"});
}

/// What of a request a way to make batches does not take; refused, so that nothing is ignored without a word.
void check_takes(const std::string& text, std::string_view kind, const PackRequest& request) {
  const auto takes_no = [&](bool given, const std::string& what, const std::string& remedy) {
    if (given) throw Error({.what = what, .where = "'" + text.substr(0, 100) + "'", .remedy = remedy});
  };
  const bool whole = kind == "count" || kind == "pad", all = kind == "clusters" || kind == "walks" || kind == "cut";
  const bool trims = request.oversize == Oversize::kTrim, room = request.budget != GraphBudget{};
  takes_no(all && !request.members.empty(), "batches of all nodes of a graph take no numbers of graphs or nodes",
           "Leave the numbers out");
  takes_no(kind == "cut" && room, "the clusters of a cut graph have the room of the largest", "Leave the room out");
  takes_no(trims && (kind == "clusters" || kind == "cut"), "clusters are whole: nothing of them is left out",
           "Leave oversize = \"trim\" out");
  takes_no(trims && whole && !room, "nothing is left out of batches whose room is made for them",
           "Leave oversize = \"trim\" out, or take stream:NODES or histogram:NODES:DEPTH");
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
  check_takes(text, kind, request);
  // A bound that the text gives, or the room of the request; both may give the same.
  const auto bound = [&](size_t i, int64_t room, const std::string& what) {
    const int64_t given = i < words.size() ? number(i, 0) : 0;
    if (given > 0 && room > 0 && given != room)
      throw Error({.what = "two bounds of " + what + " for a batch",
                   .where = "'" + text.substr(0, 100) + "'",
                   .found = std::to_string(given) + ", and room for " + std::to_string(room)});
    return std::max(given, room);
  };
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
  if (kind == "stream" || kind == "histogram") {
    only(4);
    const bool stream = kind == "stream";
    graphs.packing = stream ? GraphPacking::kStream : GraphPacking::kHistogram;
    static_cast<void>(number(1, 1));
    if (!stream) static_cast<void>(number(2, 0));
    graphs.budget = {bound(stream ? 3 : 2, request.budget.graphs, "graphs"), bound(1, request.budget.nodes, "nodes"),
                     bound(stream ? 2 : 3, request.budget.edges, "edges")};
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
    return make_cluster_packs(std::move(set), {.per_pack = number(1, 1),
                                               .budget = request.budget,
                                               .epochs = request.epochs,
                                               .shuffle = request.shuffle,
                                               .seed = request.seed});
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
