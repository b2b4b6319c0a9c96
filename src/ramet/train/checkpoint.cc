#include "ramet/train/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/train/held_weights.h"
#include "ramet/weights/safetensors.h"

namespace ramet::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormatVersion = 1;
constexpr size_t kPiece = 4 << 20;  // copied at a time, so that saving needs no memory to speak of
constexpr std::string_view kPrefix = "step-";
constexpr size_t kMostManifest = 64 << 20;

std::string step_name(int64_t step) {
  std::string digits = std::to_string(step);
  return std::string(kPrefix) + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

/// The step of a checkpoint's folder name, or nothing for other names.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + 8 || name.size() > kPrefix.size() + 18) return {};
  const std::string digits = name.substr(kPrefix.size());
  if (digits.find_first_not_of("0123456789") != std::string::npos) return {};
  return std::stoll(digits);
}

/// The kinds of states that are saved and hashed, in this order.
constexpr StateKind kKinds[] = {StateKind::kWeight, StateKind::kOptimizer, StateKind::kPattern, StateKind::kDeferred,
                                StateKind::kChained};

StateKind kind_from_name(const std::string& name) {
  const StateKind kind = state_kind_from_name(name);
  if (is_saved(kind)) return kind;
  throw Error({.what = "a kind of state that is not saved", .found = "'" + name + "'"});
}

/// Feeds a state to `take` in pieces.
void for_each_piece(const StateTensor& state, const ReadState& read, std::vector<std::byte>& buffer,
                    const std::function<void(std::span<const std::byte>)>& take) {
  const auto bytes = static_cast<uint64_t>(state.type.bytes());
  for (uint64_t offset = 0; offset < bytes; offset += kPiece) {
    buffer.resize(std::min<uint64_t>(kPiece, bytes - offset));
    read(state, offset, buffer);
    take(buffer);
  }
}

/// Whether the checkpoint's tensor holds an f32 weight in another way.
bool is_held(const CheckpointTensor& tensor, const StateTensor& weight) {
  return weight.kind == StateKind::kWeight && weight.type.dtype == DType::kF32 &&
         tensor.type.shape == weight.type.shape &&
         (tensor.type.dtype == DType::kF16 || tensor.type.dtype == DType::kBF16);
}

void begin_weight(Hasher& hasher, const StateTensor& state) {
  hasher.update(state.name + "\n" + state.type.text() + "\n");
}

/// States of one kind, cut into files of about `shard_bytes`.
std::vector<std::vector<const StateTensor*>> cut_shards(const std::vector<StateTensor>& states, StateKind kind,
                                                        int64_t shard_bytes) {
  std::vector<std::vector<const StateTensor*>> shards;
  int64_t room = 0;
  for (const auto& state : states) {
    if (state.kind != kind) continue;
    if (room <= 0) shards.emplace_back(), room = shard_bytes;
    shards.back().push_back(&state);
    room -= state.type.bytes();
  }
  return shards;
}

std::string shard_name(StateKind kind, size_t index, size_t count) {
  char text[80];
  std::snprintf(text, sizeof text, "%s-%05zu-of-%05zu.safetensors", std::string(name_of(kind)).c_str(), index + 1,
                count);
  return text;
}

/// Writes all files of a checkpoint into `folder`.
class Saver {
 public:
  Saver(const fs::path& folder, CheckpointInfo& info, const ReadState& read)
      : folder_(folder), info_(info), read_(read) {}

