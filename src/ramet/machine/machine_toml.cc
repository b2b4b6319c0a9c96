#include "ramet/machine/machine_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/toml.h"
#include "ramet/base/words.h"
#include "ramet/machine/efficiency.h"
#include "ramet/machine/machine_keys.h"

namespace ramet::machine {
namespace {

constexpr size_t kMostText = 16 << 20;  // measured calls make the file of this machine long
constexpr int kMostDots = 200;          // of a line: each may nest a table, and a parser's stack is not endless
constexpr size_t kMostEntries = 4096;   // of a list

constexpr DeviceModel kModels[] = {DeviceModel::kCores, DeviceModel::kTiles};
constexpr MemoryRole kRoles[] = {MemoryRole::kDevice, MemoryRole::kStreaming, MemoryRole::kDisk};
constexpr Topology kTopologies[] = {Topology::kLadder,  Topology::kRing,     Topology::kTorus,
                                    Topology::kFatTree, Topology::kAllToAll, Topology::kHostGateway};

std::string number_text(double value) { return fmt::format("{}", value); }

std::string value_text(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  if (const auto* text = node.as_string()) return "'" + text->get().substr(0, 100) + "'";
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return number_text(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return "a date or time";
}

/// Reads one machine file, and knows at any time where it is.
class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  Machine read(const toml::table& table) {
    read_figures(table, "", machine_, {"base", "device", "memory", "links", "tasks"});
    read_device(table_of(table, "", "device", true));
    read_memories(table_of(table, "", "memory", true));
    read_links(table);
    read_tasks(table);
    return std::move(machine_);
  }

 private:
  static std::string join(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key.substr(0, 100)) : path + "." + std::string(key.substr(0, 100));
  }
  std::string where(const toml::node& node, const std::string& path) const {
    const auto line = node.source().begin.line;
    return source_ + (line > 0 ? ":" + std::to_string(line) : "") + (path.empty() ? "" : " " + path);
  }
  [[noreturn]] void refuse(const std::string& what, const toml::node& node, const std::string& path,
                           const std::string& expected) const {
    throw Error({.what = what, .where = where(node, path), .found = value_text(node), .expected = expected});
  }

  /// The table under a key; null when it is absent and not required.
  const toml::table* table_of(const toml::table& table, const std::string& path, const char* key, bool required) const {
    const toml::node* node = table.get(key);
    if (!node) {
      if (required) throw Error({.what = "missing table", .where = where(table, join(path, key)), .remedy = kRemedy});
      return nullptr;
    }
    if (!node->is_table()) refuse("wrong kind of value", *node, join(path, key), "a table");
    return node->as_table();
  }

  /// The tables of a list under a key, none when it is absent.
  std::vector<const toml::table*> tables_of(const toml::table& table, const std::string& path, const char* key) const {
    std::vector<const toml::table*> tables;
    const toml::node* node = table.get(key);
    if (!node) return tables;
    const toml::array* list = node->as_array();
    if (!list) refuse("wrong kind of value", *node, join(path, key), "a list of tables");
    if (list->size() > kMostEntries)
      refuse("too long a list", *node, join(path, key), "at most " + std::to_string(kMostEntries));
    for (const toml::node& element : *list) {
      if (!element.is_table()) refuse("wrong kind of value", element, join(path, key), "a list of tables");
      tables.push_back(element.as_table());
    }
    return tables;
  }

  /// A value, or the `value` of a table that has its source and spread too, which are noted.
  const toml::node& bare(const toml::node& node, const std::string& path) {
    const toml::table* table = node.as_table();
    if (!table)
      return node;  // NOLINT(bugprone-return-const-ref-from-parameter): nodes of the document, never temporaries
    refuse_unknown(*table, path, {"value", "source", "spread"});
    FigureNote note;
    if (const toml::node* source = table->get("source")) note.source = text(*source, join(path, "source"));
    if (const toml::node* spread = table->get("spread")) note.spread = figure(*spread, join(path, "spread"), 0, 1e6);
    const toml::node* value = table->get("value");
    if (!value) throw Error({.what = "missing figure", .where = where(*table, join(path, "value")), .remedy = kRemedy});
    machine_.notes[path] = note;
    return *value;
  }

  std::string text(const toml::node& node, const std::string& path) const {
    const auto* value = node.as_string();
    if (!value) refuse("wrong kind of value", node, path, "a text in quotes");
    return value->get();
  }

