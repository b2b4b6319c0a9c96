#pragma once

#include <cstdint>
#include <memory>

#include "ramet/recipe/recipe.h"
#include "ramet/text/batches.h"

namespace ramet::recipe {

/// The samples in rows as `data.packing` says, `predictions` masked words to each at most; the samples themselves where
/// it says none. Throws Error naming the recipe's line.
std::shared_ptr<const Source> in_packed_rows(std::shared_ptr<const SequenceSource> samples, const Recipe& recipe,
                                                  int64_t predictions, bool training);

}  // namespace ramet::recipe