  void save(const std::vector<StateTensor>& states, int64_t shard_bytes) {
    for (const StateKind kind : kKinds) {
      const auto shards = cut_shards(states, kind, shard_bytes);
      for (size_t i = 0; i < shards.size(); ++i) save_shard(shards[i], shard_name(kind, i, shards.size()));
    }
    info_.weights_hash = weights_.digest().hex();
    json manifest = {{"format", "ramet-checkpoint"},
                     {"format_version", kFormatVersion},
                     {"step", info_.step},
                     {"samples", info_.samples},
                     {"recipe_hash", info_.recipe_hash},
                     {"data_hash", info_.data_hash},
                     {"kernel_class", info_.kernel_class},
                     {"version", info_.version},
                     {"weights_hash", info_.weights_hash},
                     {"files", files_},
                     {"tensors", tensors_}};
    if (!info_.model_identity.empty())
      manifest["model"] = {{"name", info_.model_name}, {"identity", info_.model_identity}};
    for (const StateTensor& state : states)
      if (state.kind == StateKind::kConstant && state.init.data)
        manifest["constants"].push_back({{"name", state.name}, {"xxh3", state.init.data->hash().hex()}});
    if (const auto& scale = info_.loss_scale)
      manifest["loss_scale"] = {{"scale", scale->scale}, {"calm", scale->calm}, {"skipped", scale->skipped}};
    manifest["checksum"] = hash_text(manifest.dump()).hex();
    FileWriter writer(folder_ / "manifest.json");
    writer.write(manifest.dump(1) + "\n");
    writer.close();
  }

 private:
  void save_shard(const std::vector<const StateTensor*>& states, const std::string& name) {
    std::vector<SafetensorsSpec> specs;
    for (const auto* state : states) specs.push_back({state->name, state->type});
    SafetensorsWriter writer(folder_ / name, specs, {{"format", "ramet"}, {"step", std::to_string(info_.step)}});
    for (const auto* state : states) {
      Hasher hasher;
      if (is_hashed(state->kind)) begin_weight(weights_, *state);
      for_each_piece(*state, read_, buffer_, [&](std::span<const std::byte> piece) {
        writer.write(piece.data(), piece.size());
        hasher.update(piece.data(), piece.size());
        if (is_hashed(state->kind)) weights_.update(piece.data(), piece.size());
      });
      tensors_.push_back({{"name", state->name},
                          {"dtype", name_of(state->type.dtype)},
                          {"shape", state->type.shape.dims()},
                          {"kind", name_of(state->kind)},
                          {"file", name},
                          {"xxh3", hasher.digest().hex()}});
    }
    writer.close();
    files_.push_back({{"name", name}, {"bytes", writer.file_bytes()}, {"xxh3", writer.hash().hex()}});
  }

  const fs::path& folder_;
  CheckpointInfo& info_;
  const ReadState& read_;
  Hasher weights_;
  std::vector<std::byte> buffer_;
  json files_ = json::array(), tensors_ = json::array();
};

/// Puts `from` in the place of `to` in one step, also when `to` exists; the old `to` is then at `from`.
void exchange(const fs::path& from, const fs::path& to) {
  const unsigned flags = fs::exists(to) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0) return;
  std::error_code error(errno, std::generic_category());
  if (flags == RENAME_NOREPLACE) fs::rename(from, to, error);  // a file system without renameat2
  if (error)
    throw Error({.what = "cannot put the checkpoint in place (" + error.message() + ")", .where = to.string()},
                ErrorKind::kFailure);
}

/// Removes what an interrupted save or removal left behind.
void sweep(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const size_t dot = name.rfind('.');
    if (dot != std::string::npos && (name.substr(dot) == ".tmp" || name.substr(dot) == ".old") &&
        step_of(name.substr(0, dot)))
      fs::remove_all(entry.path(), ignored);
  }
}

/// Removes a checkpoint so that no part of it is ever taken for a whole one.
void remove_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::path aside = path.string() + ".old";
  fs::rename(path, aside, error);
  if (!error) fs::remove_all(aside, error);
}

std::string previous_remedy(const fs::path& folder, const fs::path& damaged) {
  const auto all = list_checkpoints(folder);
  for (auto path = all.rbegin(); path != all.rend(); ++path)
    if (path->filename() != damaged.filename() && *path < damaged)
      return "Resume from the previous checkpoint, " + path->string();
  return "There is no earlier checkpoint beside it; start the run again";
}

}  // namespace

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const auto step = step_of(entry.path().filename().string()); step && fs::is_directory(entry.path(), error))
      found.emplace_back(*step, entry.path());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<fs::path> answering_checkpoint(const fs::path& run) {
  for (const char* place : {"best", "checkpoints"})
    if (auto all = list_checkpoints(run / place); !all.empty()) return std::move(all.back());
  return std::nullopt;
}

