#include "ramet/train/publish.h"

#include <map>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/presets.h"
#include "ramet/model/published_config.h"
#include "ramet/text/task_head.h"

namespace ramet::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> labels_of(const Recipe& recipe) {
  const auto head = task_head_from_name(recipe.task.head);
  if (head != TaskHead::kClassification && head != TaskHead::kTokens) return {};
  std::vector<std::string> labels;
  for (size_t at = 0; !recipe.task.labels.empty() && at <= recipe.task.labels.size();) {
    const size_t end = std::min(recipe.task.labels.find(',', at), recipe.task.labels.size());
    labels.push_back(recipe.task.labels.substr(at, end - at));
    at = end + 1;
  }
  if (std::ssize(labels) == recipe.task.classes.value_or(0)) return labels;
  labels.clear();
  for (int64_t i = 0; i < recipe.task.classes.value_or(0); ++i) labels.push_back("LABEL_" + std::to_string(i));
  return labels;
}

PublishedConfig config_of(const Recipe& recipe) {
  const auto& model = recipe.model;
  PublishedConfig config;
  config.kind = model.kind;
  config.layers = *model.layers, config.hidden = *model.hidden, config.heads = *model.heads;
  config.intermediate = model.intermediate.value_or(4 * *model.hidden);
  config.vocabulary = *model.vocabulary_size, config.positions = *model.max_positions;
  config.dropout = *model.dropout, config.attention_dropout = *model.attention_dropout;
  if (const auto family = bert_family(model.kind)) {
    const BertConfig preset = bert_preset(model.preset, *family);
    config.types = model.types.value_or(preset.types), config.epsilon = model.epsilon.value_or(preset.epsilon);
    config.activation = model.activation.empty() ? "gelu" : model.activation;
  } else {
    config.epsilon = model.epsilon.value_or(Gpt2Config().epsilon);
    config.activation = "gelu_tanh";
  }
  if (recipe.is_task()) config.labels = labels_of(recipe);
  return config;
}

/// RoBERTa's tokenizer is GPT-2's with other special tokens, which its own class adds.
void save_tokenizer(const fs::path& folder, const Recipe& recipe, const Tokenizer& tokenizer) {
  tokenizer.save(folder);
  if (tokenizer.kind() != "bpe" || recipe.model.kind != "roberta") return;
  const fs::path path = folder / "tokenizer_config.json";
  auto config = nlohmann::ordered_json::parse(read_file(path));
  config["tokenizer_class"] = "RobertaTokenizer";
  write_file_atomic(path, config.dump(2) + "\n");
}

}  // namespace

std::string published_class(const Recipe& recipe) {
  if (recipe.model.kind == "gpt2") return "GPT2LMHeadModel";
  static const std::map<std::string, std::string> kFamilies = {
      {"bert", "Bert"}, {"roberta", "Roberta"}, {"distilbert", "DistilBert"}};
  const std::string family = kFamilies.at(recipe.model.kind) + "For";
  if (!recipe.is_task()) return family + (recipe.data.next_sentence ? "PreTraining" : "MaskedLM");
  switch (task_head_from_name(recipe.task.head)) {
    case TaskHead::kClassification:
    case TaskHead::kRegression: return family + "SequenceClassification";
    case TaskHead::kSpan: return family + "QuestionAnswering";
    case TaskHead::kTokens: return family + "TokenClassification";
    case TaskHead::kChoice: return family + "MultipleChoice";
  }
  return family;
}

void publish_model(const fs::path& folder, const Recipe& recipe, const std::vector<StateTensor>& weights,
                   const Tokenizer* tokenizer,
                   const std::function<void(const std::string& name, std::span<std::byte> bytes)>& read) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder))
    throw Error({.what = "cannot make the folder", .where = folder.string(), .found = error.message()}, ErrorKind::kFailure);
  const bool regression = recipe.is_task() && recipe.task.head == name_of(TaskHead::kRegression);
  write_file_atomic(folder / "config.json", print_published_config(config_of(recipe), published_class(recipe), regression));
  if (tokenizer) save_tokenizer(folder, recipe, *tokenizer);
  const fs::path aside = folder / "model.safetensors.part";
  export_weights(aside, weights, read);
  fs::rename(aside, folder / "model.safetensors", error);
  if (error)
    throw Error({.what = "cannot write the weights", .where = folder.string(), .found = error.message()}, ErrorKind::kFailure);
}

}  // namespace ramet::train
