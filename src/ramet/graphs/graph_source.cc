#include "ramet/graphs/graph_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/graphs/edge_lists.h"
#include "ramet/graphs/graph_cut.h"
#include "ramet/graphs/near_nodes.h"
#include "ramet/graphs/pair_lists.h"

namespace ramet::graphs {
namespace {

/// The lists, in the order of the outputs, and those of a graph that is cut.
enum List : size_t { kSource, kPtr, kTargetOf, kBySource, kSourcePtr };
enum CutList : size_t { kIndex, kCutPtr, kBackIndex, kBackPtr };

DType delivered(const Field& field) {
  if (is_floating(field.dtype)) return DType::kF32;
  if (is_integer(field.dtype) || field.dtype == DType::kBool) return DType::kI32;
  throw Error(
      {.what = "a field's type cannot be delivered", .where = field.key(), .found = std::string(name_of(field.dtype))});
}

/// Values of a field, those of some rows one after another, as f32 or i32 numbers.
template <typename T>
void copy_values(const Field& field, std::span<const std::byte> bytes, const std::vector<int64_t>& rows, T* to) {
  const int64_t width = field.shape.elements();
  if constexpr (std::is_same_v<T, float>)
    if (field.dtype == DType::kF32) {
      const auto* const from = reinterpret_cast<const float*>(bytes.data());
      if (width == 1)  // a load and a store each
        for (size_t i = 0; i < rows.size(); ++i) to[i] = from[rows[i]];
      else
        for (const int64_t row : rows) to = std::copy_n(from + row * width, width, to);
      return;
    }
  for (const int64_t row : rows)
    for (int64_t k = 0; k < width; ++k) *to++ = static_cast<T>(field_number(field, bytes, row * width + k));
}

}  // namespace

GraphSource::GraphSource(std::shared_ptr<const GraphSet> set, std::shared_ptr<const Packs> packs,
                         GraphSourceOptions options)
    : set_(std::move(set)), packs_(std::move(packs)), options_(std::move(options)), budget_(packs_->budget()) {
  budget_ = {std::max(budget_.graphs, options_.room.graphs), std::max(budget_.nodes, options_.room.nodes),
             std::max(budget_.edges, options_.room.edges)};
  if (budget_.nodes > INT32_MAX || budget_.edges > INT32_MAX)
    throw Error({.what = "a batch has too much room for 32-bit numbers of nodes and edges",
                 .where = set_->source(),
                 .found = std::to_string(budget_.nodes) + " nodes, " + std::to_string(budget_.edges) + " edges"});
  for (const std::string& key : options_.fields) add_field(key);
  fields_ = outputs_.size();
  using Lists = std::vector<std::pair<const char*, std::vector<int64_t>>>;
  const int64_t pointers = budget_.nodes + 1;
  Lists lists;
  if (options_.pairs.empty())
    lists = {{"source", {budget_.edges}},
             {"ptr", {pointers}},
             {"target_of", {budget_.edges}},
             {"by_source", {budget_.edges}},
             {"source_ptr", {pointers}}};
  if (const auto cut = packs_->cut()) {
    if (budget_ != packs_->budget())
      throw Error({.what = "the clusters of a cut graph have fixed room", .where = set_->source()});
    if (!options_.pairs.empty())
      throw Error({.what = "a graph that is cut has no pairs of nodes", .where = set_->source()});
    lists = {
        {"index", {cut->in.edges}}, {"ptr", {pointers}}, {"back_index", {cut->out.edges}}, {"back_ptr", {pointers}}};
  }
  lists_ = lists.size();
  lists.emplace_back("graph_ptr", std::vector<int64_t>{budget_.graphs + 1});
  lists.emplace_back("graphs", std::vector<int64_t>{});
  for (const auto& [name, dims] : lists) outputs_.push_back({name, DType::kI32, dims});
  if (!options_.label.empty()) add_label();
  add_labels();
  if (options_.hops > 0 || !options_.distances.empty()) add_distances();
  if (!options_.pairs.empty()) add_pairs();
  if (!options_.sparse.empty()) add_sparse();
  if (packs_->counts()) add_correction();
}

template <typename T>
T* GraphSource::place(const Places& places, size_t output, int64_t sample) const {
  return reinterpret_cast<T*>(places.tensors[output]) + sample * Shape(outputs_[output].dims).elements();
}

int64_t GraphSource::room_for(Per per) const {
  return per == Per::kNode ? budget_.nodes : per == Per::kEdge ? budget_.edges : budget_.graphs;
}

const std::vector<int64_t>& GraphSource::rows_of(Per per, const PackContents& pack) {
  return per == Per::kNode ? pack.nodes : per == Per::kEdge ? pack.edges : pack.graphs;
}

void GraphSource::add_field(const std::string& key) {
  const size_t at = set_->field(key);
  const Field& field = set_->fields()[at];
  std::vector<int64_t> dims{room_for(field.per)};
  for (const int64_t extent : field.shape.dims()) dims.push_back(extent);
  outputs_.push_back({key, delivered(field), std::move(dims), at});
}

void GraphSource::complete_columns(const Field& field, const std::string& key, TargetForm& targets) const {
  if (targets.columns.empty())
    for (int64_t column = 0; column < field.shape.elements(); ++column) targets.columns.push_back(column);
  for (const int64_t column : targets.columns)
    if (column < 0 || column >= field.shape.elements())
      throw Error({.what = "the label has no such column",
                   .where = set_->source() + ": " + key,
                   .found = std::to_string(column),
                   .expected = "0 to " + std::to_string(field.shape.elements() - 1)});
  targets.mean.resize(targets.columns.size(), 0);
  targets.deviation.resize(targets.columns.size(), 1);
}

void GraphSource::add_label() {
  const size_t at = set_->field(options_.label);
  const Field& field = set_->fields()[at];
  const bool category = !is_floating(field.dtype);
  if (field.per == Per::kEdge || (category && field.shape.elements() != 1) || (!category && field.per != Per::kGraph))
    throw Error({.what = "a label must be a category of nodes or graphs, or floats of graphs",
                 .where = set_->source() + ": " + options_.label,
                 .found = std::string(name_of(field.dtype)) + field.shape.text()});
  label_ = outputs_.size();
  has_label_ = true;
  if (category) {
    outputs_.push_back({"labels", DType::kI32, {field.per == Per::kNode ? budget_.nodes : budget_.graphs}, at});
  } else {
    TargetForm& targets = options_.targets;
    complete_columns(field, options_.label, targets);
    for (const char* name : {"targets", "known"})
      outputs_.push_back({name, DType::kF32, {budget_.graphs, std::ssize(targets.columns)}, at});
  }
  if (options_.split.empty()) return;
  split_ = set_->field(options_.split);
  const Field& split = set_->fields()[split_];
  if (split.per != Per::kNode || is_floating(split.dtype) || split.shape.elements() != 1)
    throw Error(
        {.what = "a split of labels must be one whole number a node", .where = set_->source() + ": " + options_.split});
}

void GraphSource::add_labels() {
  labels_ = outputs_.size();
  for (NamedLabel& label : options_.labels) {
    const size_t at = set_->field(label.key);
    const Field& field = set_->fields()[at];
    const int64_t rows = room_for(field.per);
    if (!is_floating(field.dtype)) {
      if (field.shape.elements() != 1)
        throw Error({.what = "a label that is no number must be a category",
                     .where = set_->source() + ": " + label.key,
                     .found = std::string(name_of(field.dtype)) + field.shape.text()});
      outputs_.push_back({"labels." + label.name, DType::kI32, {rows}, at});
      continue;
    }
    complete_columns(field, label.key, label.form);
    for (const char* name : {"targets.", "known."})
      outputs_.push_back({name + label.name, DType::kF32, {rows, std::ssize(label.form.columns)}, at});
  }
}

void GraphSource::fill_labels(const PackContents& pack, int64_t sample, const Places& places) const {
  size_t at = labels_;
  for (const NamedLabel& label : options_.labels) {
    const Field& field = set_->fields()[outputs_[at].field];
    if (is_floating(field.dtype)) {
      fill_numbers(at, label.form, pack, sample, places);
      at += 2;
      continue;
    }
    const std::vector<int64_t>& rows = rows_of(field.per, pack);
    auto* const to = place<int32_t>(places, at, sample);
    std::fill(to, to + outputs_[at].dims[0], -1);
    for (size_t i = 0; i < rows.size(); ++i)
      to[i] = static_cast<int32_t>(field_number(field, set_->bytes(outputs_[at].field), rows[i]));
    ++at;
  }
}

void GraphSource::add_distances() {
  if (packs_->cut())
    throw Error({.what = "distances are of whole graphs, and this one is cut", .where = set_->source()});
  places_ = most_nodes(*set_);
  distances_ = outputs_.size();
  const int64_t graphs = budget_.graphs, all = graphs * places_;
  outputs_.push_back({"place", DType::kI32, {budget_.nodes}});
  outputs_.push_back({"node_at", DType::kI32, {all}});
  outputs_.push_back({"taken", DType::kI32, {all}});
  if (options_.hops > 0) outputs_.push_back({"hops", DType::kI32, {graphs, places_, places_}});
  if (options_.distances.empty()) return;
  const size_t at = set_->field(options_.distances);
  const Field& field = set_->fields()[at];
  if (field.per != Per::kNode || !is_floating(field.dtype))
    throw Error({.what = "distances are those of positions, floats of nodes",
                 .where = set_->source() + ": " + options_.distances,
                 .found = std::string(name_of(field.dtype)) + field.shape.text()});
  outputs_.push_back({"distance", DType::kF32, {graphs, places_, places_}, at});
}

void GraphSource::fill_distances(const PackContents& pack, int64_t sample, const Places& places) const {
  size_t at = distances_;
  const auto next = [&]<typename T>(T) {
    const size_t output = at++;
    return std::span<T>(place<T>(places, output, sample), static_cast<size_t>(Shape(outputs_[output].dims).elements()));
  };
  const auto of_nodes = next(int32_t{}), node_at = next(int32_t{}), taken = next(int32_t{});
  fill_places(pack, places_, of_nodes, node_at, taken);
  if (options_.hops > 0) fill_hops(pack, places_, options_.hops, next(int32_t{}));
  if (options_.distances.empty()) return;
  const size_t field = outputs_[at].field;
  graphs::fill_distances(*set_, field, pack, places_, next(float{}));
}

void GraphSource::add_pairs() {
  const size_t at = set_->field(options_.pairs);
  const Field& field = set_->fields()[at];
  if (field.per != Per::kEdge || !is_floating(field.dtype) || field.shape.elements() != 1)
    throw Error({.what = "pairs of nodes need a field of edges with one float each",
                 .where = set_->source() + ": " + options_.pairs,
                 .found = std::string(name_of(field.dtype)) + field.shape.text()});
  pairs_ = outputs_.size();
  const int64_t pairs = budget_.edges / 2;
  outputs_.push_back({"pair." + field.name, DType::kF32, {pairs}, at});
  outputs_.push_back({"pair_ptr", DType::kI32, {budget_.nodes + 1}, at});
  outputs_.push_back({"pair_second", DType::kI32, {pairs}, at});
}

void GraphSource::add_sparse() {
  const size_t at = set_->field(options_.sparse);
  const Field& field = set_->fields()[at];
  if (field.per != Per::kNode || !is_floating(field.dtype))
    throw Error({.what = "sparse features must be floats of nodes",
                 .where = set_->source() + ": " + options_.sparse,
                 .found = std::string(name_of(field.dtype)) + field.shape.text()});
  rows_ = FeatureRows::of(*set_, at);
  sparse_room_ = rows_.most(budget_.nodes);
  sparse_ = outputs_.size();
  outputs_.push_back({"feature.value", DType::kF32, {sparse_room_}, at});
  for (const char* name : {"feature.source", "feature.target_of", "feature.by_source"})
    outputs_.push_back({name, DType::kI32, {sparse_room_}, at});
  outputs_.push_back({"feature.ptr", DType::kI32, {budget_.nodes + 1}, at});
  outputs_.push_back({"feature.source_ptr", DType::kI32, {rows_.width + 1}, at});
}

void GraphSource::add_correction() {
  correction_ = outputs_.size();
  size_t at = 0;
  if (options_.means) {
    in_edges_.assign(static_cast<size_t>(set_->node_ptr(0)[1]), 0);
    for (const int32_t target : set_->targets(0)) ++in_edges_[static_cast<size_t>(target)];
  } else {
    at = set_->field("edge.weight");
    if (const Field& field = set_->fields()[at]; !is_floating(field.dtype) || field.shape.elements() != 1)
      throw Error({.what = "weights of edges are one float each",
                   .where = set_->source() + ": edge.weight",
                   .found = std::string(name_of(field.dtype)) + field.shape.text()});
  }
  outputs_.push_back({"edge.weight", DType::kF32, {budget_.edges}, at});
  if (!has_label_) return;
  if (set_->fields()[outputs_[label_].field].per != Per::kNode)
    throw Error({.what = "a correction of samples is of labels of nodes", .where = set_->source()});
  for (int64_t node = 0; node < set_->node_ptr(0)[1]; ++node) labelled_ += is_labelled(node);
  if (labelled_ == 0) throw Error({.what = "no node has a label to learn", .where = set_->source()});
  outputs_.push_back({"label_weight", DType::kF32, {budget_.nodes}});
}

bool GraphSource::is_labelled(int64_t node) const {
  const size_t at = outputs_[label_].field;
  if (!options_.split.empty() &&
      static_cast<int64_t>(field_number(set_->fields()[split_], set_->bytes(split_), node)) != options_.part)
    return false;
  return field_number(set_->fields()[at], set_->bytes(at), node) >= 0;
}

void GraphSource::fill_correction(const PackContents& pack, int64_t sample, const Places& places) const {
  const SampleCounts& counts = *packs_->counts();
  const Field& field = set_->fields()[outputs_[correction_].field];
  const std::span<const std::byte> bytes = set_->bytes(outputs_[correction_].field);
  auto* const weight = place<float>(places, correction_, sample);
  std::fill(weight, weight + budget_.edges, 0.0f);
  for (size_t e = 0; e < pack.edges.size(); ++e) {
    const int64_t target = pack.nodes[static_cast<size_t>(pack.target[e])];
    const double own =
        options_.means ? 1.0 / in_edges_[static_cast<size_t>(target)] : field_number(field, bytes, pack.edges[e]);
    weight[e] = static_cast<float>(own * counts.of_edge(pack.edges[e], target));
  }
  if (!has_label_) return;
  auto* const of_label = place<float>(places, correction_ + 1, sample);
  std::fill(of_label, of_label + budget_.nodes, 0.0f);
  for (size_t i = 0; i < pack.nodes.size(); ++i)
    if (is_labelled(pack.nodes[i])) of_label[i] = static_cast<float>(counts.of_node(pack.nodes[i]) / labelled_);
}

int64_t GraphSource::host_bytes() const {
  return set_->host_bytes() + packs_->host_bytes() + rows_.host_bytes() + std::ssize(in_edges_) * 4;
}

void GraphSource::fill_sparse(const PackContents& pack, int64_t sample, const Places& places) const {
  const auto list = [&](size_t at) { return place<int32_t>(places, sparse_ + at, sample); };
  graphs::fill_lists(rows_, pack.nodes, budget_.nodes, sparse_room_,
                     {.source = list(1),
                      .ptr = list(4),
                      .target_of = list(2),
                      .by_source = list(3),
                      .source_ptr = list(5),
                      .value = place<float>(places, sparse_, sample)});
}

Signature GraphSource::signature(int64_t count) const {
  Signature signature;
  for (const Output& output : outputs_) {
    std::vector<int64_t> dims{count};
    dims.insert(dims.end(), output.dims.begin(), output.dims.end());
    signature.emplace_back(output.name, TensorType{output.dtype, Shape(std::move(dims))});
  }
  return signature;
}

void GraphSource::fill(int64_t first, int64_t count, const Places& places) const {
  check_samples(first, count);
  for (int64_t i = 0; i < count; ++i) fill_pack(first + i, i, places);
}

void GraphSource::fill_pack(int64_t index, int64_t sample, const Places& places) const {
  const PackContents pack = packs_->contents(index);
  if (std::ssize(pack.graphs) > budget_.graphs || std::ssize(pack.nodes) > budget_.nodes ||
      std::ssize(pack.edges) > budget_.edges)
    throw Error({.what = "a batch of graphs does not fit the room that the run was planned with",
                 .where = set_->source() + ", " + text_of(index),
                 .found = std::to_string(pack.graphs.size()) + " graphs, " + std::to_string(pack.nodes.size()) +
                          " nodes, " + std::to_string(pack.edges.size()) + " edges",
                 .expected = "at most " + std::to_string(budget_.graphs) + ", " + std::to_string(budget_.nodes) +
                             " and " + std::to_string(budget_.edges),
                 .remedy = "Plan the run with as many epochs as it has"});
  fill_fields(pack, sample, places);
  if (const auto cut = packs_->cut())
    fill_cut(index % cut->clusters, sample, places);
  else if (options_.pairs.empty())
    fill_lists(pack, sample, places);
  fill_graphs(pack, sample, places);
  if (has_label_) fill_label(pack, sample, places);
  fill_labels(pack, sample, places);
  if (distances_ > 0) fill_distances(pack, sample, places);
  if (pairs_ > 0) fill_pairs(pack, sample, places);
  if (sparse_ > 0) fill_sparse(pack, sample, places);
  if (correction_ > 0) fill_correction(pack, sample, places);
}

void GraphSource::fill_fields(const PackContents& pack, int64_t sample, const Places& places) const {
  for (size_t k = 0; k < fields_; ++k) {
    const Output& output = outputs_[k];
    const Field& field = set_->fields()[output.field];
    const std::span<const std::byte> bytes = set_->bytes(output.field);
    const std::vector<int64_t>& rows = rows_of(field.per, pack);
    const int64_t width = field.shape.elements(), room = output.dims[0];
    const auto copy = [&](auto* to) {
      copy_values(field, bytes, rows, to);
      std::fill(to + std::ssize(rows) * width, to + room * width, 0);
    };
    if (output.dtype == DType::kF32)
      copy(place<float>(places, k, sample));
    else
      copy(place<int32_t>(places, k, sample));
  }
}

void GraphSource::fill_lists(const PackContents& pack, int64_t sample, const Places& places) const {
  const auto list = [&](List at) { return place<int32_t>(places, fields_ + at, sample); };
  fill_edge_lists(pack.source, pack.target,
                  {.source = list(kSource),
                   .target_of = list(kTargetOf),
                   .by_source = list(kBySource),
                   .ptr = list(kPtr),
                   .source_ptr = list(kSourcePtr),
                   .rows = budget_.nodes,
                   .source_rows = budget_.nodes,
                   .room = budget_.edges});
}

void GraphSource::fill_cut(int64_t cluster, int64_t sample, const Places& places) const {
  const auto cut = packs_->cut();
  const auto fill = [&](size_t at, const std::vector<std::vector<int32_t>>& lists) {
    const std::vector<int32_t>& list = lists[static_cast<size_t>(cluster)];
    auto* to = place<int32_t>(places, fields_ + at, sample);
    std::copy(list.begin(), list.end(), to);
    std::fill(to + list.size(), to + outputs_[fields_ + at].dims[0], 0);
  };
  fill(kIndex, cut->in.index), fill(kCutPtr, cut->in.ptr);
  fill(kBackIndex, cut->out.index), fill(kBackPtr, cut->out.ptr);
}

void GraphSource::fill_graphs(const PackContents& pack, int64_t sample, const Places& places) const {
  auto* graph_ptr = place<int32_t>(places, fields_ + lists_, sample);
  std::copy(pack.graph_ptr.begin(), pack.graph_ptr.end(), graph_ptr);
  std::fill(graph_ptr + pack.graph_ptr.size(), graph_ptr + budget_.graphs + 1, pack.graph_ptr.back());
  *place<int32_t>(places, fields_ + lists_ + 1, sample) = static_cast<int32_t>(pack.graphs.size());
}

void GraphSource::fill_label(const PackContents& pack, int64_t sample, const Places& places) const {
  const Output& output = outputs_[label_];
  const Field& field = set_->fields()[output.field];
  const std::span<const std::byte> bytes = set_->bytes(output.field);
  if (output.dtype == DType::kF32) return fill_numbers(label_, options_.targets, pack, sample, places);
  const std::vector<int64_t>& rows = field.per == Per::kNode ? pack.nodes : pack.graphs;
  auto* to = place<int32_t>(places, label_, sample);
  std::fill(to, to + output.dims[0], -1);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (field.per == Per::kNode && pack.seeds >= 0 && static_cast<int64_t>(i) >= pack.seeds) break;
    if (!options_.split.empty() &&
        static_cast<int64_t>(field_number(set_->fields()[split_], set_->bytes(split_), rows[i])) != options_.part)
      continue;
    to[i] = static_cast<int32_t>(field_number(field, bytes, rows[i]));
  }
}