Hash weights_hash(const std::vector<StateTensor>& states, const ReadState& read) {
  Hasher hasher;
  std::vector<std::byte> buffer;
  for (const StateKind kind : kKinds)
    for (const auto& state : states) {
      if (state.kind != kind || !is_hashed(kind)) continue;
      begin_weight(hasher, state);
      for_each_piece(state, read, buffer,
                     [&](std::span<const std::byte> piece) { hasher.update(piece.data(), piece.size()); });
    }
  return hasher.digest();
}

void read_as_saved(const std::vector<StateTensor>& states, const ReadState& read, const SaveOptions& options) {
  std::vector<std::byte> buffer;
  for (const StateKind kind : kKinds)
    for (const auto& shard : cut_shards(states, kind, options.shard_bytes))
      for (const StateTensor* state : shard) for_each_piece(*state, read, buffer, [](std::span<const std::byte>) {});
}

fs::path save_checkpoint(const fs::path& folder, CheckpointInfo info, const std::vector<StateTensor>& states,
                         const ReadState& read, const SaveOptions& options) {
  const fs::path path = folder / step_name(info.step), aside = path.string() + ".tmp";
  std::error_code ignored;
  try {
    std::error_code error;
    fs::create_directories(folder, error);
    sweep(folder);
    fs::create_directory(aside, error);
    if (error)
      throw Error({.what = "cannot make the folder (" + error.message() + ")", .where = aside.string()},
                  ErrorKind::kFailure);
    Saver(aside, info, read).save(states, options.shard_bytes);
    sync_directory(aside);
    exchange(aside, path);
    sync_directory(folder);
    fs::remove_all(aside, ignored);  // the one of the same step that was there before, if any
  } catch (const Error& error) {
    fs::remove_all(aside, ignored);
    const auto whole = list_checkpoints(folder);
    ErrorParts parts = error.parts();
    parts.what = "cannot save a checkpoint: " + parts.what;
    parts.remedy = (parts.remedy.empty() ? "" : parts.remedy + ". ") +
                   (whole.empty() ? "No checkpoint has been saved before"
                                  : "The last whole checkpoint is " + whole.back().string());
    throw Error(std::move(parts), ErrorKind::kFailure);
  }
  auto all = list_checkpoints(folder);
  for (size_t i = 0; i + static_cast<size_t>(std::max(1, options.keep)) < all.size(); ++i)
    if (all[i] != path) remove_checkpoint(all[i]);
  return path;
}

struct Checkpoint::Files {
  std::map<std::string, SafetensorsReader> readers;
};

Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;

void Checkpoint::damaged(const std::string& what, const std::string& file, const std::string& tensor,
                         const std::string& found, const std::string& expected) const {
  throw Error({.what = "the checkpoint is damaged: " + what,
               .where = (path_ / file).string() + (tensor.empty() ? "" : ", tensor '" + tensor + "'"),
               .found = found,
               .expected = expected,
               .remedy = previous_remedy(path_.parent_path(), path_)});
}

