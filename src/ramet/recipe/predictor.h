#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ramet/text/tokenizer.h"
#include "ramet/runtime/engine.h"
#include "ramet/train/checkpoint.h"
#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

/// Fills masks (BERT) or continues text (GPT-2) with a model's weights.
class Predictor {
 public:
  struct Candidate {
    std::string token;
    double probability = 0;
  };

  /// `complete` is a complete recipe; `k` candidates are told for each place.
  Predictor(const Recipe& complete, std::shared_ptr<const Tokenizer> tokenizer, int threads, int64_t k);
  ~Predictor();
  void load(const Checkpoint& checkpoint);
  void load_weights(const std::filesystem::path& safetensors);  ///< Hugging Face's names

  /// BERT: the candidates for each [MASK] of `text`, in order of the text. Throws Error when there is none, or the text
  /// is too long.
  std::vector<std::vector<Candidate>> fill_masks(const std::string& text);
  /// GPT-2: the text that follows, `tokens` tokens at most; it ends early at <|endoftext|>. Temperature 0 takes the
  /// likeliest token; otherwise one of the k likeliest is drawn from the counter-based generator with `seed`.
  std::string continue_text(const std::string& text, int64_t tokens, double temperature, uint64_t seed);

 private:
  const Recipe recipe_;
  std::vector<StateTensor> weights_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t k_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace ramet::recipe
