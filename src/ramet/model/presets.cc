#include "ramet/model/presets.h"

#include <map>

#include "ramet/base/error.h"

namespace ramet {
namespace {

struct Sizes {
  int64_t layers, hidden, heads;
};

// Devlin et al. 2018, table of section 3; Turc et al. 2019 for the small ones.
const std::vector<std::pair<std::string, Sizes>> kBert = {{"tiny", {2, 128, 2}},   {"mini", {4, 256, 4}},
                                                          {"small", {4, 512, 8}},  {"medium", {8, 512, 8}},
                                                          {"base", {12, 768, 12}}, {"large", {24, 1024, 16}}};
// Radford et al. 2019, table 2.
const std::vector<std::pair<std::string, Sizes>> kGpt2 = {{"mini", {4, 256, 4}},
                                                          {"124m", {12, 768, 12}},
                                                          {"355m", {24, 1024, 16}},
                                                          {"774m", {36, 1280, 20}},
                                                          {"1.5b", {48, 1600, 25}}};

std::vector<std::string> names_of(const std::vector<std::pair<std::string, Sizes>>& presets) {
  std::vector<std::string> names;
  for (const auto& [name, sizes] : presets) names.push_back(name);
  return names;
}

Sizes find(const std::vector<std::pair<std::string, Sizes>>& presets, const std::string& name,
           const std::string& kind) {
  std::string known;
  for (const auto& [candidate, sizes] : presets) {
    if (candidate == name) return sizes;
    known += (known.empty() ? "" : ", ") + candidate;
  }
  throw Error({.what = "unknown preset of " + kind,
               .where = "model.preset",
               .found = "'" + name + "'",
               .expected = "one of " + known});
}

}  // namespace

BertConfig bert_preset(const std::string& name) {
  const Sizes sizes = find(kBert, name, "BERT");
  BertConfig config;
  config.layers = sizes.layers;
  config.hidden = sizes.hidden;
  config.heads = sizes.heads;
  config.intermediate = 4 * sizes.hidden;
  return config;
}

Gpt2Config gpt2_preset(const std::string& name) {
  const Sizes sizes = find(kGpt2, name, "GPT-2");
  Gpt2Config config;
  config.layers = sizes.layers;
  config.hidden = sizes.hidden;
  config.heads = sizes.heads;
  return config;
}

std::vector<std::string> bert_preset_names() { return names_of(kBert); }
std::vector<std::string> gpt2_preset_names() { return names_of(kGpt2); }

}  // namespace ramet
