#include "ramet/recipe/text_predictor.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/prepare.h"
#include "ramet/recipe/sparse.h"
#include "ramet/text/text_stream.h"
#include "ramet/transform/precision.h"

namespace ramet::recipe {
namespace {

constexpr int64_t kMostMasks = 64;  // of one text

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  if (id >= tokenizer.vocabulary_size()) return "?";
  const std::string& token = tokenizer.vocabulary().token(id);
  const bool special = token.size() > 2 && ((token.front() == '[' && token.back() == ']') || token.starts_with("<|"));
  return special || tokenizer.kind() == "wordpiece" ? token : tokenizer.decode(std::span(&id, 1));
}

/// The tokenizer, once it is known to fit the model.
std::shared_ptr<const Tokenizer> fitting(std::shared_ptr<const Tokenizer> tokenizer, const Recipe& recipe) {
  if (*recipe.model.vocabulary_size < tokenizer->vocabulary_size())
    throw Error({.what = "the tokenizer has more tokens than the model",
                 .where = "tokenizer",
                 .found = std::to_string(tokenizer->vocabulary_size()),
                 .expected = std::to_string(*recipe.model.vocabulary_size),
                 .remedy = "Give the tokenizer that the model was trained with"});
  return tokenizer;
}

/// The rows of several texts as one tensor.
class RowTensor {
 public:
  RowTensor(std::string name, int64_t width) : width_(width), tensor_{std::move(name), {}, {}} {}
  void add(const std::vector<int32_t>& row) {
    const auto* bytes = reinterpret_cast<const std::byte*>(row.data());
    tensor_.bytes.insert(tensor_.bytes.end(), bytes, bytes + row.size() * sizeof(int32_t));
    tensor_.type = {DType::kI32, Shape{++rows_, width_}};
  }
  NamedTensor take() { return std::move(tensor_); }

 private:
  int64_t width_, rows_ = 0;
  NamedTensor tensor_;
};

}  // namespace

Model build_mask_model(const Recipe& complete, int64_t samples, int64_t masks, int64_t k) {
  Model model = build_model(complete);
  const Graph predict = kind_of(complete).build_predictor(complete, samples, masks, k);
  model.programs.push_back({"predict", with_sparse_weights(model, predict)});
  return model;
}

Decoding decoding_of(const Recipe& complete, int64_t samples, int64_t room) {
  if (!kind_of(complete).continues_texts()) {
    Model none;
    kind_of(complete).add_decoding(complete, {}, none);
  }
  const int64_t positions = *complete.model.max_positions;
  return {.samples = samples,
          .room = room > 0 ? std::min(room, positions) : positions,
          .vocabulary = *complete.model.vocabulary_size,
          .cache = precision_from_name(complete.train.precision).compute};
}

std::pair<Model, Decoding> build_decoding_model(const Recipe& complete, int64_t samples, int64_t room) {
  Model model = build_model(complete);
  Decoding decoding = decoding_of(complete, samples, room);
  const size_t first = model.programs.size();
  kind_of(complete).add_decoding(complete, decoding, model);
  for (size_t i = first; i < model.programs.size(); ++i)
    model.programs[i].graph = with_sparse_weights(model, model.programs[i].graph);
  return {std::move(model), std::move(decoding)};
}

MaskFiller::MaskFiller(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, const Layout& layout,
                       const Where& where, int64_t k, int64_t samples)
    : recipe_(complete),
      tokenizer_(fitting(std::move(tokenizer), complete)),
      k_(std::min(k, *complete.model.vocabulary_size)),
      masks_(std::min(kMostMasks, complete.data.sequence_length)),
      predictor_(build_mask_model(complete, samples, masks_, k_), complete.train, layout, where, {"predict"}) {}

