#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ramet/text/task.h"
#include "ramet/text/wordpiece.h"
#include "support/temporary.h"

namespace ramet::tests {

inline const std::filesystem::path kTaskSamples = std::filesystem::path(RAMET_SOURCE_DIR) / "tests/samples/tasks";

/// A file of the published data, or none where it is not at hand (RAMET_DATA).
inline std::optional<std::filesystem::path> published(const std::string& name) {
  const char* folder = std::getenv("RAMET_DATA");
  if (!folder) return std::nullopt;
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code none;
  return std::filesystem::exists(path, none) ? std::optional(path) : std::nullopt;
}

inline std::filesystem::path written(const TemporaryFolder& folder, const std::string& name, std::string_view text) {
  std::filesystem::create_directories((folder / name).parent_path());
  std::ofstream(folder / name, std::ios::binary) << text;
  return folder / name;
}

inline std::shared_ptr<const Tokenizer> sample_tokenizer() {
  return WordPieceTokenizer::load(kTaskSamples / "vocab.txt");
}

/// Options with BERT's frame for a tokenizer.
inline TaskOptions task_options(const std::string& kind, const Tokenizer& tokenizer, int64_t max_length = 32) {
  TaskOptions options;
  options.kind = kind;
  options.max_length = max_length;
  options.where = "task.";
  options.frame.classify = tokenizer.special().classify;
  options.frame.separator = tokenizer.special().separator;
  options.frame.padding = tokenizer.special().padding;
  return options;
}

}  // namespace ramet::tests

/// Ends a test, said to be skipped, where published data is not at hand.
#define RAMET_NEED_DATA(variable, name)                                                              \
  const auto variable##_found = ::ramet::tests::published(name);                                      \
  if (!variable##_found) GTEST_SKIP() << "needs " << name << " in the folder that RAMET_DATA names"; \
  const std::filesystem::path variable = *variable##_found
