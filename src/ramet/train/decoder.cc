#include "ramet/train/decoder.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"

namespace ramet::train {
namespace {

std::vector<std::string> programs_of(const Decoding& decoding) {
  std::vector<std::string> names;
  for (const int64_t width : decoding.widths) names.push_back(model::decode_program(width));
  return names;
}

}  // namespace

std::string_view name_of(TextEnd end) {
  switch (end) {
    case TextEnd::kToken: return "end token";
    case TextEnd::kTokens: return "tokens";
    case TextEnd::kRoom: return "room";
    case TextEnd::kCaller: return "stop";
  }
  return "";
}

Decoder::Decoder(Model model, Decoding decoding, const TrainOptions& options, const Layout& layout, const Where& where)
    : decoding_(std::move(decoding)),
      predictor_(std::move(model), options, layout, where, programs_of(decoding_)),
      lengths_(static_cast<size_t>(decoding_.samples), 0),
      logits_(static_cast<size_t>(decoding_.samples * decoding_.vocabulary), 0) {}

void Decoder::check(std::span<const std::vector<int32_t>> prompts) const {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto where = [&] { return "prompt " + std::to_string(i); };
    if (prompts[i].empty())
      throw Error({.what = "the prompt is empty", .where = where(), .expected = "one token at least"});
    if (std::ssize(prompts[i]) > decoding_.room)
      throw Error({.what = "the prompt is too long",
                   .where = where(),
                   .found = std::to_string(prompts[i].size()) + " tokens",
                   .expected = "at most " + std::to_string(decoding_.room) + ", the positions that the model has",
                   .remedy = "Shorten it"});
    for (const int32_t token : prompts[i])
      if (token < 0 || token >= decoding_.vocabulary)
        throw Error({.what = "the prompt has a token that the model does not know",
                     .where = where(),
                     .found = std::to_string(token),
                     .expected = "0 to " + std::to_string(decoding_.vocabulary - 1)});
  }
}

void Decoder::advance(int64_t width, const std::vector<int32_t>& ids, const std::vector<int32_t>& last,
                      const std::vector<bool>& which) {
  const TensorType rows{DType::kI32, Shape{decoding_.samples, width}}, each{DType::kI32, Shape{decoding_.samples}};
  const ClusterFeed feed = [&](int64_t, const Executable&, FeedSink& sink) {
    if (sink.takes("input_ids")) sink.set("input_ids", rows, ids.data());
    if (sink.takes("first")) sink.set("first", each, lengths_.data());
    if (sink.takes("last")) sink.set("last", each, last.data());
  };
  const auto results = predictor_.run(model::decode_program(width), 1, static_cast<int64_t>(texts_), feed);
  const auto size = static_cast<size_t>(decoding_.vocabulary) * sizeof(float);
  for (size_t text = 0; text < which.size(); ++text)
    if (which[text])
      std::memcpy(logits_.data() + text * static_cast<size_t>(decoding_.vocabulary),
                  results.front().front().bytes.data() + text * size, size);
}

std::span<const float> Decoder::begin(std::span<const std::vector<int32_t>> prompts) {
  check(prompts);
  if (std::ssize(prompts) > decoding_.samples)
    throw Error({.what = "more prompts than texts that are decoded at once",
                 .where = "Decoder::begin",
                 .found = std::to_string(prompts.size()),
                 .expected = "at most " + std::to_string(decoding_.samples)});
  const auto start = std::chrono::steady_clock::now();
  const auto samples = static_cast<size_t>(decoding_.samples);
  texts_ = prompts.size();
  std::fill(lengths_.begin(), lengths_.end(), 0);
  size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  for (const int64_t width : decode_widths(decoding_, static_cast<int64_t>(longest))) {
    std::vector<int32_t> ids(samples * static_cast<size_t>(width), 0), last(samples, 0), taken(samples, 0);
    std::vector<bool> ends(prompts.size(), false);
    for (size_t text = 0; text < prompts.size(); ++text) {
      const auto done = static_cast<size_t>(lengths_[text]);
      const size_t count = std::min(prompts[text].size() - done, static_cast<size_t>(width));
      std::copy_n(prompts[text].begin() + static_cast<std::ptrdiff_t>(done), count,
                  ids.begin() + static_cast<std::ptrdiff_t>(text * static_cast<size_t>(width)));
      taken[text] = static_cast<int32_t>(count);
      last[text] = static_cast<int32_t>(std::max<size_t>(count, 1) - 1);
      ends[text] = count > 0 && done + count == prompts[text].size();
    }
    advance(width, ids, last, ends);
    for (size_t text = 0; text < samples; ++text) lengths_[text] += taken[text];
  }
  begin_seconds_ = seconds_since(start);
  return std::span(logits_).first(texts_ * static_cast<size_t>(decoding_.vocabulary));
}

