#include "ramet/graphs/transform.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/base/rng.h"
#include "ramet/base/words.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/lines.h"

namespace ramet::graphs {
namespace {

/// An edge of a new list: the edge whose fields it takes, or -1.
struct NewEdge {
  int32_t source, target;
  int64_t from;
};

bool belongs(const Field& field, const EdgeTable& edges) {
  return field.per == Per::kEdge && field.of == edges.type.key();
}

/// Replaces all edges. `make(graph, begin, end, list)` appends the edges of a graph whose edges were [begin, end).
template <typename Make>
void replace_edges(GraphTables& tables, EdgeTable& edges, const Make& make) {
  std::vector<NewEdge> list;
  std::vector<int64_t> ptr{0};
  for (int64_t g = 0; g < tables.graphs; ++g) {
    make(g, edges.ptr[static_cast<size_t>(g)], edges.ptr[static_cast<size_t>(g) + 1], list);
    ptr.push_back(std::ssize(list));
  }
  for (FieldTable& table : tables.fields) {
    if (!belongs(table.field, edges)) continue;
    const auto size = static_cast<size_t>(table.field.value_bytes());
    std::vector<std::byte> moved(list.size() * size);
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].from >= 0) {
        std::memcpy(moved.data() + i * size, table.bytes.data() + static_cast<size_t>(list[i].from) * size, size);
      } else if (table.field.name == "weight" && table.field.dtype == DType::kF32 && size == 4) {
        const float one = 1;
        std::memcpy(moved.data() + i * size, &one, size);
      }
    }
    table.bytes = std::move(moved);
  }
  edges.ptr = std::move(ptr);
  edges.source.resize(list.size());
  edges.target.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i) edges.source[i] = list[i].source, edges.target[i] = list[i].target;
}

uint64_t pair_key(int32_t source, int32_t target) {
  return static_cast<uint64_t>(static_cast<uint32_t>(source)) << 32 | static_cast<uint32_t>(target);
}

NewEdge edge_at(const EdgeTable& edges, int64_t e) {
  return {edges.source[static_cast<size_t>(e)], edges.target[static_cast<size_t>(e)], e};
}

int64_t nodes_of_graph(GraphTables& tables, const EdgeTable& edges, int64_t graph) {
  const std::vector<int64_t>& ptr = tables.nodes_of(edges.type.target).ptr;
  return ptr[static_cast<size_t>(graph) + 1] - ptr[static_cast<size_t>(graph)];
}

std::vector<float> weights_of(GraphTables& tables, const EdgeTable& edges) {
  const FieldTable* const table = tables.find(edges.type.key() + ".weight");
  if (!table) return std::vector<float>(edges.source.size(), 1.0f);
  if (table->field.shape.elements() != 1)
    throw Error({.what = "weights of edges must be single numbers",
                 .where = table->field.key(),
                 .found = table->field.shape.text()});
  return field_floats(table->field, table->bytes);
}

Field edge_field(const EdgeTable& edges, const std::string& name) {
  return {.name = name, .per = Per::kEdge, .of = edges.type.key(), .dtype = DType::kF32};
}

/// The one graph of a set, as METIS reads it: both directions, without loops and duplicates.
void one_graph(const GraphTables& tables, const EdgeTable& edges) {
  if (tables.graphs != 1)
    throw Error({.what = "only a set of one graph has parts",
                 .where = edges.type.key(),
                 .found = std::to_string(tables.graphs) + " graphs"});
}

Field part_field(const EdgeTable& edges) { return {.name = "part", .of = edges.type.target, .dtype = DType::kI32}; }

}  // namespace

EdgeTable& edges_within(GraphTables& tables, const std::string& key) {
  EdgeTable& edges = tables.edges_of(key);
  if (edges.type.source != edges.type.target)
    throw Error({.what = "the transform needs edges between nodes of one type",
                 .where = edges.type.key(),
                 .found = edges.type.source + " and " + edges.type.target});
  return edges;
}

void remove_self_loops(GraphTables& tables, const std::string& key) {
  EdgeTable& edges = edges_within(tables, key);
  replace_edges(tables, edges, [&](int64_t, int64_t begin, int64_t end, std::vector<NewEdge>& list) {
    for (int64_t e = begin; e < end; ++e)
      if (const NewEdge edge = edge_at(edges, e); edge.source != edge.target) list.push_back(edge);
  });
}

