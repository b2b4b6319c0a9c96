#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ramet/base/thread_team.h"
#include "ramet/kernel/cpu/blocking.h"
#include "ramet/kernel/cpu/epilogue.h"
#include "ramet/kernel/kernel.h"
#include "ramet/ops/matmul.h"

namespace ramet::kernel {

/// The single-threaded products of dense blocks that a prepared product consists of: our own with tiles, oneDNN's, our
/// own loop, and what a GPU would compute.
enum class BlockProduct {
  kTiles,   ///< bf16 (8-bit floats as bf16) on processors with AMX
  kOnednn,  ///< f32, bf16 and (as bf16) 8-bit floats on AVX-512, implementations that the guard has proven
  kPlain,   ///< f32 in order of k, on any processor; other types are widened
  kHopper   ///< bf16 (8-bit floats as bf16) and f16, as Hopper's tensor cores multiply them (kernel/hopper/product.h)
};

/// A node `matmul` or `linear`, prepared to run: which thread computes which block, through which buffers.
///
/// Every element is the same sum in the same order whatever the team, the blocks and the layout of b: threads own whole
/// rows (or, for few rows, whole column blocks), a block is one single-threaded product over all of a chunk's k, and
/// chunks are combined by `finish_rows`. Which thread computes which rows decides no bit, so threads take pieces of
/// many rows as they become free.
class PreparedMatmul {
 public:
  /// Null, with the reason in `why`, when this kind does not take the product. `bias` is the type of input 2 of a
  /// linear; `blocked` says how b is blocked if form.blocked; `epilogue` follows each block of rows.
  static std::unique_ptr<PreparedMatmul> make(BlockProduct kind, const MatmulForm& form, DType bias,
                                              const std::optional<BlockedMatrix>& blocked, int threads,
                                              std::string* why, std::optional<Epilogue> epilogue = {});
  ~PreparedMatmul();

  int64_t scratch_bytes() const;
  /// oneDNN's name of the implementation, "strided" or "panels" (strided_product.h, panel_product.h: with its bits),
  /// "tiles", "plain" or "hopper".
  const std::string& implementation() const;
  /// `extra` is the bias or c, or null. out may be c. A product with an epilogue needs the context of its node.
  void run(const void* a, const void* b, const void* extra, void* out, void* scratch, ThreadTeam& team,
           const KernelContext* context = nullptr) const;

  /// The blocked layout of b that `make` with the same arguments reads without further work.
  static std::optional<BlockedMatrix> preferred_blocking(BlockProduct kind, const MatmulForm& form);

 private:
  struct Parts;
  explicit PreparedMatmul(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// A kernel that is one product: of inputs 0 and 1, with the bias or c in input 2 where there is one (`has_extra`).
std::unique_ptr<Kernel> product_kernel(std::unique_ptr<PreparedMatmul> product, bool has_extra);

}  // namespace ramet::kernel