void GraphSource::fill_numbers(size_t at, const TargetForm& form, const PackContents& pack, int64_t sample,
                               const Places& places) const {
  const Field& field = set_->fields()[outputs_[at].field];
  const std::span<const std::byte> bytes = set_->bytes(outputs_[at].field);
  const std::vector<int64_t>& rows = rows_of(field.per, pack);
  const size_t columns = form.columns.size();
  auto *targets = place<float>(places, at, sample), *known = place<float>(places, at + 1, sample);
  for (float* to : {targets, known}) std::fill(to, to + Shape(outputs_[at].dims).elements(), 0.0f);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t k = 0; k < columns; ++k) {
      const double value = field_number(field, bytes, rows[i] * field.shape.elements() + form.columns[k]);
      if (std::isnan(value)) continue;
      targets[i * columns + k] = static_cast<float>((value - form.mean[k]) / form.deviation[k]);
      known[i * columns + k] = 1;
    }
}

void GraphSource::fill_pairs(const PackContents& pack, int64_t sample, const Places& places) const {
  const Output& output = outputs_[pairs_];
  const PairNumbers pairs = pairs_of(*set_, output.field, pack, budget_.nodes);
  auto* const values = place<float>(places, pairs_, sample);
  auto *const ptr = place<int32_t>(places, pairs_ + 1, sample), *const second =
                                                                    place<int32_t>(places, pairs_ + 2, sample);
  std::fill(values, values + output.dims[0], 0.0f);
  std::fill(second, second + output.dims[0], 0);
  const Field& field = set_->fields()[output.field];
  const std::span<const std::byte> bytes = set_->bytes(output.field);
  copy_values(field, bytes, pairs.edge, values);
  std::copy(pairs.second.begin(), pairs.second.end(), second);
  std::copy(pairs.ptr.begin(), pairs.ptr.end(), ptr);
}

