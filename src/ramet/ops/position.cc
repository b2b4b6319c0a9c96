#include "ramet/ops/position.h"

#include "ramet/base/error.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

constexpr int64_t kMostParts = int64_t{1} << 24;
constexpr size_t kMostCuts = 64;

std::string text(const PositionCut& cut) {
  return "dimension " + std::to_string(cut.dim) + " in " + std::to_string(cut.parts) + " parts of " +
         std::to_string(cut.blocks) + " blocks, part " + std::to_string(cut.position);
}

const Shape& positional_shape(const NodeSignature& node) {
  const int operand = node.op->positional;
  if (operand == OpDef::kPositionalOutput) return node.outputs.at(0).shape;
  if (operand < 0) internal_error("Position", "op " + node.op->name + " is not positional");
  return node.inputs.at(static_cast<size_t>(operand)).shape;
}

/// The coordinates among `runs` that a device holds after a further cut, whose parts are `extent` long together.
std::vector<Position::Run> cut_runs(const std::vector<Position::Run>& runs, const PositionCut& cut, int64_t extent) {
  std::vector<Position::Run> kept;
  const int64_t inner = extent / (cut.blocks * cut.parts);
  int64_t local = 0;
  for (int64_t block = 0; block < cut.blocks && inner > 0; ++block) {
    const int64_t begin = (block * cut.parts + cut.position) * inner, end = begin + inner;
    for (const Position::Run& run : runs) {
      const int64_t first = std::max(begin, run.local), last = std::min(end, run.local + run.length);
      if (first >= last) continue;
      const int64_t logical = run.logical + (first - run.local);
      if (!kept.empty() && kept.back().logical + kept.back().length == logical)
        kept.back().length += last - first;
      else
        kept.push_back({local, logical, last - first});
      local += last - first;
    }
  }
  return kept;
}

/// The same where the device has the clusters `deal` of the dimension, one after another.
std::vector<Position::Run> deal_runs(const NodeSignature& node, const std::vector<Position::Run>& runs,
                                     const PositionCut& cut, int64_t extent) {
  const std::vector<int64_t>& deal = node.attributes.get_ints("deal");
  const auto clusters = std::ssize(deal);
  if (runs.size() != 1 || cut.blocks != 1 || clusters == 0 || extent % clusters != 0 || clusters % cut.parts != 0)
    refuse(node, "a dimension cannot be dealt so", text(cut), std::to_string(clusters) + " clusters");
  const int64_t inner = extent / clusters, own = clusters / cut.parts;
  std::vector<Position::Run> kept;
  for (int64_t i = 0; i < own; ++i) {
    const int64_t cluster = deal[static_cast<size_t>(cut.position * own + i)];
    if (cluster < 0 || cluster >= clusters) refuse(node, "there is no such cluster", std::to_string(cluster));
    kept.push_back({i * inner, cluster * inner, inner});
  }
  return kept;
}

}  // namespace

std::vector<PositionCut> position_cuts(const NodeSignature& node) {
  std::vector<PositionCut> cuts;
  const std::vector<int64_t> none;
  const auto& all = node.attributes.has("cuts") ? node.attributes.get_ints("cuts") : none;
  const bool placed = node.attributes.has("position");
  const auto& positions = placed ? node.attributes.get_ints("position") : none;
  if (all.size() % kCutIntegers != 0 || all.size() > kMostCuts * kCutIntegers)
    refuse(node, "'cuts' has a wrong number of integers", std::to_string(all.size()),
           "dimension, axis, parts, blocks and stride of each cut");
  const size_t flat = node.attributes.has("flat") ? 1 : 0;
  if (placed && positions.size() != all.size() / kCutIntegers + flat)
    refuse(node, "'position' does not go with 'cuts'", std::to_string(positions.size()) + " integers",
           std::to_string(all.size() / kCutIntegers + flat) + ", one a cut");
  for (size_t i = 0; i < all.size(); i += kCutIntegers) {
    PositionCut cut{all[i], all[i + 1], all[i + 2], all[i + 3], all[i + 4], 0};
    if (placed) cut.position = positions[i / kCutIntegers];
    if (cut.dim < 0 || cut.parts < 1 || cut.parts > kMostParts || cut.blocks < 1 || cut.position < 0 ||
        cut.position >= cut.parts)
      refuse(node, "a cut that cannot be", text(cut), "1 part or more, 1 block or more, a part among them");
    cuts.push_back(cut);
  }
  return cuts;
}

