#include "ramet/program/order.h"

#include <algorithm>
#include <queue>

#include "ramet/program/order_analysis.h"

namespace ramet::program {
namespace {

/// Outputs so small that holding them early costs nothing, while their inputs may be large or still in a cache (norms
/// of gradients, losses).
constexpr int64_t kTinyBytes = 4096;

/// An order in the making: nodes that have run, live values.
class Trial {
 public:
  explicit Trial(const OrderAnalysis& analysis)
      : analysis_(analysis),
        waiting_(analysis.predecessors),
        unread_(analysis.graph.values().size(), 0),
        done_(analysis.nodes) {
    for (size_t root = 0; root < unread_.size(); ++root)
      unread_[root] = static_cast<int32_t>(analysis.readers[root].size());
    for (const GraphInput& input : analysis.graph.inputs()) live_ += analysis.bytes(input.value);
    peak_ = live_;
    order_.reserve(analysis.nodes);
  }

  bool done(NodeId id) const { return done_[static_cast<size_t>(id)]; }
  bool ready(NodeId id) const { return !done(id) && waiting_[static_cast<size_t>(id)] == 0; }

  /// What live bytes will change by when the node has run.
  int64_t delta(NodeId id) const {
    int64_t change = 0;
    for (ValueId output : analysis_.graph.node(id).outputs)
      if (analysis_.root(output) == output) change += analysis_.bytes(output);
    for (ValueId read : analysis_.reads[static_cast<size_t>(id)])
      if (unread_[static_cast<size_t>(read)] == 1 && dies(read)) change -= analysis_.bytes(read);
    return change;
  }

  void run(NodeId id) {
    done_[static_cast<size_t>(id)] = true;
    order_.push_back(id);
    const Node& node = analysis_.graph.node(id);
    for (ValueId output : node.outputs)
      if (analysis_.root(output) == output) live_ += analysis_.bytes(output);
    peak_ = std::max(peak_, live_);
    for (ValueId read : analysis_.reads[static_cast<size_t>(id)])
      if (--unread_[static_cast<size_t>(read)] == 0 && dies(read)) live_ -= analysis_.bytes(read);
    for (ValueId output : node.outputs)  // a value without readers dies at once
      if (analysis_.root(output) == output && unread_[static_cast<size_t>(output)] == 0 && dies(output))
        live_ -= analysis_.bytes(output);
    for (NodeId next : analysis_.successors[static_cast<size_t>(id)]) --waiting_[static_cast<size_t>(next)];
  }

  /// Calls `visit` with nodes that may have become better to run because `id` has run.
  template <typename Visit>
  void each_touched(NodeId id, Visit visit) const {
    for (NodeId next : analysis_.successors[static_cast<size_t>(id)]) visit(next);
    for (ValueId read : analysis_.reads[static_cast<size_t>(id)])
      if (unread_[static_cast<size_t>(read)] == 1)
        for (NodeId reader : analysis_.readers[static_cast<size_t>(read)])
          if (!done(reader)) visit(reader);
  }

  int64_t peak() const { return peak_; }
  std::vector<NodeId> take_order() { return std::move(order_); }

 private:
  bool dies(ValueId root) const { return !analysis_.kept[static_cast<size_t>(root)]; }