void remove_duplicates(GraphTables& tables, const std::string& key) {
  EdgeTable& edges = tables.edges_of(key);
  std::unordered_set<uint64_t> seen;
  replace_edges(tables, edges, [&](int64_t, int64_t begin, int64_t end, std::vector<NewEdge>& list) {
    seen.clear();
    for (int64_t e = begin; e < end; ++e)
      if (const NewEdge edge = edge_at(edges, e); seen.insert(pair_key(edge.source, edge.target)).second)
        list.push_back(edge);
  });
}

void add_self_loops(GraphTables& tables, const std::string& key) {
  EdgeTable& edges = edges_within(tables, key);
  replace_edges(tables, edges, [&](int64_t g, int64_t begin, int64_t end, std::vector<NewEdge>& list) {
    std::vector<bool> has(static_cast<size_t>(nodes_of_graph(tables, edges, g)));
    for (int64_t e = begin; e < end; ++e) {
      const NewEdge edge = edge_at(edges, e);
      if (edge.source == edge.target) has[static_cast<size_t>(edge.source)] = true;
      list.push_back(edge);
    }
    for (size_t i = 0; i < has.size(); ++i)
      if (!has[i]) list.push_back({static_cast<int32_t>(i), static_cast<int32_t>(i), -1});
  });
}

void make_undirected(GraphTables& tables, const std::string& key) {
  EdgeTable& edges = edges_within(tables, key);
  std::unordered_set<uint64_t> there;
  replace_edges(tables, edges, [&](int64_t, int64_t begin, int64_t end, std::vector<NewEdge>& list) {
    there.clear();
    for (int64_t e = begin; e < end; ++e) {
      const NewEdge edge = edge_at(edges, e);
      there.insert(pair_key(edge.source, edge.target));
      list.push_back(edge);
    }
    for (int64_t e = begin; e < end; ++e)
      if (const NewEdge edge = edge_at(edges, e); !there.contains(pair_key(edge.target, edge.source)))
        list.push_back({edge.target, edge.source, e});
  });
}

void gcn_normalise(GraphTables& tables, const std::string& key) {
  EdgeTable& edges = edges_within(tables, key);
  std::vector<float> weights = weights_of(tables, edges);
  const std::vector<int64_t>& nodes = tables.nodes_of(edges.type.target).ptr;
  for (size_t g = 0; g < static_cast<size_t>(tables.graphs); ++g) {
    std::vector<double> degree(static_cast<size_t>(nodes[g + 1] - nodes[g]));
    for (auto e = static_cast<size_t>(edges.ptr[g]); e < static_cast<size_t>(edges.ptr[g + 1]); ++e) {
      if (!(weights[e] >= 0))
        throw Error({.what = "degrees of negative weights cannot be normalised",
                     .where = edges.type.key() + ".weight, edge " + std::to_string(e),
                     .found = std::to_string(weights[e])});
      degree[static_cast<size_t>(edges.target[e])] += weights[e];
    }
    for (auto e = static_cast<size_t>(edges.ptr[g]); e < static_cast<size_t>(edges.ptr[g + 1]); ++e) {
      const double product =
          degree[static_cast<size_t>(edges.source[e])] * degree[static_cast<size_t>(edges.target[e])];
      // A node that no edge ends in has degree 0; PyG and DGL let its edges count nothing, too.
      weights[e] = product > 0 ? static_cast<float>(weights[e] / std::sqrt(product)) : 0.0f;
    }
  }
  tables.set_field(edge_field(edges, "weight"), weights);
}

void add_degree(GraphTables& tables, const std::string& key) {
  EdgeTable& edges = tables.edges_of(key);
  const std::vector<int64_t>& nodes = tables.nodes_of(edges.type.target).ptr;
  std::vector<int32_t> degree(static_cast<size_t>(nodes.back()));
  for (size_t g = 0; g < static_cast<size_t>(tables.graphs); ++g)
    for (auto e = static_cast<size_t>(edges.ptr[g]); e < static_cast<size_t>(edges.ptr[g + 1]); ++e)
      ++degree[static_cast<size_t>(nodes[g] + edges.target[e])];
  tables.set_field({.name = "degree", .of = edges.type.target, .dtype = DType::kI32}, degree);
}

