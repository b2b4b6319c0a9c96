#pragma once

#include <map>
#include <mutex>

#include "ramet/machine/tile_figures.h"
#include "ramet/program/kernel_library.h"

namespace ramet::sim {

/// (input, output) pairs in which loops over elements may write results over operands: those whose elements correspond
/// one to one and, in a matrix product, the operand that the product is added to.
std::vector<std::pair<int, int>> in_place(const NodeSignature& node);

/// Kernels of a device of cores other than this machine: they need no scratch, and write in place wherever the op
/// allows.
class CoreLibrary : public KernelLibrary {
 public:
  KernelChoice choose(const NodeSignature& node, int threads) const override;
  std::optional<BlockedLayout> blocking(const NodeSignature&, int) const override { return std::nullopt; }
  std::string kernel_class() const override { return "model-cores"; }
};

/// Kernels of a device of tiles. They cannot run here, but the tile model knows the memory that they need of every
/// tile, so the compiler places the buffers that the device would have. Device memory is that of all tiles together; a
/// buffer takes the bytes of its fullest tile, times the number of tiles. Results are written in place wherever the op
/// allows. When memory is short, products get a smaller share of it (`tighter`); the names of kernels have that share,
/// as in "tiles 60%".
class TileLibrary : public KernelLibrary {
 public:
  explicit TileLibrary(TileFigures figures) : figures_(figures) {}

  KernelChoice choose(const NodeSignature& node, int threads) const override;
  std::optional<BlockedLayout> blocking(const NodeSignature&, int) const override { return std::nullopt; }
  std::string kernel_class() const override { return "model-tiles"; }
  std::shared_ptr<const KernelLibrary> tighter() const override;
  int64_t stored_bytes(int64_t bytes, double spread) const override;
  int64_t program_bytes(std::span<const Call> calls, int64_t instructions) const override;

 private:
  struct Known {
    KernelChoice choice;
    double messages = 0;
  };
  const Known& known(const NodeSignature& node) const;

  TileFigures figures_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Known> known_;  // by timing_key
};

}  // namespace ramet::sim
