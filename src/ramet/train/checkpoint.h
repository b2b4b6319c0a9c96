#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/train/loss_scale.h"
#include "ramet/transform/step_graph.h"

namespace ramet::train {

/// Where a run stood when a checkpoint was taken.
struct CheckpointInfo {
  int64_t step = 0;              ///< steps done
  int64_t samples = 0;           ///< samples used: the next one's index
  std::string recipe_hash;       ///< Workload::recipe_identity; may be empty
  std::string model_identity{};  ///< Model::identity; empty in old checkpoints
  std::string model_name{};
  std::string data_hash;                ///< Workload::data_identity; may be empty
  std::string kernel_class;             ///< within which bits are promised
  std::string version;                  ///< of Ramet
  std::string weights_hash;             ///< of `weights_hash` below; filled by save_checkpoint
  std::optional<LossScale> loss_scale;  ///< where it is automatic
};

/// Copies bytes [offset, offset + to.size()) of a state.
using ReadState = std::function<void(const StateTensor& state, uint64_t offset, std::span<std::byte> to)>;

struct SaveOptions {
  int keep = 2;                            ///< checkpoints left afterwards, the new one among them
  int64_t shard_bytes = int64_t{2} << 30;  ///< a file ends with the tensor that reaches this size
};

/// Writes checkpoint FOLDER/step-00000100 of those of `states` that are saved (is_saved): logical tensors in
/// safetensors files and manifest.json with checksums of each file and tensor, and the hashes of constants. It is
/// written aside, made durable and renamed: whole or not there. Then all but the newest `keep` are removed. On any
/// failure the earlier checkpoints stay, and Error (kFailure) names the last whole one. Returns the path.
std::filesystem::path save_checkpoint(const std::filesystem::path& folder, CheckpointInfo info,
                                      const std::vector<StateTensor>& states, const ReadState& read,
                                      const SaveOptions& options = {});

/// Reads the states that save_checkpoint reads, in the same pieces and order, and writes nothing. The other ranks of a
/// run call it while the leading rank saves.
void read_as_saved(const std::vector<StateTensor>& states, const ReadState& read, const SaveOptions& options = {});

/// Checkpoints in a folder, oldest first. Those being written or removed are not among them.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);
/// The checkpoint of a run that answers: that of a task's best evaluation, else the newest; nothing where none is.
std::optional<std::filesystem::path> answering_checkpoint(const std::filesystem::path& run);

/// XXH3 over names, types and bytes of the states that the model has learned (is_hashed), role by role: weights, then
/// patterns, deferred and chained states, each in order.
Hash weights_hash(const std::vector<StateTensor>& states, const ReadState& read);

/// One tensor of a checkpoint.
struct CheckpointTensor {
  std::string name;
  TensorType type;
  StateKind kind;
  std::string file, hash;
};

/// A checkpoint open for reading. Every tensor's checksum is verified as it is read.
class Checkpoint {
 public:
  /// Reads and checks the manifest, and that each file is there with its size and holds its tensors. Throws Error
  /// naming the file, with the previous whole-looking checkpoint as the remedy.
  explicit Checkpoint(const std::filesystem::path& path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;

  const std::filesystem::path& path() const { return path_; }
  const CheckpointInfo& info() const { return info_; }
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  bool has(const std::string& name) const;
  /// Bytes of all tensors.
  int64_t bytes() const;
  /// Passes each saved state of `states` to `write`; weights that are wanted in f32 are converted from the form in
  /// which they are held. Throws Error, before anything is written, when states are missing or differ in role or type,
  /// or when a constant has other data; and when a checksum differs, naming file and tensor. No byte is read of states
  /// that `wanted` rejects. `remedy`: what an error about the states tells the user to do.
  void load(const std::vector<StateTensor>& states,
            const std::function<void(const StateTensor&, std::span<const std::byte>)>& write,
            const std::function<bool(const StateTensor&)>& wanted = {},
            const std::string& remedy = "Resume with the recipe that the checkpoint was made with") const;
  /// Throws Error when there is a tensor that is no state of the model: the checkpoint is another model's.
  void check_no_others(const std::vector<StateTensor>& states) const;
  /// Checks every file's and every tensor's checksum.
  void verify() const;

 private:
  struct Files;
  [[noreturn]] void damaged(const std::string& what, const std::string& file, const std::string& tensor = "",
                            const std::string& found = "", const std::string& expected = "") const;
  /// An f32 weight from what holds it.
  std::vector<std::byte> released(const CheckpointTensor& tensor, const CheckpointTensor* low) const;
  std::span<const std::byte> checked_bytes(const CheckpointTensor& tensor) const;

  std::filesystem::path path_;
  CheckpointInfo info_;
  std::vector<CheckpointTensor> tensors_;
  std::map<std::string, std::string> constants_;  ///< hash by name
  std::map<std::string, std::string> file_hashes_;
  std::unique_ptr<Files> files_;
};

}  // namespace ramet::train
