#include "ramet/train/first_weights.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/model/sparsify.h"
#include "ramet/transform/sparsify.h"

namespace ramet::train {
namespace {

constexpr const char* kRemedy =
    "Begin from a run whose model has the same weights, or from a file of them, as `ramet export` writes it";

const CheckpointTensor* tensor_of(const Checkpoint& checkpoint, const std::string& name) {
  for (const CheckpointTensor& tensor : checkpoint.tensors())
    if (tensor.name == name) return &tensor;
  return nullptr;
}

/// The two states that store the blocks of a weight, which lie in the matrix [first dimension, second dimension].
struct StoredWeight {
  StateTensor dense, values, index;
  SparseGrid grid;
};

bool is_stored(const Checkpoint& checkpoint, const StateTensor& state) {
  return state.kind == StateKind::kWeight && !checkpoint.has(state.name) &&
         checkpoint.has(transform::values_name(state.name)) && checkpoint.has(transform::index_name(state.name));
}

StoredWeight stored_weight(const Checkpoint& checkpoint, const StateTensor& dense) {
  const CheckpointTensor& values = *tensor_of(checkpoint, transform::values_name(dense.name));
  const CheckpointTensor& index = *tensor_of(checkpoint, transform::index_name(dense.name));
  const Shape &matrix = dense.type.shape, &blocks = values.type.shape, &slots = index.type.shape;
  const auto whole = transform::matrix_of(matrix);
  const int64_t sides[] = {whole ? whole->rows : 0, whole ? whole->columns : 0};
  const bool agree = blocks.rank() == 5 && slots.rank() == 3 && blocks.elements() > 0 &&
                     blocks.dim(0) == slots.dim(0) && blocks.dim(1) == slots.dim(1) && blocks.dim(2) == slots.dim(2);
  const auto divide = [&](int dim) { return sides[dim] % (blocks.dim(dim) * blocks.dim(dim + 3)) == 0; };
  if (!whole || !agree || !divide(0) || !divide(1))
    throw Error({.what = "the stored blocks of a sparse weight do not lie in a weight of the recipe's model",
                 .where = checkpoint.path().string() + ", tensor '" + values.name + "'",
                 .found = values.type.text(),
                 .expected = "cells and blocks that divide " + dense.type.text(),
                 .remedy = kRemedy});
  StoredWeight weight{dense, dense, dense, {}};
  weight.values.name = values.name;
  weight.values.type = {DType::kF32, blocks};
  weight.index.name = index.name;
  weight.index.type = {DType::kI32, slots};
  weight.index.kind = StateKind::kPattern;
  weight.grid = {.cells_down = blocks.dim(0),
                 .cells_across = blocks.dim(1),
                 .cell_rows = sides[0] / blocks.dim(0),
                 .cell_columns = sides[1] / blocks.dim(1),
                 .block_rows = blocks.dim(3),
                 .block_columns = blocks.dim(4),
                 .slots = blocks.dim(2)};
  return weight;
}

std::vector<float> dense_numbers(const Checkpoint& checkpoint, const StoredWeight& weight) {
  std::vector<float> values(static_cast<size_t>(weight.values.type.elements()));
  std::vector<int32_t> index(static_cast<size_t>(weight.index.type.elements()));
  checkpoint.load({weight.values, weight.index}, [&](const StateTensor& state, std::span<const std::byte> bytes) {
    const bool is_index = state.name == weight.index.name;
    std::copy(bytes.begin(), bytes.end(),
              is_index ? std::as_writable_bytes(std::span(index)).begin()
                       : std::as_writable_bytes(std::span(values)).begin());
  });
  for (const int32_t block : index)
    if (block < -1 || block >= weight.grid.blocks())
      throw Error({.what = "a stored block lies outside of its cell",
                   .where = checkpoint.path().string() + ", tensor '" + weight.index.name + "'",
                   .found = std::to_string(block),
                   .expected = "0 to " + std::to_string(weight.grid.blocks() - 1) + ", or -1 for none"});
  std::vector<float> dense = scatter_stored(weight.grid, index, values);
  std::fill(dense.begin() + weight.dense.unpadded().elements(), dense.end(), 0.0f);
  return dense;
}

}  // namespace

std::filesystem::path checkpoint_to_begin_from(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder / "checkpoints")) return folder;
  const auto all = list_checkpoints(folder / "checkpoints");
  if (all.empty())
    throw Error({.what = "the run has no checkpoint to begin from",
                 .where = "model.init_from",
                 .found = folder.string(),
                 .remedy = "Let it take one step, or name another run or checkpoint"});
  return all.back();
}

bool has_first(const Checkpoint& checkpoint, const StateTensor& state) {
  return checkpoint.has(state.name) || is_stored(checkpoint, state);
}

void load_first(const Checkpoint& checkpoint, const std::vector<StateTensor>& states,
                const std::function<void(const StateTensor&, std::span<const std::byte>)>& write,
                const std::function<bool(const StateTensor&)>& wanted) {
  std::vector<StateTensor> as_they_are;
  std::vector<StoredWeight> stored;
  for (const StateTensor& state : states)
    if (!is_stored(checkpoint, state))
      as_they_are.push_back(state);
    else if (!wanted || wanted(state))
      stored.push_back(stored_weight(checkpoint, state));
  checkpoint.load(as_they_are, write, wanted, kRemedy);
  for (const StoredWeight& weight : stored)
    write(weight.dense, std::as_bytes(std::span<const float>(dense_numbers(checkpoint, weight))));
}

std::vector<float> squared_gradients(const Checkpoint& checkpoint, const StateTensor& weight) {
  StateTensor squares = weight;
  squares.name = "optimizer.v." + weight.name;
  squares.kind = StateKind::kOptimizer;
  const CheckpointTensor* found = tensor_of(checkpoint, squares.name);
  if (!found || found->kind != squares.kind || found->type != weight.type) return {};
  std::vector<float> numbers(static_cast<size_t>(weight.type.elements()));
  checkpoint.load({squares}, [&](const StateTensor&, std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(numbers)).begin());
  });
  return numbers;
}

}  // namespace ramet::train
