#include "ramet/transform/layers.h"

#include <algorithm>
#include <charconv>

namespace ramet::transform {
namespace {

/// Where `word` is one of the names that '/' parts; npos when it is none.
size_t find_component(const std::string& name, const std::string& word) {
  for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || name[at - 1] == '/') && (end == name.size() || name[end] == '/')) return at;
  }
  return std::string::npos;
}

bool has_component(const std::string& name, const std::string& word) {
  return find_component(name, word) != std::string::npos;
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

std::string forward_name(const std::string& name) {
  const size_t end = std::min(find_component(name, "backward"), find_component(name, "recompute"));
  return end == std::string::npos || end == 0 ? name : name.substr(0, end - 1);
}

std::string recomputed(const std::string& name) { return name + "/recompute"; }
bool is_recomputed(const std::string& name) { return has_component(name, "recompute"); }

std::vector<int> backward_layers(const Graph& micro, const std::vector<bool>& backward, size_t layers) {
  std::vector<int> result(micro.nodes().size(), -1);
  int at = static_cast<int>(layers);
  for (size_t n = 0; n < result.size(); ++n) {
    if (!backward[n]) continue;
    if (const int own = layer_of(micro.nodes()[n].name); own >= 0) at = own;
    result[n] = at;
  }
  return result;
}

}  // namespace ramet::transform
