// Edges between nodes that lie near each other.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>

#include "ramet/base/error_types.h"
#include "ramet/graphs/transform.h"

namespace ramet::graphs {
namespace {

constexpr int64_t kFewNodes = 64;  ///< up to which all pairs are tried

/// The positions of the nodes of one graph.
struct Points {
  const float* pos;
  int64_t width;
  double squared(int64_t a, int64_t b) const {
    double sum = 0;
    for (int64_t k = 0; k < width; ++k) {
      const double difference = static_cast<double>(pos[a * width + k]) - static_cast<double>(pos[b * width + k]);
      sum += difference * difference;
    }
    return sum;
  }
};

/// A search grid. Its cubes have the radius as their side and cover the first three coordinates. A node's neighbours
/// within the radius lie in the node's own cube or in a cube beside it.
class Cells {
 public:
  Cells(const Points& points, int64_t nodes, double radius) : points_(points), radius_(radius) {
    for (int64_t i = 0; i < nodes; ++i) cells_[cell_of(i)].push_back(static_cast<int32_t>(i));
  }

  template <typename Visit>
  void near(int64_t node, const Visit& visit) const {
    const Cell at = cell_of(node);
    const int64_t y = points_.width > 1 ? 1 : 0, z = points_.width > 2 ? 1 : 0;
    for (int64_t dx = -1; dx <= 1; ++dx)
      for (int64_t dy = -y; dy <= y; ++dy)
        for (int64_t dz = -z; dz <= z; ++dz)
          if (const auto found = cells_.find({at[0] + dx, at[1] + dy, at[2] + dz}); found != cells_.end())
            for (const int32_t other : found->second) visit(other);
  }

 private:
  using Cell = std::array<int64_t, 3>;
  Cell cell_of(int64_t node) const {
    Cell cell{};
    for (int64_t k = 0; k < std::min<int64_t>(3, points_.width); ++k)
      cell[static_cast<size_t>(k)] =
          static_cast<int64_t>(std::floor(std::clamp(points_.pos[node * points_.width + k] / radius_, -1e15, 1e15)));
    return cell;
  }
  const Points& points_;
  double radius_;
  std::map<Cell, std::vector<int32_t>> cells_;
};

/// Replaces the edges of a type by those that `sources(points, nodes, target, list)` lists for each target.
template <typename Sources>
void connect(GraphTables& tables, const std::string& key, const Sources& sources_of_graph) {
  EdgeTable& edges = tables.edges_of(key);
  if (edges.type.source != edges.type.target)
    throw Error({.what = "distances are those of nodes of one type", .where = edges.type.key()});
  const FieldTable* const pos = tables.find(edges.type.target + ".pos");
  if (!pos || !is_floating(pos->field.dtype) || pos->field.shape.rank() != 1)
    throw Error({.what = "the nodes have no positions",
                 .where = edges.type.target,
                 .expected = "a field 'pos' of floats, a row a node"});
  const std::vector<float> all = field_floats(pos->field, pos->bytes);
  for (const float value : all)
    if (!std::isfinite(value)) throw Error({.what = "a position is not finite", .where = pos->field.key()});
  const std::vector<int64_t>& nodes = tables.nodes_of(edges.type.target).ptr;
  const int64_t width = pos->field.shape[0];
  edges.source.clear(), edges.target.clear(), edges.ptr = {0};
  std::vector<float> distance;
  std::vector<int32_t> sources;
  for (size_t g = 0; g < static_cast<size_t>(tables.graphs); ++g) {
    const Points points{all.data() + nodes[g] * width, width};
    const int64_t count = nodes[g + 1] - nodes[g];
    const auto sources_of = sources_of_graph(points, count);
    for (int64_t target = 0; target < count; ++target) {
      sources.clear();
      sources_of(target, sources);
      std::sort(sources.begin(), sources.end());
      for (const int32_t source : sources) {
        edges.source.push_back(source);
        edges.target.push_back(static_cast<int32_t>(target));
        distance.push_back(static_cast<float>(std::sqrt(points.squared(source, target))));
      }
    }
    edges.ptr.push_back(std::ssize(edges.source));
  }
  std::erase_if(tables.fields, [&](const FieldTable& table) {
    return table.field.per == Per::kEdge && table.field.of == edges.type.key();
  });
  tables.set_field(Field{.name = "distance", .per = Per::kEdge, .of = edges.type.key(), .unit = ""}, distance);
}

}  // namespace

void radius_edges(GraphTables& tables, const std::string& key, double radius) {
  if (!(radius > 0) || !std::isfinite(radius))
    throw Error({.what = "a radius must be a positive number", .where = key, .found = std::to_string(radius)});
  const double most = radius * radius;
  connect(tables, key, [&](const Points& points, int64_t count) {
    auto cells = count > kFewNodes ? std::make_shared<Cells>(points, count, radius) : nullptr;
    return [&points, count, cells, most](int64_t target, std::vector<int32_t>& sources) {
      const auto test = [&](int32_t source) {
        if (source != target && points.squared(source, target) <= most) sources.push_back(source);
      };
      if (cells) return cells->near(target, test);
      for (int32_t source = 0; source < count; ++source) test(source);
    };
  });
}

void nearest_edges(GraphTables& tables, const std::string& key, int64_t k) {
  if (k < 1) throw Error({.what = "there must be a nearest node", .where = key, .found = std::to_string(k)});
  connect(tables, key, [&](const Points& points, int64_t count) {
    return [&points, count, k](int64_t target, std::vector<int32_t>& sources) {
      std::vector<std::pair<double, int32_t>> others;
      for (int32_t source = 0; source < count; ++source)
        if (source != target) others.emplace_back(points.squared(source, target), source);
      const auto taken = std::min(k, std::ssize(others));
      if (taken < std::ssize(others)) std::nth_element(others.begin(), others.begin() + taken, others.end());
      for (int64_t i = 0; i < taken; ++i) sources.push_back(others[static_cast<size_t>(i)].second);
    };
  });
}

}  // namespace ramet::graphs