void normalise_rows(GraphTables& tables, const std::string& key) {
  FieldTable* const table = tables.find(key);
  if (!table || table->field.per != Per::kNode)
    throw Error({.what = "there is no such field of nodes", .found = "'" + key + "'"});
  std::vector<float> values = field_floats(table->field, table->bytes);
  const int64_t width = table->field.shape.elements();
  for (size_t begin = 0; width > 0 && begin < values.size(); begin += static_cast<size_t>(width)) {
    double sum = 0;
    for (size_t i = begin; i < begin + static_cast<size_t>(width); ++i) sum += std::abs(values[i]);
    for (size_t i = begin; sum > 0 && i < begin + static_cast<size_t>(width); ++i)
      values[i] = static_cast<float>(values[i] / sum);
  }
  Field field = table->field;
  field.dtype = DType::kF32;
  field.values.clear();
  tables.set_field(std::move(field), values);
}

void partition_nodes(GraphTables& tables, const std::string& key, Partition kind, int64_t parts) {
  EdgeTable& edges = edges_within(tables, key);
  one_graph(tables, edges);
  const int64_t nodes = nodes_of_graph(tables, edges, 0);
  if (parts < 1 || parts > nodes)
    throw Error({.what = "a graph cannot have so many parts",
                 .where = edges.type.key(),
                 .found = std::to_string(parts),
                 .expected = "1 to " + std::to_string(nodes)});
  std::vector<int32_t> order(static_cast<size_t>(nodes)), part(static_cast<size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  if (kind == Partition::kMetis) {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (size_t e = 0; e < edges.source.size(); ++e)
      if (edges.source[e] != edges.target[e]) {
        pairs.emplace_back(edges.source[e], edges.target[e]);
        pairs.emplace_back(edges.target[e], edges.source[e]);
      }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    std::vector<int32_t> ptr(static_cast<size_t>(nodes) + 1), neighbours;
    for (const auto& [from, to] : pairs) ++ptr[static_cast<size_t>(from) + 1], neighbours.push_back(to);
    std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
    part = metis_parts(ptr, neighbours, parts);
  } else {
    if (kind == Partition::kRandom) {
      const RandomStream random(0, RandomPurpose::kSampling, 0, hash64("graph parts"));
      for (size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random.below(i, static_cast<uint32_t>(i))]);
    }
    for (size_t i = 0; i < order.size(); ++i)
      part[static_cast<size_t>(order[i])] = static_cast<int32_t>(static_cast<int64_t>(i) * parts / nodes);
  }
  tables.set_field(part_field(edges), part);
}

void read_partition(GraphTables& tables, const std::string& key, std::string_view text, const std::string& source) {
  EdgeTable& edges = edges_within(tables, key);
  one_graph(tables, edges);
  const int64_t nodes = nodes_of_graph(tables, edges, 0);
  Lines lines(text, source);
  std::vector<int32_t> part;
  while (lines.next())
    if (!trimmed(lines.line()).empty())
      part.push_back(static_cast<int32_t>(lines.whole(lines.line(), 0, std::max<int64_t>(0, nodes - 1))));
  if (std::ssize(part) != nodes)
    throw FormatError({.what = "there is not one part for each node",
                       .where = source,
                       .found = std::to_string(part.size()) + " lines",
                       .expected = std::to_string(nodes)});
  tables.set_field(part_field(edges), part);
}

namespace {

/// The numbers 0 to count - 1 in an order drawn from `seed`.
std::vector<int64_t> drawn_order(int64_t count, uint64_t seed, std::string_view purpose) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  const RandomStream random(seed, RandomPurpose::kSampling, 0, hash64(purpose));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i, static_cast<uint32_t>(i))]);
  return order;
}

