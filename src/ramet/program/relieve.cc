#include "ramet/program/relieve.h"

#include <algorithm>

#include "ramet/program/order_analysis.h"

namespace ramet::program {
namespace {

/// Results of less than this share of the peak stay where they are: moving them would gain little.
constexpr int64_t kLeastShare = 32;
constexpr int kMostMoves = 64;

/// Transient bytes along an order.
struct Profile {
  std::vector<int64_t> during;  ///< while the node at a position runs
  std::vector<int64_t> after;   ///< between it and the next one
  size_t peak = 0;              ///< the first position with the most bytes

  int64_t peak_bytes() const { return during.empty() ? 0 : during[peak]; }
};

class Relief {
 public:
  Relief(const Graph& graph, std::vector<NodeId> order, const std::function<const KernelChoice&(NodeId)>& kernel_of)
      : analysis_(graph), kernel_of_(kernel_of), order_(std::move(order)) {
    profile_ = measure();
  }

  std::vector<NodeId> run() {
    for (int moves = 0; moves < kMostMoves && move_one(); ++moves) {
    }
    return std::move(order_);
  }

 private:
  /// Moves one node behind the peak, if that lowers it.
  bool move_one() {
    if (order_.empty()) return false;
    for (size_t at = profile_.peak + 1; at-- > 0;) {
      const NodeId id = order_[at];
      if (analysis_.is_view(id) || bytes_of(id) < profile_.peak_bytes() / kLeastShare) continue;
      const size_t behind = best_place(at);
      if (behind == at) continue;
      std::vector<NodeId> before = order_;
      const Profile old = profile_;
      move(at, behind);
      profile_ = measure();
      if (profile_.peak_bytes() < old.peak_bytes()) return true;
      order_ = std::move(before);
      profile_ = old;
    }
    return false;
  }

  /// Bytes of a node's results.
  int64_t bytes_of(NodeId id) const {
    int64_t bytes = 0;
    for (ValueId output : analysis_.graph.node(id).outputs) bytes += analysis_.bytes(output);
    return bytes;
  }

  /// The position behind which the node at `at` would run with the lowest peak, as far as the profile tells; `at`
  /// where none is lower.
  size_t best_place(size_t at) const {
    const NodeId id = order_[at];
    const size_t end = first_follower(id);
    if (end <= profile_.peak) return at;
    const int64_t results = bytes_of(id), scratch = kernel_of_(id).scratch_bytes;
    const std::vector<Wait> waits = waits_of(id, at);
    std::vector<int64_t> rest(end + 1, 0);  // the peak of what follows a position
    for (size_t i = end; i < order_.size(); ++i) rest[end] = std::max(rest[end], profile_.during[i]);
    for (size_t i = end; i-- > at;) rest[i] = std::max(rest[i + 1], profile_.during[i]);
    int64_t passed = 0, best = profile_.peak_bytes();
    for (size_t i = 0; i < at; ++i) passed = std::max(passed, profile_.during[i]);
    size_t place = at;
    for (size_t i = at + 1; i < end; ++i) {
      passed = std::max(passed, profile_.during[i] - results + waiting(waits, i));
      const int64_t here = profile_.after[i] + waiting(waits, i + 1) + scratch;
      const int64_t peak = std::max({passed, here, rest[i + 1]});
      if (peak < best) best = peak, place = i;
    }
    return place;
  }

  /// An operand that others read up to a position, and that waits behind it for the node alone.
  struct Wait {
    size_t last;
    int64_t bytes;
  };

  std::vector<Wait> waits_of(NodeId id, size_t at) const {
    std::vector<Wait> waits;
    for (ValueId read : analysis_.reads[static_cast<size_t>(id)]) {
      if (analysis_.kept[static_cast<size_t>(read)] || analysis_.bytes(read) == 0) continue;
      Wait wait{at, analysis_.bytes(read)};
      for (NodeId reader : analysis_.readers[static_cast<size_t>(read)])
        if (reader != id) wait.last = std::max(wait.last, position_[static_cast<size_t>(reader)]);
      waits.push_back(wait);
    }
    return waits;
  }

  static int64_t waiting(const std::vector<Wait>& waits, size_t position) {
    int64_t bytes = 0;
    for (const Wait& wait : waits)
      if (wait.last < position) bytes += wait.bytes;
    return bytes;
  }

