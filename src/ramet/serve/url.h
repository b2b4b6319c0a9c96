#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::serve {

/// Whether two words are the same but for the case of ASCII letters.
bool same_letters(std::string_view a, std::string_view b);

/// Undoes percent encoding; nullopt for a '%' without two hexadecimal digits, and for bytes that are not UTF-8.
/// `plus_is_space`: as in queries.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);
/// The reverse, for one segment of a path.
std::string percent_encode(std::string_view text);
/// Whether bytes are UTF-8: no overlong forms, no surrogates.
bool is_utf8(std::string_view text);

/// A request's target, taken apart: path segments and query pairs, decoded, in their order.
struct Target {
  std::string path;                   ///< as written, without the query
  std::vector<std::string> segments;  ///< "/api/v1/runs" -> api, v1, runs; "/" -> none
  std::vector<std::pair<std::string, std::string>> query;
};
/// Throws Error for a target that does not begin with '/', bad percent encoding, segments "." and "..", NUL bytes.
Target parse_target(std::string_view target);

/// The query's pairs, each of which must be asked for: `finish` throws Error for one that was not, and `text` for one
/// that stands twice.
class Query {
 public:
  explicit Query(const std::vector<std::pair<std::string, std::string>>& pairs) : pairs_(pairs) {}

  std::optional<std::string> text(std::string_view key);
  std::string text_or(std::string_view key, std::string otherwise);
  /// A whole number within [least, most].
  int64_t number(std::string_view key, int64_t otherwise, int64_t least, int64_t most);
  bool flag(std::string_view key);  ///< "1" or "0"; absent is false
  /// Words between commas; none for an empty value.
  std::vector<std::string> list(std::string_view key);
  void finish() const;

 private:
  const std::vector<std::pair<std::string, std::string>>& pairs_;
  std::vector<std::string> asked_;
};

/// The name and the port of a Host header, or of the authority of an Origin: "localhost", 8080. nullopt when malformed.
struct HostPort {
  std::string host;  ///< in small letters; of an IPv6 address without its brackets
  int port = 0;      ///< 0: none given
  bool is_address = false;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};
std::optional<HostPort> parse_host(std::string_view text);
/// "http://localhost:8080" -> its host and port, 80 or 443 where none is given; nullopt for "null" and others.
std::optional<HostPort> parse_origin(std::string_view text);

/// Whether text is 32 hexadecimal digits in small letters, as ramet::Hash prints.
bool is_hash(std::string_view text);
/// Whether text may name a file of ours: [a-z0-9-]{1,80}.
bool is_plain_name(std::string_view text);
/// Whether text is one name in a folder: not empty, no '/', no NUL, not "." and "..".
bool is_file_name(std::string_view text);

}  // namespace ramet::serve