/// The categories of the graphs by the order in which `split_by` takes them.
std::vector<std::vector<int64_t>> ordered_groups(std::vector<std::vector<int64_t>> groups, int64_t large,
                                                 std::optional<uint64_t> seed) {
  std::erase_if(groups, [](const std::vector<int64_t>& group) { return group.empty(); });
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return std::pair(a.size(), a.front()) > std::pair(b.size(), b.front());
  });
  if (!seed) return groups;
  const auto small =
      std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return std::ssize(group) * 2 <= large; });
  std::vector<std::vector<int64_t>> ordered;
  for (const auto& [begin, end, purpose] :
       {std::tuple(groups.begin(), small, "large groups"), std::tuple(small, groups.end(), "small groups")})
    for (const int64_t at : drawn_order(end - begin, *seed, purpose)) ordered.push_back(begin[at]);
  return ordered;
}

/// Whole numbers with colons between them.
std::vector<int64_t> numbers_of(const Lines& word, std::string_view name, const std::string& argument,
                                std::string_view form) {
  std::vector<int64_t> numbers;
  for (const std::string_view each : split_at(argument, ':')) numbers.push_back(word.whole(each, 0, INT32_MAX));
  if (std::ssize(numbers) != std::count(form.begin(), form.end(), ':') + 1)
    throw Error({.what = "the transform takes another number of numbers",
                 .where = std::string(name),
                 .found = "'" + argument + "'",
                 .expected = std::string(form)});
  return numbers;
}

}  // namespace

void sample_graphs(GraphTables& tables, int64_t count, uint64_t seed) {
  if (count > tables.graphs)
    throw Error({.what = "there are fewer graphs",
                 .where = "sample",
                 .found = std::to_string(count),
                 .expected = "at most " + std::to_string(tables.graphs)});
  std::vector<int64_t> kept = drawn_order(tables.graphs, seed, "graph sample");
  kept.resize(static_cast<size_t>(count));
  std::sort(kept.begin(), kept.end());
  const auto rows_of = [&](const Field& field) -> const std::vector<int64_t>* {
    return field.per == Per::kGraph  ? nullptr
           : field.per == Per::kNode ? &tables.nodes_of(field.of).ptr
                                     : &tables.edges_of(field.of).ptr;
  };
  for (FieldTable& table : tables.fields) {
    const std::vector<int64_t>* const ptr = rows_of(table.field);
    const int64_t bytes = table.field.value_bytes();
    std::vector<std::byte> values;
    for (const int64_t graph : kept) {
      const auto at = static_cast<size_t>(graph);
      const int64_t first = ptr ? (*ptr)[at] : graph, last = ptr ? (*ptr)[at + 1] : graph + 1;
      values.insert(values.end(), table.bytes.begin() + first * bytes, table.bytes.begin() + last * bytes);
    }
    table.bytes = std::move(values);
  }
  const auto keep_rows = [&](std::vector<int64_t>& ptr, std::initializer_list<std::vector<int32_t>*> lists) {
    std::vector<int64_t> next{0};
    for (const int64_t graph : kept)
      next.push_back(next.back() + ptr[static_cast<size_t>(graph) + 1] - ptr[static_cast<size_t>(graph)]);
    for (std::vector<int32_t>* list : lists) {
      std::vector<int32_t> values;
      for (const int64_t graph : kept)
        values.insert(values.end(), list->begin() + ptr[static_cast<size_t>(graph)],
                      list->begin() + ptr[static_cast<size_t>(graph) + 1]);
      *list = std::move(values);
    }
    ptr = std::move(next);
  };
  for (NodeTable& nodes : tables.nodes) keep_rows(nodes.ptr, {});
  for (EdgeTable& edges : tables.edges) keep_rows(edges.ptr, {&edges.source, &edges.target});
  tables.graphs = count;
}

void draw_split(GraphTables& tables, int64_t train, int64_t validation, int64_t test, uint64_t seed) {
  const bool of_nodes = tables.graphs == 1 && tables.nodes.size() == 1;
  const int64_t count = of_nodes ? tables.nodes[0].ptr.back() : tables.graphs;
  if (train + validation + test > count)
    throw Error({.what = "a split has more members than the data",
                 .where = "split",
                 .found = std::to_string(train + validation + test),
                 .expected = "at most " + std::to_string(count)});
  const std::vector<int64_t> order = drawn_order(count, seed, "graph split");
  std::vector<uint8_t> part(order.size());
  for (int64_t i = 0; i < count; ++i)
    part[static_cast<size_t>(order[static_cast<size_t>(i)])] =
        static_cast<uint8_t>((i >= train) + (i >= train + validation) + (i >= train + validation + test));
  Field field{.name = "split", .dtype = DType::kU8, .values = {"train", "validation", "test", "unused"}};
  field.per = of_nodes ? Per::kNode : Per::kGraph;
  if (of_nodes) field.of = tables.nodes[0].type;
  tables.set_field(std::move(field), part);
}