PositionFlat position_flat(const NodeSignature& node) {
  PositionFlat flat;
  if (!node.attributes.has("flat")) return flat;
  const auto& numbers = node.attributes.get_ints("flat");
  if (numbers.size() < kFlatIntegers) refuse(node, "'flat' has too few integers", std::to_string(numbers.size()));
  flat.axis = numbers[0], flat.parts = numbers[1], flat.stride = numbers[2];
  flat.shape = Shape(std::vector<int64_t>(numbers.begin() + kFlatIntegers, numbers.end()));
  require_bounded(node, flat.shape);
  if (node.attributes.has("position") && !node.attributes.get_ints("position").empty())
    flat.position = node.attributes.get_ints("position").back();
  if (flat.parts < 1 || flat.parts > kMostParts || flat.stride < 1 || flat.position < 0 || flat.position >= flat.parts)
    refuse(node, "a flat part that cannot be",
           "part " + std::to_string(flat.position) + " of " + std::to_string(flat.parts));
  return flat;
}

Position::Position(const NodeSignature& node) : Position(node, positional_shape(node)) {}

Position::Position(const NodeSignature& node, const Shape& part) : local_(part) {
  if (const PositionFlat flat = position_flat(node); node.attributes.has("flat")) {
    local_ = flat.shape;
    flat_length_ = (local_.elements() + flat.parts - 1) / flat.parts;
    flat_first_ = flat.position * flat_length_;
    if (part != Shape{flat_length_})
      refuse(node, "'flat' speaks of another shape", part.text(), Shape{flat_length_}.text());
  }
  const Shape& local = local_;
  const std::vector<PositionCut> cuts = position_cuts(node);
  std::vector<int64_t> logical = local.dims();
  std::vector<int64_t> before(cuts.size());  // extent of the dimension before the cut
  for (size_t i = cuts.size(); i-- > 0;) {
    const PositionCut& cut = cuts[i];
    if (cut.dim >= local.rank()) refuse(node, "a cut of a dimension that is not there", text(cut), local.text());
    int64_t& extent = logical[static_cast<size_t>(cut.dim)];
    if (extent % cut.blocks != 0)
      refuse(node, "a cut's blocks do not divide the extent", text(cut), "a divisor of " + std::to_string(extent));
    before[i] = extent = extent * cut.parts;
    require_bounded(node, Shape(logical));
  }
  logical_ = Shape(logical);
  for (int dim = 0; dim < local.rank(); ++dim) {
    Dim made;
    made.runs = {{0, 0, logical_[dim]}};
    dims_.push_back(std::move(made));
  }
  const std::vector<int64_t> strides = logical_.strides();
  for (size_t dim = 0; dim < dims_.size(); ++dim) dims_[dim].logical_stride = strides[dim];
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (cuts[i].parts == 1) continue;
    Dim& dim = dims_[static_cast<size_t>(cuts[i].dim)];
    const bool dealt = cuts[i].axis == kDealtAxis && node.attributes.has("deal");
    dim.runs = dealt ? deal_runs(node, dim.runs, cuts[i], before[i]) : cut_runs(dim.runs, cuts[i], before[i]);
    whole_ = false;
    last_cut_ = std::max(last_cut_, static_cast<int>(cuts[i].dim));
  }
  if (whole_) return;
  for (int dim = last_cut_ + 1; dim < local.rank(); ++dim) tail_ *= local[dim];
  span_ = tail_ * local[last_cut_];
}

}  // namespace ramet::ops
