#include "ramet/text/tasks/row_builder.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::text {

PairLengths cut_longest_first(size_t a, size_t b, size_t room) {
  if (a + b <= room) return {a, b};
  size_t shorter = std::min(a, b);
  size_t longer = room > shorter ? std::max(shorter, room - shorter) : shorter;
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = room - shorter;
  }
  return a <= b ? PairLengths{shorter, longer} : PairLengths{longer, shorter};
}

size_t special_tokens(const TaskFrame& frame, bool pair) { return !pair ? 2 : frame.two_separators ? 4 : 3; }

TaskRow single_row(const TaskFrame& frame, std::span<const int32_t> a, size_t max_length) {
  TaskRow row;
  row.input_ids.push_back(frame.classify);
  const auto kept = a.first(std::min(a.size(), max_length - special_tokens(frame, false)));
  row.input_ids.insert(row.input_ids.end(), kept.begin(), kept.end());
  row.input_ids.push_back(frame.separator);
  row.token_type_ids.assign(row.input_ids.size(), 0);
  return row;
}

TaskRow framed_row(const TaskFrame& frame, std::span<const int32_t> a, std::span<const int32_t> b) {
  TaskRow row = single_row(frame, a, a.size() + 2);
  auto& ids = row.input_ids;
  if (frame.two_separators) {
    ids.push_back(frame.separator);
    row.token_type_ids.push_back(0);
  }
  ids.insert(ids.end(), b.begin(), b.end());
  ids.push_back(frame.separator);
  row.token_type_ids.resize(ids.size(), frame.types ? 1 : 0);
  return row;
}

TaskRow pair_row(const TaskFrame& frame, std::span<const int32_t> a, std::span<const int32_t> b, size_t max_length) {
  const PairLengths kept = cut_longest_first(a.size(), b.size(), max_length - special_tokens(frame, true));
  return framed_row(frame, a.first(kept.a), b.first(kept.b));
}

void check_frame(const TaskOptions& options, bool pair) {
  const TaskFrame& frame = options.frame;
  if (frame.classify < 0 || frame.separator < 0)
    throw Error({.what = "the vocabulary has no tokens that frame a row",
                 .found = "classify " + std::to_string(frame.classify) + ", separator " +
                          std::to_string(frame.separator),
                 .expected = "[CLS] and [SEP], or <s> and </s>"});
  const auto least = static_cast<int64_t>(special_tokens(frame, pair)) + 2;
  if (options.max_length < least)
    throw Error({.what = "rows are too short for the task",
                 .where = option_place(options, "max_length"),
                 .found = std::to_string(options.max_length),
                 .expected = std::to_string(least) + " tokens or more"});
}

std::vector<int32_t> plain_ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, SpecialText::kAsText);
}

std::string option_place(const TaskOptions& options, const char* name) { return options.where + name; }

}  // namespace ramet::text
