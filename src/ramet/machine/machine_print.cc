#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ramet/machine/machine_keys.h"
#include "ramet/machine/machine_toml.h"

namespace ramet::machine {
namespace {

/// TOML's basic strings are JSON's, but for the one control character that JSON leaves alone.
std::string quoted(const std::string& text) {
  std::string json = nlohmann::json(text).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  for (size_t at = 0; (at = json.find('\x7f', at)) != std::string::npos;) json.replace(at, 1, "\\u007f");
  return json;
}

/// Prints figures, each with its note where it has one.
class Printer {
 public:
  explicit Printer(const Machine& machine) : machine_(machine) {}

  std::string print() {
    figures("", machine_);
    heading("device", false);
    figure("device", "model", quoted(name_of(machine_.device.model)));
    figures("device", machine_.device);
    heading("device.operations_per_cycle", false);
    for (const auto& [dtype, rate] : machine_.device.operations_per_cycle)
      figure("device.operations_per_cycle", dtype, number(rate));
    tables("device.caches", machine_.device.caches);
    tables("device.efficiency", machine_.device.efficiency);
    if (machine_.device.model == DeviceModel::kTiles) {
      heading("device.tiles", false);
      figures("device.tiles", machine_.device.tiles);
    }
    for (const MemoryKind& memory : machine_.memories) {
      const std::string path = std::string("memory.") + name_of(memory.role);
      heading(path, false);
      figures(path, memory);
    }
    for (size_t i = 0; i < machine_.links.size(); ++i) {
      const std::string path = "links." + std::to_string(i);
      heading("links", true, path);
      figure(path, "topology", quoted(name_of(machine_.links[i].topology)));
      figures(path, machine_.links[i], false);
    }
    tasks();
    return std::move(text_);
  }

 private:
  static std::string number(double value) {
    std::string text = fmt::format("{}", value);
    return text;
  }
  static std::string value_text(double value) { return number(value); }
  static std::string value_text(int64_t value) { return std::to_string(value); }
  static std::string value_text(int value) { return std::to_string(value); }
  static std::string value_text(const std::string& value) { return quoted(value); }

  void heading(const std::string& path, bool list, const std::string& noted = "") {
    text_ += list ? "\n[[" + path + "]]\n" : "\n[" + path + "]\n";
    source_of(noted.empty() ? path : noted);
  }
  void source_of(const std::string& path) {
    if (const auto note = machine_.notes.find(path); note != machine_.notes.end() && !note->second.source.empty())
      text_ += "source = " + quoted(note->second.source) + "\n";
  }
  void figure(const std::string& path, const std::string& key, const std::string& value) {
    const auto note = machine_.notes.find(path.empty() ? key : path + "." + key);
    if (note == machine_.notes.end()) {
      text_ += key + " = " + value + "\n";
      return;
    }
    text_ += key + " = { value = " + value;
    if (note->second.spread > 0) text_ += ", spread = " + number(note->second.spread);
    if (!note->second.source.empty()) text_ += ", source = " + quoted(note->second.source);
    text_ += " }\n";
  }
  template <typename Struct>
  void figures(const std::string& path, const Struct& subject, bool top = true) {
    if (top && path.empty()) source_of("");
    static const Struct kDefault{};
    for (const auto& key : figure_keys<Struct>())
      std::visit(
          [&](auto field) {
            if (key.required || subject.*field != kDefault.*field) figure(path, key.name, value_text(subject.*field));
          },
          key.field);
  }
  template <typename Struct>
  void tables(const std::string& path, const std::vector<Struct>& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place = path + "." + std::to_string(i);
      heading(path, true, place);
      figures(place, list[i]);
    }
  }
  void tasks() {
    if (machine_.measured_calls.empty()) return;
    text_ += "\n[tasks]\n";
    for (const auto& [key, seconds] : machine_.measured_calls) text_ += quoted(key) + " = " + number(seconds) + "\n";
  }

  const Machine& machine_;
  std::string text_;
};

}  // namespace

std::string print_machine(const Machine& machine) { return Printer(machine).print(); }

}  // namespace ramet::machine
