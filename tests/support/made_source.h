#pragma once

#include <cstring>

#include "ramet/data/source.h"

namespace ramet::tests {

/// A source of whole batches, for tests: `batch` makes them, each with all its tensors.
class MadeSource : public Source {
 public:
  virtual Batch batch(int64_t first, int64_t count) const = 0;

  Signature signature(int64_t count) const override {
    Signature signature;
    for (const NamedTensor& tensor : batch(0, count).tensors) signature.emplace_back(tensor.name, tensor.type);
    return signature;
  }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    const Batch made = batch(first, count);
    for (size_t i = 0; i < made.tensors.size(); ++i)
      if (!made.tensors[i].bytes.empty())
        std::memcpy(places.tensors[i], made.tensors[i].bytes.data(), made.tensors[i].bytes.size());
  }
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }
  Hash identity() const override { return hash_text("made for a test"); }
};

}  // namespace ramet::tests
