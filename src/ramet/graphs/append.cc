// Two graph sets as one.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ramet/base/error_types.h"
#include "ramet/graphs/transform.h"

namespace ramet::graphs {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& key, const std::string& found = "",
                         const std::string& expected = "", const std::string& remedy = "") {
  throw Error({.what = what, .where = "append: " + key, .found = found, .expected = expected, .remedy = remedy});
}

void append_ptr(std::vector<int64_t>& to, const std::vector<int64_t>& more) {
  const int64_t first = to.back();
  for (size_t g = 1; g < more.size(); ++g) to.push_back(first + more[g]);
}

/// Values of `count` rows that are not known.
std::vector<std::byte> unknown(const Field& field, int64_t count) {
  const int64_t elements = count * field.shape.elements();
  std::vector<std::byte> bytes(static_cast<size_t>(count * field.value_bytes()));
  const auto fill = [&](auto value) {
    for (int64_t i = 0; i < elements; ++i)
      std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
  };
  if (field.dtype == DType::kF32)
    fill(std::numeric_limits<float>::quiet_NaN());
  else if (field.dtype == DType::kF64)
    fill(std::numeric_limits<double>::quiet_NaN());
  else if (field.dtype == DType::kI32 && !field.values.empty())
    fill(int32_t{-1});
  else if (field.dtype == DType::kI64 && !field.values.empty())
    fill(int64_t{-1});
  else
    refuse("only one of the sets has a field of whole numbers that are never unknown", field.key(), "", "",
           "Give both sets the field");
  return bytes;
}

/// The categories of the second set in the numbers of the first, which gets those that are new.
std::vector<std::byte> renumbered(Field& field, const FieldTable& more) {
  if (field.values == more.field.values) return more.bytes;
  if (field.values.empty() || more.field.values.empty())
    refuse("the numbers of a field are categories in one set alone", field.key());
  std::vector<int64_t> number;
  for (const std::string& value : more.field.values) {
    const auto found = std::find(field.values.begin(), field.values.end(), value);
    number.push_back(found - field.values.begin());
    if (found == field.values.end()) field.values.push_back(value);
  }
  const auto size = size_of(field.dtype);
  if (size == 1 && field.values.size() > 127) refuse("the categories do not fit the type of the field", field.key());
  std::vector<std::byte> bytes(more.bytes.size());
  for (size_t i = 0; i < bytes.size() / size; ++i) {
    const double old = field_number(more.field, more.bytes, static_cast<int64_t>(i));
    const int64_t made = old < 0 ? -1 : number[static_cast<size_t>(old)];
    std::memcpy(bytes.data() + i * size, &made, size);  // little endian: the low bytes are the number
  }
  return bytes;
}

void append_field(FieldTable& table, const FieldTable& more) {
  Field& field = table.field;
  if (field.dtype != more.field.dtype || field.shape != more.field.shape)
    refuse("a field is of another type in the other set", field.key(),
           std::string(name_of(more.field.dtype)) + more.field.shape.text(),
           std::string(name_of(field.dtype)) + field.shape.text());
  const std::vector<std::byte> bytes = is_floating(field.dtype) ? more.bytes : renumbered(field, more);
  table.bytes.insert(table.bytes.end(), bytes.begin(), bytes.end());
  field.missing = field.missing || more.field.missing;
}

}  // namespace

void append_graphs(GraphTables& tables, const GraphTables& more) {
  const auto types_of = [](const GraphTables& each) {
    std::vector<std::string> types;
    for (const NodeTable& nodes : each.nodes) types.push_back(nodes.type);
    for (const EdgeTable& edges : each.edges) types.push_back(edges.type.key());
    return types;
  };
  if (types_of(tables) != types_of(more)) refuse("the sets have other types of nodes or edges", "types");
  std::vector<FieldTable> absent;  // in the first set
  for (const FieldTable& table : more.fields)
    if (!tables.find(table.field.key())) {
      absent.push_back({table.field, unknown(table.field, tables.count(table.field))});
      absent.back().field.missing = true;
    }
  for (FieldTable& table : tables.fields) {
    const std::string key = table.field.key();
    const auto other = std::find_if(more.fields.begin(), more.fields.end(),
                                    [&](const FieldTable& each) { return each.field.key() == key; });
    if (other != more.fields.end()) {
      append_field(table, *other);
      continue;
    }
    const std::vector<std::byte> bytes = unknown(table.field, more.count(table.field));
    table.bytes.insert(table.bytes.end(), bytes.begin(), bytes.end());
    table.field.missing = true;
  }
  for (FieldTable& table : absent) {
    append_field(table, *std::find_if(more.fields.begin(), more.fields.end(),
                                      [&](const FieldTable& each) { return each.field.key() == table.field.key(); }));
    tables.fields.push_back(std::move(table));
  }
  for (size_t k = 0; k < tables.nodes.size(); ++k) append_ptr(tables.nodes[k].ptr, more.nodes[k].ptr);
  for (size_t k = 0; k < tables.edges.size(); ++k) {
    EdgeTable& edges = tables.edges[k];
    append_ptr(edges.ptr, more.edges[k].ptr);
    edges.source.insert(edges.source.end(), more.edges[k].source.begin(), more.edges[k].source.end());
    edges.target.insert(edges.target.end(), more.edges[k].target.begin(), more.edges[k].target.end());
  }
  tables.graphs += more.graphs;
  tables.names.clear();
}

void rename_field(GraphTables& tables, const std::string& key, const std::string& name) {
  FieldTable* const table = tables.find(key);
  if (!table) throw Error({.what = "there is no such field", .where = "rename", .found = "'" + key + "'"});
  Field renamed = table->field;
  renamed.name = name;
  if (name.empty() || tables.find(renamed.key()))
    throw Error({.what = "the set has a field of that name", .where = "rename", .found = "'" + renamed.key() + "'"});
  table->field = renamed;
}

}  // namespace ramet::graphs