  const OrderAnalysis& analysis_;
  std::vector<int32_t> waiting_, unread_;
  std::vector<bool> done_;
  std::vector<NodeId> order_;
  int64_t live_ = 0, peak_ = 0;
};

NodeOrder finish(Trial& trial, std::string method) {
  NodeOrder result;
  result.peak_bytes = trial.peak();
  result.order = trial.take_order();
  result.method = std::move(method);
  return result;
}

NodeOrder in_order(const OrderAnalysis& analysis, const std::vector<NodeId>& order, const std::string& method) {
  Trial trial(analysis);
  for (NodeId id : order) trial.run(id);
  return finish(trial, method);
}

std::vector<NodeId> graph_order(const OrderAnalysis& analysis) {
  std::vector<NodeId> order(analysis.nodes);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<NodeId>(i);
  return order;
}

/// Small values of small values, as the rates and corrections that updates need: they run first of all, so that nothing
/// waits for them.
void run_tiny_sources(const OrderAnalysis& analysis, Trial& trial) {
  for (size_t id = 0; id < analysis.nodes; ++id) {
    if (!trial.ready(static_cast<NodeId>(id))) continue;
    const Node& node = analysis.graph.node(static_cast<NodeId>(id));
    int64_t bytes = 0;
    for (ValueId input : node.inputs) bytes += analysis.graph.type(input).bytes();
    for (ValueId output : node.outputs) bytes += analysis.graph.type(output).bytes();
    if (bytes <= kTinyBytes) trial.run(static_cast<NodeId>(id));
  }
}

NodeOrder early(const OrderAnalysis& analysis, const std::vector<NodeId>& base, const std::string& method) {
  Trial trial(analysis);
  run_tiny_sources(analysis, trial);
  std::vector<NodeId> touched;
  for (NodeId id : base) {
    if (trial.done(id)) continue;
    trial.run(id);
    touched.clear();
    trial.each_touched(id, [&](NodeId next) { touched.push_back(next); });
    for (size_t i = 0; i < touched.size(); ++i) {
      const NodeId next = touched[i];
      if (!trial.ready(next) || trial.delta(next) > kTinyBytes) continue;
      trial.run(next);
      trial.each_touched(next, [&](NodeId after) { touched.push_back(after); });
    }
  }
  return finish(trial, method);
}

/// The graph's order with nodes that need only states, scalars or other such nodes moved to before their first use.
std::vector<NodeId> late_sources(const OrderAnalysis& analysis) {
  const Graph& graph = analysis.graph;
  std::vector<bool> late(analysis.nodes, false), placed(analysis.nodes, false);
  for (size_t id = 0; id < analysis.nodes; ++id) {
    const Node& node = graph.node(static_cast<NodeId>(id));
    late[id] = true;
    for (ValueId input : node.inputs) {
      const NodeId producer = graph.value(input).producer;
      const bool source = producer == kNoNode
                              ? analysis.external[static_cast<size_t>(input)] || graph.type(input).bytes() <= kTinyBytes
                              : late[static_cast<size_t>(producer)];
      late[id] = late[id] && source;
    }
    for (ValueId output : node.outputs)
      late[id] = late[id] && !analysis.kept[static_cast<size_t>(analysis.root(output))];
  }
  std::vector<NodeId> order, stack;
  order.reserve(analysis.nodes);
  const auto place = [&](NodeId first) {  // a node after the late ones that it needs
    stack.assign(1, first);
    while (!stack.empty()) {
      const NodeId id = stack.back();
      bool waits = false;
      if (!placed[static_cast<size_t>(id)])
        for (ValueId input : graph.node(id).inputs) {
          const NodeId producer = graph.value(input).producer;
          if (producer == kNoNode || placed[static_cast<size_t>(producer)]) continue;
          stack.push_back(producer);
          waits = true;
        }
      if (waits) continue;
      stack.pop_back();
      if (!placed[static_cast<size_t>(id)]) order.push_back(id);
      placed[static_cast<size_t>(id)] = true;
    }
  };
  for (size_t id = 0; id < analysis.nodes; ++id)
    if (!late[id]) place(static_cast<NodeId>(id));
  for (size_t id = 0; id < analysis.nodes; ++id) place(static_cast<NodeId>(id));
  return order;
}

NodeOrder greedy(const OrderAnalysis& analysis) {
  Trial trial(analysis);
  // Deltas only fall while a node waits, so an entry that is out of date stands too low in the queue and is put in
  // again when a touch lowers it.
  using Entry = std::pair<int64_t, NodeId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (size_t id = 0; id < analysis.nodes; ++id)
    if (trial.ready(static_cast<NodeId>(id)))
      queue.emplace(trial.delta(static_cast<NodeId>(id)), static_cast<NodeId>(id));
  while (!queue.empty()) {
    const NodeId id = queue.top().second;
    queue.pop();
    if (trial.done(id)) continue;
    trial.run(id);
    trial.each_touched(id, [&](NodeId next) {
      if (trial.ready(next)) queue.emplace(trial.delta(next), next);
    });
  }
  return finish(trial, "greedy");
}

/// An order that respects data but puts a reader of a state after its writer would cost a copy; only `late_sources`
/// can.
bool respects_edges(const OrderAnalysis& analysis, const std::vector<NodeId>& order) {
  std::vector<size_t> position(analysis.nodes);
  for (size_t i = 0; i < order.size(); ++i) position[static_cast<size_t>(order[i])] = i;
  for (size_t id = 0; id < analysis.nodes; ++id)
    for (NodeId next : analysis.successors[id])
      if (position[id] > position[static_cast<size_t>(next)]) return false;
  return true;
}

}  // namespace

int64_t peak_of(const Graph& graph, const std::vector<NodeId>& order) {
  return in_order(OrderAnalysis(graph), order, "").peak_bytes;
}

NodeOrder find_order(const Graph& graph) {
  const OrderAnalysis analysis(graph);
  const std::vector<NodeId> base = graph_order(analysis);
  NodeOrder best = in_order(analysis, base, "graph");
  const auto consider = [&](NodeOrder candidate) {
    if (candidate.peak_bytes < best.peak_bytes) best = std::move(candidate);
  };
  consider(early(analysis, base, "early"));
  if (const std::vector<NodeId> late = late_sources(analysis); respects_edges(analysis, late))
    consider(early(analysis, late, "late sources"));
  consider(greedy(analysis));
  return best;
}

}  // namespace ramet::program
