#pragma once

// Helpers of readers. Inside graphs/ only.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

/// The categories of labels, in ascending order, and of each label its category.
struct Categories {
  std::vector<int64_t> labels;
  std::vector<int32_t> of;
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const int64_t label : labels) result.push_back(std::to_string(label));
    return result;
  }
};
inline Categories categories_of(const std::vector<int64_t>& values) {
  Categories result{values, {}};
  std::sort(result.labels.begin(), result.labels.end());
  result.labels.erase(std::unique(result.labels.begin(), result.labels.end()), result.labels.end());
  for (const int64_t value : values)
    result.of.push_back(static_cast<int32_t>(std::lower_bound(result.labels.begin(), result.labels.end(), value) -
                                             result.labels.begin()));
  return result;
}
inline void add_categories(GraphTables& tables, Field field, const std::vector<int64_t>& values) {
  const Categories categories = categories_of(values);
  field.dtype = DType::kI32;
  field.values = categories.names();
  tables.set_field(std::move(field), categories.of);
}

/// Values of the field "split".
enum Split : uint8_t { kTrain, kValidation, kTest, kNoSplit };
inline std::vector<std::string> split_names() { return {"train", "validation", "test", "none"}; }

}  // namespace ramet::graphs
