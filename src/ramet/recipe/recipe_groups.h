#pragma once

#include <string>
#include <vector>

#include "ramet/base/toml.h"
#include "ramet/train/train_options.h"

namespace ramet::recipe {

/// Groups of a recipe: `[[train.groups]]` tables, or a list of inline tables. `place` is where the list stands, `file`
/// the name of its file ("" for --set). Throws Error with the line of the fault.
std::vector<GroupOptions> parse_groups(const toml::node& node, const std::string& place, const std::string& file);

/// As one line of TOML that parses back; empty when there are none.
std::string text_of(const std::vector<GroupOptions>& groups);

/// What each key of a group means, for people.
std::string group_keys_doc();

}  // namespace ramet::recipe
