#include "ramet/recipe/predictor.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/devices.h"
#include "ramet/model/hugging_face.h"
#include "ramet/program/compile.h"
#include "ramet/recipe/prepare.h"
#include "ramet/recipe/task_predictor.h"

namespace ramet::recipe {
namespace {

constexpr int64_t kMostMasks = 64;  // of one text

const TensorView& result_of(std::span<const TensorView> results, std::string_view name) {
  for (const auto& result : results)
    if (result.name == name) return result;
  internal_error("Predictor", "the predictor has no result '" + std::string(name) + "'");
}

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  const std::string& token = tokenizer.vocabulary().token(id);
  const bool special = token.size() > 2 && ((token.front() == '[' && token.back() == ']') || token.starts_with("<|"));
  return special || tokenizer.kind() == "wordpiece" ? token : tokenizer.decode(std::span(&id, 1));
}

}  // namespace

Predictor::Predictor(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, int threads, int64_t k)
    : recipe_(complete), weights_(build_model(complete).weights), tokenizer_(std::move(tokenizer)), k_(k) {
  if (*recipe_.model.vocabulary_size < tokenizer_->vocabulary_size())
    throw Error({.what = "the tokenizer has more tokens than the model",
                 .where = "tokenizer",
                 .found = std::to_string(tokenizer_->vocabulary_size()),
                 .expected = std::to_string(*recipe_.model.vocabulary_size),
                 .remedy = "Give the tokenizer that the model was trained with"});
  const int64_t predictions = std::min(kMostMasks, recipe_.data.sequence_length);
  k_ = std::min(k_, *recipe_.model.vocabulary_size);
  CompileOptions options;
  options.threads = threads > 0 ? threads : available_processors();
  engine_ = std::make_unique<Engine>(
      compile(make_prediction_step(recipe_, weights_, build_predictor(recipe_, 1, predictions, k_)), find_device().backend(), options),
      find_device().backend());
  std::erase_if(weights_, [&](const StateTensor& weight) { return engine_->executable().find_state(weight.name) < 0; });
}

Predictor::~Predictor() = default;

void Predictor::load(const Checkpoint& checkpoint) {
  checkpoint.load(weights_, [&](const StateTensor& state, std::span<const std::byte> bytes) {
    engine_->write_state(state.name, state.type, bytes.data());
  });
  engine_->run_derive();
}

void Predictor::load_weights(const std::filesystem::path& safetensors) {
  const auto all = build_model(recipe_).weights;  // the file holds the heads too
  import_weights(safetensors, all, [&](const std::string& name, std::span<const std::byte> bytes) {
    for (const auto& weight : weights_)
      if (weight.name == name) engine_->write_state(name, weight.type, bytes.data());
  });
  engine_->run_derive();
}

std::vector<std::vector<Predictor::Candidate>> Predictor::fill_masks(const std::string& text) {
  const int32_t mask = tokenizer_->require_special("[MASK]", "filling masks"),
                begin = tokenizer_->require_special("[CLS]", "filling masks");
  const int32_t end = tokenizer_->require_special("[SEP]", "filling masks"),
                padding = tokenizer_->require_special("[PAD]", "filling masks");
  std::vector<int32_t> ids = {begin};
  tokenizer_->encode_into(text, ids, nullptr, SpecialText::kAsTokens);
  ids.push_back(end);
  const auto length = static_cast<size_t>(recipe_.data.sequence_length);
  if (ids.size() > length)
    throw Error({.what = "the text is too long",
                 .where = "text",
                 .found = std::to_string(ids.size()) + " tokens with [CLS] and [SEP]",
                 .expected = "at most data.sequence_length, " + std::to_string(length)});
  const auto predictions = static_cast<size_t>(std::min(kMostMasks, recipe_.data.sequence_length));
  std::vector<int32_t> positions;
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == mask) positions.push_back(static_cast<int32_t>(i));
  if (positions.empty() || positions.size() > predictions)
    throw Error({.what = "the text has the wrong number of masks",
                 .where = "text",
                 .found = std::to_string(positions.size()),
                 .expected = "1 to " + std::to_string(predictions) + " times [MASK]"});
  const size_t masks = positions.size();
  std::vector<int32_t> attention(length, 0), types(length, 0);
  std::fill_n(attention.begin(), ids.size(), 1);
  ids.resize(length, padding);
  positions.resize(predictions, 0);

  const TensorType row{DType::kI32, {1, recipe_.data.sequence_length}},
      places{DType::kI32, {1, static_cast<int64_t>(predictions)}};
  const auto results = engine_->run("predict", [&](int64_t, int64_t, FeedSink& sink) {
    sink.set("input_ids", row, ids.data());
    sink.set("token_type_ids", row, types.data());
    sink.set("attention_mask", row, attention.data());
    sink.set("masked_positions", places, positions.data());
  });
  const TensorView& values = result_of(results, "top_values");
  const TensorView& indices = result_of(results, "top_indices");
  std::vector<std::vector<Candidate>> candidates(masks);
  for (size_t m = 0; m < masks; ++m)
    for (int64_t i = 0; i < k_; ++i) {
      const int64_t at = static_cast<int64_t>(m) * k_ + i;
      const auto id = static_cast<int32_t>(indices.get(at));
      candidates[m].push_back({id < tokenizer_->vocabulary_size() ? token_text(*tokenizer_, id) : "?", values.get(at)});
    }
  return candidates;
}

std::string Predictor::continue_text(const std::string& text, int64_t tokens, double temperature, uint64_t seed) {
  const int32_t end = tokenizer_->require_special("<|endoftext|>", "continuing text");
  std::vector<int32_t> ids = tokenizer_->encode(text);
  if (ids.empty()) ids.push_back(end);  // a new document
  const size_t given = ids.size();
  const auto length = static_cast<size_t>(recipe_.data.sequence_length);
  const TensorType row{DType::kI32, {1, recipe_.data.sequence_length}}, one{DType::kI32, {1}};
  const RandomStream random(seed, RandomPurpose::kTest, 0, hash64("continue_text"));
  for (int64_t t = 0; t < tokens; ++t) {
    const size_t used = std::min(ids.size(), length);
    std::vector<int32_t> window(ids.end() - static_cast<int64_t>(used), ids.end());
    window.resize(length, end);  // what stands behind the last token is not seen: attention is causal
    const auto last = static_cast<int32_t>(used - 1);
    const auto results = engine_->run("predict", [&](int64_t, int64_t, FeedSink& sink) {
      sink.set("input_ids", row, window.data());
      sink.set("last_position", one, &last);
    });
    const TensorView& values = result_of(results, "top_values");
    const TensorView& indices = result_of(results, "top_indices");
    int64_t chosen = 0;
    if (temperature > 0) {
      std::vector<double> weights;
      double sum = 0;
      for (int64_t i = 0; i < k_; ++i) sum += weights.emplace_back(std::pow(values.get(i), 1 / temperature));
      double draw = static_cast<double>(random.uniform(static_cast<uint64_t>(t))) * sum;
      while (chosen + 1 < k_ && draw >= weights[static_cast<size_t>(chosen)])
        draw -= weights[static_cast<size_t>(chosen++)];
    }
    const auto id = static_cast<int32_t>(indices.get(chosen));
    if (id == end || id >= tokenizer_->vocabulary_size()) break;
    ids.push_back(id);
  }
  return tokenizer_->decode(std::span(ids).subspan(text.empty() ? 1 : given));
}

}  // namespace ramet::recipe