  double figure(const toml::node& node, const std::string& path, double low, double high, bool whole = false) const {
    const std::string expected =
        fmt::format("{} from {} to {}", whole ? "a whole number" : "a number", number_text(low), number_text(high));
    double value = 0;
    if (const auto* number = node.as_integer())
      value = static_cast<double>(number->get());
    else if (const auto* number = node.as_floating_point(); number && !whole)
      value = number->get();
    else
      refuse("wrong kind of value", node, path, expected);
    if (!std::isfinite(value)) refuse("not a finite number", node, path, expected);
    if (value < 0) refuse("negative figure", node, path, expected);
    if (value < low || value > high) refuse("figure out of range", node, path, expected);
    return value;
  }

  int64_t size(const toml::node& node, const std::string& path, double low, double high) const {
    const auto* words = node.as_string();
    if (!words) return static_cast<int64_t>(figure(node, path, low, high));
    const std::string expected =
        fmt::format("bytes from {} to {}, as a number or a size as \"16 GiB\"", number_text(low), number_text(high));
    int64_t bytes = 0;
    try {
      bytes = parse_size(words->get());
    } catch (const Error&) {
      refuse("not a size", node, path, expected);
    }
    if (static_cast<double>(bytes) < low || static_cast<double>(bytes) > high)
      refuse("figure out of range", node, path, expected);
    return bytes;
  }

  template <typename Choices>
  auto choice(const toml::table& table, const std::string& path, const char* key, const Choices& choices) {
    std::vector<std::string> words;
    for (const auto& value : choices) words.emplace_back(name_of(value));
    const toml::node* node = table.get(key);
    if (!node)
      throw Error({.what = "missing figure",
                   .where = where(table, join(path, key)),
                   .expected = joined(words),
                   .remedy = kRemedy});
    const std::string word = text(bare(*node, join(path, key)), join(path, key));
    for (const auto& value : choices)
      if (word == name_of(value)) return value;
    refuse("unknown word", *node, join(path, key), joined(words));
  }

  void refuse_unknown(const toml::table& table, const std::string& path, const std::set<std::string>& known) const {
    for (const auto& [name, node] : table) {
      const std::string key(name.str());
      if (known.count(key)) continue;
      const std::string near = nearest_name(key.substr(0, 200), known);
      throw Error({.what = "unknown key '" + key.substr(0, 200) + "'",
                   .where = source_ + ":" + std::to_string(name.source().begin.line) + (path.empty() ? "" : " " + path),
                   .expected = near.empty() ? "" : "perhaps '" + near + "'",
                   .remedy = kRemedy});
    }
  }

  /// All keys of a table that figure_keys knows; `others` are read elsewhere.
  template <typename Struct>
  void read_figures(const toml::table& table, const std::string& path, Struct& out, std::set<std::string> others) {
    for (const auto& key : figure_keys<Struct>()) others.insert(key.name);
    others.insert("source");
    refuse_unknown(table, path, others);
    if (const toml::node* source = table.get("source"))
      machine_.notes[path].source = text(*source, join(path, "source"));
    for (const auto& key : figure_keys<Struct>()) {
      const std::string place = join(path, key.name);
      const toml::node* node = table.get(key.name);
      if (!node) {
        if (key.required)
          throw Error({.what = "missing figure", .where = where(table, place), .expected = key.doc, .remedy = kRemedy});
        continue;
      }
      const toml::node& value = bare(*node, place);
      std::visit([&](auto field) { put(value, place, key, out.*field); }, key.field);
    }
  }
  template <typename Key>
  void put(const toml::node& node, const std::string& place, const Key& key, double& field) const {
    field = figure(node, place, key.low, key.high);
  }
  template <typename Key>
  void put(const toml::node& node, const std::string& place, const Key& key, int& field) const {
    field = static_cast<int>(figure(node, place, key.low, key.high, true));
  }
  template <typename Key>
  void put(const toml::node& node, const std::string& place, const Key& key, int64_t& field) const {
    field = size(node, place, key.low, key.high);
  }
  template <typename Key>
  void put(const toml::node& node, const std::string& place, const Key& key, std::string& field) const {
    field = text(node, place);
    if (key.required && field.empty()) refuse("empty text", node, place, key.doc);
  }

