// Graph sets as files: safetensors with a schema in the metadata.

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ramet/base/error_types.h"
#include "ramet/graphs/graph_set.h"
#include "ramet/weights/safetensors.h"

namespace ramet::graphs {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "ramet.graphs";
constexpr int kVersion = 1;
constexpr std::string_view kPer[] = {"node", "edge", "graph"};

[[noreturn]] void fail(const std::string& where, std::string what, std::string found = "", std::string expected = "") {
  throw FormatError({.what = std::move(what),
                     .where = where,
                     .found = std::move(found),
                     .expected = std::move(expected),
                     .remedy = "Prepare the set again with `ramet graphs prepare`"});
}

/// The types and fields of a schema's text, without the fields' element types and shapes.
struct Schema {
  int64_t graphs = 0;
  std::vector<std::string> nodes;
  std::vector<EdgeType> edges;
  std::vector<Field> fields;
  std::map<std::string, std::vector<std::string>> names;
};

Schema parse_schema(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    Schema schema;
    if (const int version = json.at("version").get<int>(); version != kVersion)
      fail(where, "the schema is of another version", std::to_string(version), std::to_string(kVersion));
    schema.graphs = json.at("graphs").get<int64_t>();
    schema.nodes = json.at("nodes").get<std::vector<std::string>>();
    for (const Json& edge : json.at("edges")) {
      const auto words = edge.get<std::vector<std::string>>();
      if (words.size() != 3) fail(where, "a type of edges is not told by three names");
      schema.edges.push_back({words[0], words[1], words[2]});
    }
    for (const Json& field : json.at("fields")) {
      const auto per = field.at("per").get<std::string>();
      const auto* const found = std::find(std::begin(kPer), std::end(kPer), per);
      if (found == std::end(kPer)) fail(where, "a field belongs to nothing", "'" + per.substr(0, 100) + "'");
      schema.fields.push_back({.name = field.at("name").get<std::string>(),
                               .per = static_cast<Per>(found - std::begin(kPer)),
                               .of = field.value("of", ""),
                               .missing = field.value("missing", false),
                               .values = field.value("values", std::vector<std::string>{}),
                               .unit = field.value("unit", "")});
    }
    schema.names = json.value("names", std::map<std::string, std::vector<std::string>>{});
    return schema;
  } catch (const nlohmann::json::exception& error) {
    fail(where, "the schema of the graph set cannot be read", error.what());
  }
}

/// A tensor's elements: in the map where they are aligned, otherwise copied.
template <typename T>
std::span<const T> elements(std::span<const std::byte> bytes, std::vector<std::shared_ptr<const void>>& keepers,
                            int64_t& host_bytes) {
  const size_t count = bytes.size() / sizeof(T);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(T) == 0)
    return {reinterpret_cast<const T*>(bytes.data()), count};
  const auto copy = std::make_shared<std::vector<T>>(count);
  std::memcpy(copy->data(), bytes.data(), count * sizeof(T));
  keepers.push_back(copy);
  host_bytes += static_cast<int64_t>(bytes.size());
  return *copy;
}

}  // namespace

