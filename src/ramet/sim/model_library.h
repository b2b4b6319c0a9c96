#pragma once

#include <map>
#include <mutex>

#include "ramet/machine/tile_figures.h"
#include "ramet/program/kernel_library.h"

namespace ramet::sim {

/// (input, output) pairs in which loops over elements may write results over operands: those whose elements correspond
/// one to one, and, in a matrix product, what the product is added to.
std::vector<std::pair<int, int>> in_place(const NodeSignature& node);

/// Kernels of a device of cores that is not here: they need no scratch, and write in place wherever the op allows.
class CoreLibrary : public KernelLibrary {
 public:
  KernelChoice choose(const NodeSignature& node, int threads) const override;
  std::optional<PackedLayout> packing(const NodeSignature&, int) const override { return std::nullopt; }
  std::string kernel_class() const override { return "model-cores"; }
};

/// Kernels of a device of tiles that is not here: they cannot run, but the tile model knows what they need of every
/// tile, so that compiling for it places what it would place there. Device memory is all tiles' together; a buffer
/// takes what its fullest tile holds, times the tiles. Results are written in place wherever the op allows. Where
/// memory lacks, products get a smaller share of it (`tighter`): names of kernels tell which, as in "tiles 60%".
class TileLibrary : public KernelLibrary {
 public:
  explicit TileLibrary(TileFigures figures) : figures_(figures) {}

  KernelChoice choose(const NodeSignature& node, int threads) const override;
  std::optional<PackedLayout> packing(const NodeSignature&, int) const override { return std::nullopt; }
  std::string kernel_class() const override { return "model-tiles"; }
  std::shared_ptr<const KernelLibrary> tighter() const override;
  int64_t stored_bytes(int64_t bytes, double spread) const override;
  int64_t program_bytes(std::span<const Task> tasks, int64_t instructions) const override;

 private:
  struct Known {
    KernelChoice choice;
    double messages = 0;
  };
  const Known& known(const NodeSignature& node) const;

  TileFigures figures_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Known> known_;  // by task_key
};

}  // namespace ramet::sim
