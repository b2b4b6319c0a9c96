#include "ramet/device/cuda/recorded_order.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

namespace ramet::device {

bool RecordedOrder::is_behind(int node, int other) const {
  const std::vector<uint64_t>& bits = nodes_[static_cast<size_t>(node)].behind;
  const auto word = static_cast<size_t>(other) / 64;
  return word < bits.size() && (bits[word] >> (other % 64) & 1) != 0;
}

std::vector<int> RecordedOrder::numbers_before(const Touched& touched) const {
  std::vector<int> found;
  if (touched.everything) {
    found.resize(nodes_.size());
    std::iota(found.begin(), found.end(), 0);
  }
  const auto visit = [&](const ByteRange& range, bool writes) {
    if (range.begin == range.end) return;
    auto at = segments_.upper_bound(range.begin);
    if (at != segments_.begin() && std::prev(at)->second.end > range.begin) --at;
    for (; at != segments_.end() && at->first < range.end; ++at) {
      if (at->second.writer != kNone) found.push_back(at->second.writer);
      if (writes) found.insert(found.end(), at->second.readers.begin(), at->second.readers.end());
    }
  };
  for (const ByteRange& range : touched.reads) visit(range, false);
  for (const ByteRange& range : touched.writes) visit(range, true);
  if (between_ != kNone) found.push_back(between_);
  std::sort(found.begin(), found.end(), std::greater<>());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  // A node is behind earlier ones only: from the last one on, those that a kept one is behind go.
  std::vector<int> kept;
  for (const int node : found)
    if (std::none_of(kept.begin(), kept.end(), [&](int other) { return is_behind(other, node); })) kept.push_back(node);
  return kept;
}

std::vector<CuGraphNode> RecordedOrder::before(const Touched& touched) const {
  std::vector<CuGraphNode> handles;
  for (const int node : numbers_before(touched)) handles.push_back(nodes_[static_cast<size_t>(node)].handle);
  return handles;
}

void RecordedOrder::note(const Touched& touched, CuGraphNode handle) {
  const auto number = static_cast<int>(nodes_.size());
  Node node{.handle = handle, .behind = std::vector<uint64_t>(static_cast<size_t>(number) / 64 + 1)};
  for (const int other : numbers_before(touched)) {
    const std::vector<uint64_t>& bits = nodes_[static_cast<size_t>(other)].behind;
    for (size_t word = 0; word < bits.size(); ++word) node.behind[word] |= bits[word];
    node.line = std::max(node.line, nodes_[static_cast<size_t>(other)].line + 1);
  }
  longest_ = std::max(longest_, node.line);
  node.behind[static_cast<size_t>(number) / 64] |= uint64_t{1} << (number % 64);
  nodes_.push_back(std::move(node));
  if (touched.everything) {
    between_ = number;
    segments_.clear();
  }
  for (const ByteRange& range : touched.reads) note_read(range, number);
  for (const ByteRange& range : touched.writes) note_write(range, number);
}

void RecordedOrder::cut(uint64_t at) {
  auto behind = segments_.upper_bound(at);
  if (behind == segments_.begin()) return;
  const auto segment = std::prev(behind);
  if (segment->first == at || segment->second.end <= at) return;
  Segment rest = segment->second;
  segment->second.end = at;
  segments_.emplace(at, std::move(rest));
}

void RecordedOrder::note_read(const ByteRange& range, int node) {
  if (range.begin == range.end) return;
  cut(range.begin);
  cut(range.end);
  uint64_t at = range.begin;
  for (auto next = segments_.lower_bound(at); at < range.end; ++next) {
    const uint64_t begin = next == segments_.end() ? range.end : std::min(next->first, range.end);
    if (at < begin) next = segments_.emplace(at, Segment{.end = begin, .writer = kNone, .readers = {}}).first;
    next->second.readers.push_back(node);
    at = next->second.end;
  }
}

void RecordedOrder::note_write(const ByteRange& range, int node) {
  if (range.begin == range.end) return;
  cut(range.begin);
  cut(range.end);
  segments_.erase(segments_.lower_bound(range.begin), segments_.lower_bound(range.end));
  segments_.emplace(range.begin, Segment{.end = range.end, .writer = node, .readers = {}});
}

}  // namespace ramet::device
