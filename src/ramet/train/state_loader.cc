#include "ramet/train/state_loader.h"

#include <algorithm>
#include <map>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/sparsify.h"
#include "ramet/train/all_ranks.h"
#include "ramet/train/first_weights.h"
#include "ramet/train/held_weights.h"
#include "ramet/train/initialize.h"
#include "ramet/train/scaling.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::train {

StateLoader::StateLoader(Cluster& cluster, const TrainOptions& options, int threads, Progress progress)
    : cluster_(cluster), options_(options), threads_(threads), progress_(std::move(progress)) {}

void StateLoader::begin(std::string what, const std::vector<StateTensor>& states) {
  doing_ = std::move(what);
  done_ = all_ = 0;
  for (const StateTensor& state : states)
    if (cluster_.holds(state)) all_ += state.type.bytes();
}

void StateLoader::add(int64_t bytes) {
  done_ += bytes;
  if (progress_) progress_(doing_, done_, all_);
}

void StateLoader::write_values(const StateTensor& weight, std::span<const float> values, int64_t first) {
  const HeldForm form = held_form(options_);
  if (form.dtype == DType::kF32)
    return cluster_.write_state(weight, static_cast<uint64_t>(first) * sizeof(float), std::as_bytes(values));
  const HeldBytes held = hold(values, form);
  StateTensor state = weight;
  state.type.dtype = form.dtype;
  cluster_.write_state(state, static_cast<uint64_t>(first) * size_of(form.dtype), held.weight);
  if (!form.split) return;
  state.name = low_half_of(weight.name);
  state.type.dtype = DType::kU16;
  cluster_.write_state(state, static_cast<uint64_t>(first) * size_of(DType::kU16), held.low);
}

void StateLoader::write_whole(const StateTensor& state, std::span<const std::byte> bytes) {
  if (state.kind == StateKind::kWeight) return write_weight(state, bytes);
  cluster_.write_state(state, 0, bytes);
  add(static_cast<int64_t>(bytes.size()));
}

void StateLoader::write_weight(const StateTensor& weight, std::span<const std::byte> bytes) {
  write_values(weight, {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)}, 0);
  add(static_cast<int64_t>(bytes.size()));
}

/// Weights and moments piece by piece, so that a weight of any size takes little memory beside its own.
void StateLoader::write_first(const StateTensor& state) {
  constexpr int64_t kPiece = 1 << 18;  // elements: what is read, converted and kept at a time adds up
  const bool weight = state.kind == StateKind::kWeight;
  if (state.low_half) return;  // written with its weight
  ThreadTeam team(threads_);
  const auto seed = static_cast<uint64_t>(options_.seed);
  if (!weight && (state.kind != StateKind::kOptimizer || !is_floating(state.type.dtype))) {
    std::vector<std::byte> bytes(static_cast<size_t>(state.type.bytes()));
    initialize_as_held(state, seed, bytes, team);
    cluster_.write_state(state, 0, bytes);
    return add(state.type.bytes());
  }
  std::vector<float> values;
  const int64_t elements = state.type.elements();
  for (int64_t first = 0; first < elements; first += kPiece) {
    values.resize(static_cast<size_t>(std::min(kPiece, elements - first)));
    initialize_state(state, seed, std::as_writable_bytes(std::span(values)), team, first);
    if (weight)
      write_values(state, values, first);
    else
      cluster_.write_state(state, static_cast<uint64_t>(first) * size_of(state.type.dtype),
                           hold(values, {state.type.dtype, false}).weight);
    add(static_cast<int64_t>(values.size() * size_of(state.type.dtype)));
  }
}

void StateLoader::write_first_weights(const Model& model, const std::string& file) {
  // This process holds no state of the name of a dense form, so such forms are passed over.
  const std::vector<StateTensor> weights = dense_published(model);
  for (const SparseWeight& weight : sparse_weights(model))
    if (cluster_.holds(weight.values)) write_first(weight.values);
  const auto draw = [&](const std::vector<StateTensor>& drawn) {
    begin("drawing the first weights", drawn);
    for (const StateTensor& weight : drawn)
      if (cluster_.holds(weight)) write_first(weight);
  };
  if (file.empty()) return draw(weights);
  std::vector<StateTensor> drawn;
  if (std::filesystem::is_directory(file) && !has_weights(file)) {
    const Checkpoint checkpoint(checkpoint_to_begin_from(file));
    std::vector<StateTensor> loaded;
    for (const StateTensor& weight : weights) {
      const bool may_lack = is_task_head(weight.name) || weight.kind == StateKind::kDeferred;
      (may_lack && !has_first(checkpoint, weight) ? drawn : loaded).push_back(weight);
    }
    begin("reading the checkpoint", loaded);
    or_end_all(cluster_, [&] {
      load_first(
          checkpoint, loaded,
          [&](const StateTensor& state, std::span<const std::byte> bytes) { write_whole(state, bytes); },
          [&](const StateTensor& state) { return cluster_.holds(state); });
    });
  } else {
    for (const std::string& name : import(file, weights))
      for (const StateTensor& weight : weights)
        if (weight.name == name) drawn.push_back(weight);
  }
  if (!drawn.empty()) draw(drawn);
}

std::vector<std::string> StateLoader::import(const std::filesystem::path& file,
                                             const std::vector<StateTensor>& weights) {
  check_importable(options_, file.string(), "init_from");
  std::map<std::string, const StateTensor*> by_name;
  for (const StateTensor& weight : weights) by_name[weight.name] = &weight;
  begin("importing the weights", weights);
  return import_weights(file, weights,
                        [&](const std::string& name, std::span<const std::byte> bytes) {
                          if (cluster_.holds(*by_name.at(name))) write_whole(*by_name.at(name), bytes);
                        })
      .drawn;
}

void StateLoader::load(const Checkpoint& checkpoint, const std::vector<StateTensor>& states, bool as_held) {
  begin("reading the checkpoint", states);
  // The damaged tensor may be one that the other ranks do not read.
  or_end_all(cluster_, [&] {
    checkpoint.load(
        states,
        [&](const StateTensor& state, std::span<const std::byte> bytes) {
          if (!as_held) return write_whole(state, bytes);
          cluster_.write_state(state, 0, bytes);
          add(state.type.bytes());
        },
        [&](const StateTensor& state) { return cluster_.holds(state); });
  });
}

}  // namespace ramet::train
