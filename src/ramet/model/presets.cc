#include "ramet/model/presets.h"


#include "ramet/base/error.h"

namespace ramet::model {
namespace {

struct Sizes {
  int64_t layers, hidden, heads;
};

// Devlin et al. 2018, table of section 3; Turc et al. 2019 for the small ones.
const std::vector<std::pair<std::string, Sizes>> kBert = {{"tiny", {2, 128, 2}},   {"mini", {4, 256, 4}},
                                                          {"small", {4, 512, 8}},  {"medium", {8, 512, 8}},
                                                          {"base", {12, 768, 12}}, {"large", {24, 1024, 16}}};
// Wang et al. 2020, table 2.
const std::vector<std::pair<std::string, Sizes>> kMiniLm = {{"minilm-l6", {6, 384, 12}}, {"minilm-l12", {12, 384, 12}}};
// Radford et al. 2019, table 2.
const std::vector<std::pair<std::string, Sizes>> kGpt2 = {{"mini", {4, 256, 4}},
                                                          {"124m", {12, 768, 12}},
                                                          {"355m", {24, 1024, 16}},
                                                          {"774m", {36, 1280, 20}},
                                                          {"1.5b", {48, 1600, 25}}};

std::vector<std::pair<std::string, Sizes>> presets_of(BertFamily family) {
  std::vector<std::pair<std::string, Sizes>> presets = kBert;
  if (family == BertFamily::kBert) presets.insert(presets.end(), kMiniLm.begin(), kMiniLm.end());
  for (auto& [name, sizes] : presets)
    if (family == BertFamily::kDistilBert && name == "base") sizes.layers = 6;  // Sanh et al. 2019, section 3
  return presets;
}

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

std::optional<BertFamily> bert_family(const std::string& kind) {
  if (kind == "bert") return BertFamily::kBert;
  if (kind == "roberta") return BertFamily::kRoberta;
  if (kind == "distilbert") return BertFamily::kDistilBert;
  return {};
}

Activation activation_from_name(const std::string& name) {
  for (const auto& [known, activation] :
       {std::pair{"gelu", Activation::kGelu}, {"gelu_tanh", Activation::kGeluTanh}, {"relu", Activation::kRelu}})
    if (name == known) return activation;
  throw Error({.what = "unknown activation",
               .where = "model.activation",
               .found = "'" + name + "'",
               .expected = "one of gelu, gelu_tanh, relu"});
}

int64_t first_position(BertFamily family) { return family == BertFamily::kRoberta ? 2 : 0; }

BertConfig bert_preset(const std::string& name, BertFamily family) {
  const Sizes sizes = find(presets_of(family), name, "BERT");
  BertConfig config;
  config.family = family;
  if (family == BertFamily::kRoberta) config.vocabulary = 50265, config.types = 1, config.epsilon = 1e-5;
  if (family == BertFamily::kDistilBert) config.types = 0;
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

std::vector<std::string> bert_preset_names(BertFamily family) { return names_of(presets_of(family)); }
std::vector<std::string> gpt2_preset_names() { return names_of(kGpt2); }

}  // namespace ramet::model
