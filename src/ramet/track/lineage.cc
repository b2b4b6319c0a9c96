#include "ramet/track/lineage.h"

#include <nlohmann/json.hpp>

#include "ramet/base/file.h"
#include "ramet/track/run_directory.h"

namespace ramet::track {

namespace fs = std::filesystem;

namespace {

/// What a checkpoint's manifest says of its weights; "" where there is none.
std::string weights_hash_in(const fs::path& checkpoint) {
  constexpr uintmax_t kMostBytes = uintmax_t{1} << 28;
  const fs::path path = checkpoint / "manifest.json";
  std::error_code error;
  if (const auto size = fs::file_size(path, error); error || size > kMostBytes) return "";
  const auto manifest = nlohmann::json::parse(read_file(path), nullptr, false);
  const auto hash = manifest.is_object() ? manifest.find("weights_hash") : manifest.end();
  return manifest.is_object() && hash != manifest.end() && hash->is_string() ? hash->get<std::string>() : "";
}

}  // namespace

std::optional<RunOrigin> origin_of(const fs::path& weights, const std::string& kind) {
  constexpr int kMostAbove = 4;  // RUN/checkpoints/step-N/weights.safetensors
  std::error_code error;
  fs::path at = fs::canonical(weights, error);
  if (error) return std::nullopt;
  RunOrigin origin{.kind = kind, .run = "", .checkpoint = "", .weights_hash = ""};
  for (int above = 0; above <= kMostAbove && at.has_filename(); ++above, at = at.parent_path()) {
    if (is_run(at)) {
      origin.run = at.filename().string();
      return origin;
    }
    if (const std::string name = at.filename().string(); name.starts_with("step-")) origin.checkpoint = name;
    if (origin.weights_hash.empty()) origin.weights_hash = weights_hash_in(at);
  }
  return std::nullopt;
}

std::string lineage_event(const RunOrigin& origin) {
  nlohmann::ordered_json event = {{"event", "lineage"}, {"kind", origin.kind}, {"from", origin.run}};
  if (!origin.checkpoint.empty()) event["checkpoint"] = origin.checkpoint;
  if (!origin.weights_hash.empty()) event["weights_hash"] = origin.weights_hash;
  return event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ramet::track
