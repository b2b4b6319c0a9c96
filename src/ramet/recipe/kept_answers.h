#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ramet::recipe {

// Answers of a teacher, kept in the cache folder: a run that goes on and the teacher's next student need not wait for
// them. `subject` says all that decides them.

/// The `count` answers that were kept; none where there are none, or the file is not whole.
std::optional<std::vector<float>> kept_answers(const std::string& subject, int64_t count);
/// Keeps answers; does nothing where the folder cannot be written.
void keep_answers(const std::string& subject, std::span<const float> answers);

}  // namespace ramet::recipe
