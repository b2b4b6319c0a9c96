#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::track {

/// What people say of a run: RUN/annotations.json.
///
///     {"version":1,"tags":[...],"note":"Markdown","group":"...","pinned":bool,"colour":"#rrggbb","archived":bool,
///      "name":"..."}
struct Annotations {
  std::vector<std::string> tags;  ///< each once, in alphabetical order
  std::string note;               ///< Markdown
  std::string group;
  std::string colour;  ///< "#rrggbb", or ""
  std::string name;    ///< shown instead of the recipe's; ""
  bool pinned = false, archived = false;

  friend bool operator==(const Annotations&, const Annotations&) = default;
};

/// What is to change; all else stays.
struct AnnotationChanges {
  std::optional<std::vector<std::string>> tags{};                ///< in place of all
  std::vector<std::string> added_tags{}, removed_tags{};         ///< after `tags`
  std::optional<std::string> note{}, group{}, colour{}, name{};  ///< "" takes away
  std::optional<bool> pinned{}, archived{};
};

/// Reads the text of an annotations.json. What has a wrong type is left out; text that is no JSON object gives empty
/// annotations. Never fails.
Annotations parse_annotations(std::string_view text);
/// The annotations of a run; empty where it has none or they cannot be read.
Annotations read_annotations(const std::filesystem::path& run);

/// Changes the file as a whole or not at all, one process after another; keys of other versions stay as they are. A
/// file that is no JSON object is kept aside as annotations.json.damaged. Throws Error for a tag, a name, a group or a
/// colour that is not allowed (tags, names and groups: one line of UTF-8, at most 200 bytes; notes: at most 256 KiB),
/// and when the folder cannot be written. Returns what holds afterwards.
Annotations annotate_run(const std::filesystem::path& run, const AnnotationChanges& changes);

}  // namespace ramet::track
