#pragma once

#include "ramet/ir/op.h"

namespace ramet::ir {

/// Fills the table; defined in ops/register.cc. Which ops there are is chosen when the program is linked, so that
/// the table is whole before anyone can look into it and `ir/` includes nothing of `ops/`.
void register_all_ops(OpRegistry& registry);

}  // namespace ramet::ir
