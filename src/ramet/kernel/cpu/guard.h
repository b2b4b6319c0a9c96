#pragma once

#include <string>

#include "ramet/base/dtype.h"

namespace ramet::kernel {

/// Whether oneDNN's implementation of products in `compute` may be used where bits are promised: "" or the reason
/// why not. On the first call it is found out, in some milliseconds, by running each implementation on a set of
/// shapes and comparing, bit for bit, the whole product with its row blocks and column blocks, and each fused form
/// (bias, accumulation, rounding) with the same done apart. Verdicts are kept in a file in the user's cache folder
/// for this processor, this oneDNN and this version of the guard; a folder that cannot be written costs only time.
std::string guard_refuses(DType compute, const std::string& implementation);

/// Whether sums of oneDNN's implementation in f32 have the order of strided_product.h, or in bf16 that of
/// strided_pairs.h, so that either may compute a product; found out and kept with the verdicts above.
bool guard_knows_chains(DType compute, const std::string& implementation);

/// The same without the file, for tests: all verdicts as text, a line an implementation:
/// "bf16 brg:avx512_core_bf16 equal" or "... differs: M split of 129x96x1000"; "f32-chains" and "bf16-chains" are those
/// on orders of sums.
std::string guard_prove();

}  // namespace ramet::kernel