std::vector<std::vector<std::vector<MaskCandidate>>> MaskFiller::fill(const std::vector<std::string>& texts) {
  const int32_t mask = tokenizer_->require_special("[MASK]", "filling masks"),
                begin = tokenizer_->require_special("[CLS]", "filling masks");
  const int32_t end = tokenizer_->require_special("[SEP]", "filling masks"),
                padding = tokenizer_->require_special("[PAD]", "filling masks");
  const int64_t length = recipe_.data.sequence_length;
  RowTensor ids_of("input_ids", length), types_of("token_type_ids", length), attention_of("attention_mask", length),
      places_of("masked_positions", masks_);
  std::vector<size_t> masks;
  for (const std::string& text : texts) {
    std::vector<int32_t> ids = {begin};
    tokenizer_->encode_into(text, ids, nullptr, SpecialText::kAsTokens);
    ids.push_back(end);
    if (std::ssize(ids) > length)
      throw Error({.what = "the text is too long",
                   .where = "text",
                   .found = std::to_string(ids.size()) + " tokens with [CLS] and [SEP]",
                   .expected = "at most data.sequence_length, " + std::to_string(length)});
    std::vector<int32_t> positions;
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] == mask) positions.push_back(static_cast<int32_t>(i));
    if (positions.empty() || std::ssize(positions) > masks_)
      throw Error({.what = "the text has the wrong number of masks",
                   .where = "text",
                   .found = std::to_string(positions.size()),
                   .expected = "1 to " + std::to_string(masks_) + " times [MASK]"});
    masks.push_back(positions.size());
    std::vector<int32_t> attention(static_cast<size_t>(length), 0);
    std::fill_n(attention.begin(), ids.size(), 1);
    ids.resize(static_cast<size_t>(length), padding);
    positions.resize(static_cast<size_t>(masks_), 0);
    ids_of.add(ids), attention_of.add(attention), places_of.add(positions);
    types_of.add(std::vector<int32_t>(static_cast<size_t>(length), 0));
  }
  std::vector<NamedTensor> inputs;
  const Signature taken = predictor_.program("predict").inputs();
  for (RowTensor* rows : {&ids_of, &types_of, &attention_of, &places_of}) {
    NamedTensor tensor = rows->take();
    if (std::any_of(taken.begin(), taken.end(), [&](const auto& input) { return input.first == tensor.name; }))
      inputs.push_back(std::move(tensor));
  }
  const std::vector<NamedTensor> results = predictor_.run("predict", inputs, {"top_values", "top_indices"});
  const auto number = [&](const char* name, int64_t at) {
    for (const NamedTensor& result : results)
      if (result.name == name) return load_element(result.bytes.data(), result.type.dtype, at);
    internal_error("MaskFiller", std::string("no result '") + name + "'");
  };
  std::vector<std::vector<std::vector<MaskCandidate>>> candidates(texts.size());
  for (size_t text = 0; text < texts.size(); ++text)
    for (size_t m = 0; m < masks[text]; ++m) {
      auto& of_mask = candidates[text].emplace_back();
      for (int64_t i = 0; i < k_; ++i) {
        const int64_t at = (static_cast<int64_t>(text) * masks_ + static_cast<int64_t>(m)) * k_ + i;
        of_mask.push_back(
            {token_text(*tokenizer_, static_cast<int32_t>(number("top_indices", at))), number("top_values", at)});
      }
    }
  return candidates;
}

namespace {

Decoder make_decoder(const Recipe& complete, const Layout& layout, const Where& where, int64_t samples, int64_t room) {
  auto [model, decoding] = build_decoding_model(complete, samples, room);
  return Decoder(std::move(model), std::move(decoding), complete.train, layout, where);
}

}  // namespace

TextGenerator::TextGenerator(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, const Layout& layout,
                             const Where& where, int64_t samples, int64_t room)
    : recipe_(complete),
      tokenizer_(fitting(std::move(tokenizer), complete)),
      decoder_(make_decoder(recipe_, layout, where, samples, room)) {}

std::vector<GeneratedText> TextGenerator::generate(const std::vector<std::string>& prompts,
                                                   const GenerateOptions& options, const OnText& on_text) {
  DecodeOptions how{.tokens = options.tokens, .sampling = options.sampling, .end_tokens = {}, .vocabulary = 0};
  how.end_tokens.push_back(tokenizer_->require_special("<|endoftext|>", "continuing text"));
  how.vocabulary = tokenizer_->vocabulary_size();
  std::vector<std::vector<int32_t>> ids;
  std::vector<text::TextStream> streams;
  for (const std::string& prompt : prompts) {
    ids.push_back(tokenizer_->encode(prompt));
    if (ids.back().empty())
      throw Error({.what = "the prompt is empty",
                   .where = "prompt " + std::to_string(ids.size() - 1),
                   .remedy = "Write some text, or <|endoftext|> for the beginning of a document"});
    streams.emplace_back(*tokenizer_, options.stop_words);
  }
  const std::vector<Continuation> continuations = decoder_.generate(ids, how, [&](int64_t prompt, int32_t token) {
    const auto index = static_cast<size_t>(prompt);
    const std::string piece = streams[index].add(token);
    if (on_text && !piece.empty()) on_text(index, piece);
    return !streams[index].stopped();
  });
  std::vector<GeneratedText> results;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (const std::string piece = streams[i].rest(); on_text && !piece.empty()) on_text(i, piece);
    results.push_back({streams[i].text(), continuations[i].tokens, continuations[i].end});
  }
  return results;
}

}  // namespace ramet::recipe
