#include "ramet/layout/layout_toml.h"

#include <algorithm>
#include <filesystem>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::layout {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostText = 64 << 10;

/// Text of one value, or of one element of a list; nothing when no key takes it.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return {};
}

/// What joins a list's elements in the text form of a key.
char separator_of(const std::string& key) { return key == "t" ? 'x' : key == "layers" || key == "deal" ? '+' : ','; }

}  // namespace

std::vector<LayoutSetting> layout_settings(const toml::table& table, const std::string& source) {
  std::vector<LayoutSetting> settings;
  for (const auto& [name, node] : table) {
    const std::string key(name.str());
    LayoutSetting setting{
        .key = key,
        .value = "",
        .where = source + ":" + std::to_string(name.source().begin.line) + " layout." + key.substr(0, 100)};
    const auto refuse = [&] {
      return Error({.what = "wrong kind of value",
                    .where = setting.where,
                    .expected = "a whole number, true or false, a text in quotes, or a list of these"});
    };
    if (const toml::array* list = node.as_array()) {
      for (const auto& element : *list) {
        const auto text = scalar_text(element);
        if (!text) throw refuse();
        if (&element != &(*list)[0]) setting.value += separator_of(key);
        setting.value += *text;
      }
      if (list->empty()) setting.value = key == "layers" ? "auto" : "none";
    } else if (const auto text = scalar_text(node)) {
      setting.value = *text;
    } else {
      throw refuse();
    }
    settings.push_back(std::move(setting));
  }
  // The order of a table is the alphabet's; that of the file says which error is met first.
  std::stable_sort(settings.begin(), settings.end(), [&](const auto& a, const auto& b) {
    return table.find(a.key)->first.source().begin.line < table.find(b.key)->first.source().begin.line;
  });
  return settings;
}

Layout parse_layout_toml(std::string_view text, const std::string& source) {
  if (text.size() > kMostText)
    throw Error({.what = "too long for a layout", .where = source, .expected = "at most " + format_size(kMostText)});
  if (std::count(text.begin(), text.end(), '.') > 1000)  // each may nest a table, and a parser's stack is not endless
    throw Error({.what = "too many dots for a layout", .where = source});
  try {
    const toml::table table = toml::parse(text);
    const toml::table* inner = table.size() == 1 ? table["layout"].as_table() : nullptr;
    return parse_layout(layout_settings(inner ? *inner : table, source));
  } catch (const toml::parse_error& error) {
    throw Error({.what = "not TOML: " + std::string(error.description()),
                 .where = source + ":" + std::to_string(error.source().begin.line)});
  }
}

Layout load_layout(const std::string& text_or_file) {
  const bool file = text_or_file.ends_with(".toml") && text_or_file.find('=') == std::string::npos;
  Layout layout = file ? parse_layout_toml(read_file(text_or_file), text_or_file) : parse_layout(text_or_file);
  if (layout.streams_to_files() && fs::path(layout.streaming).is_relative()) {
    const fs::path folder = file ? fs::path(text_or_file).parent_path() : fs::path();
    layout.streaming = fs::absolute(folder / layout.streaming).lexically_normal().string();
  }
  return layout;
}

}  // namespace ramet::layout
