#include "ramet/model/hugging_face.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "ramet/base/error.h"
#include "ramet/model/safetensors.h"

namespace ramet {
namespace {

constexpr std::string_view kJoined = ".self.qkv.";
constexpr std::array<std::string_view, 3> kParts = {".self.query.", ".self.key.", ".self.value."};

/// The tensors of the file that make up one weight: one, or query, key and value one below the other.
std::vector<std::string> file_names(const std::string& weight) {
  const size_t at = weight.find(kJoined);
  if (at == std::string::npos) return {weight};
  std::vector<std::string> names;
  for (std::string_view part : kParts)
    names.push_back(weight.substr(0, at) + std::string(part) + weight.substr(at + kJoined.size()));
  return names;
}

TensorType part_type(const TensorType& type, size_t parts) {
  if (parts == 1) return type;
  std::vector<int64_t> dims = type.shape.dims();
  dims[0] /= static_cast<int64_t>(parts);
  return {type.dtype, Shape(dims)};
}

bool replace_suffix(std::string& name, std::string_view from, std::string_view to) {
  if (name.size() < from.size() || name.compare(name.size() - from.size(), from.size(), from) != 0) return false;
  name.replace(name.size() - from.size(), from.size(), to);
  return true;
}

/// What of a weight is in a file.
TensorType file_type(const StateTensor& weight, size_t parts) { return part_type(weight.unpadded(), parts); }

/// The entry under any of the names that published files use for it.
const SafetensorsEntry* find_entry(const SafetensorsReader& file, const std::string& name) {
  std::vector<std::string> candidates = {name};
  for (std::string_view prefix : {"bert.", "transformer."})
    if (name.rfind(prefix, 0) == 0) candidates.push_back(name.substr(prefix.size()));
  for (size_t i = 0, count = candidates.size(); i < count; ++i) {
    std::string old = candidates[i];
    if (old.find("LayerNorm") != std::string::npos &&
        (replace_suffix(old, ".weight", ".gamma") || replace_suffix(old, ".bias", ".beta")))
      candidates.push_back(old);
  }
  for (const auto& candidate : candidates)
    if (const SafetensorsEntry* entry = file.find(candidate)) return entry;
  return nullptr;
}

/// Tensors that published files carry and that hold nothing of their own: tied copies, masks, position numbers.
bool is_redundant(const std::string& name) {
  static const std::array<std::string_view, 7> kSuffixes = {"cls.predictions.decoder.weight",
                                                            "cls.predictions.decoder.bias",
                                                            "lm_head.weight",
                                                            ".attn.bias",
                                                            ".attn.masked_bias",
                                                            "embeddings.position_ids",
                                                            "embeddings.token_type_ids"};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(), [&](std::string_view suffix) {
    return name.size() >= suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
  });
}

struct Source {
  const StateTensor* weight;
  std::vector<const SafetensorsEntry*> parts;
};

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 8; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > 8) text += " and " + std::to_string(names.size() - 8) + " more";
  return text;
}

std::vector<Source> match(const SafetensorsReader& file, const std::vector<StateTensor>& weights) {
  std::vector<Source> sources;
  std::vector<std::string> missing, wrong, extra;
  std::set<const SafetensorsEntry*> used;
  for (const StateTensor& weight : weights) {
    Source source{&weight, {}};
    std::vector<std::string> names = file_names(weight.name);
    if (find_entry(file, weight.name)) names = {weight.name};
    for (const auto& name : names) {
      const SafetensorsEntry* entry = find_entry(file, name);
      if (!entry) {
        missing.push_back(name);
        continue;
      }
      used.insert(entry);
      const Shape expected = file_type(weight, names.size()).shape;
      if (entry->type.shape != expected || !is_floating(entry->type.dtype))
        wrong.push_back(name + " is " + entry->type.text() + ", the model has " + expected.text());
      source.parts.push_back(entry);
    }
    sources.push_back(std::move(source));
  }
  for (const auto& entry : file.tensors())
    if (!used.count(&entry) && !is_redundant(entry.name)) extra.push_back(entry.name);
  if (missing.empty() && wrong.empty() && extra.empty()) return sources;
  std::string found;
  if (!missing.empty()) found += "missing: " + list_of(missing);
  if (!wrong.empty()) found += (found.empty() ? "" : "; ") + ("of another shape: " + list_of(wrong));
  if (!extra.empty()) found += (found.empty() ? "" : "; ") + ("unknown to the model: " + list_of(extra));
  throw Error({.what = "the file's tensors are not the model's",
               .where = file.path().string(),
               .found = found,
               .remedy = "Check model.kind, model.preset and model.vocabulary_size against the file"});
}

void widen(const SafetensorsReader& file, const SafetensorsEntry& entry, float* to) {
  const std::byte* bytes = file.bytes(entry).data();
  const int64_t count = entry.type.elements();
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(load_element(bytes, entry.type.dtype, i));
}

}  // namespace

void import_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights,
                    const std::function<void(const std::string&, std::span<const std::byte>)>& write) {
  const SafetensorsReader file(path);
  std::vector<float> buffer;
  for (const Source& source : match(file, weights)) {
    buffer.assign(static_cast<size_t>(source.weight->type.elements()), 0.0f);
    float* to = buffer.data();
    for (const SafetensorsEntry* part : source.parts) {
      widen(file, *part, to);
      to += part->type.elements();
    }
    write(source.weight->name, std::as_bytes(std::span(buffer)));
  }
}

void export_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights,
                    const std::function<void(const std::string&, std::span<std::byte>)>& read) {
  std::vector<SafetensorsSpec> specs;
  for (const StateTensor& weight : weights) {
    const auto names = file_names(weight.name);
    for (const auto& name : names) specs.push_back({name, file_type(weight, names.size())});
  }
  SafetensorsWriter writer(path, specs, {{"format", "pt"}});
  std::vector<std::byte> buffer;
  for (const StateTensor& weight : weights) {
    buffer.resize(static_cast<size_t>(weight.type.bytes()));
    read(weight.name, buffer);
    // The parts of a joined weight follow each other both here and in the file; padding stands behind all.
    writer.write(buffer.data(), static_cast<size_t>(weight.unpadded().bytes()));
  }
  writer.close();
}

}  // namespace ramet
