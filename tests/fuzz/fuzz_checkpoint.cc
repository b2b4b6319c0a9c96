#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/train/checkpoint.h"

using namespace ramet::tests;

namespace {

constexpr char kCut = '\x1e';

std::vector<StateTensor> states() {
  return {{"w", {DType::kF32, {2, 3}}, StateKind::kWeight, {}, ""},
          {"p", {DType::kI32, {4}}, StateKind::kPattern, {}, ""}};
}

/// The manifest with the checksum and the sizes of files that it claims, so that mutations get past these.
std::string sealed(std::string_view text, const std::map<std::string, std::string>& files) {
  nlohmann::json manifest = nlohmann::json::parse(text, nullptr, false);
  if (!manifest.is_object()) return std::string(text);
  if (const auto listed = manifest.find("files"); listed != manifest.end() && listed->is_array())
    for (auto& each : *listed) {
      if (!each.is_object() || !each.contains("bytes") || !each.contains("name") || !each["name"].is_string()) continue;
      if (const auto file = files.find(each["name"]); file != files.end()) each["bytes"] = file->second.size();
    }
  manifest.erase("checksum");
  manifest["checksum"] = hash_text(manifest.dump()).hex();
  return manifest.dump();
}

/// The piece before the next record separator, which leaves `text`.
std::string_view piece_of(std::string_view& text) {
  const size_t cut = std::min(text.find(kCut), text.size());
  const std::string_view piece = text.substr(0, cut);
  text.remove_prefix(std::min(cut + 1, text.size()));
  return piece;
}

}  // namespace

// A manifest, a file of weights and a file of patterns, with record separators between them.
RAMET_FUZZ_TARGET(checkpoint, std::string_view input) {
  const std::string_view manifest = piece_of(input);
  std::map<std::string, std::string> files;
  for (const char* kind : {"weight", "pattern"})
    files[std::string(kind) + "-00001-of-00001.safetensors"] = std::string(piece_of(input));
  const auto folder = fuzz::empty_folder("checkpoints") / "step-00000001";
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : files) write_file_atomic(folder / name, bytes);
  write_file_atomic(folder / "manifest.json", sealed(manifest, files));
  const ramet::train::Checkpoint checkpoint(folder);
  if (checkpoint.bytes() < 0) internal_error("checkpoint", "tensors of less than no bytes");
  try {
    checkpoint.verify();
  } catch (const Error&) {
  }
  checkpoint.check_no_others(states());
  checkpoint.load(states(), [](const StateTensor& state, std::span<const std::byte> bytes) {
    if (bytes.size() != static_cast<size_t>(state.type.bytes())) internal_error("checkpoint", "bytes of another type");
  });
}

RAMET_FUZZ_SEEDS(checkpoint) {
  const auto folder = fuzz::empty_folder("checkpoints");
  ramet::train::CheckpointInfo info;
  info.step = 1;
  info.loss_scale.emplace();
  const auto path = ramet::train::save_checkpoint(
      folder, info, states(),
      [](const StateTensor&, uint64_t, std::span<std::byte> to) { std::memset(to.data(), 0, to.size()); });
  std::string input = ramet::read_file(path / "manifest.json");
  for (const char* kind : {"weight", "pattern"})
    input += kCut + ramet::read_file(path / (std::string(kind) + "-00001-of-00001.safetensors"));
  return {.inputs = {input},
          .words = {"\"shape\": [", "-1", "9223372036854775807", "1e999", "null", "\"f32\"", "\"bf16\"", "\"i32\"",
                    "\"weight\"", "\"pattern\"", "\"loss_scale\"", "\"constants\"", "..", "\x1e", "\"w.low\""}};
}
