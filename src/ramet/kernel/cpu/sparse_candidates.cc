// The blocks of a sparse matrix that are not stored, by the size of their gradients. The gradient of some rows of a
// cell is there at a time, so no dense matrix is.

#include <algorithm>
#include <numeric>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/sparse.h"
#include "ramet/ops/sparse_evolve.h"

namespace ramet::kernel {
namespace {

using cpu::OuterPatch;
using ops::SparseCandidatesForm;

constexpr int64_t kPatchElements = 1 << 20;

/// Rows of a cell whose gradient is there at a time: a multiple of a block's rows that divides the cell.
int64_t rows_of_patch(const SparseGrid& grid) {
  const int64_t wanted = kPatchElements / std::max<int64_t>(1, grid.cell_columns);
  int64_t rows = grid.block_rows;
  for (int64_t down = 1; down <= grid.blocks_down(); ++down)
    if (grid.blocks_down() % down == 0 && down * grid.block_rows <= wanted) rows = down * grid.block_rows;
  return rows;
}

/// The least keys that it has seen, as many as are wanted.
class LeastKeys {
 public:
  /// `room` takes 2 `wanted` + 1 keys.
  LeastKeys(uint64_t* room, int64_t wanted) : keys_(room), wanted_(wanted) {}
  void add(uint64_t key) {
    if (key >= limit_) return;
    keys_[count_++] = key;
    if (count_ <= 2 * wanted_) return;
    std::nth_element(keys_, keys_ + wanted_, keys_ + count_);
    limit_ = keys_[wanted_];
    count_ = wanted_;
  }
  /// In order.
  int64_t finish() {
    std::sort(keys_, keys_ + count_);
    return std::min(count_, wanted_);
  }

 private:
  uint64_t* keys_;
  int64_t wanted_, count_ = 0;
  uint64_t limit_ = ~uint64_t{0};
};

int64_t scratch(const NodeSignature& node, int) {
  const SparseGrid grid = ops::sparse_candidates_form(node).grid;
  return OuterPatch(node.inputs[0].dtype, rows_of_patch(grid), grid.cell_columns).scratch_bytes() +
         cpu::scratch_bytes((2 * grid.slots + 1) * 8);
}

void run(const NodeSignature& node, const SparseCandidatesForm& form, const KernelContext& context) {
  const SparseGrid& grid = form.grid;
  const auto* index = static_cast<const int32_t*>(context.inputs[2]);
  ops::check_sparse_index(node, grid, index);
  const int64_t rows = rows_of_patch(grid), bytes = static_cast<int64_t>(size_of(node.inputs[0].dtype));
  const OuterPatch patch(node.inputs[0].dtype, rows, grid.cell_columns);
  cpu::Room room(context.scratch);
  auto* keys = room.take<uint64_t>(2 * grid.slots + 1);
  void* patch_room = room.take<char>(patch.scratch_bytes());
  for (int64_t cell = 0; cell < grid.cells(); ++cell) {
    const int32_t *stored = index + cell * grid.slots, *end = stored + ops::used_slots(grid, stored);
    const auto* b = static_cast<const char*>(context.inputs[1]) + cell % grid.cells_across * grid.cell_columns * bytes;
    LeastKeys least(keys, grid.slots);
    for (int64_t top = 0; top < grid.cell_rows; top += rows) {
      const int64_t row = cell / grid.cells_across * grid.cell_rows + top;
      const float* gradient = patch.run(static_cast<const char*>(context.inputs[0]) + row * bytes, grid.rows(), b,
                                        grid.columns(), form.tokens, patch_room, context.team);
      const int64_t first = top / grid.block_rows * grid.blocks_across();
      for (int64_t at = 0; at < rows / grid.block_rows * grid.blocks_across(); ++at) {
        if (stored < end && *stored == first + at) {
          ++stored;
          continue;
        }
        const int64_t i = at / grid.blocks_across() * grid.block_rows,
                      j = at % grid.blocks_across() * grid.block_columns;
        float norm = 0;
        for (int64_t e = 0; e < grid.block_elements(); ++e)
          norm = ops::block_norm(form.norm, norm,
                                 gradient[patch.element(i + e / grid.block_columns, j + e % grid.block_columns)]);
        least.add(ops::falling_key(norm, first + at));
      }
    }
    auto* out = static_cast<int32_t*>(context.outputs[0]) + cell * grid.slots;
    const int64_t found = least.finish();
    for (int64_t slot = 0; slot < grid.slots; ++slot)
      out[slot] = slot < found ? ops::number_of_key(keys[slot]) : ops::kUnusedSlot;
  }
}

}  // namespace

void cpu::add_sparse_candidates(Backend& backend) {
  cpu::add_hwy(
      backend, "sparse_candidates",
      [](const NodeSignature& node) {
        return cpu::has_vector_loads(node.inputs[0].dtype) ? "" : "not for " + node.inputs[0].text();
      },
      [](const NodeSignature& node, int) {
        cpu_level();
        return [node, form = ops::sparse_candidates_form(node)](const KernelContext& context) {
          run(node, form, context);
        };
      },
      scratch);
}

}  // namespace ramet::kernel
