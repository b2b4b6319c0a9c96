#pragma once

#include <cstdint>
#include <memory>

#include "ramet/text/batches.h"
#include "ramet/train/recipe.h"

namespace ramet::train {

/// The samples in rows as `data.packing` says, `predictions` masked words to each at most; the samples themselves where
/// it says none. Throws Error naming the recipe's line.
std::shared_ptr<const BatchSource> in_packed_rows(std::shared_ptr<const BatchSource> samples, const Recipe& recipe,
                                                  int64_t predictions, bool training);

}  // namespace ramet::train
