#include "ramet/track/annotations.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* kFile = "annotations.json";
constexpr size_t kMostBytes = 200, kMostNote = 256 << 10, kMostTags = 100, kMostFile = 4 << 20;

/// Whether bytes are UTF-8: json prints nothing else.
bool is_text(std::string_view text) {
  try {
    (void)json(text).dump();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}
bool is_line(std::string_view text) {
  return text.size() <= kMostBytes && is_text(text) &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}
bool is_colour(std::string_view text) {
  return text.empty() || (text.size() == 7 && text[0] == '#' &&
                          text.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string_view::npos);
}

json parse_object(std::string_view text) {
  if (text.size() > kMostFile) return json();
  int depth = 0, most = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') most = std::max(most, ++depth);
    if (c == '}' || c == ']') --depth;
  }
  if (most > 64) return json();
  const json parsed = json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : json();
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}
bool truth_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

Annotations annotations_of(const json& object) {
  Annotations all;
  if (!object.is_object()) return all;
  if (const auto tags = object.find("tags"); tags != object.end() && tags->is_array())
    for (const auto& tag : *tags)
      if (tag.is_string() && !tag.get<std::string>().empty() && is_line(tag.get<std::string>()) &&
          all.tags.size() < kMostTags)
        all.tags.push_back(tag.get<std::string>());
  std::sort(all.tags.begin(), all.tags.end());
  all.tags.erase(std::unique(all.tags.begin(), all.tags.end()), all.tags.end());
  all.note = text_at(object, "note").substr(0, kMostNote);
  for (const auto& [key, value] : {std::pair("group", &all.group), {"colour", &all.colour}, {"name", &all.name}})
    if (std::string text = text_at(object, key); is_line(text)) *value = std::move(text);
  if (!is_colour(all.colour)) all.colour.clear();
  all.pinned = truth_at(object, "pinned"), all.archived = truth_at(object, "archived");
  return all;
}

[[noreturn]] void refuse(const std::string& what, const std::string& found, const std::string& expected) {
  throw Error(
      {.what = "this " + what + " is not allowed", .found = "'" + found.substr(0, 60) + "'", .expected = expected});
}

void check(const AnnotationChanges& changes) {
  const std::string line = "one line of UTF-8, at most 200 bytes";
  const auto check_tags = [&](const std::vector<std::string>& tags) {
    for (const auto& tag : tags)
      if (tag.empty() || !is_line(tag)) refuse("tag", tag, line);
  };
  if (changes.tags) check_tags(*changes.tags);
  check_tags(changes.added_tags);
  if (changes.group && !is_line(*changes.group)) refuse("group", *changes.group, line);
  if (changes.name && !is_line(*changes.name)) refuse("name", *changes.name, line);
  if (changes.colour && !is_colour(*changes.colour)) refuse("colour", *changes.colour, "#rrggbb, or nothing");
  if (changes.note && (changes.note->size() > kMostNote || !is_text(*changes.note)))
    refuse("note", *changes.note, "at most 256 KiB of UTF-8");
}

/// Holds a run's folder: two processes that annotate it take turns.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace

Annotations parse_annotations(std::string_view text) { return annotations_of(parse_object(text)); }

Annotations read_annotations(const fs::path& run) {
  try {
    return parse_annotations(read_file(run / kFile));
  } catch (const Error&) {
    return {};
  }
}

Annotations annotate_run(const fs::path& run, const AnnotationChanges& changes) {
  check(changes);
  const FolderLock lock(run);
  const fs::path path = run / kFile;
  std::error_code error;
  json object = json::object();
  if (fs::exists(path, error)) {
    const std::string text = read_file(path);
    object = parse_object(text);
    if (!object.is_object()) {
      if (text.find_first_not_of(" \t\r\n") != std::string::npos)
        write_file_atomic(run / "annotations.json.damaged", text);
      object = json::object();
    }
  }
  Annotations all = annotations_of(object);
  if (changes.tags) all.tags = *changes.tags;
  all.tags.insert(all.tags.end(), changes.added_tags.begin(), changes.added_tags.end());
  std::erase_if(all.tags, [&](const std::string& tag) {
    return std::find(changes.removed_tags.begin(), changes.removed_tags.end(), tag) != changes.removed_tags.end();
  });
  std::sort(all.tags.begin(), all.tags.end());
  all.tags.erase(std::unique(all.tags.begin(), all.tags.end()), all.tags.end());
  if (all.tags.size() > kMostTags) refuse("number of tags", std::to_string(all.tags.size()), "at most 100");
  if (changes.note) all.note = *changes.note;
  if (changes.group) all.group = *changes.group;
  if (changes.colour) all.colour = *changes.colour;
  if (changes.name) all.name = *changes.name;
  if (changes.pinned) all.pinned = *changes.pinned;
  if (changes.archived) all.archived = *changes.archived;
  object["version"] = 1;
  object["tags"] = all.tags, object["note"] = all.note, object["group"] = all.group;
  object["pinned"] = all.pinned, object["colour"] = all.colour, object["archived"] = all.archived;
  object["name"] = all.name;
  write_file_atomic(path, object.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  return all;
}

}  // namespace ramet::track
