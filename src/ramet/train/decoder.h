#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ramet/model/decoding.h"
#include "ramet/text/sampling.h"
#include "ramet/train/predictor.h"

namespace ramet::train {

/// Why a text ended.
enum class TextEnd {
  kToken,   ///< an end token
  kTokens,  ///< as many tokens as were asked for
  kRoom,    ///< its last position is taken
  kCaller   ///< the caller wanted no more
};
/// "end token", "tokens", "room", "stop"
std::string_view name_of(TextEnd end);

struct DecodeOptions {
  int64_t tokens = 40;  ///< most that are added to each text
  text::SamplingOptions sampling{};
  std::vector<int32_t> end_tokens{};  ///< a text ends before one of them
  int64_t vocabulary = 0;             ///< only tokens below it are chosen; 0: all that the model has
};

/// The tokens that were added to a text.
struct Continuation {
  std::vector<int32_t> tokens;
  TextEnd end = TextEnd::kTokens;
};

/// Continues sequences of tokens with a model's decoding programs. The result depends only on the weights, the prompts,
/// the options and the number of a prompt among the prompts; not on the layout, nor on how many texts are decoded at
/// once. Under MPI all ranks make the same calls and get the same results.
class Decoder {
 public:
  /// `model` has the programs of `decoding` (model/decoding.h).
  Decoder(Model model, Decoding decoding, const TrainOptions& options, const Layout& layout, const Where& where);

  /// For its weights, memory and times; a token of all texts is one call.
  Predictor& predictor() { return predictor_; }
  const Decoding& decoding() const { return decoding_; }

  /// Hears each token of each prompt as it is chosen; returns whether the text goes on.
  using OnToken = std::function<bool(int64_t prompt, int32_t token)>;
  /// What follows each of the prompts, any number of them, in their order. Throws Error for a prompt that is empty, has
  /// no room, or holds a token that the model does not know; before anything is computed.
  std::vector<Continuation> generate(std::span<const std::vector<int32_t>> prompts, const DecodeOptions& options,
                                     const OnToken& on_token = {});

  /// The two steps of `generate`, for callers that choose tokens themselves. `begin` takes at most Decoding::samples
  /// prompts and forgets earlier texts; `next` one token for each of them, whose text must have room. Both return the
  /// logits behind each text's last token, [prompts, vocabulary].
  std::span<const float> begin(std::span<const std::vector<int32_t>> prompts);
  std::span<const float> next(std::span<const int32_t> tokens);
  /// Seconds of the last `begin`.
  double begin_seconds() const { return begin_seconds_; }

 private:
  void check(std::span<const std::vector<int32_t>> prompts) const;
  /// Takes `width` tokens of each text further, from `ids` [samples, width]; keeps the logits of the texts of `which`.
  void advance(int64_t width, const std::vector<int32_t>& ids, const std::vector<int32_t>& last,
               const std::vector<bool>& which);
  void generate_some(std::span<const std::vector<int32_t>> prompts, int64_t first, const DecodeOptions& options,
                     const OnToken& on_token, std::vector<Continuation>& results);

  Decoding decoding_;
  Predictor predictor_;
  std::vector<int32_t> lengths_;  ///< of each text, in tokens that the caches hold
  std::vector<float> logits_;     ///< [samples, vocabulary]
  size_t texts_ = 0;              ///< that were begun
  double begin_seconds_ = 0;
};

}  // namespace ramet::train
