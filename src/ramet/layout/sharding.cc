#include "ramet/layout/sharding.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::layout {
namespace {

int64_t coordinate_of(const Mesh::Position& position, MeshAxis axis) {
  switch (axis) {
    case MeshAxis::kStage: return position.stage;
    case MeshAxis::kReplica: return position.replica;
    case MeshAxis::kTensor1: return position.tensor1;
    case MeshAxis::kTensor2: return position.tensor2;
  }
  internal_error("coordinate_of", "unknown mesh axis");
}

/// Whether a dimension falls into the clusters of a deal, and these among the parts. A deal that is not known yet fits.
bool is_dealt_evenly(const std::vector<int64_t>& deal, const Cut& cut, int64_t extent) {
  if (deal.empty()) return true;
  const int64_t clusters = std::ssize(deal);
  return cut.blocks == 1 && clusters % cut.parts == 0 && extent % clusters == 0 &&
         std::all_of(deal.begin(), deal.end(), [&](int64_t k) { return k >= 0 && k < clusters; });
}

int64_t flat_length(int64_t elements, int64_t parts) { return (elements + parts - 1) / parts; }

/// Runs of the dimensions' cuts, in order of local elements: (logical, count) pairs laid end to end make the local
/// tensor.
class CutRuns {
 public:
  CutRuns(const Sharding& sharding, const Mesh::Position& position)
      : shape_(sharding.logical.shape), deal_(sharding.deal) {
    cut_.assign(static_cast<size_t>(shape_.rank()), nullptr);
    for (const Cut& cut : sharding.cuts) cut_[static_cast<size_t>(cut.dim)] = &cut;
    for (const Cut* cut : cut_) part_.push_back(cut ? part_of(*cut, position) : 0);
  }

  /// `body(logical, count)` for each run.
  template <typename Body>
  void each(const Body& body) {
    if (shape_.elements() == 0) return;
    int last = shape_.rank();  // dimensions from here on are whole: one run covers them
    while (last > 0 && !cut_[static_cast<size_t>(last - 1)]) --last;
    int64_t inner = 1;
    for (int dim = last; dim < shape_.rank(); ++dim) inner *= shape_[dim];
    walk(0, last, 0, inner, body);
  }

 private:
  template <typename Body>
  void walk(int dim, int last, int64_t base, int64_t inner, const Body& body) {
    if (dim == last) return body(base * inner, inner);
    const Cut* cut = cut_[static_cast<size_t>(dim)];
    const int64_t extent = shape_[dim];
    if (!cut) {
      for (int64_t i = 0; i < extent; ++i) walk(dim + 1, last, base * extent + i, inner, body);
      return;
    }
    const int64_t blocks = cut->dealt ? std::ssize(deal_) / cut->parts : cut->blocks;
    const int64_t run = extent / (blocks * cut->parts);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t part = part_[static_cast<size_t>(dim)];
      const int64_t first =
          (cut->dealt ? deal_[static_cast<size_t>(part * blocks + block)] : block * cut->parts + part) * run;
      if (dim + 1 == last)
        body((base * extent + first) * inner, run * inner);
      else
        for (int64_t i = 0; i < run; ++i) walk(dim + 1, last, base * extent + first + i, inner, body);
    }
  }

  const Shape& shape_;
  const std::vector<int64_t>& deal_;
  std::vector<const Cut*> cut_;
  std::vector<int64_t> part_;
};

}  // namespace

int64_t part_of(const Cut& cut, const Mesh::Position& position) {
  return coordinate_of(position, cut.axis) / cut.stride % cut.parts;
}

TensorType Sharding::cut_type() const {
  std::vector<int64_t> dims = logical.shape.dims();
  for (const Cut& cut : cuts) {
    if (cut.dim < 0 || static_cast<size_t>(cut.dim) >= dims.size() || cut.parts < 1 || cut.blocks < 1 ||
        cut.stride < 1 || dims[static_cast<size_t>(cut.dim)] % (cut.parts * cut.blocks) != 0 ||
        (cut.dealt && !is_dealt_evenly(deal, cut, dims[static_cast<size_t>(cut.dim)])))
      throw Error({.what = "a tensor cannot be cut so",
                   .where = logical.text(),
                   .found = "dimension " + std::to_string(cut.dim) + " in " + std::to_string(cut.blocks) + " x " +
                            std::to_string(cut.parts) + " parts"});
    dims[static_cast<size_t>(cut.dim)] /= cut.parts;
  }
  return {logical.dtype, Shape(std::move(dims))};
}

TensorType Sharding::local() const {
  TensorType cut = cut_type();
  if (flat_parts == 1) return cut;
  return {cut.dtype, Shape{flat_length(cut.elements(), flat_parts)}};
}

std::string Sharding::text() const {
  std::string text = logical.text();
  for (const Cut& cut : cuts) {
    text += " " + std::to_string(cut.dim) + "/" + std::string(name_of(cut.axis)) + ":" + std::to_string(cut.parts);
    if (cut.blocks > 1) text += "x" + std::to_string(cut.blocks);
    if (cut.stride > 1) text += "/" + std::to_string(cut.stride);
    if (cut.dealt) text += " dealt";
  }
  if (flat_parts > 1)
    text += " flat r:" + std::to_string(flat_parts) + (flat_stride > 1 ? "/" + std::to_string(flat_stride) : "");
  return text;
}

void for_each_run(const Sharding& sharding, const Mesh::Position& position,
                  const std::function<void(const ShardRun&)>& body) {
  const int64_t elements = sharding.cut_type().elements();
  int64_t begin = 0, end = elements;
  if (sharding.flat_parts > 1) {
    const int64_t length = flat_length(elements, sharding.flat_parts);
    const int64_t part = position.replica / sharding.flat_stride % sharding.flat_parts;
    begin = std::min(part * length, elements);
    end = std::min(begin + length, elements);
  }
  ShardRun pending;
  int64_t at = 0;  // in the tensor after the cuts of dimensions
  CutRuns(sharding, position).each([&](int64_t logical, int64_t count) {
    const int64_t from = std::max(at, begin), to = std::min(at + count, end);
    if (from < to) {
      const ShardRun run{logical + from - at, from - begin, to - from};
      if (pending.count > 0 && pending.logical + pending.count == run.logical &&
          pending.local + pending.count == run.local) {
        pending.count += run.count;
      } else {
        if (pending.count > 0) body(pending);
        pending = run;
      }
    }
    at += count;
  });
  if (pending.count > 0) body(pending);
}

}  // namespace ramet::layout
