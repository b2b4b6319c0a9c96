#include "ramet/transform/layers.h"

#include <charconv>

namespace ramet {
namespace {

/// Whether `word` is one of the names that '/' parts.
bool has_component(const std::string& name, const std::string& word) {
  for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || name[at - 1] == '/') && (end == name.size() || name[end] == '/')) return true;
  }
  return false;
}

}  // namespace

int layer_of(const std::string& name) {
  for (size_t at = name.find("layer"); at != std::string::npos; at = name.find("layer", at + 1)) {
    if (at != 0 && name[at - 1] != '/') continue;
    const char *begin = name.data() + at + 5, *end = name.data() + name.size();
    int layer = 0;
    const auto result = std::from_chars(begin, end, layer);
    if (result.ec == std::errc() && (result.ptr == end || *result.ptr == '/')) return layer;
  }
  return -1;
}

bool is_backward(const std::string& name) { return has_component(name, "backward"); }

std::string recomputed(const std::string& name) { return name + "/recompute"; }
bool is_recomputed(const std::string& name) { return has_component(name, "recompute"); }

}  // namespace ramet
