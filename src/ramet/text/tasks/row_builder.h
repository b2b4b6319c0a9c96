#pragma once

// Rows of a model's input from token ids. Inside data/ only.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/text/task.h"

namespace ramet::text {

/// How many tokens two texts keep of `a` and `b` so that both fit into `room`, the longer one giving up tokens at its
/// end first; as Hugging Face's `tokenizers` cut ("longest_first"): of an odd room the longer text gets one more.
struct PairLengths {
  size_t a, b;
};
PairLengths cut_longest_first(size_t a, size_t b, size_t room);

/// Special tokens around one text, or two.
size_t special_tokens(const TaskFrame& frame, bool pair);
/// [CLS] a [SEP], cut to `max_length`.
TaskRow single_row(const TaskFrame& frame, std::span<const int32_t> a, size_t max_length);
/// [CLS] a [SEP] b [SEP], the longer of both cut first.
TaskRow pair_row(const TaskFrame& frame, std::span<const int32_t> a, std::span<const int32_t> b, size_t max_length);
/// The same without cutting: what does not fit is the caller's fault.
TaskRow framed_row(const TaskFrame& frame, std::span<const int32_t> a, std::span<const int32_t> b);
/// Error when max_length leaves no room for texts, or the frame lacks a token.
void check_frame(const TaskOptions& options, bool pair);
/// Ids of a text in which nothing is a special token.
std::vector<int32_t> plain_ids(const Tokenizer& tokenizer, std::string_view text);
/// "WHEREname", for errors about an option.
std::string option_place(const TaskOptions& options, const char* name);

}  // namespace ramet::text
