#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ramet/data/source.h"

namespace ramet::data {

/// A program's expectation of one tensor of its data.
struct ExpectedTensor {
  std::string name;
  TensorType type;  ///< of `samples` samples
  /// Least and greatest value that an element may have; no limits when absent.
  std::optional<double> low{}, high{};
};

/// Throws Error when a value is beyond the limits, naming the sample and the element. `data`: of `samples` samples, one
/// behind another; `text_of`: what messages call each of them.
void check_values(const ExpectedTensor& expected, const TensorType& type, const std::byte* data, int64_t samples,
                  const std::function<std::string(int64_t sample)>& text_of);

/// The source with its tensors checked against expectations: names, types and shapes at once, values whenever samples
/// are made. Throws Error naming the tensor, and for a value also the sample and the position. Tensors without an
/// expectation pass unchecked. When no values are limited, the source itself is returned.
std::shared_ptr<const Source> make_checked(std::shared_ptr<const Source> source, std::vector<ExpectedTensor> expected,
                                           int64_t samples);

}  // namespace ramet::data