Checkpoint::Checkpoint(const fs::path& path) : path_(path.lexically_normal()), files_(std::make_unique<Files>()) {
  if (path_.filename().empty()) path_ = path_.parent_path();
  const fs::path manifest_path = path_ / "manifest.json";
  std::error_code error;
  if (!fs::exists(manifest_path, error))
    throw Error({.what = "not a checkpoint: it has no manifest.json",
                 .where = path_.string(),
                 .remedy = previous_remedy(path_.parent_path(), path_)});
  const std::string text = read_file(manifest_path);
  if (text.size() > kMostManifest) damaged("the manifest is too long", "manifest.json");
  json manifest = json::parse(text, nullptr, false);
  if (!manifest.is_object()) damaged("the manifest is not JSON", "manifest.json");
  try {
    const std::string checksum = manifest.at("checksum");
    manifest.erase("checksum");
    if (manifest.at("format") != "ramet-checkpoint") damaged("the manifest is of another format", "manifest.json");
    if (const int version = manifest.at("format_version"); version != kFormatVersion)
      throw Error({.what = "a checkpoint of another version",
                   .where = path_.string(),
                   .found = std::to_string(version),
                   .expected = std::to_string(kFormatVersion)});
    if (const std::string found = hash_text(manifest.dump()).hex(); found != checksum)
      damaged("the manifest's checksum differs", "manifest.json", "", found, checksum);
    info_ = {.step = manifest.at("step"),
             .samples = manifest.at("samples"),
             .recipe_hash = manifest.at("recipe_hash"),
             .data_hash = manifest.at("data_hash"),
             .kernel_class = manifest.at("kernel_class"),
             .version = manifest.at("version"),
             .weights_hash = manifest.at("weights_hash"),
             .loss_scale = {}};
    if (const auto scale = manifest.find("loss_scale"); scale != manifest.end())
      info_.loss_scale = {.scale = scale->at("scale"), .calm = scale->at("calm"), .skipped = scale->at("skipped")};
    if (const auto model = manifest.find("model"); model != manifest.end())
      info_.model_name = model->at("name"), info_.model_identity = model->at("identity");
    for (const auto& tensor : manifest.at("tensors"))
      tensors_.push_back({.name = tensor.at("name"),
                          .type = {dtype_from_name(tensor.at("dtype").get<std::string>()),
                                   Shape(tensor.at("shape").get<std::vector<int64_t>>())},
                          .kind = kind_from_name(tensor.at("kind")),
                          .file = tensor.at("file"),
                          .hash = tensor.at("xxh3")});
    if (const auto constants = manifest.find("constants"); constants != manifest.end())
      for (const auto& constant : *constants) constants_[constant.at("name")] = constant.at("xxh3");
    for (const auto& file : manifest.at("files")) {
      const std::string name = file.at("name");
      const uint64_t bytes = file.at("bytes");
      if (name.find('/') != std::string::npos || name.starts_with("."))
        damaged("a file's name leads elsewhere", "manifest.json");
      std::error_code error;
      const uint64_t found = fs::file_size(path_ / name, error);
      if (error) damaged("the file is missing", name, "", error.message());
      if (found != bytes)
        damaged(found < bytes ? "the file was cut short" : "the file is longer than it was", name, "",
                std::to_string(found) + " bytes", std::to_string(bytes));
      file_hashes_[name] = file.at("xxh3");
      try {
        files_->readers.emplace(name, SafetensorsReader(path_ / name));
      } catch (const Error& error) {
        damaged(error.parts().what, name, "", error.parts().found, error.parts().expected);
      }
    }
  } catch (const json::exception& error) {
    damaged("the manifest lacks something: " + std::string(error.what()).substr(0, 120), "manifest.json");
  }
  for (const auto& tensor : tensors_) {
    const auto reader = files_->readers.find(tensor.file);
    if (reader == files_->readers.end()) damaged("the tensor's file is not listed", "manifest.json", tensor.name);
    const auto* entry = reader->second.find(tensor.name);
    if (!entry || entry->type != tensor.type)
      damaged("the file's header differs from the manifest", tensor.file, tensor.name,
              entry ? entry->type.text() : "no such tensor", tensor.type.text());
  }
}

bool Checkpoint::has(const std::string& name) const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [&](const CheckpointTensor& tensor) { return tensor.name == name; });
}

int64_t Checkpoint::bytes() const {
  int64_t sum = 0;
  for (const auto& tensor : tensors_) sum += tensor.type.bytes();
  return sum;
}

