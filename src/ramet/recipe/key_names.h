#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::recipe {

// Names of keys in a file of TOML: "train.schedule.kind" is the key "kind" of the table "train.schedule". A table of
// keys is a vector of entries that have a `name`.

inline std::string leaf_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }
inline std::string table_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

/// The key of that name, or null.
template <typename Key>
const Key* find_key(const std::vector<Key>& keys, const std::string& name) {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

/// Whether any key is in the table of that name.
template <typename Key>
bool is_table(const std::vector<Key>& keys, const std::string& name) {
  return std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return key.name.starts_with(name + "."); });
}

}  // namespace ramet::recipe