  /// Position of the first node that has to follow, views of the results aside: they move with the node.
  size_t first_follower(NodeId id) const {
    size_t first = order_.size();
    for (NodeId next : analysis_.successors[static_cast<size_t>(id)])
      first = std::min(first, analysis_.is_view(next) ? first_follower(next) : position_[static_cast<size_t>(next)]);
    return first;
  }

  void add_views(NodeId id, std::vector<bool>& moved) const {
    moved[static_cast<size_t>(id)] = true;
    for (NodeId next : analysis_.successors[static_cast<size_t>(id)])
      if (analysis_.is_view(next)) add_views(next, moved);
  }

  void move(size_t at, size_t behind) {
    std::vector<bool> moved(analysis_.nodes, false);
    add_views(order_[at], moved);
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(at),
               last = order_.begin() + static_cast<std::ptrdiff_t>(behind) + 1;
    std::stable_partition(first, last, [&](NodeId id) { return !moved[static_cast<size_t>(id)]; });
  }

  /// Bytes of operands that die at a node and that its results are written over.
  int64_t overwritten(NodeId id, size_t at, const std::vector<size_t>& last) const {
    const Node& node = analysis_.graph.node(id);
    int64_t bytes = 0;
    std::vector<ValueId> taken;
    for (size_t output = 0; output < node.outputs.size(); ++output)
      for (const auto& [from, to] : kernel_of_(id).may_alias) {
        if (to != static_cast<int>(output) || from < 0 || static_cast<size_t>(from) >= node.inputs.size()) continue;
        const ValueId operand = analysis_.root(node.inputs[static_cast<size_t>(from)]);
        const int64_t size = analysis_.bytes(node.outputs[output]);
        if (size != analysis_.bytes(operand) || last[static_cast<size_t>(operand)] != at) continue;
        if (std::find(taken.begin(), taken.end(), operand) != taken.end()) continue;
        taken.push_back(operand);
        bytes += size;
        break;
      }
    return bytes;
  }

  Profile measure() {
    const size_t count = order_.size();
    position_.assign(analysis_.nodes, 0);
    for (size_t i = 0; i < count; ++i) position_[static_cast<size_t>(order_[i])] = i;
    std::vector<size_t> last(analysis_.graph.values().size(), 0);
    for (size_t root = 0; root < last.size(); ++root) {
      if (const NodeId producer = analysis_.graph.value(static_cast<ValueId>(root)).producer; producer != kNoNode)
        last[root] = position_[static_cast<size_t>(producer)];
      for (NodeId reader : analysis_.readers[root])
        last[root] = std::max(last[root], position_[static_cast<size_t>(reader)]);
      if (analysis_.kept[root]) last[root] = count;
    }
    std::vector<int64_t> dying(count + 1, 0);
    Profile profile;
    int64_t live = 0;
    for (const GraphInput& input : analysis_.graph.inputs()) {
      live += analysis_.bytes(input.value);
      dying[last[static_cast<size_t>(input.value)]] += analysis_.bytes(input.value);
    }
    for (size_t i = 0; i < count; ++i) {
      const NodeId id = order_[i];
      int64_t extra = 0;
      if (!analysis_.is_view(id)) {
        for (ValueId output : analysis_.graph.node(id).outputs) {
          live += analysis_.bytes(output);
          dying[last[static_cast<size_t>(output)]] += analysis_.bytes(output);
        }
        extra = kernel_of_(id).scratch_bytes - overwritten(id, i, last);
      }
      profile.during.push_back(live + extra);
      live -= dying[i];
      profile.after.push_back(live);
      if (profile.during[i] > profile.peak_bytes()) profile.peak = i;
    }
    return profile;
  }

  const OrderAnalysis analysis_;
  const std::function<const KernelChoice&(NodeId)>& kernel_of_;
  std::vector<NodeId> order_;
  std::vector<size_t> position_;  // of each node
  Profile profile_;
};

}  // namespace

NodeOrder relieve_peak(const Graph& graph, NodeOrder order,
                       const std::function<const KernelChoice&(NodeId)>& kernel_of) {
  order.order = Relief(graph, std::move(order.order), kernel_of).run();
  return order;
}

}  // namespace ramet::program