std::span<const std::byte> Checkpoint::checked_bytes(const CheckpointTensor& tensor) const {
  const auto& reader = files_->readers.at(tensor.file);
  const auto bytes = reader.bytes(reader.get(tensor.name));
  if (const std::string found = hash_bytes(bytes.data(), bytes.size()).hex(); found != tensor.hash)
    damaged("the tensor's checksum differs", tensor.file, tensor.name, found, tensor.hash);
  return bytes;
}

void Checkpoint::load(const std::vector<StateTensor>& states,
                      const std::function<void(const StateTensor&, std::span<const std::byte>)>& write,
                      const std::function<bool(const StateTensor&)>& wanted, const std::string& remedy) const {
  std::map<std::string, const CheckpointTensor*> by_name;
  for (const auto& tensor : tensors_) by_name[tensor.name] = &tensor;
  for (const auto& state : states) {
    const std::string where = path_.string() + ", tensor '" + state.name + "'";
    if (state.kind == StateKind::kConstant && state.init.data) {
      const auto known = constants_.find(state.name);
      const std::string own = state.init.data->hash().hex(), other = known == constants_.end() ? "none" : known->second;
      if (own != other)
        throw Error({.what = "the checkpoint was made with another constant",
                     .where = where,
                     .found = other,
                     .expected = own,
                     .remedy = remedy});
    }
    if (!is_saved(state.kind)) continue;
    const auto found = by_name.find(state.name);
    if (found == by_name.end())
      throw Error({.what = "the checkpoint lacks a tensor of the recipe's model", .where = where, .remedy = remedy});
    if (found->second->kind != state.kind)
      throw Error({.what = "a tensor has another role than in the recipe's model",
                   .where = where,
                   .found = std::string(name_of(found->second->kind)),
                   .expected = std::string(name_of(state.kind)),
                   .remedy = remedy});
    if (found->second->type != state.type && !is_held(*found->second, state))
      throw Error({.what = "a tensor differs from the recipe's model",
                   .where = where,
                   .found = found->second->type.text(),
                   .expected = state.type.text(),
                   .remedy = remedy});
  }
  for (const auto& state : states)
    if (is_saved(state.kind) && (!wanted || wanted(state))) {
      const CheckpointTensor& tensor = *by_name.at(state.name);
      const auto low = by_name.find(low_half_of(state.name));
      if (tensor.type == state.type)
        write(state, checked_bytes(tensor));
      else
        write(state, released(tensor, low == by_name.end() ? nullptr : low->second));
    }
}

std::vector<std::byte> Checkpoint::released(const CheckpointTensor& tensor, const CheckpointTensor* low) const {
  const HeldForm form{tensor.type.dtype, low != nullptr};
  const auto copy = [](std::span<const std::byte> bytes) { return std::vector<std::byte>(bytes.begin(), bytes.end()); };
  HeldBytes held{copy(checked_bytes(tensor)), low ? copy(checked_bytes(*low)) : std::vector<std::byte>()};
  std::vector<float> values(static_cast<size_t>(tensor.type.elements()));
  release(held, form, values);
  return copy(std::as_bytes(std::span(values)));
}

void Checkpoint::check_no_others(const std::vector<StateTensor>& states) const {
  std::set<std::string> names;
  for (const StateTensor& state : states) names.insert(state.name);
  for (const CheckpointTensor& tensor : tensors_)
    if (!names.count(tensor.name))
      throw Error({.what = "the checkpoint is another model's: it has a tensor that this one lacks",
                   .where = path_.string() + ", tensor '" + tensor.name + "'",
                   .found = tensor.type.text() + ", " + std::string(name_of(tensor.kind)),
                   .remedy = "Resume with the recipe that the checkpoint was made with"});
}

void Checkpoint::verify() const {
  for (const auto& [name, expected] : file_hashes_) {
    // By tensors first: they name the place better.
    for (const auto& tensor : tensors_)
      if (tensor.file == name) checked_bytes(tensor);
    const MappedFile file(path_ / name);
    if (const std::string found = hash_bytes(file.data(), file.size()).hex(); found != expected)
      damaged("the file's checksum differs", name, "", found, expected);
  }
}

}  // namespace ramet::train
