#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ramet/recipe/recipe.h"
#include "ramet/text/tokenizer.h"
#include "ramet/train/decoder.h"

namespace ramet::recipe {

/// A token that a model proposes.
struct MaskCandidate {
  std::string token;
  double probability = 0;
};

/// Fills the masks of texts with a model of masked words.
class MaskFiller {
 public:
  /// `complete` is a complete recipe; `k` candidates are returned for each mask, `samples` texts are computed at once.
  MaskFiller(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, const Layout& layout,
             const Where& where, int64_t k, int64_t samples);

  Predictor& predictor() { return predictor_; }  ///< for its weights
  /// For each text the candidates for each [MASK], in order of the text. Throws Error when a text has none, or is too
  /// long.
  std::vector<std::vector<std::vector<MaskCandidate>>> fill(const std::vector<std::string>& texts);

 private:
  const Recipe recipe_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  const int64_t k_, masks_;
  Predictor predictor_;
};

struct GenerateOptions {
  int64_t tokens = 40;  ///< most that are added to a text
  text::SamplingOptions sampling{};
  std::vector<std::string> stop_words{};  ///< a text ends before the first of them
};

struct GeneratedText {
  std::string text;  ///< that follows the prompt
  std::vector<int32_t> tokens;
  TextEnd end = TextEnd::kTokens;
};

/// Continues texts with a causal model.
class TextGenerator {
 public:
  /// `samples` texts at once, each of `room` tokens at most with its prompt; 0: as many as the model has positions.
  TextGenerator(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, const Layout& layout,
                const Where& where, int64_t samples, int64_t room);

  Decoder& decoder() { return decoder_; }
  Predictor& predictor() { return decoder_.predictor(); }  ///< for its weights

  /// Hears new text of a prompt as it comes.
  using OnText = std::function<void(size_t prompt, const std::string& piece)>;
  /// What follows each prompt; a text ends early before <|endoftext|> and before a stop word. Throws Error for an empty
  /// prompt.
  std::vector<GeneratedText> generate(const std::vector<std::string>& prompts, const GenerateOptions& options,
                                      const OnText& on_text = {});

 private:
  const Recipe recipe_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Decoder decoder_;
};

/// How the model of a complete recipe continues texts of `room` tokens (0: all positions), `samples` at once. Throws
/// Error for a model that continues none.
Decoding decoding_of(const Recipe& complete, int64_t samples, int64_t room);
/// The model of a complete recipe with programs that continue texts like this; and what they are.
std::pair<Model, Decoding> build_decoding_model(const Recipe& complete, int64_t samples, int64_t room);
/// The model of a complete recipe of masked words with the program "predict" (RecipeKind::build_predictor).
Model build_mask_model(const Recipe& complete, int64_t samples, int64_t masks, int64_t k);

}  // namespace ramet::recipe
