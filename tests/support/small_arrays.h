#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "ramet/data/arrays.h"
#include "support/small_model.h"

namespace ramet::tests {

template <typename T>
NamedTensor array_of(const std::string& name, DType dtype, Shape shape, const std::vector<T>& values) {
  NamedTensor tensor{name, {dtype, std::move(shape)}, {}};
  tensor.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

/// Rows and labels of `count` samples for `small_model`, as a file of arrays.
inline void save_samples(const std::filesystem::path& path, int64_t count, uint64_t seed = 1) {
  const SmallSamples samples(count, seed);
  save_npz(path, {array_of("rows", DType::kF32, {count, kSmallWidth}, samples.rows),
                  array_of("labels", DType::kI32, {count}, samples.labels),
                  array_of("unused", DType::kI32, {count}, samples.labels)});
}

/// A recipe of the file small.ramet beside it; `data` and `train` are further lines of these tables.
inline std::string small_model_recipe(const std::string& data = "", const std::string& train = "") {
  return R"([model]
file = "small.ramet"
[data]
kind = "arrays"
train = "train.npz"
)" + data +
         R"([train]
steps = 12
accumulation = 4
lanes = 4
chunks = 4
precision = "f32"
)" + train +
         R"([train.schedule]
learning_rate = 0.01
[train.evaluation]
batches = 4
[train.checkpoint]
every = 2
)";
}

}  // namespace ramet::tests
