#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::text {

/// The form of a model's answer for one feature of a task, which decides its head and its loss.
enum class TaskHead : uint8_t {
  kClassification,  ///< one of the task's labels
  kRegression,      ///< a number
  kSpan,            ///< the first and the last token of an answer
  kTokens,          ///< one of the task's labels for each token
  kChoice           ///< one of a fixed number of rows
};

/// "classification", "regression", "span", "tokens", "choice"
std::string_view name_of(TaskHead head);
/// The inverse; throws Error naming them.
TaskHead task_head_from_name(std::string_view name);

/// Numbers that a model answers with for one feature: of `labels` classes, rows of `length` tokens, `choices` rows.
int64_t answer_width(TaskHead head, int64_t labels, int64_t length, int64_t choices);

}  // namespace ramet::text
