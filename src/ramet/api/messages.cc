#include "ramet/base/house.h"

#include <algorithm>
#include <numeric>

#include "ramet/base/error_types.h"
#include "ramet/graphs/edge_lists.h"
#include "ramet/messages.h"
#include "ramet/ops.h"

namespace ramet::v0 {
namespace {

int64_t sources_of(const GraphEdgesOptions& options) { return options.sources > 0 ? options.sources : options.nodes; }

}  // namespace

GraphEdges::GraphEdges(ModelBuilder& m, GraphEdgesOptions options, const std::source_location& place)
    : options_(std::move(options)) {
  if (options_.nodes < 1 || options_.edges < 1 || options_.samples < 1 || options_.sources < 0)
    throw Error({.what = "graphs have room for nodes and edges",
                 .where = "GraphEdges",
                 .found = std::to_string(options_.samples) + " samples of " + std::to_string(options_.nodes) +
                          " nodes and " + std::to_string(options_.edges) + " edges",
                 .expected = "1 or more"});
  const auto list = [&](const char* name, int64_t size) {
    return m.input(options_.name + name, DType::kI32, {options_.samples, size}, {}, place);
  };
  source_ = list("source", options_.edges);
  target_of_ = list("target_of", options_.edges);
  by_source_ = list("by_source", options_.edges);
  ptr_ = list("ptr", options_.nodes + 1);
  source_ptr_ = list("source_ptr", sources_of(options_) + 1);
}

Tensor GraphEdges::of_sources(Operand x) const { return gather_rows(x, {source_, x.place()}); }
Tensor GraphEdges::of_targets(Operand x) const { return segment_expand(x, {ptr_, x.place()}, options_.edges); }
Tensor GraphEdges::sum(Operand messages) const { return segment_sum(messages, {ptr_, messages.place()}); }
Tensor GraphEdges::mean(Operand messages) const { return segment_mean(messages, {ptr_, messages.place()}); }
Tensor GraphEdges::max(Operand messages) const { return segment_max(messages, {ptr_, messages.place()}); }
Tensor GraphEdges::min(Operand messages) const { return segment_min(messages, {ptr_, messages.place()}); }
Tensor GraphEdges::softmax(Operand scores) const { return segment_softmax(scores, {ptr_, scores.place()}); }

Tensor GraphEdges::neighbor_sum(Operand x, Operand weight) const {
  return v0::neighbor_sum(x, source_, ptr_, target_of_, by_source_, source_ptr_, weight);
}

Tensor GraphEdges::neighbor_dot(Operand a, Operand b, int64_t heads) const {
  return v0::neighbor_dot(a, b, source_, ptr_, target_of_, by_source_, source_ptr_, heads);
}

std::vector<int64_t> EdgeLists::add(std::span<const int32_t> source, std::span<const int32_t> target) {
  if (source.size() != target.size() || std::ssize(source) > options_.edges)
    throw Error({.what = "edges that do not fit, or ends without another",
                 .where = "EdgeLists::add",
                 .found = std::to_string(source.size()) + " sources and " + std::to_string(target.size()) + " targets",
                 .expected = "as many of both, at most " + std::to_string(options_.edges)});
  const auto check = [](std::span<const int32_t> ends, int64_t bound, const char* what) {
    for (size_t e = 0; e < ends.size(); ++e)
      if (ends[e] < 0 || ends[e] >= bound)
        throw Error({.what = std::string("an edge has a ") + what + " that there is not",
                     .where = "EdgeLists::add, edge " + std::to_string(e),
                     .found = std::to_string(ends[e]),
                     .expected = "0 to " + std::to_string(bound - 1)});
  };
  check(source, sources_of(options_), "source"), check(target, options_.nodes, "target");
  std::vector<int64_t> order(source.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [](std::span<const int32_t> ends, int64_t edge) { return ends[static_cast<size_t>(edge)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(at(target, a), at(source, a)) < std::pair(at(target, b), at(source, b));
  });
  std::vector<int32_t> sources, targets;
  for (const int64_t edge : order) sources.push_back(at(source, edge)), targets.push_back(at(target, edge));
  const auto grown = [](std::vector<int32_t>& list, int64_t by) {
    list.resize(list.size() + static_cast<size_t>(by));
    return list.data() + list.size() - static_cast<size_t>(by);
  };
  graphs::fill_edge_lists(sources, targets,
                          {.source = grown(source_, options_.edges),
                           .target_of = grown(target_of_, options_.edges),
                           .by_source = grown(by_source_, options_.edges),
                           .ptr = grown(ptr_, options_.nodes + 1),
                           .source_ptr = grown(source_ptr_, sources_of(options_) + 1),
                           .rows = options_.nodes,
                           .source_rows = sources_of(options_),
                           .room = options_.edges});
  return order;
}

NamedViews EdgeLists::views() const {
  return {{options_.name + "source", source_},
          {options_.name + "target_of", target_of_},
          {options_.name + "by_source", by_source_},
          {options_.name + "ptr", ptr_},
          {options_.name + "source_ptr", source_ptr_}};
}

}  // namespace ramet::v0
