#include "ramet/data/source.h"

#include <algorithm>
#include <new>

#include "ramet/base/error.h"

namespace ramet::data {
namespace {

int64_t padded(const TensorType& type) {
  return (type.bytes() + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

}  // namespace

const NamedTensor& Batch::at(std::string_view name) const {
  std::string there;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
    there += (there.empty() ? "" : ", ") + tensor.name;
  }
  throw Error({.what = "a batch has no tensor '" + std::string(name) + "'", .expected = "one of " + there});
}

Hash source_identity(std::string_view kind, std::string_view contents, std::initializer_list<double> options) {
  Hasher hasher;
  hasher.update(kind).update("\n").update(contents).update("\n");
  for (const double option : options) hasher.update(&option, sizeof option);
  return hasher.digest();
}

void check_samples(int64_t first, int64_t count) {
  if (first < 0 || count < 1 || first > INT64_MAX - count)
    throw Error({.what = "a batch of samples that cannot be",
                 .found = std::to_string(count) + " samples from " + std::to_string(first),
                 .expected = "one or more, from 0 or more"});
}

Batch Source::make(int64_t first, int64_t count) const {
  check_samples(first, count);
  Batch batch{first, count, {}};
  std::vector<std::byte*> places;
  for (const auto& [name, type] : signature(count))
    batch.tensors.push_back({name, type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))});
  for (NamedTensor& tensor : batch.tensors) places.push_back(tensor.bytes.data());
  fill(first, count, {.tensors = places});
  return batch;
}

int64_t place_bytes(const Signature& signature) {
  int64_t bytes = 0;
  for (const auto& each : signature) bytes += padded(each.second);
  return bytes;
}

void BatchMemory::Free::operator()(std::byte* data) const {
  ::operator delete(data, std::align_val_t{static_cast<size_t>(kPlaceAlignment)});
}

BatchMemory::BatchMemory(const Signature& signature) : bytes_(place_bytes(signature)) {
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes_, 1));
  data_.reset(static_cast<std::byte*>(::operator new(size, std::align_val_t{static_cast<size_t>(kPlaceAlignment)})));
  std::byte* next = data_.get();
  for (const auto& each : signature) {
    places_.push_back(next);
    next += padded(each.second);
  }
}

}  // namespace ramet::data
