#include "ramet/recipe/packed_rows.h"

#include "ramet/base/error.h"

namespace ramet::recipe {

std::shared_ptr<const Source> in_packed_rows(std::shared_ptr<const SequenceSource> samples, const Recipe& recipe,
                                                  int64_t predictions, bool training) {
  const auto& data = recipe.data;
  if (!data.packs()) return samples;
  const PackedBatchOptions options{.algorithm = packing_algorithm(data.packing),
                                   .depth = data.packing_depth,
                                   .sequence_length = static_cast<int32_t>(data.sequence_length),
                                   .max_predictions = static_cast<int32_t>(predictions),
                                   .shuffle = training && data.shuffle,
                                   .seed = static_cast<uint64_t>(recipe.train.seed) + (training ? 0 : 1)};
  try {
    return make_packed_batches(std::move(samples), options);
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    if (parts.where.empty()) parts.where = recipe.where("data.packing_depth");
    throw Error(std::move(parts));
  }
}

}  // namespace ramet::recipe
