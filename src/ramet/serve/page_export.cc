#include "ramet/serve/page_export.h"

#include <map>
#include <span>

#include "ramet/base/base64.h"
#include "ramet/base/error.h"
#include "ramet/serve/assets.h"
#include "ramet/serve/url.h"

namespace ramet::serve {
namespace {

/// Replaces every occurrence, whatever its case; `by` keeps the letters of what follows the mark.
std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; at + from.size() <= text.size(); ++at) {
    if (text[at] != from[0] || !same_letters(std::string_view(text).substr(at, from.size()), from)) continue;
    text.replace(at, from.size(), to);
    at += to.size() - 1;
  }
  return text;
}

/// A tag of HTML: `<link rel="stylesheet" href=x>`.
struct Tag {
  std::string name;  ///< in small letters
  std::map<std::string, std::string> attributes;
  size_t begin = 0, end = 0;  ///< in the page
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The tag that begins at '<'; nullopt for comments, ends and text.
std::optional<Tag> read_tag(std::string_view html, size_t at) {
  Tag tag;
  tag.begin = at;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (++at; at < html.size() && letter(html[at]); ++at) tag.name += static_cast<char>(html[at] | 0x20);
  if (tag.name.empty()) return std::nullopt;
  while (at < html.size() && html[at] != '>') {
    if (is_space(html[at]) || html[at] == '/') {
      ++at;
      continue;
    }
    std::string key, value;
    for (; at < html.size() && html[at] != '=' && html[at] != '>' && html[at] != '/' && !is_space(html[at]); ++at)
      key += html[at];
    if (at < html.size() && html[at] == '=') {
      const char quote = ++at < html.size() && (html[at] == '"' || html[at] == '\'') ? html[at++] : '\0';
      for (; at < html.size() && (quote ? html[at] != quote : html[at] != '>' && !is_space(html[at])); ++at)
        value += html[at];
      if (quote && at < html.size()) ++at;
    }
    tag.attributes[key] = value;
  }
  if (at >= html.size()) return std::nullopt;
  tag.end = at + 1;
  return tag;
}

/// "/assets/x.js" and "./assets/x.js" -> "assets/x.js".
std::string asset_name(std::string name) {
  if (name.starts_with("./")) name.erase(0, 2);
  if (name.starts_with("/")) name.erase(0, 1);
  return name.substr(0, name.find_first_of("?#"));
}

class PageInliner {
 public:
  PageInliner(std::string_view html, std::string_view data,
              const std::function<std::optional<std::string>(const std::string&)>& file)
      : html_(html), data_(data), file_(file) {}

  std::string run() {
    for (size_t at = 0; at < html_.size();) {
      const auto tag = html_[at] == '<' ? read_tag(html_, at) : std::nullopt;
      if (!tag) {
        out_ += html_[at++];
        continue;
      }
      at = tag->end;
      if (tag->name == "script" && tag->attributes.contains("src"))
        at = script(*tag);
      else if (tag->name == "link")
        link(*tag);
      else
        keep(*tag);
    }
    if (!has_data_) throw Error({.what = "the page has no script", .where = "index.html"}, ErrorKind::kFailure);
    return std::move(out_);
  }

 private:
  void keep(const Tag& tag) { out_ += html_.substr(tag.begin, tag.end - tag.begin); }

  std::string text_of(const std::string& name) const {
    auto text = file_(asset_name(name));
    if (!text) throw Error({.what = "the page names a file that is not there", .where = name}, ErrorKind::kFailure);
    return std::move(*text);
  }

  size_t script(const Tag& tag) {
    if (!has_data_) out_ += "<script>window.__RAMET_EXPORT__ = " + script_json(data_) + ";</script>\n";
    has_data_ = true;
    const std::string code = text_of(tag.attributes.at("src"));
    const auto type = tag.attributes.find("type");
    out_ += type == tag.attributes.end() ? "<script>" : "<script type=\"" + type->second + "\">";
    // The only places of these are texts and patterns of the script, where a backslash changes nothing.
    out_ += replace_all(replace_all(code, "</script", "<\\/script"), "<!--", "<\\!--");
    out_ += "</script>";
    const size_t end = html_.find("</script>", tag.end);
    return end == std::string_view::npos ? tag.end : end + 9;
  }

  void link(const Tag& tag) {
    const auto rel = tag.attributes.find("rel"), href = tag.attributes.find("href");
    const std::string kind = rel == tag.attributes.end() ? "" : rel->second;
    if (kind == "stylesheet" && href != tag.attributes.end())
      out_ += "<style>" + replace_all(text_of(href->second), "</style", "<\\/style") + "</style>";
    else if (kind == "icon" && href != tag.attributes.end() && !href->second.starts_with("data:"))
      icon(href->second);
    else if (kind != "modulepreload" && kind != "preload" && kind != "manifest")
      keep(tag);
  }

  void icon(const std::string& name) {
    const auto bytes = file_(asset_name(name));
    if (!bytes) return;
    out_ += "<link rel=\"icon\" href=\"data:" + content_type_of(asset_name(name)) + ";base64," + base64_text(*bytes) +
            "\">";
  }

  std::string_view html_, data_;
  const std::function<std::optional<std::string>(const std::string&)>& file_;
  std::string out_;
  bool has_data_ = false;
};

}  // namespace

std::string base64_text(std::string_view bytes) { return base64(std::as_bytes(std::span(bytes))); }

std::string script_json(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  for (size_t at = 0; at < json.size(); ++at) {
    const std::string_view rest = json.substr(at, 3);
    if (json[at] == '<') {
      out += "\\u003c";
    } else if (rest == "\xe2\x80\xa8" || rest == "\xe2\x80\xa9") {
      out += rest == "\xe2\x80\xa8" ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      out += json[at];
    }
  }
  return out;
}

std::string single_file_page(std::string_view html, std::string_view data,
                             const std::function<std::optional<std::string>(const std::string&)>& file) {
  return PageInliner(html, data, file).run();
}

}  // namespace ramet::serve