std::span<const float> Decoder::next(std::span<const int32_t> tokens) {
  if (tokens.size() != texts_)
    throw Error({.what = "one token is wanted for each text",
                 .where = "Decoder::next",
                 .found = std::to_string(tokens.size()),
                 .expected = std::to_string(texts_)});
  for (size_t text = 0; text < texts_; ++text)
    if (lengths_[text] >= decoding_.room)
      throw Error({.what = "the text has no room left",
                   .where = "Decoder::next, text " + std::to_string(text),
                   .found = std::to_string(lengths_[text]) + " positions"});
  std::vector<int32_t> ids(lengths_.size(), 0);
  std::copy(tokens.begin(), tokens.end(), ids.begin());
  advance(1, ids, std::vector<int32_t>(lengths_.size(), 0), std::vector<bool>(texts_, true));
  for (size_t text = 0; text < texts_; ++text) ++lengths_[text];
  return std::span(logits_).first(texts_ * static_cast<size_t>(decoding_.vocabulary));
}

std::vector<Continuation> Decoder::generate(std::span<const std::vector<int32_t>> prompts, const DecodeOptions& options,
                                            const OnToken& on_token) {
  text::check_sampling(options.sampling);
  if (options.tokens < 1)
    throw Error({.what = "no tokens are asked for",
                 .where = "tokens",
                 .found = std::to_string(options.tokens),
                 .expected = "1 or more"});
  check(prompts);
  std::vector<Continuation> results(prompts.size());
  const auto step = static_cast<size_t>(decoding_.samples);
  for (size_t first = 0; first < prompts.size(); first += step)
    generate_some(prompts.subspan(first, std::min(step, prompts.size() - first)), static_cast<int64_t>(first), options,
                  on_token, results);
  return results;
}

void Decoder::generate_some(std::span<const std::vector<int32_t>> prompts, int64_t first, const DecodeOptions& options,
                            const OnToken& on_token, std::vector<Continuation>& results) {
  std::vector<std::vector<int32_t>> texts(prompts.begin(), prompts.end());
  std::vector<bool> ended(texts.size(), false);
  std::span<const float> logits = begin(prompts);
  const auto vocabulary = static_cast<size_t>(decoding_.vocabulary);
  const size_t choices =
      options.vocabulary > 0 ? std::min(vocabulary, static_cast<size_t>(options.vocabulary)) : vocabulary;
  for (size_t live = texts.size(); live > 0;) {
    std::vector<int32_t> tokens(texts.size(), 0);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (ended[i]) continue;
      const int64_t number = first + static_cast<int64_t>(i);
      Continuation& result = results[static_cast<size_t>(number)];
      const int32_t token = text::next_token(logits.subspan(i * vocabulary, choices), texts[i], options.sampling,
                                             number, std::ssize(texts[i]));
      const auto end = [&](TextEnd why) { result.end = why, ended[i] = true, --live; };
      if (std::find(options.end_tokens.begin(), options.end_tokens.end(), token) != options.end_tokens.end()) {
        end(TextEnd::kToken);
        continue;
      }
      tokens[i] = token;
      texts[i].push_back(token);
      result.tokens.push_back(token);
      if (on_token && !on_token(number, token))
        end(TextEnd::kCaller);
      else if (std::ssize(result.tokens) >= options.tokens)
        end(TextEnd::kTokens);
      else if (lengths_[i] >= decoding_.room)
        end(TextEnd::kRoom);
    }
    if (live == 0) break;
    // A text that has ended goes on at its first position, where it costs little and no text reads it.
    for (size_t i = 0; i < texts.size(); ++i)
      if (ended[i]) lengths_[i] = 0;
    logits = next(tokens);
  }
}

}  // namespace ramet::train
