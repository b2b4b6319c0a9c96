#pragma once

#include <filesystem>
#include <memory>

#include "ramet/text/tokenizer.h"

namespace ramet::text {

/// Reads tokenizer.json, as Hugging Face's `tokenizers` writes it, where it describes one of the two kinds that there
/// are here: BERT's WordPiece with BERT's normalizer, and byte-level BPE. Tokens added behind the vocabulary are part of
/// it. Throws Error naming the part of the file that is of another kind or damaged.
std::unique_ptr<Tokenizer> load_tokenizer_json(const std::filesystem::path& path);

}  // namespace ramet::text