void split_by(GraphTables& tables, const std::string& field, const std::vector<int64_t>& shares,
              std::optional<uint64_t> seed) {
  const FieldTable* const table = tables.find(field);
  if (!table || table->field.per != Per::kGraph || table->field.values.empty() || table->field.shape.rank() > 0)
    throw Error({.what = "a split keeps the graphs of a category together",
                 .where = "split-by",
                 .found = "'" + field + "'",
                 .expected = "a field of graphs with categories"});
  const int64_t total = shares[0] + shares[1] + shares[2];
  if (total < 1) throw Error({.what = "the parts of a split are empty", .where = "split-by", .found = field});
  std::vector<std::vector<int64_t>> groups(table->field.values.size() + 1);
  for (int64_t graph = 0; graph < tables.graphs; ++graph)
    groups[static_cast<size_t>(field_number(table->field, table->bytes, graph) + 1)].push_back(graph);
  const int64_t train = tables.graphs * shares[0] / total,
                validation = tables.graphs * (shares[0] + shares[1]) / total - train,
                test = tables.graphs - train - validation;
  std::vector<uint8_t> part(static_cast<size_t>(tables.graphs), kTest);
  int64_t trained = 0, validated = 0;
  for (const std::vector<int64_t>& group : ordered_groups(std::move(groups), std::min(validation, test), seed)) {
    const int64_t size = std::ssize(group);
    const bool into_train = trained + size <= train;
    if (!into_train && validated + size > validation) continue;
    (into_train ? trained : validated) += size;
    for (const int64_t graph : group) part[static_cast<size_t>(graph)] = into_train ? kTrain : kValidation;
  }
  tables.set_field({.name = "split", .per = Per::kGraph, .dtype = DType::kU8, .values = split_names()}, part);
}

/// Columns of a field of positions.
constexpr int64_t kMostPositions = 1024;

const std::vector<TransformEntry>& transform_table() {
  static const std::vector<TransformEntry> table = {
      {"no-loops", "", "drop edges from a node to itself"},
      {"no-duplicates", "", "keep the first of edges with one source and one target"},
      {"undirected", "", "add the reverse of every edge whose reverse is not there"},
      {"self-loops", "", "give every node that has none an edge to itself"},
      {"gcn", "", "edge field 'weight': w / sqrt(degree of the source x degree of the target)"},
      {"degree", "", "node field 'degree': how many edges end in the node"},
      {"normalise", "FIELD", "scale each row of a node field to a sum of 1"},
      {"radius", "R", "replace the edges by those between nodes at most R apart ('pos'); edge field 'distance'"},
      {"nearest", "K", "replace the edges by those from the K nearest nodes; edge field 'distance'"},
      {"laplacian", "K", "node field 'laplacian': eigenvectors 1 to K of the normalised Laplacian, their signs fixed"},
      {"returns", "K", "node field 'returns': how likely a random walk is back after 1 to K steps"},
      {"metis", "K", "node field 'part': K parts of METIS"},
      {"random", "K", "node field 'part': K parts at random"},
      {"contiguous", "K", "node field 'part': K runs of nodes"},
      {"parts", "FILE", "node field 'part' from a file with a line a node"},
      {"append", "FILE", "add the graphs of another set; fields that one of them lacks are not known in its graphs"},
      {"rename", "KEY:NAME", "give a field another name"},
      {"sample", "COUNT:SEED", "keep so many graphs, drawn at random"},
      {"split", "TRAIN:VALIDATION:TEST:SEED",
       "field 'split' of graphs (of one graph's nodes): so many drawn at random"},
      {"split-by", "FIELD:TRAIN:VALIDATION:TEST[:SEED]",
       "field 'split' of graphs, in shares; graphs of one category of the field stay together"},
      {"split-links", "TRAIN:VALIDATION:TEST:SEED",
       "field 'split' of edges, in shares at random; what is left to train on stays connected"},
      {"split-by-time", "TRAIN:VALIDATION:TEST", "field 'split' of edges, in shares in order of time"}};
  return table;
}

