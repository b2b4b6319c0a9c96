#pragma once

// The makers of tasks that open_task chooses from. Inside data/ only.

#include <memory>
#include <string>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/text/task.h"
#include "ramet/text/tasks/text_kinds.h"

namespace ramet::text {

std::unique_ptr<TaskSet> open_text_task(const TextKind& kind, const TaskOptions& options,
                                     std::shared_ptr<const Tokenizer> tokenizer);
std::unique_ptr<TaskSet> open_span_task(const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer);
std::unique_ptr<TaskSet> open_token_task(const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer);
/// Names of the kinds that each opens.
const std::vector<std::string>& span_kinds();
const std::vector<std::string>& token_kinds();

/// The file of a split: `given` (an option, taken from the working folder, else from `data`), or the first of the
/// published `names` in `data` or in `data`/`folder`. Empty when there is none and none was asked for; Error for an
/// option's file that is not there.
std::filesystem::path find_split(const TaskOptions& options, const char* option, const std::filesystem::path& given,
                                 const std::string& folder, const std::vector<std::string>& names);
/// Error when no file was found for any split.
void require_files(const TaskOptions& options, bool any, const std::vector<std::string>& names);
/// Everything that shapes features, apart from the files.
void hash_options(Hasher& hasher, const TaskOptions& options, const Tokenizer& tokenizer);
/// The logits of several runs, averaged; checks their sizes.
TaskOutputs average(std::span<const TaskOutputs> runs, int64_t features);
/// Error when there are no runs, or one is not of `width` numbers for each of `features`.
void check_outputs(std::span<const TaskOutputs> runs, int64_t features, int64_t width);
/// Error that says that a split has no labels.
[[noreturn]] void refuse_score(const std::string& path);

}  // namespace ramet::text