  void read_device(const toml::table* table) {
    DeviceKind& device = machine_.device;
    read_figures(*table, "device", device, {"model", "operations_per_cycle", "caches", "efficiency", "tiles"});
    device.model = choice(*table, "device", "model", kModels);
    read_rates(*table_of(*table, "device", "operations_per_cycle", true));
    const auto caches = tables_of(*table, "device", "caches");
    for (size_t i = 0; i < caches.size(); ++i)
      read_figures(*caches[i], "device.caches." + std::to_string(i), device.caches.emplace_back(), {});
    read_efficiency(tables_of(*table, "device", "efficiency"));
    const bool tiles = device.model == DeviceModel::kTiles;
    const toml::table* figures = table_of(*table, "device", "tiles", tiles);
    if (figures && !tiles)
      refuse("cores have no tiles", *figures, "device.tiles", "device.model = \"tiles\", or no such table");
    if (!figures) return;
    read_figures(*figures, "device.tiles", device.tiles, {});
    device.tiles.tiles = device.units;
    device.tiles.clock = device.clock;
  }

  void read_rates(const toml::table& table) {
    const std::string path = "device.operations_per_cycle";
    std::set<std::string> known = {"source"};
    for (int i = 0; i < kDTypeCount; ++i)
      if (is_floating(static_cast<DType>(i))) known.emplace(name_of(static_cast<DType>(i)));
    refuse_unknown(table, path, known);
    if (const toml::node* source = table.get("source")) machine_.notes[path].source = text(*source, path + ".source");
    for (const auto& [name, node] : table) {
      const std::string key(name.str());
      if (key == "source") continue;
      const std::string place = join(path, key);
      machine_.device.operations_per_cycle[key] = figure(bare(node, place), place, 1e-6, 1e9);
    }
  }

  void read_efficiency(const std::vector<const toml::table*>& tables) {
    for (size_t i = 0; i < tables.size(); ++i) {
      const std::string path = "device.efficiency." + std::to_string(i);
      Efficiency& entry = machine_.device.efficiency.emplace_back();
      entry.dtype = entry.shape = "any";
      read_figures(*tables[i], path, entry, {});
      check_word(*tables[i], path, "op", entry.op, efficiency_classes());
      check_word(*tables[i], path, "shape", entry.shape, product_shapes());
      std::vector<std::string> dtypes = {"any"};
      for (const auto& [dtype, rate] : machine_.device.operations_per_cycle) dtypes.push_back(dtype);
      check_word(*tables[i], path, "dtype", entry.dtype, dtypes);
    }
  }
  void check_word(const toml::table& table, const std::string& path, const char* key, const std::string& word,
                  const std::vector<std::string>& words) const {
    if (std::find(words.begin(), words.end(), word) != words.end()) return;
    throw Error({.what = "unknown word",
                 .where = where(table, join(path, key)),
                 .found = "'" + word.substr(0, 100) + "'",
                 .expected = joined(words)});
  }

  void read_memories(const toml::table* table) {
    std::set<std::string> known;
    for (const MemoryRole role : kRoles) known.emplace(name_of(role));
    refuse_unknown(*table, "memory", known);
    for (const MemoryRole role : kRoles) {
      const toml::table* own = table_of(*table, "memory", name_of(role), role == MemoryRole::kDevice);
      if (!own) continue;
      MemoryKind& memory = machine_.memories.emplace_back();
      memory.role = role;
      read_figures(*own, std::string("memory.") + name_of(role), memory, {});
      if (memory.total == 0) memory.total = (memory.read + memory.write) * memory.devices;
    }
  }

  void read_links(const toml::table& table) {
    const auto levels = tables_of(table, "", "links");
    for (size_t i = 0; i < levels.size(); ++i) {
      const std::string path = "links." + std::to_string(i);
      LinkLevel& level = machine_.links.emplace_back();
      read_figures(*levels[i], path, level, {"topology"});
      level.topology = choice(*levels[i], path, "topology", kTopologies);
    }
  }

  void read_tasks(const toml::table& table) {
    const toml::table* tasks = table_of(table, "", "tasks", false);
    if (!tasks) return;
    for (const auto& [name, node] : *tasks) {
      const std::string key(name.str());
      machine_.measured_calls[key] = figure(node, join("tasks", key), 0, 1e6);
    }
  }

