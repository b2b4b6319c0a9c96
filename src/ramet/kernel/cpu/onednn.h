#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ramet/base/dtype.h"
#include "ramet/kernel/cpu/cpu_features.h"

// The only interface to oneDNN. Ramet uses it for single-threaded products of dense blocks; splitting work among
// threads, blocking operands, and everything else that could decide a bit is done by Ramet (docs/architecture.md).
// Builds without oneDNN link no_onednn.cc in the place of onednn.cc: then nothing here makes a product, and our own
// loops (matmul_plain.h) compute all of them.
namespace ramet::kernel::onednn {

/// Whether this build has oneDNN.
bool built();

/// C [m,n] = A [m,k] x B [k,n] (+ bias [n]) (+ C), A and C dense and row-major, B blocked: columns in blocks of
/// `n_block`, in each block rows of k in groups of 16 (f32) or 32 (bf16: 16 pairs of neighbours), zero-padded.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  DType compute = DType::kF32;  ///< of A and B: f32 or bf16
  DType out = DType::kF32;      ///< of C: f32 or bf16
  std::optional<DType> bias{};  ///< f32 or bf16
  bool accumulate = false;      ///< C is read too
  int64_t n_block = 64;
};

/// The column block that oneDNN likes for a blocked B [k,n] (independent of m), or 0 when it blocks in a way that
/// `GemmShape` does not describe, or does not compute in this type on this processor.
int64_t preferred_block(DType compute, int64_t k, int64_t n);

/// A primitive made for one shape, with one set of argument slots for each thread that may run it.
class Gemm {
 public:
  /// Null, with the reason in `why`, when oneDNN refuses the shape.
  static std::unique_ptr<Gemm> make(const GemmShape& shape, int slots, std::string* why);
  ~Gemm();

  /// oneDNN's name of the implementation, as in "brg:avx512_core_bf16".
  const std::string& implementation() const;
  int64_t scratch_bytes() const;
  /// Runs on the calling thread alone, whatever OpenMP is set to. A slot takes one call at a time.
  void run(int slot, const void* a, const void* b, const void* bias, void* c, void* scratch) const;

 private:
  struct Parts;
  explicit Gemm(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Sets the calling thread's OpenMP team to one thread, and back on destruction: oneDNN reads it both when it makes and
/// when it runs a primitive, and a program that embeds Ramet may use OpenMP for other things.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// "2.6.3 (commit)"; "none" in builds without oneDNN.
std::string version();
/// Holds oneDNN to instruction sets of the level; before its first use.
void limit_isa(CpuLevel level);

}  // namespace ramet::kernel::onednn
