#pragma once

// What building and opening a corpus share of its manifest. Inside data/ only.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/hash.h"

namespace ramet::text {

/// Checksum of a manifest: a hash over all of it but key "checksum".
std::string manifest_checksum(const nlohmann::ordered_json& manifest);
/// The hash of a split: of its tokenizer and the files of its shards.
Hash corpus_hash(std::string_view tokenizer_hash, const std::vector<std::string>& shard_hashes);

}  // namespace ramet::text
