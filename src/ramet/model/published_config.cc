#include "ramet/model/published_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/model/presets.h"

namespace ramet::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// What a family calls its sizes; empty: it has no such key.
struct Keys {
  const char *kind, *layers, *hidden, *heads, *intermediate, *positions, *types, *dropout, *attention_dropout, *epsilon,
      *activation;
};
constexpr std::array kKeys = {
    Keys{"bert", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
         "max_position_embeddings", "type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob",
         "layer_norm_eps", "hidden_act"},
    Keys{"roberta", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
         "max_position_embeddings", "type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob",
         "layer_norm_eps", "hidden_act"},
    Keys{"distilbert", "n_layers", "dim", "n_heads", "hidden_dim", "max_position_embeddings", "", "dropout",
         "attention_dropout", "", "activation"},
    Keys{"gpt2", "n_layer", "n_embd", "n_head", "n_inner", "n_positions", "", "resid_pdrop", "attn_pdrop",
         "layer_norm_epsilon", "activation_function"}};

struct ActivationName {
  const char *published, *ours;
};
constexpr std::array kActivations = {ActivationName{"gelu", "gelu"}, ActivationName{"gelu_new", "gelu_tanh"},
                                     ActivationName{"gelu_pytorch_tanh", "gelu_tanh"}, ActivationName{"relu", "relu"}};

int64_t first_position_of(const std::string& kind) {
  return first_position(kind == "roberta" ? BertFamily::kRoberta : BertFamily::kBert);
}

class ConfigReader {
 public:
  ConfigReader(const Json& json, const fs::path& path) : json_(json), path_(path) {}

  PublishedConfig read() const {
    const std::string kind = text("model_type", "");
    const auto keys = std::find_if(kKeys.begin(), kKeys.end(), [&](const Keys& each) { return kind == each.kind; });
    if (keys == kKeys.end()) refuse("model_type", "a model of a kind that is not built in", "bert, roberta, distilbert or gpt2");
    if (const std::string positions = text("position_embedding_type", "absolute"); positions != "absolute")
      refuse("position_embedding_type", "positions of a kind that is not built in", "absolute");
    if (flag("is_decoder") || flag("add_cross_attention")) refuse("is_decoder", "a decoder is not built in", "false");
    PublishedConfig config;
    config.kind = kind;
    config.layers = size(keys->layers), config.hidden = size(keys->hidden), config.heads = size(keys->heads);
    config.intermediate = 4 * config.hidden;
    if (json_.contains(keys->intermediate) && !json_[keys->intermediate].is_null())
      config.intermediate = size(keys->intermediate);
    config.vocabulary = size("vocab_size");
    config.positions = size(keys->positions) - first_position_of(kind);
    if (*keys->types) config.types = size(keys->types);
    config.dropout = number(keys->dropout, 0.1, 0, 0.99);
    config.attention_dropout = number(keys->attention_dropout, 0.1, 0, 0.99);
    config.epsilon = number(keys->epsilon, kind == "gpt2" || kind == "roberta" ? 1e-5 : 1e-12, 1e-30, 1);
    config.activation = activation(keys->activation, kind == "gpt2" ? "gelu_new" : "gelu");
    check_gpt2(config);
    config.labels = labels();
    return config;
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& what, const std::string& expected) const {
    throw Error({.what = what,
                 .where = path_.string() + " '" + key + "'",
                 .found = json_.contains(key) ? json_[key].dump().substr(0, 100) : "nothing",
                 .expected = expected});
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    if (!json_.contains(key) || json_[key].is_null()) return otherwise;
    if (!json_[key].is_string()) refuse(key, "not a text", "a text");
    return json_[key].get<std::string>();
  }
  bool flag(const std::string& key) const { return json_.contains(key) && json_[key] == true; }
  int64_t size(const std::string& key) const {
    if (!json_.contains(key) || !json_[key].is_number_integer() || json_[key] < 1 || json_[key] > 100'000'000)
      refuse(key, "not a size", "a whole number from 1 to 100000000");
    return json_[key].get<int64_t>();
  }
  double number(const std::string& key, double otherwise, double low, double high) const {
    if (key.empty() || !json_.contains(key) || json_[key].is_null()) return otherwise;
    if (!json_[key].is_number() || json_[key] < low || json_[key] > high) refuse(key, "out of range", "a small number");
    return json_[key].get<double>();
  }
  std::string activation(const std::string& key, const std::string& otherwise) const {
    const std::string name = text(key, otherwise);
    for (const auto& known : kActivations)
      if (name == known.published) return known.ours;
    refuse(key, "an activation that is not built in", "gelu, gelu_new, gelu_pytorch_tanh or relu");
  }
  void check_gpt2(const PublishedConfig& config) const {
    if (config.kind != "gpt2") return;
    if (config.intermediate != 4 * config.hidden) refuse("n_inner", "a width that is not built in", "4 x n_embd, or null");
    if (config.activation != "gelu_tanh") refuse("activation_function", "an activation that is not built in", "gelu_new");
    for (const char* key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"})
      if (flag(key)) refuse(key, "attention of a kind that is not built in", "false");
  }
  std::vector<std::string> labels() const {
    std::vector<std::string> names;
    if (!json_.contains("id2label") || !json_["id2label"].is_object()) return names;
    for (size_t i = 0; i < json_["id2label"].size(); ++i) {
      const auto found = json_["id2label"].find(std::to_string(i));
      if (found == json_["id2label"].end() || !found->is_string()) return {};
      names.push_back(found->get<std::string>());
    }
    return names;
  }

  const Json& json_;
  const fs::path& path_;
};

}  // namespace