void apply_transform(GraphTables& tables, const std::string& text, const std::string& edges) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals);
  const std::string argument = equals < text.size() ? text.substr(equals + 1) : "";
  const auto entry = std::find_if(transform_table().begin(), transform_table().end(),
                                  [&](const TransformEntry& each) { return each.name == name; });
  if (entry == transform_table().end()) {
    std::vector<std::string> known;
    for (const TransformEntry& each : transform_table()) known.emplace_back(each.name);
    throw Error({.what = "unknown transform", .found = "'" + name + "'", .expected = "one of " + joined(known)});
  }
  if (entry->argument.empty() != argument.empty())
    throw Error(
        {.what = entry->argument.empty() ? "the transform takes no argument" : "the transform needs an argument",
         .where = name,
         .found = "'" + text + "'",
         .expected = entry->argument.empty() ? name : name + "=" + std::string(entry->argument)});
  const Lines word("", "transform " + name);
  const auto count = [&] { return word.whole(argument, 1, INT32_MAX); };
  if (name == "no-loops") remove_self_loops(tables, edges);
  if (name == "no-duplicates") remove_duplicates(tables, edges);
  if (name == "undirected") make_undirected(tables, edges);
  if (name == "self-loops") add_self_loops(tables, edges);
  if (name == "gcn") gcn_normalise(tables, edges);
  if (name == "degree") add_degree(tables, edges);
  if (name == "normalise")
    normalise_rows(tables, argument.find('.') == std::string::npos ? "node." + argument : argument);
  if (name == "radius") radius_edges(tables, edges, word.real(argument));
  if (name == "nearest") nearest_edges(tables, edges, count());
  if (name == "laplacian") add_laplacian(tables, edges, word.whole(argument, 1, kMostPositions));
  if (name == "returns") add_returns(tables, edges, word.whole(argument, 1, kMostPositions));
  if (name == "metis") partition_nodes(tables, edges, Partition::kMetis, count());
  if (name == "random") partition_nodes(tables, edges, Partition::kRandom, count());
  if (name == "contiguous") partition_nodes(tables, edges, Partition::kContiguous, count());
  if (name == "parts") read_partition(tables, edges, read_file(argument), argument);
  if (name == "append") append_graphs(tables, GraphSet::open(argument).tables());
  if (name == "rename") {
    const size_t colon = std::min(argument.find(':'), argument.size());
    rename_field(tables, argument.substr(0, colon), argument.substr(std::min(colon + 1, argument.size())));
  }
  const auto numbers = [&] { return numbers_of(word, name, argument, entry->argument); };
  if (name == "sample") sample_graphs(tables, numbers()[0], static_cast<uint64_t>(numbers()[1]));
  if (name == "split") {
    const std::vector<int64_t> counts = numbers();
    draw_split(tables, counts[0], counts[1], counts[2], static_cast<uint64_t>(counts[3]));
  }
  if (name == "split-by-time") split_by_time(tables, edges, numbers());
  if (name == "split-links") {
    const std::vector<int64_t> shares = numbers();
    split_links(tables, edges, shares, static_cast<uint64_t>(shares[3]));
  }
  if (name == "split-by") {
    const size_t colon = std::min(argument.find(':'), argument.size());
    const std::string field = argument.substr(0, colon), rest = argument.substr(std::min(colon + 1, argument.size()));
    const bool seeded = std::count(rest.begin(), rest.end(), ':') == 3;
    const std::vector<int64_t> shares =
        numbers_of(word, name, rest, seeded ? "TRAIN:VALIDATION:TEST:SEED" : "TRAIN:VALIDATION:TEST");
    split_by(tables, field.find('.') == std::string::npos ? "graph." + field : field, shares,
             seeded ? std::optional<uint64_t>(shares[3]) : std::nullopt);
  }
}

}  // namespace ramet::graphs
