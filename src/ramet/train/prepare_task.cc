#include "ramet/train/prepare_task.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/model/published_config.h"
#include "ramet/train/packed_rows.h"

namespace ramet::train {
namespace {

namespace fs = std::filesystem;

/// A size that the recipe leaves out, or must have as the published model has it.
template <typename T>
void take(Recipe& recipe, const std::string& key, std::optional<T>& field, T published) {
  if (field && *field != published)
    throw Error({.what = "the recipe and the published model differ",
                 .where = recipe.where(key),
                 .found = std::to_string(*field),
                 .expected = std::to_string(published) + ", as config.json beside the weights says",
                 .remedy = "Leave the key out"});
  field = published;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    size_t begin = at, behind = end;
    while (begin < behind && text[begin] == ' ') ++begin;
    while (behind > begin && text[behind - 1] == ' ') --behind;
    parts.push_back(text.substr(begin, behind - begin));
    at = end + 1;
  }
  return parts;
}

/// Names with commas between; nothing where a name has one itself.
std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (name.find(',') != std::string::npos) return "";
    text += (text.empty() ? "" : ",") + name;
  }
  return text;
}

/// The first of these tokens that the vocabulary has.
int32_t token_of(const Tokenizer& tokenizer, std::initializer_list<const char*> names, const Recipe& recipe) {
  for (const char* name : names)
    if (const int32_t id = tokenizer.vocabulary().find(name); id >= 0) return id;
  throw Error(
      {.what = "the tokenizer has no token " + std::string(*names.begin()) + ", which frames the texts of a task",
       .where = recipe.where("task.tokenizer"),
       .remedy = "Give the tokenizer that the model was trained with"});
}

TaskFrame frame_of(const Recipe& recipe, const Tokenizer& tokenizer) {
  TaskFrame frame;
  const bool roberta = recipe.model.kind == "roberta" && tokenizer.kind() == "bpe";
  const auto token = [&](const char* bert, const char* other) {
    return roberta ? token_of(tokenizer, {other, bert}, recipe) : token_of(tokenizer, {bert, other}, recipe);
  };
  frame.classify = token("[CLS]", "<s>");
  frame.separator = token("[SEP]", "</s>");
  frame.padding = token("[PAD]", "<pad>");
  frame.two_separators = roberta;
  frame.types = recipe.model.kind == "bert" && recipe.model.types.value_or(2) > 1;
  return frame;
}

std::shared_ptr<const Tokenizer> open_tokenizer(const Recipe& recipe) {
  std::error_code ignored;
  const fs::path weights = recipe.model.init_from;
  if (!recipe.task.tokenizer.empty()) return load_tokenizer(recipe.task.tokenizer);
  if (fs::is_directory(weights / "tokenizer", ignored)) return load_tokenizer(weights / "tokenizer");  // a run
  if (fs::is_directory(weights, ignored)) return load_tokenizer(weights);
  throw Error(
      {.what = "no tokenizer for the task",
       .where = recipe.where("task.kind"),
       .expected = "task.tokenizer, or model.init_from with the folder of a published model",
       .remedy = "Set task.tokenizer to a folder with vocab.txt, tokenizer.json, or vocab.json and merges.txt"});
}

TaskOptions task_options(const Recipe& recipe, const Tokenizer& tokenizer) {
  const auto& task = recipe.task;
  TaskOptions options;
  options.kind = task.kind;
  options.data = task.data;
  options.train = task.train, options.dev = task.dev, options.test = task.test;
  options.text = task.text, options.pair = task.pair, options.label = task.label, options.id = task.id;
  options.labels = parts_of(task.labels);
  options.max_length = recipe.data.sequence_length;
  options.stride = task.stride, options.max_query = task.max_query, options.max_answer = task.max_answer;
  options.n_best = task.n_best, options.null_threshold = task.null_threshold;
  options.limit_train = task.limit_train, options.limit_dev = task.limit_dev;
  options.frame = frame_of(recipe, tokenizer);
  const auto place = recipe.places.find("task.kind");
  options.where = (place == recipe.places.end() ? "" : place->second + " ") + "task.";
  return options;
}

/// Steps of so many epochs, and what is told in epochs, where the recipe does not say it in steps.
void count_steps(Recipe& recipe, const BatchSource* train) {
  const auto left_out = [&](const char* key) { return !recipe.places.count(key); };
  const int64_t rows = train ? train->epoch_samples(0) : 0,
                samples = recipe.train.micro_batch * recipe.train.accumulation;
  const int64_t epoch = std::max<int64_t>(1, (rows + samples - 1) / samples);
  if (left_out("train.steps"))
    recipe.train.steps = std::max<int64_t>(
        1, static_cast<int64_t>(
               std::ceil(recipe.task.epochs * static_cast<double>(rows) / static_cast<double>(samples) - 1e-9)));
  if (left_out("train.schedule.warmup_steps"))
    recipe.train.schedule.warmup_steps =
        static_cast<int64_t>(std::floor(recipe.task.warmup * static_cast<double>(recipe.train.steps)));
  if (left_out("train.evaluation.every")) recipe.train.evaluation.every = epoch;
}

}  // namespace

