#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "ramet/train/checkpoint.h"

namespace ramet::train {

/// The checkpoint to begin a new run from: the folder itself, or the newest checkpoint of the run whose folder it is.
std::filesystem::path checkpoint_to_begin_from(const std::filesystem::path& folder);

/// Whether the checkpoint has the state, or the stored blocks of a weight of the name.
bool has_first(const Checkpoint& checkpoint, const StateTensor& state);

/// Checkpoint::load for a new run: `states` are those of Model::published, and f32 weights that the checkpoint's run
/// stored as blocks get zeros where they stored nothing. Throws Error, before anything is written, where stored blocks
/// are no part of a weight of the shape.
void load_first(const Checkpoint& checkpoint, const std::vector<StateTensor>& states,
                const std::function<void(const StateTensor&, std::span<const std::byte>)>& write,
                const std::function<bool(const StateTensor&)>& wanted = {});

/// The means of squared gradients that the optimizer of the checkpoint's run kept of a dense weight (state "v" of adam,
/// adamw, lamb and rmsprop); empty where it kept none of the weight's shape in f32.
std::vector<float> squared_gradients(const Checkpoint& checkpoint, const StateTensor& weight);

}  // namespace ramet::train