Hash GraphSource::identity() const {
  std::string text = "graphs\n" + set_->contents().hex() + "\n" + packs_->identity() + "\n" + options_.label + " " +
                     options_.split + " " + std::to_string(options_.part);
  for (const std::string& field : options_.fields) text += "\n" + field;
  if (!options_.pairs.empty()) text += "\npairs " + options_.pairs;
  if (!options_.sparse.empty()) text += "\nsparse " + options_.sparse;
  const auto add_form = [&](const TargetForm& targets) {
    for (size_t k = 0; k < targets.columns.size(); ++k)
      text += "\ntarget " + std::to_string(targets.columns[k]) + " " + std::to_string(targets.mean[k]) + " " +
              std::to_string(targets.deviation[k]);
  };
  add_form(options_.targets);
  for (const NamedLabel& label : options_.labels)
    text += "\nlabel " + label.name + " " + label.key, add_form(label.form);
  if (options_.means) text += "\nmeans";
  if (distances_ > 0) text += "\nnear " + std::to_string(options_.hops) + " " + options_.distances;
  return hash_text(text);
}

std::vector<int64_t> members_of(const GraphSet& set, const std::string& split, int64_t part) {
  const size_t at = set.field(split);
  const Field& field = set.fields()[at];
  if (field.per == Per::kEdge || is_floating(field.dtype) || field.shape.elements() != 1)
    throw Error(
        {.what = "a split must be one whole number for each graph or node", .where = set.source() + ": " + split});
  std::vector<int64_t> members;
  const auto count = static_cast<int64_t>(set.bytes(at).size() / size_of(field.dtype));
  for (int64_t i = 0; i < count; ++i)
    if (static_cast<int64_t>(field_number(field, set.bytes(at), i)) == part) members.push_back(i);
  if (members.empty())
    throw Error({.what = "no member of the data is in this part",
                 .where = set.source() + ": " + split,
                 .found = "part " + std::to_string(part)});
  return members;
}

}  // namespace ramet::graphs