std::string GraphSet::schema_text() const {
  Json json{{"version", kVersion}, {"graphs", graphs_}, {"nodes", node_types_}};
  json["edges"] = Json::array();
  for (const EdgeType& edge : edge_types_) json["edges"].push_back({edge.source, edge.name, edge.target});
  json["fields"] = Json::array();
  for (const Field& field : fields_) {
    Json each{{"name", field.name}, {"per", kPer[static_cast<size_t>(field.per)]}};
    if (!field.of.empty()) each["of"] = field.of;
    if (field.missing) each["missing"] = true;
    if (!field.values.empty()) each["values"] = field.values;
    if (!field.unit.empty()) each["unit"] = field.unit;
    json["fields"].push_back(std::move(each));
  }
  if (!names_.empty()) json["names"] = names_;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void GraphSet::save(const std::filesystem::path& path) const {
  struct Part {
    weights::SafetensorsSpec spec;
    std::vector<std::span<const std::byte>> pieces;
  };
  std::vector<Part> parts;
  const auto add = [&](const std::string& name, DType dtype, std::vector<int64_t> dims, auto... spans) {
    parts.push_back({{name, {dtype, Shape(std::move(dims))}}, {std::as_bytes(spans)...}});
  };
  for (size_t i = 0; i < node_types_.size(); ++i)
    add(node_types_[i] + ".ptr", DType::kI64, {graphs_ + 1}, node_ptr_[i]);
  for (size_t i = 0; i < edge_types_.size(); ++i) {
    const std::string key = edge_types_[i].key();
    add(key + ".ptr", DType::kI64, {graphs_ + 1}, edge_ptr_[i]);
    add(key + ".index", DType::kI32, {2, std::ssize(sources_[i])}, sources_[i], targets_[i]);
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    const int64_t size = fields_[i].value_bytes();
    std::vector<int64_t> dims{size == 0 ? 0 : std::ssize(values_[i]) / size};
    for (const int64_t extent : fields_[i].shape.dims()) dims.push_back(extent);
    add(fields_[i].key(), fields_[i].dtype, std::move(dims), values_[i]);
  }
  // The widest elements first, so that all are aligned in the map.
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return size_of(a.spec.type.dtype) > size_of(b.spec.type.dtype);
  });
  std::vector<weights::SafetensorsSpec> specs;
  for (const Part& part : parts) specs.push_back(part.spec);
  const std::filesystem::path temporary = path.string() + ".part";
  try {
    weights::SafetensorsWriter writer(temporary, specs, {{kSchema, schema_text()}});
    for (const Part& part : parts)
      for (const auto& piece : part.pieces) writer.write(piece.data(), piece.size());
    writer.close();
    std::filesystem::rename(temporary, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

GraphSet GraphSet::open(const std::filesystem::path& path) {
  const auto reader = std::make_shared<const weights::SafetensorsReader>(path);
  GraphSet set;
  set.source_ = path.string();
  set.keepers_.push_back(reader);
  const auto text = reader->metadata().find(kSchema);
  if (text == reader->metadata().end())
    fail(set.source_, "the file is no graph set: its metadata have no schema", "", std::string("'") + kSchema + "'");
  Schema schema = parse_schema(text->second, set.source_);
  set.graphs_ = schema.graphs;
  set.node_types_ = std::move(schema.nodes);
  set.edge_types_ = std::move(schema.edges);
  set.names_ = std::move(schema.names);
  const auto bytes_of = [&](const std::string& name, DType dtype, int rank) {
    const weights::SafetensorsEntry& entry = reader->get(name);
    if (entry.type.dtype != dtype || entry.type.shape.rank() != rank || (rank == 2 && entry.type.shape[0] != 2))
      fail(set.source_ + ": " + name, "a table of the graph set is of another type", entry.type.text());
    return reader->bytes(entry);
  };
  for (const std::string& type : set.node_types_)
    set.node_ptr_.push_back(elements<int64_t>(bytes_of(type + ".ptr", DType::kI64, 1), set.keepers_, set.host_bytes_));
  for (const EdgeType& edge : set.edge_types_) {
    set.edge_ptr_.push_back(
        elements<int64_t>(bytes_of(edge.key() + ".ptr", DType::kI64, 1), set.keepers_, set.host_bytes_));
    const auto both = elements<int32_t>(bytes_of(edge.key() + ".index", DType::kI32, 2), set.keepers_, set.host_bytes_);
    set.sources_.push_back(both.first(both.size() / 2));
    set.targets_.push_back(both.subspan(both.size() / 2));
    if (set.edge_ptr_.back().empty() || set.edge_ptr_.back().back() != std::ssize(set.sources_.back()))
      fail(set.source_ + ": " + edge.key(), "the edges of all graphs are not as many as the file has",
           std::to_string(set.sources_.back().size()));
  }
  for (Field& field : schema.fields) {
    const weights::SafetensorsEntry& entry = reader->get(field.key());
    if (entry.type.shape.rank() < 1) fail(set.source_ + ": " + field.key(), "a field is a single number");
    field.dtype = entry.type.dtype;
    field.shape = Shape(std::vector<int64_t>(entry.type.shape.dims().begin() + 1, entry.type.shape.dims().end()));
    set.values_.push_back(reader->bytes(entry));
    set.fields_.push_back(std::move(field));
  }
  set.check();
  return set;
}

}  // namespace ramet::graphs