void take_published_sizes(Recipe& recipe) {
  auto& model = recipe.model;
  std::error_code ignored;
  if (model.init_from.empty() || !fs::is_directory(model.init_from, ignored)) return;
  const auto config = read_published_config(model.init_from);
  if (!config) return;
  if (recipe.places.count("model.kind") && model.kind != config->kind)
    throw Error({.what = "the recipe and the published model differ",
                 .where = recipe.where("model.kind"),
                 .found = model.kind,
                 .expected = config->kind + ", as config.json beside the weights says"});
  model.kind = config->kind;
  take(recipe, "model.layers", model.layers, config->layers);
  take(recipe, "model.hidden", model.hidden, config->hidden);
  take(recipe, "model.heads", model.heads, config->heads);
  take(recipe, "model.vocabulary_size", model.vocabulary_size, config->vocabulary);
  take(recipe, "model.max_positions", model.max_positions, config->positions);
  // How much is dropped is the recipe's to say; of what follows, the least surprising is the model's own.
  if (!model.dropout) model.dropout = config->dropout;
  if (!model.attention_dropout) model.attention_dropout = config->attention_dropout;
  if (!model.epsilon) model.epsilon = config->epsilon;
  if (config->kind == "gpt2") return;
  take(recipe, "model.intermediate", model.intermediate, config->intermediate);
  take(recipe, "model.types", model.types, config->types);
  if (model.activation.empty()) model.activation = config->activation;
}

void prepare_task(const Recipe& recipe, Preparation& result) {
  Recipe sized = recipe;
  take_published_sizes(sized);
  result.tokenizer = open_tokenizer(sized);
  result.task = open_task(task_options(sized, *result.tokenizer), result.tokenizer);
  const TaskSet& task = *result.task;
  sized.task.head = std::string(name_of(task.head()));
  const bool labelled = task.head() == TaskHead::kClassification || task.head() == TaskHead::kTokens;
  sized.task.classes = labelled ? std::ssize(task.labels()) : 1;
  sized.task.choices = task.choices();
  if (labelled && sized.task.labels.empty()) sized.task.labels = joined(task.labels());
  if (sized.data.packs() && task.head() == TaskHead::kChoice)
    throw Error({.what = "the rows of a choice are not packed",
                 .where = sized.where("data.packing"),
                 .found = "task.kind = \"" + sized.task.kind + "\"",
                 .remedy = "Leave data.packing out for this task"});
  if (task.train())
    result.train = in_packed_rows(make_task_batches(task.train(), task_batch_options(sized, *result.tokenizer, true)),
                                  sized, 0, true);
  count_steps(sized, result.train.get());
  if (!sized.model.vocabulary_size) sized.model.vocabulary_size = result.tokenizer->vocabulary_size();
  if (*sized.model.vocabulary_size < result.tokenizer->vocabulary_size())
    throw Error(
        {.what = "the tokenizer has more tokens than the model has rows for",
         .where = sized.where(sized.places.count("task.tokenizer") ? "task.tokenizer" : "model.vocabulary_size"),
         .found = std::to_string(result.tokenizer->vocabulary_size()),
         .expected = "at most " + std::to_string(*sized.model.vocabulary_size),
         .remedy = "Give the tokenizer that the model was trained with"});
  result.recipe = complete_recipe(std::move(sized));
  result.data_hash = hash_text(task.hash() + result.tokenizer->hash().hex()).hex();
}

TaskBatchOptions task_batch_options(const Recipe& complete, const Tokenizer& tokenizer, bool training) {
  return {.head = task_head_from_name(complete.task.head),
          .choices = complete.task.choices.value_or(1),
          .max_length = complete.data.sequence_length,
          .padding = frame_of(complete, tokenizer).padding,
          .shuffle = training && complete.data.shuffle,
          .seed = static_cast<uint64_t>(complete.train.seed)};
}

std::shared_ptr<const TaskSplit> task_split(const TaskSet& task, const std::string& name) {
  auto split = name == "train" ? task.train() : name == "dev" ? task.dev() : name == "test" ? task.test() : nullptr;
  if (split) return split;
  throw Error({.what = "the task has no such file",
               .where = "task." + name,
               .found = "'" + name + "'",
               .remedy = "Give it with --set task." + name + "=FILE, or name a folder that has it in task.data"});
}

}  // namespace ramet::train