  static constexpr const char* kRemedy = "docs/machines.md documents every key";
  const std::string& source_;
  Machine machine_;
};

/// Tables are joined key by key; figures with their notes, lists and all else are those of `over`.
void lay_over(toml::table& base, toml::table&& over) {
  for (auto&& [name, node] : over) {
    toml::table *own = base.get_as<toml::table>(name.str()), *other = node.as_table();
    if (own && other && !own->contains("value") && !other->contains("value"))
      lay_over(*own, std::move(*other));
    else
      node.visit([&, &key = name](auto& concrete) { base.insert_or_assign(key, std::move(concrete)); });
  }
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const MachinePreset& preset : machine_presets()) names.emplace_back(preset.name);
  return names;
}

const MachinePreset& find_preset(const std::string& name, const std::string& where) {
  for (const MachinePreset& preset : machine_presets())
    if (name == preset.name) return preset;
  const std::string near = nearest_name(name.substr(0, 200), preset_names());
  throw Error(
      {.what = "unknown machine '" + name.substr(0, 200) + "'",
       .where = where,
       .expected = near.empty() ? "" : "perhaps '" + near + "'",
       .remedy = "Machines are " + joined(preset_names()) + (where.empty() ? ", or a file that ends in .toml" : "")});
}

/// The names of the presets that a file builds on.
std::vector<std::string> bases_of(const toml::table& table, const std::string& where) {
  const toml::node* node = table.get("base");
  std::vector<std::string> names;
  if (!node) return names;
  if (const auto* name = node->as_string()) names.push_back(name->get());
  if (const auto* list = node->as_array())
    for (const auto& element : *list)
      if (const auto* name = element.as_string()) names.push_back(name->get());
  if (names.empty() || names.size() > 8)
    throw Error({.what = "wrong kind of value",
                 .where = where,
                 .found = value_text(*node),
                 .expected = "the name of a preset in quotes, or a list of up to 8"});
  return names;
}

/// Lays the presets of `names` over `whole`, each once and after those that it builds on itself.
void lay_presets(toml::table& whole, const std::vector<std::string>& names, const std::string& where,
                 std::set<std::string>& done) {
  for (const std::string& name : names) {
    const MachinePreset& preset = find_preset(name, where);
    if (!done.insert(name).second) continue;
    toml::table table = toml::parse(preset.text);
    lay_presets(whole, bases_of(table, name + ".toml base"), name + ".toml base", done);
    lay_over(whole, std::move(table));
  }
}

toml::table with_bases(toml::table&& table, const std::string& source) {
  const toml::node* node = table.get("base");
  if (!node) return std::move(table);
  const std::string where = source + ":" + std::to_string(node->source().begin.line) + " base";
  toml::table whole;
  std::set<std::string> done;
  lay_presets(whole, bases_of(table, where), where, done);
  lay_over(whole, std::move(table));
  return whole;
}

/// Dots and braces outside of quotes are what may nest; quotes are not told apart here, so the bound is a wide one.
void refuse_deep(std::string_view text, const std::string& source) {
  int dots = 0, line = 1;
  for (const char c : text) {
    if (c == '\n') {
      dots = 0;
      ++line;
    }
    dots += c == '.';
    if (dots > kMostDots)
      throw Error({.what = "too many dots in a line", .where = source + ":" + std::to_string(line)});
  }
}

}  // namespace

Machine parse_machine(std::string_view text, const std::string& source) {
  if (text.size() > kMostText)
    throw Error({.what = "too long for a machine", .where = source, .expected = "at most " + format_size(kMostText)});
  refuse_deep(text, source);
  try {
    const toml::table table = with_bases(toml::parse(text), source);
    Machine machine = Reader(source).read(table);
    validate(machine, source);
    return machine;
  } catch (const toml::parse_error& error) {
    throw Error({.what = "not TOML: " + std::string(error.description()),
                 .where = source + ":" + std::to_string(error.source().begin.line)});
  }
}

Machine load_machine(const std::string& preset_or_file) {
  if (preset_or_file.ends_with(".toml")) return parse_machine(read_file(preset_or_file), preset_or_file);
  const MachinePreset& preset = find_preset(preset_or_file, "");
  return parse_machine(preset.text, std::string(preset.name) + ".toml");
}

}  // namespace ramet::machine
