#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "ops/op_cases.h"
#include "ramet/base/rng.h"

namespace ramet::tests {
namespace {

using Numbers = std::vector<double>;
constexpr DType kF32 = DType::kF32, kI32 = DType::kI32;

CaseInput f32(Shape shape) { return {{kF32, std::move(shape)}}; }
CaseInput given(DType dtype, Shape shape, Numbers values) {
  return {.type = {dtype, std::move(shape)}, .values = std::move(values)};
}

/// The lists of a batch of graphs, as operands of the ops.
struct Lists {
  int64_t batch = 1, targets = 0, sources = 0, edges = 0;
  Numbers source, ptr, target, by_source, source_ptr;

  std::vector<CaseInput> inputs() const {
    return {given(kI32, {batch, edges}, source), given(kI32, {batch, targets + 1}, ptr),
            given(kI32, {batch, edges}, target), given(kI32, {batch, edges}, by_source),
            given(kI32, {batch, sources + 1}, source_ptr)};
  }
  CaseInput pointers() const { return given(kI32, {batch, targets + 1}, ptr); }
  /// Adds a graph whose edges (source, target) are sorted by target; places behind them hold numbers out of range.
  void add(std::vector<std::pair<int64_t, int64_t>> sorted) {
    const auto list = [&](int64_t rows, auto end_of, Numbers& pointers) {
      for (int64_t row = 0, at = 0; row <= rows; ++row) {
        while (at < std::ssize(sorted) && end_of(sorted[static_cast<size_t>(at)]) < row) ++at;
        pointers.push_back(static_cast<double>(at));
      }
    };
    const auto fill = [&](Numbers& numbers) {
      numbers.resize(numbers.size() + static_cast<size_t>(edges) - sorted.size(), 99);
    };
    for (const auto& edge : sorted) source.push_back(static_cast<double>(edge.first));
    fill(source);
    list(targets, [](const auto& edge) { return edge.second; }, ptr);
    std::vector<int64_t> order(sorted.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return sorted[static_cast<size_t>(a)].first < sorted[static_cast<size_t>(b)].first;
    });
    for (const int64_t e : order) {
      target.push_back(static_cast<double>(sorted[static_cast<size_t>(e)].second));
      by_source.push_back(static_cast<double>(e));
    }
    fill(target), fill(by_source);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    list(sources, [](const auto& edge) { return edge.first; }, source_ptr);
  }
};

std::vector<CaseInput> with(std::vector<CaseInput> first, const std::vector<CaseInput>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

/// Row 0 has the edges from 1 and 2, row 1 none, row 2 one from 0; a fourth place is empty.
void add_hand_made(std::vector<OpCase>& cases) {
  Lists lists{
      .targets = 3, .sources = 3, .edges = 4, .source = {}, .ptr = {}, .target = {}, .by_source = {}, .source_ptr = {}};
  lists.add({{1, 0}, {2, 0}, {0, 2}});
  const CaseInput edges = given(kF32, {1, 4, 2}, {1, -2, 3, 4, 5, 6, 7, 8}), ptr = lists.pointers();
  cases.push_back({.op = "segment_sum", .name = "by_hand", .inputs = {edges, ptr}, .expected = {{4, 2, 0, 0, 5, 6}}});
  cases.push_back({.op = "segment_sum",
                   .name = "mean_by_hand",
                   .inputs = {edges, ptr},
                   .attributes = {{"mean", true}},
                   .expected = {{2, 1, 0, 0, 5, 6}}});
  cases.push_back({.op = "segment_extreme",
                   .name = "by_hand",
                   .inputs = {edges, ptr},
                   .expected = {{3, 4, 0, 0, 5, 6}, {1, 1, -1, -1, 2, 2}}});
  cases.push_back({.op = "segment_extreme",
                   .name = "least_and_equal",
                   .inputs = {given(kF32, {1, 4, 1}, {2, 2, 1, 0}), ptr},
                   .attributes = {{"least", true}},
                   .expected = {{2, 0, 1}, {0, -1, 2}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "segment_softmax",
                   .name = "by_hand",
                   .inputs = {given(kF32, {1, 4, 1}, {1, 1, -50, 9}), ptr},
                   .expected = {{0.5, 0.5, 1, 0}}});
  cases.push_back({.op = "segment_expand",
                   .name = "by_hand",
                   .inputs = {given(kF32, {1, 3, 2}, {1, 2, 3, 4, 5, 6}), ptr},
                   .attributes = {{"edges", 4}},
                   .expected = {{1, 2, 1, 2, 5, 6, 0, 0}}});
  cases.push_back({.op = "segment_expand",
                   .name = "integers",
                   .inputs = {given(kI32, {1, 3}, {7, 8, 9}), ptr},
                   .attributes = {{"edges", 4}},
                   .expected = {{7, 7, 9, 0}}});
  // Two heads: rows 1 2, 3 4, 5 6 and 10 20, 30 40, 50 60.
  const CaseInput of_heads = given(kF32, {1, 2, 3, 2}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}),
                  weights = given(kF32, {1, 4, 2}, {1, 2, 3, -1, 2, 0, 9, 9});
  cases.push_back({.op = "segment_dot",
                   .name = "by_hand",
                   .inputs = {of_heads, edges, ptr},
                   .expected = {{-3, -30, 11, 110, 61, 610, 0, 0}}});
  cases.push_back({.op = "segment_combine",
                   .name = "by_hand",
                   .inputs = {edges, weights, ptr},
                   .expected = {{10, 10, 0, 0, 10, 12, -1, -8, 0, 0, 0, 0}}});
  cases.push_back({.op = "segment_blend",
                   .name = "by_hand",
                   .inputs = {of_heads, weights, ptr},
                   .expected = {{21, 42, -7, -14, 10, 12, 0, 0}}});
  const CaseInput rows = given(kF32, {1, 3, 2}, {1, 2, 3, 4, 5, 6});
  cases.push_back({.op = "neighbor_sum",
                   .name = "by_hand",
                   .inputs = with({rows}, lists.inputs()),
                   .expected = {{8, 10, 0, 0, 1, 2}}});
  cases.push_back({.op = "neighbor_sum",
                   .name = "transposed_by_hand",
                   .inputs = with(with({rows}, lists.inputs()), {given(kF32, {1, 4}, {2, 3, 4, 1})}),
                   .attributes = {{"transposed", true}},
                   .expected = {{20, 24, 2, 4, 3, 6}}});
  cases.push_back({.op = "neighbor_sum",
                   .name = "heads_by_hand",
                   .inputs = with(with({rows}, lists.inputs()), {given(kF32, {1, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}),
                   .expected = {{18, 32, 0, 0, 5, 12}}});
  cases.push_back({.op = "neighbor_dot",
                   .name = "by_hand",
                   .inputs = with({rows, given(kF32, {1, 3, 2}, {1, 10, 2, 20, 3, 30})}, lists.inputs()),
                   .expected = {{42, 63, 65, 0}}});
  cases.push_back({.op = "neighbor_dot",
                   .name = "heads_by_hand",
                   .inputs = with({rows, given(kF32, {1, 3, 2}, {1, 10, 2, 20, 3, 30})}, lists.inputs()),
                   .attributes = {{"heads", 2}},
                   .expected = {{2, 40, 3, 60, 5, 60, 0, 0}}});
}

/// relu(a of the source + b of the target) * c of the edge, itself, summed over targets and over sources.
void add_edge_maps(std::vector<OpCase>& cases) {
  const CaseInput index = given(kI32, {1, 4}, {1, 2, 0, 0}), ptr = given(kI32, {1, 4}, {0, 2, 2, 3});
  const CaseInput a = given(kF32, {1, 3, 2}, {1, 2, 3, 4, 5, 6}), b = given(kF32, {1, 3, 2}, {1, -1, 2, -2, -3, -3}),
                  c = given(kF32, {1, 4, 1}, {1, 10, 100, 1000});
  const Attributes message{{"program", "3:%3=add(%0,%1);%4=relu(%3);%5=multiply(%4,%2)->%5,%5,%5"},
                           {"shape", std::vector<int64_t>{1, 4, 2}},
                           {"dtypes", "f32,f32,f32"},
                           {"lead", 2},
                           {"pointers", std::vector<int64_t>{0, 1}},
                           {"reads", std::vector<int64_t>{0, 1, -1}},
                           {"sums", std::vector<int64_t>{-1, 1, 0}},
                           {"rows", std::vector<int64_t>{0, 3, 3}}};
  cases.push_back({.op = "edge_map",
                   .name = "by_hand",
                   .inputs = {index, ptr, a, b, c},
                   .attributes = message,
                   .expected = {{4, 3, 60, 50, 0, 0, 1000, 2000}, {64, 53, 0, 0, 0, 0}, {1000, 2000, 4, 3, 60, 50}}});
  Attributes means = message;
  means.set("means", std::vector<int64_t>{0, 1, 0});
  cases.push_back({.op = "edge_map",
                   .name = "mean",
                   .inputs = {index, ptr, a, b, c},
                   .attributes = means,
                   .expected = {{4, 3, 60, 50, 0, 0, 1000, 2000}, {32, 26.5, 0, 0, 0, 0}, {1000, 2000, 4, 3, 60, 50}}});
  // Two samples that read one number for all edges; rows of one feature for edges of three.
  cases.push_back({.op = "edge_map",
                   .name = "two_samples",
                   .inputs = {given(kI32, {2, 2}, {1, 0, 0, 0}), given(kF32, {2, 2, 1}, {1, 2, 3, 4}),
                              given(kF32, {3}, {1, 2, 3})},
                   .attributes = {{"program", "2:%2=multiply(%0,%1)->%2"},
                                  {"shape", std::vector<int64_t>{2, 2, 3}},
                                  {"dtypes", "f32"},
                                  {"lead", 2},
                                  {"pointers", std::vector<int64_t>{0}},
                                  {"reads", std::vector<int64_t>{0, -1}},
                                  {"sums", std::vector<int64_t>{0}},
                                  {"rows", std::vector<int64_t>{2}}},
                   .expected = {{1, 2, 3, 2, 4, 6, 6, 12, 18, 0, 0, 0}}});
  cases.push_back({.op = "edge_map",
                   .name = "without_samples",
                   .inputs = {given(DType::kI64, {3}, {2, 0, 2}), given(kF32, {3, 1}, {1, 2, 3})},
                   .attributes = {{"program", "1:%1=negate(%0)->%1,%1"},
                                  {"shape", std::vector<int64_t>{3, 1}},
                                  {"dtypes", "f32,f32"},
                                  {"lead", 1},
                                  {"pointers", std::vector<int64_t>{0}},
                                  {"reads", std::vector<int64_t>{0}},
                                  {"sums", std::vector<int64_t>{-1, 0}},
                                  {"rows", std::vector<int64_t>{0, 3}}},
                   .expected = {{-3, -1, -3}, {-1, 0, -6}}});
}

TensorData carried(Shape shape, const Numbers& values) {
  return TensorData(HostTensor::of(kI32, std::move(shape), values));
}

/// Two clusters of two rows: edges 1 -> 0, 2 -> 0 in the first, 0 -> 2, 3 -> 2 in the second, by the rows of the whole.
void add_clusters_by_hand(std::vector<OpCase>& cases) {
  CaseInput far = given(kF32, {2, 1, 1}, {3, 1});
  far.differentiate = false;
  const CaseInput x = given(kF32, {2, 2, 1}, {1, 2, 3, 4}), index = given(kI32, {2, 3}, {1, 2, 99, 2, 1, 99}),
                  ptr = given(kI32, {2, 3}, {0, 2, 2, 0, 2, 2}), back_index = given(kI32, {2, 2}, {2, 0, 2, 0}),
                  back_ptr = given(kI32, {2, 3}, {0, 1, 2, 0, 1, 2});
  const Attributes tables{{"rows", carried({2, 1}, {2, 0})},
                          {"back_rows", carried({2, 1}, {2, 0})},
                          {"edges", carried({2, 3}, {1, 2, -1, 0, 3, -1})},
                          {"back_edges", carried({2, 2}, {3, 0, 1, 4})}};
  // The gradient of x is that of all rows of the graph, far ones among them: finite differences see a part of it.
  cases.push_back({.op = "halo_sum",
                   .name = "by_hand",
                   .inputs = {x, far, index, ptr, back_index, back_ptr},
                   .attributes = tables,
                   .expected = {{5, 0, 5, 0}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "halo_sum",
                   .name = "weights_by_hand",
                   .inputs = {x, far, index, ptr, back_index, back_ptr, given(kF32, {2, 3}, {2, 3, 9, 4, 5, 9})},
                   .attributes = tables,
                   .expected = {{13, 0, 24, 0}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "halo_dot",
                   .name = "by_hand",
                   .inputs = {given(kF32, {2, 2, 1}, {10, 20, 30, 40}), x, far, index, ptr},
                   .expected = {{20, 30, 0, 30, 120, 0}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "halo_rows",
                   .name = "by_hand",
                   .inputs = {x},
                   .attributes = {{"rows", carried({2, 3}, {2, -1, 3, 0, 0, 1})}},
                   .expected = {{3, 0, 4, 1, 1, 2}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "halo_rows",
                   .name = "integers",
                   .inputs = {given(kI32, {2, 2}, {7, 8, 9, 10})},
                   .attributes = {{"rows", carried({2, 1}, {3, -1})}},
                   .expected = {{10, 0}}});
  cases.push_back(
      {.op = "halo_rows",
       .name = "moved_once",
       .inputs = {f32({2, 2, 4})},
       .attributes = {{"rows", carried({2, 3}, {3, 0, -1, 1, -1, 2})}, {"back", carried({2, 2}, {1, 3, 5, 0})}}});
  const std::vector<int64_t> cuts{0, 2, 2, 1, 1};
  // Two devices of one cluster each, in the order 1, 0; the case is the first device.
  cases.push_back({.op = "halo_pack",
                   .name = "by_hand",
                   .inputs = {given(kF32, {1, 2, 2}, {1, 2, 3, 4})},
                   .attributes = {{"send", carried({2, 2, 2}, {-1, -1, 1, -1, 0, 1, -1, -1})}, {"cuts", cuts}},
                   .expected = {{0, 0, 0, 0, 3, 4, 0, 0}}});
  cases.push_back({.op = "halo_unpack",
                   .name = "by_hand",
                   .inputs = {given(kF32, {1, 2, 2}, {1, 2, 3, 4}), given(kF32, {2, 2, 2}, {0, 0, 0, 0, 5, 6, 7, 8})},
                   .attributes = {{"place", carried({2, 1, 4}, {4, 0, -2, 3, 0, 0, 0, 0})},
                                  {"rows", carried({2, 4}, {-1, -1, -1, -1, 1, -1, 3, 0})},
                                  {"deal", std::vector<int64_t>{1, 0}},
                                  {"cuts", cuts}},
                   .expected = {{7, 8, 0, 0, 3, 4, 5, 6}}});
}

/// Graphs of one cluster: no row is far, so finite differences see the whole gradient.
void add_one_cluster(std::vector<OpCase>& cases, uint64_t number) {
  const RandomStream stream(number, RandomPurpose::kTest, 7, 0);
  uint64_t next = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(stream.below(next++, static_cast<uint32_t>(bound)));
  };
  const int64_t rows = 1 + below(9), places = 1 + below(30);
  Lists lists{.targets = rows,
              .sources = rows,
              .edges = places,
              .source = {},
              .ptr = {},
              .target = {},
              .by_source = {},
              .source_ptr = {}};
  std::vector<std::pair<int64_t, int64_t>> edges;
  for (int64_t e = below(places + 1); e > 0; --e) edges.emplace_back(below(rows), below(rows));
  std::stable_sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  lists.add(edges);
  Numbers there(static_cast<size_t>(places), -1), back(static_cast<size_t>(places), -1);
  for (size_t i = 0; i < edges.size(); ++i) {
    back[i] = lists.by_source[i];
    there[static_cast<size_t>(lists.by_source[i])] = static_cast<double>(i);
  }
  const Attributes tables{{"rows", carried({1, 2}, {-1, -1})},
                          {"back_rows", carried({1, 2}, {-1, -1})},
                          {"edges", carried({1, places}, there)},
                          {"back_edges", carried({1, places}, back)}};
  const int64_t heads = 1 + below(3), width = heads * (number % 2 == 0 ? 2 : 17);
  CaseInput far = f32({1, 2, width});
  far.differentiate = false;
  const std::vector<CaseInput> inputs{f32({1, rows, width}),
                                      far,
                                      given(kI32, {1, places}, lists.source),
                                      lists.pointers(),
                                      given(kI32, {1, places}, lists.target),
                                      given(kI32, {1, rows + 1}, lists.source_ptr)};
  const std::string name = "one_cluster_" + std::to_string(number);
  cases.push_back({.op = "halo_sum", .name = name, .inputs = inputs, .attributes = tables});
  cases.push_back(
      {.op = "halo_sum", .name = name + "_weights", .inputs = with(inputs, {f32({1, places})}), .attributes = tables});
  cases.push_back({.op = "halo_sum",
                   .name = name + "_heads",
                   .inputs = with(inputs, {f32({1, places, heads})}),
                   .attributes = tables});
  cases.push_back({.op = "halo_dot",
                   .name = name,
                   .inputs = {inputs[0], inputs[0], far, inputs[2], inputs[3]},
                   .attributes = {{"heads", heads}},
                   .gradient_tolerance = 0});
}

/// Graphs of any size, with hubs, duplicates of edges, rows without edges, and empty places.
void add_drawn(std::vector<OpCase>& cases, uint64_t number) {
  const size_t before = cases.size();
  const RandomStream stream(number, RandomPurpose::kTest, 6, 0);
  uint64_t next = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(stream.below(next++, static_cast<uint32_t>(bound)));
  };
  Lists lists{.batch = 1 + below(3),
              .targets = 1 + below(9),
              .sources = 1 + below(9),
              .edges = below(5) == 0 ? 0 : 1 + below(40),
              .source = {},
              .ptr = {},
              .target = {},
              .by_source = {},
              .source_ptr = {}};
  for (int64_t b = 0; b < lists.batch; ++b) {
    std::vector<std::pair<int64_t, int64_t>> edges;
    for (int64_t e = below(lists.edges + 1); e > 0; --e)
      edges.emplace_back(below(2) ? 0 : below(lists.sources), below(3) ? below(lists.targets) : lists.targets - 1);
    std::stable_sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    lists.add(edges);
  }
  // Wide rows are for the kernels; their gradients are those of narrow ones.
  const bool wide = number >= 6;
  const std::vector<int64_t> sizes = wide ? std::vector<int64_t>{16, 17, 64, 70} : std::vector<int64_t>{1, 2, 3, 5};
  const int64_t heads = 1 + below(wide ? 4 : 2);
  const int64_t width = heads * sizes[static_cast<size_t>(below(4))];
  const std::string name = "drawn_" + std::to_string(number);
  const CaseInput edges = f32({lists.batch, lists.edges, width}), ptr = lists.pointers();
  const CaseInput targets = f32({lists.batch, lists.targets, width}),
                  sources = f32({lists.batch, lists.sources, width});
  for (const bool other : {false, true}) {
    const std::string suffix = other ? "_other" : "";
    cases.push_back(
        {.op = "segment_sum", .name = name + suffix, .inputs = {edges, ptr}, .attributes = {{"mean", other}}});
    cases.push_back({.op = "segment_extreme",
                     .name = name + suffix,
                     .inputs = {edges, ptr},
                     .attributes = {{"least", other}},
                     .gradient_tolerance = 0});
    const std::vector<CaseInput> from = with({other ? targets : sources}, lists.inputs());
    const Attributes transposed{{"transposed", other}};
    cases.push_back({.op = "neighbor_sum", .name = name + suffix, .inputs = from, .attributes = transposed});
    cases.push_back({.op = "neighbor_sum",
                     .name = name + "_weights" + suffix,
                     .inputs = with(from, {f32({lists.batch, lists.edges})}),
                     .attributes = transposed});
    cases.push_back({.op = "neighbor_sum",
                     .name = name + "_heads" + suffix,
                     .inputs = with(from, {f32({lists.batch, lists.edges, heads})}),
                     .attributes = transposed});
  }
  cases.push_back({.op = "segment_softmax", .name = name, .inputs = {edges, ptr}});
  const CaseInput of_heads = f32({lists.batch, heads, lists.targets, width}),
                  weights = f32({lists.batch, lists.edges, heads});
  cases.push_back({.op = "segment_dot", .name = name, .inputs = {of_heads, edges, ptr}});
  cases.push_back({.op = "segment_combine", .name = name, .inputs = {edges, weights, ptr}});
  cases.push_back({.op = "segment_blend", .name = name, .inputs = {of_heads, weights, ptr}});
  cases.push_back(
      {.op = "segment_expand", .name = name, .inputs = {targets, ptr}, .attributes = {{"edges", lists.edges}}});
  cases.push_back({.op = "neighbor_dot", .name = name, .inputs = with({targets, sources}, lists.inputs())});
  cases.push_back({.op = "neighbor_dot",
                   .name = name + "_heads",
                   .inputs = with({targets, sources}, lists.inputs()),
                   .attributes = {{"heads", heads}}});
  for (size_t i = before; wide && i < cases.size(); ++i) cases[i].gradient_tolerance = 0;
}

/// A row with more elements than the softmax of narrow rows computes at once, between many short ones, and features of
/// eight heads in each vector.
void add_hub(std::vector<OpCase>& cases) {
  Lists lists{.targets = 300,
              .sources = 50,
              .edges = 2600,
              .source = {},
              .ptr = {},
              .target = {},
              .by_source = {},
              .source_ptr = {}};
  std::vector<std::pair<int64_t, int64_t>> edges;
  for (int64_t row = 0; row < lists.targets; ++row)
    for (int64_t e = 0; e < (row == 130 ? 900 : row % 7 == 3 ? 0 : row % 11); ++e)
      edges.emplace_back((13 * e + row) % lists.sources, row);
  lists.add(edges);
  for (const int64_t width : {1, 3, 8})
    cases.push_back({.op = "segment_softmax",
                     .name = "hub_" + std::to_string(width),
                     .inputs = {f32({1, lists.edges, width}), lists.pointers()},
                     .gradient_tolerance = 0});
  for (const int64_t size : {4, 8, 9})
    cases.push_back(
        {.op = "neighbor_sum",
         .name = "hub_" + std::to_string(size),
         .inputs = with(with({f32({1, lists.sources, 8 * size})}, lists.inputs()), {f32({1, lists.edges, 8})}),
         .gradient_tolerance = 0});
}

/// Pairs of a batch, as operands of the ops of ops/radial.h; places behind them hold numbers out of range.
struct Pairs {
  int64_t batch = 1, rows = 0, pairs = 0;
  Numbers distance, ptr, second;

  std::vector<CaseInput> inputs() const {
    return {{.type = {kF32, {batch, pairs}}, .values = distance, .differentiate = false},
            given(kI32, {batch, rows + 1}, ptr),
            given(kI32, {batch, pairs}, second)};
  }
  /// Adds a sample whose pairs (first, second, distance) are sorted by their first row.
  void add(const std::vector<std::tuple<int64_t, int64_t, double>>& sorted) {
    for (int64_t row = 0, at = 0; row <= rows; ++row) {
      while (at < std::ssize(sorted) && std::get<0>(sorted[static_cast<size_t>(at)]) < row) ++at;
      ptr.push_back(static_cast<double>(at));
    }
    for (const auto& [first, other, apart] : sorted)
      second.push_back(static_cast<double>(other)), distance.push_back(apart);
    second.resize(second.size() + static_cast<size_t>(pairs) - sorted.size(), 99);
    distance.resize(distance.size() + static_cast<size_t>(pairs) - sorted.size(), 1e9);
  }
};

/// Three rows with the pairs (0, 1), (0, 2), (1, 2); a fourth place is empty. Row g of the table is g squared and g
/// cubed, which the cubic polynomials give exactly.
void add_pairs_by_hand(std::vector<OpCase>& cases) {
  Pairs pairs{.rows = 3, .pairs = 4, .distance = {}, .ptr = {}, .second = {}};
  pairs.add({{0, 1, 0.5}, {0, 2, 1.5}, {1, 2, 4}});
  const Attributes cutoff{{"cutoff", 4.0}};
  const CaseInput rows = given(kF32, {1, 3, 2}, {1, 2, 3, 4, 5, 6}),
                  table = given(kF32, {5, 2}, {0, 0, 1, 1, 4, 8, 9, 27, 16, 64});
  cases.push_back({.op = "table_filter_sum",
                   .name = "by_hand",
                   .inputs = with(with({rows}, pairs.inputs()), {table}),
                   .attributes = cutoff,
                   .expected = {{12, 20.75, 80.25, 384.25, 50.25, 262.75}},
                   .low_types = false});
  // One hidden feature s(0) = 0, so that a filter is b2 times the envelope: at 0.5 and 1.5 of 4 these are
  // (cos(pi / 8) + 1) / 2 and (cos(3 pi / 8) + 1) / 2, at 4 it is 0.
  const double near = 0.96193976625564337, far = 0.69134171618254492;
  cases.push_back(
      {.op = "network_filter_sum",
       .name = "by_hand",
       .inputs = with(with({rows}, pairs.inputs()), {given(kF32, {1, 3}, {0, 0, 0}), given(kF32, {1}, {0}),
                                                     given(kF32, {2, 1}, {1, 1}), given(kF32, {2}, {1, 2})}),
       .attributes = cutoff,
       .expected = {{3 * near + 5 * far, 8 * near + 12 * far, near, 4 * near, far, 4 * far}},
       .low_types = false});
}

void add_drawn_pairs(std::vector<OpCase>& cases, uint64_t number) {
  const RandomStream stream(number, RandomPurpose::kTest, 7, 0);
  uint64_t next = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(stream.below(next++, static_cast<uint32_t>(bound)));
  };
  // Many pairs are for the kernels' tiles and chunks; their gradients are those of few.
  const bool many = number >= 4;
  Pairs pairs{.batch = 1 + below(2),
              .rows = many ? 30 : 2 + below(5),
              .pairs = many            ? 700
                       : below(4) == 0 ? 0
                                       : 1 + below(8),
              .distance = {},
              .ptr = {},
              .second = {}};
  for (int64_t b = 0; b < pairs.batch; ++b) {
    std::vector<std::tuple<int64_t, int64_t, double>> drawn;
    for (int64_t p = many ? 600 + below(101) : below(pairs.pairs + 1); p > 0; --p) {
      const int64_t first = below(pairs.rows - 1);
      drawn.emplace_back(first, first + 1 + below(pairs.rows - 1 - first), 0.001 * static_cast<double>(below(3001)));
    }
    std::sort(drawn.begin(), drawn.end());
    pairs.add(drawn);
  }
  const int64_t width = many ? 16 + below(60) : 1 + below(3), hidden = many ? 5 + below(40) : 1 + below(3),
                gaussians = 2 + below(many ? 30 : 4), points = 4 + below(9);
  const std::string name = "drawn_" + std::to_string(number);
  const CaseInput rows = f32({pairs.batch, pairs.rows, width}), w1 = f32({hidden, gaussians}), b1 = f32({hidden}),
                  w2 = f32({width, hidden});
  const std::vector<CaseInput> first = with({rows}, pairs.inputs()), both = with(first, {rows});
  const Attributes cutoff{{"cutoff", 3.0}};
  const double tolerance = many ? 0 : 1e-3;
  const auto add = [&](const std::string& op, const std::vector<CaseInput>& inputs, const Attributes& attributes,
                       bool differentiable, const std::string& how = "") {
    cases.push_back({.op = op,
                     .name = name + how,
                     .inputs = inputs,
                     .attributes = attributes,
                     .gradient_outputs = {0},
                     .gradient_tolerance = differentiable ? tolerance : 0,
                     .low_types = false});
  };
  add("table_filter_sum", with(first, {f32({points, width})}), cutoff, true);
  add("network_filter_sum", with(first, {w1, b1, w2, f32({width})}), cutoff, true);
  const Attributes keeps{{"cutoff", 3.0}, {"keeps", true}};
  add("network_filter_sum", with(first, {w1, b1, w2, f32({width})}), keeps, true, "_keeps");
  add("pair_filter_sum", with(first, {f32({pairs.batch, pairs.pairs, width})}), cutoff, false);
  add("table_filter_gradient", both, {{"cutoff", 3.0}, {"points", points}}, false);
  add("network_filter_gradient", with(both, {w1, b1, w2}), cutoff, false);
}

/// Values offset + step * n, with n from 0 to count - 1 in no order.
CaseInput grid(Shape shape, double offset, double step, int64_t count) {
  Numbers values;
  for (int64_t i = 0; i < shape.elements(); ++i)
    values.push_back(offset + step * static_cast<double>((i * 7 + i / 5 * 3 + i / 11) % count));
  return given(kF32, std::move(shape), std::move(values));
}

void add_pair_cases(std::vector<OpCase>& cases) {
  const CaseInput a = given(kF32, {1, 1, 2}, {1, 2}), b = given(kF32, {1, 2, 2}, {0, 4, 4, -2});
  const auto by_hand = [&](const std::string& norm, std::vector<CaseInput> inputs, Numbers expected) {
    cases.push_back({.op = "pair_distance",
                     .name = norm + "_by_hand",
                     .inputs = std::move(inputs),
                     .attributes = {{"norm", norm}},
                     .expected = {std::move(expected)}});
  };
  by_hand("l1", {a, b}, {3, 7});
  by_hand("squares", {a, b, given(kF32, {1, 1, 2}, {1, 0.5})}, {1, 18});
  by_hand("complex", {a, given(kF32, {1, 2, 2}, {4, 6, 1, 0})}, {5, 2});
  // Widths 4 and 1: 1 is inside the first, 2 and 4 are outside.
  by_hand("box", {a, b, given(kF32, {1, 1, 2}, {4, 1})}, {0.2 + 2 * 2 - 0.75, 3.0 * 5 - 2 * 4.8 + 4 * 2 - 0.75});
  const auto both = [&](const std::string& norm, const std::string& name, std::vector<CaseInput> inputs) {
    const Shape pairs{inputs[0].type.shape[0], inputs[0].type.shape[1], inputs[1].type.shape.dim(-2)};
    cases.push_back({.op = "pair_distance", .name = name, .inputs = inputs, .attributes = {{"norm", norm}}});
    inputs.insert(inputs.begin(), grid(pairs, -0.5, 0.3, 5));
    for (const char* const op : {"pair_row_grad", "pair_column_grad"})
      cases.push_back({.op = op, .name = name, .inputs = inputs, .attributes = {{"norm", norm}}});
  };
  // No norm has a corner within 0.1 of a difference: rows are multiples of 0.2, and what is taken off them is not.
  const auto rows = [](Shape shape) { return grid(std::move(shape), -1, 0.2, 11); };
  const auto columns = [](Shape shape) { return grid(std::move(shape), -0.9, 0.2, 9); };
  for (const std::string norm : {"l1", "squares", "complex"}) {
    both(norm, norm, {rows({2, 4, 38}), columns({2, 6, 38})});
    both(norm, norm + "_weighted", {rows({2, 4, 38}), columns({2, 6, 38}), grid({2, 4, 38}, -1, 2, 3)});
    both(norm, norm + "_two_terms", {rows({1, 2, 6}), rows({1, 4, 12}), grid({1, 2, 12}, -0.75, 1, 2)});
  }
  both("l1", "one_table", {rows({1, 4, 6}), columns({8, 6}), grid({1, 4, 6}, -1, 2, 3)});
  both("box", "box", {rows({2, 4, 20}), columns({2, 6, 20}), grid({2, 4, 20}, 0.4, 0.4, 3)});
}

/// Edges with relations, as operands: source, relation, ptr.
std::vector<CaseInput> path_lists(int64_t edges, const Lists& lists, Numbers relation) {
  relation.resize(static_cast<size_t>(lists.batch * edges), 99);
  return {given(kI32, {lists.batch, edges}, lists.source), given(kI32, {lists.batch, edges}, std::move(relation)),
          lists.pointers()};
}

void add_paths_by_hand(std::vector<OpCase>& cases) {
  Lists lists{
      .targets = 3, .sources = 3, .edges = 4, .source = {}, .ptr = {}, .target = {}, .by_source = {}, .source_ptr = {}};
  lists.add({{1, 0}, {2, 0}, {0, 2}});
  const std::vector<CaseInput> inputs =
      with({given(kF32, {1, 3, 2}, {0.5, 100, 7, 8, 0, 0}), given(kF32, {1, 3, 2}, {1, 2, 3, 4, 5, 6}),
            given(kF32, {1, 2, 2}, {1, 10, 2, -1})},
           path_lists(4, lists, {1, 0, 1}));
  const auto add = [&](const std::string& op, const std::string& message, std::vector<Numbers> expected) {
    cases.push_back({.op = op,
                     .name = message + "_by_hand",
                     .inputs = inputs,
                     .attributes = {{"message", message}},
                     .expected = std::move(expected),
                     .gradient_outputs = op == "path_sum" ? std::vector<int>{} : std::vector<int>{0, 1, 2, 3},
                     .gradient_tolerance = 1e-2,  // differences of numbers up to 13616 in f32
                     .low_types = false});
  };
  add("path_sum", "product", {{11.5, 156, 7, 8, 2, -2}});
  add("path_sum", "sum", {{11.5, 119, 7, 8, 3, 1}});
  add("path_sum", "rotation", {{-44.5, 161, 7, 8, 4, 3}});
  add("path_statistics", "product",
      {{11.5, 156, 7, 8, 2, -2},
       {61.25, 13616, 49, 64, 4, 4},
       {6, 100, 7, 8, 2, 0},
       {0.5, -4, 7, 8, 0, -2},
       {0, -1, -1, -1, 2, -1},
       {-1, 0, -1, -1, -1, 2}});
}

/// Case `number` of drawn graphs with relations; of the last the features fill vectors and leave some over.
void add_drawn_paths(std::vector<OpCase>& cases, int64_t number) {
  const RandomStream stream(9, RandomPurpose::kSampling, 77, static_cast<uint64_t>(number));
  uint64_t drawn = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(stream.block(drawn++)[0] % static_cast<uint64_t>(bound));
  };
  const bool wide = number == 4;
  const int64_t nodes = number == 0 ? 1 : 2 + below(5), edges = number == 0 ? 0 : 3 + below(8),
                relations = 1 + below(3);
  Lists lists{.batch = 1 + below(2),
              .targets = nodes,
              .sources = nodes,
              .edges = edges,
              .source = {},
              .ptr = {},
              .target = {},
              .by_source = {},
              .source_ptr = {}};
  Numbers relation;
  for (int64_t b = 0; b < lists.batch; ++b) {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t e = edges == 0 ? 0 : below(edges + 1); e > 0; --e) pairs.emplace_back(below(nodes), below(nodes));
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& c) { return a.second < c.second; });
    for (size_t e = 0; e < pairs.size(); ++e) relation.push_back(static_cast<double>(below(relations)));
    relation.resize(static_cast<size_t>((b + 1) * edges), 99);
    lists.add(pairs);
  }
  const int64_t width = wide ? 2 * 37 : 2 + 2 * below(3), features = width * (1 + below(2));
  const CaseInput rows = f32({lists.batch, nodes, features});
  const std::vector<CaseInput> graph =
      with({rows, f32({lists.batch, relations, features})}, path_lists(edges, lists, relation));
  for (const std::string message : {"product", "sum", "rotation"}) {
    const auto add = [&](const std::string& op, const std::string& name, const std::vector<CaseInput>& inputs,
                         double tolerance, std::vector<int> outputs = {}) {
      cases.push_back({.op = op,
                       .name = message + name + std::to_string(number),
                       .inputs = inputs,
                       .attributes = {{"message", message}, {"width", width}},
                       .gradient_outputs = std::move(outputs),
                       .gradient_tolerance = tolerance,
                       .low_types = false});
    };
    add("path_sum", "_drawn_", with({rows}, graph), wide ? 0 : 1e-3);
    // Products lie so near to each other that a step of the finite differences changes which is the greatest.
    const bool apart = message != "product";
    add("path_statistics", "_drawn_", with({rows}, graph), wide ? 0 : 1e-3,
        apart ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 1});
    const CaseInput places{.type = {kI32, rows.type.shape}, .low = -1, .high = static_cast<double>(edges + 1)};
    add("path_gradient", "_sum_", with(graph, {rows}), 0);
    add("path_gradient", "_statistics_", with(graph, {rows, rows, rows, rows, places, places}), 0);
  }
}

}  // namespace

void add_graph_cases(std::vector<OpCase>& cases) {
  add_hand_made(cases);
  add_edge_maps(cases);
  add_pairs_by_hand(cases);
  for (uint64_t number = 0; number < 6; ++number) add_drawn_pairs(cases, number);
  for (uint64_t number = 0; number < 8; ++number) add_drawn(cases, number);
  add_hub(cases);
  add_clusters_by_hand(cases);
  for (uint64_t number = 0; number < 4; ++number) add_one_cluster(cases, number);
  add_pair_cases(cases);
  add_paths_by_hand(cases);
  for (int64_t number = 0; number < 5; ++number) add_drawn_paths(cases, number);
}

}  // namespace ramet::tests