std::optional<PublishedConfig> read_published_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const Json json = Json::parse(read_file(path), nullptr, false);
  if (!json.is_object()) throw Error({.what = "not a configuration of a model", .where = path.string(), .expected = "a JSON object"});
  return ConfigReader(json, path).read();
}

std::string print_published_config(const PublishedConfig& config, const std::string& architecture, bool regression) {
  const Keys& keys =
      *std::find_if(kKeys.begin(), kKeys.end(), [&](const Keys& each) { return config.kind == each.kind; });
  const bool gpt2 = config.kind == "gpt2";
  Json json;
  json["architectures"] = {architecture};
  json["model_type"] = config.kind;
  json[keys.layers] = config.layers;
  json[keys.hidden] = config.hidden;
  json[keys.heads] = config.heads;
  if (!gpt2) json[keys.intermediate] = config.intermediate;
  json["vocab_size"] = config.vocabulary;
  json[keys.positions] = config.positions + first_position_of(config.kind);
  if (*keys.types) json[keys.types] = config.types;
  json[keys.dropout] = config.dropout;
  if (gpt2) json["embd_pdrop"] = config.dropout;
  json[keys.attention_dropout] = config.attention_dropout;
  if (*keys.epsilon) json[keys.epsilon] = config.epsilon;
  for (const auto& known : kActivations)
    if (config.activation == known.ours) {
      json[keys.activation] = known.published;
      break;
    }
  if (config.kind == "roberta") json["pad_token_id"] = 1, json["bos_token_id"] = 0, json["eos_token_id"] = 2;
  if (config.kind == "bert" || config.kind == "distilbert") json["pad_token_id"] = 0;
  json["torch_dtype"] = "float32";
  if (!config.labels.empty()) {
    for (size_t i = 0; i < config.labels.size(); ++i) json["id2label"][std::to_string(i)] = config.labels[i];
    for (size_t i = 0; i < config.labels.size(); ++i) json["label2id"][config.labels[i]] = i;
  }
  if (regression) json["problem_type"] = "regression", json["num_labels"] = 1;
  return json.dump(2) + "\n";
}

}  // namespace ramet::model
