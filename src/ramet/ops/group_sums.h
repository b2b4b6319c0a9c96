#pragma once

#include <cstdint>

#include "ramet/ir/builder.h"
#include "ramet/ir/op.h"

namespace ramet::ops {

/// Of a node that sums over dimension 0 of its inputs: the sums of `groups` equal parts of that dimension, [groups,
/// shape of output 0] in f32. An invalid tensor where the op has no such form, or where dimension 0 is the groups alone
/// and is summed along their tree already (transform/cluster_sums.h).
Tensor sums_of_groups(SimplifyContext& context, int64_t groups);

}  // namespace ramet::ops
