#include "ramet/serve/url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "ramet/base/error.h"

namespace ramet::serve {
namespace {

constexpr size_t kMostSegments = 32, kMostPairs = 256;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string small(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = small(c);
  return out;
}

/// Text of a message: what a client sent, cut to a length that a person reads.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 120;
  return "'" + std::string(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "") + "'";
}

std::string decoded(std::string_view text, bool plus_is_space) {
  auto out = percent_decode(text, plus_is_space);
  if (!out || out->find('\0') != std::string::npos)
    throw Error({.what = "the address is not well encoded",
                 .found = shown(text),
                 .expected = "UTF-8 with %XX for other characters"});
  return std::move(*out);
}

}  // namespace

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return small(x) == small(y); });
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t more = lead < 0x80 ? 0 : lead >= 0xc2 && lead < 0xe0 ? 1 : lead >= 0xe0 && lead < 0xf0 ? 2 : 3;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || at + more >= text.size()) return false;
    for (size_t i = 1; i <= more; ++i)
      if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return false;
    const auto second = more > 0 ? static_cast<unsigned char>(text[at + 1]) : 0;
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
        (lead == 0xf4 && second > 0x8f))
      return false;
    at += more + 1;
  }
  return true;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[at] == '%') {
      if (at + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[at + 1]), low = hex_value(text[at + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high << 4 | low);
      at += 2;
    } else {
      out += text[at];
    }
  }
  if (!is_utf8(out)) return std::nullopt;
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
        c == '.' || c == '~') {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

Target parse_target(std::string_view target) {
  Target parts;
  if (!target.starts_with('/'))
    throw Error({.what = "the address is no path", .found = shown(target), .expected = "a path that begins with /"});
  const size_t question = std::min(target.find('?'), target.size());
  parts.path = target.substr(0, question);
  for (size_t at = 1; at < parts.path.size();) {
    const size_t end = std::min(parts.path.find('/', at), parts.path.size());
    std::string segment = decoded(std::string_view(parts.path).substr(at, end - at), false);
    if (segment == "." || segment == "..")
      throw Error({.what = "the address leads out of its folder", .found = shown(target)});
    if (parts.segments.size() == kMostSegments) throw Error({.what = "the address is too deep"});
    parts.segments.push_back(std::move(segment));
    at = end + 1;
  }
  if (parts.path.size() > 1 && parts.path.ends_with('/')) parts.segments.emplace_back();
  for (size_t at = question + 1; at < target.size();) {
    const size_t end = std::min(target.find('&', at), target.size());
    const std::string_view pair = target.substr(at, end - at);
    at = end + 1;
    if (pair.empty()) continue;
    if (parts.query.size() == kMostPairs) throw Error({.what = "the query has too many values"});
    const size_t equals = std::min(pair.find('='), pair.size());
    parts.query.emplace_back(decoded(pair.substr(0, equals), true),
                             equals < pair.size() ? decoded(pair.substr(equals + 1), true) : "");
  }
  return parts;
}

std::optional<std::string> Query::text(std::string_view key) {
  asked_.emplace_back(key);
  std::optional<std::string> found;
  for (const auto& [name, value] : pairs_) {
    if (name != key) continue;
    if (found) throw Error({.what = "a key of the query stands twice", .found = shown(key)});
    found = value;
  }
  return found;
}

std::string Query::text_or(std::string_view key, std::string otherwise) {
  auto value = text(key);
  return value ? std::move(*value) : std::move(otherwise);
}

int64_t Query::number(std::string_view key, int64_t otherwise, int64_t least, int64_t most) {
  const auto value = text(key);
  if (!value || value->empty()) return otherwise;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size() || number < least || number > most)
    throw Error({.what = "a value of the query is out of range",
                 .where = std::string(key),
                 .found = shown(*value),
                 .expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most)});
  return number;
}

bool Query::flag(std::string_view key) { return number(key, 0, 0, 1) == 1; }

std::vector<std::string> Query::list(std::string_view key) {
  std::vector<std::string> words;
  const std::string value = text_or(key, "");
  for (size_t at = 0; at < value.size();) {
    const size_t end = std::min(value.find(',', at), value.size());
    if (end > at) words.push_back(value.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

void Query::finish() const {
  for (const auto& [name, value] : pairs_) {
    if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    const std::string near = nearest_name(name, asked_);
    throw Error({.what = "the query has an unknown key",
                 .found = shown(name),
                 .expected = near.empty() ? "" : "perhaps '" + near + "'"});
  }
}

namespace {

std::optional<int> parse_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
    return std::nullopt;
  return port;
}

bool is_ipv4(const std::string& text) {
  in_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1;
}

bool is_ipv6(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace

std::optional<HostPort> parse_host(std::string_view text) {
  HostPort parts;
  std::string_view rest;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    parts.host = small(text.substr(1, end - 1));
    if (!is_ipv6(parts.host)) return std::nullopt;
    parts.is_address = true;
    rest = text.substr(end + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    parts.host = small(text.substr(0, colon));
    rest = text.substr(colon);
    if (parts.host.ends_with('.')) parts.host.pop_back();
    if (parts.host.empty() || parts.host.size() > 253) return std::nullopt;
    for (const char c : parts.host)
      if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_')) return std::nullopt;
    parts.is_address = is_ipv4(parts.host);
  }
  if (rest.empty()) return parts;
  const auto port = rest.starts_with(':') ? parse_port(rest.substr(1)) : std::nullopt;
  if (!port) return std::nullopt;
  parts.port = *port;
  return parts;
}

std::optional<HostPort> parse_origin(std::string_view text) {
  int usual = 0;
  if (text.starts_with("http://"))
    usual = 80, text.remove_prefix(7);
  else if (text.starts_with("https://"))
    usual = 443, text.remove_prefix(8);
  else
    return std::nullopt;
  auto parts = parse_host(text);
  if (parts && parts->port == 0) parts->port = usual;
  return parts;
}

bool is_hash(std::string_view text) {
  return text.size() == 32 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_plain_name(std::string_view text) {
  return !text.empty() && text.size() <= 80 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
  });
}

bool is_file_name(std::string_view text) {
  return !text.empty() && text.size() < 256 && text != "." && text != ".." &&
         text.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace ramet::serve
