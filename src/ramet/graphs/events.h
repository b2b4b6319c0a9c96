#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ramet/data/source.h"
#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

/// Events [begin, end) in order of time.
struct EventRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// A graph set of one graph whose edges are events: an edge has the field "time". Events are numbered in order of time,
/// of equal times by their field "event", or, without it, in the order of edges.
class EventGraph {
 public:
  /// An event as a node sees it.
  struct Contact {
    int32_t event = 0, other = 0;
  };

  /// `split`: the field of edges whose value says which part of the data an event belongs to; "": all are trained on.
  /// Throws Error for a set of several graphs or types, for events without a time, and for parts that do not follow one
  /// another in time: training, validation, test.
  EventGraph(std::shared_ptr<const GraphSet> set, const std::string& split);

  int64_t nodes() const { return set_->node_ptr(0)[1]; }
  int64_t events() const { return std::ssize(times_); }
  int64_t message_width() const { return message_width_; }
  int32_t source(int64_t event) const { return sources_[static_cast<size_t>(event)]; }
  int32_t target(int64_t event) const { return targets_[static_cast<size_t>(event)]; }
  /// Since the first event.
  double time(int64_t event) const { return times_[static_cast<size_t>(event)]; }
  std::span<const float> message(int64_t event) const {
    return std::span(messages_).subspan(static_cast<size_t>(event * message_width_),
                                        static_cast<size_t>(message_width_));
  }
  /// "train", "validation" or "test". Throws Error for a part without events.
  EventRange part(const std::string& name) const;
  bool has_part(const std::string& name) const;
  /// The node's events before `event`, in order; an event of a node with itself stands twice.
  std::span<const Contact> before(int32_t node, int64_t event) const;
  /// The node's first `count` events.
  std::span<const Contact> first(int32_t node, int64_t count) const {
    return std::span(contacts_).subspan(static_cast<size_t>(contact_ptr_[static_cast<size_t>(node)]),
                                        static_cast<size_t>(count));
  }
  /// All nodes that events end in, ascending.
  const std::vector<int32_t>& destinations() const { return destinations_; }
  /// Places in `destinations` of those that events of `source` end in, ascending.
  std::span<const int32_t> destinations_of(int32_t source) const;
  /// Whether there is an event from `source` to `target` before `event`: all that EdgeBank (Poursafaei et al., arXiv
  /// 2207.10128, with unlimited memory) knows.
  bool met(int32_t source, int32_t target, int64_t event) const;
  const GraphSet& set() const { return *set_; }
  const std::string& split() const { return split_; }
  int64_t host_bytes() const;

 private:
  void read_parts();
  void index();

  std::shared_ptr<const GraphSet> set_;
  std::string split_;
  std::vector<int64_t> order_;  ///< edges of the set in order of events
  std::vector<int32_t> sources_, targets_;
  std::vector<double> times_;
  std::vector<float> messages_;
  int64_t message_width_ = 0;
  std::vector<EventRange> parts_;
  std::vector<int64_t> contact_ptr_;
  std::vector<Contact> contacts_;
  std::vector<int32_t> destinations_;
  std::vector<int64_t> known_ptr_;
  std::vector<int32_t> known_;
  std::unordered_map<uint64_t, int32_t> first_;  ///< by source and target: the first event between them
};

/// Which nodes a wrong destination of an event is drawn from.
enum class Negatives : uint8_t {
  kRandom,  ///< all nodes that any event ends in
  kStrict   ///< of these, those that no event of the same source ends in
};

struct EventOptions {
  int64_t batch = 200;  ///< events of a sample
  int64_t recent = 10;  ///< of each node so many last events count as its neighbours
  Negatives negatives = Negatives::kRandom;
  uint64_t seed = 0;
};

/// Places of a sample for nodes: first those of its events, then those that are wrong destinations alone, then those
/// that are neighbours alone; of the first two, nodes that have an earlier event come first. And for edges from
/// neighbours.
struct EventRoom {
  int64_t members = 1, others = 1, neighbors = 1, edges = 1;
  int64_t targets() const { return members + others; }
  int64_t nodes() const { return targets() + neighbors; }
  friend bool operator==(const EventRoom&, const EventRoom&) = default;
};

/// What a part of the samples is for: training, one endless run through the events to train on, in order, again and
/// again; or evaluation of the events behind them, part by part.
enum class EventUse : uint8_t { kTrain, kEvaluate };

/// Samples of events: a sample is `batch` events that follow one another, the last one of a part fewer. For each it has
/// one wrong destination, and of all nodes involved the last events before the sample. So a sample is a function of its
/// number and the options, whatever was asked for before. Tensors of B samples, of N nodes, T of them with neighbours
/// (EventRoom), E edges, P events and messages M wide:
///
/// - "node" i32 [B, N]: numbers of nodes; the graph's number of nodes at places without one;
/// - "partner" i32 [B, N], "message_time" f32 [B, N], "message" f32 [B, N, M] (M > 0), "has_message" u8 [B, N]: the
///   node's last event: with whom, how long after the node's last event of an earlier sample (or after time 0), and
///   whether there is one;
/// - "source" i32 [B, E] (places of nodes), "ptr" i32 [B, T + 1], "target_of", "by_source" i32 [B, E], "source_ptr" i32
///   [B, N + 1]: edges from the others of a node's last events to it, in order of time (ops/neighbors.h);
/// - "edge_time" f32 [B, E], "edge_message" f32 [B, E, M]: the event, and how long before the other's last event it
/// was;
/// - "event_source", "event_target", "event_negative" i32 [B, P]: places of nodes; "real" u8 [B, P]: 1 for an event;
/// - to evaluate, "continued" and "partner_continued" u8 [B, N]: whether a node's last event is one to evaluate.
///
/// Event k of sample i has the negative of element k of the stream (seed, use, i).
class EventSource final : public Source {
 public:
  /// `last`: the last part to evaluate. Throws Error for a batch of no events, for parts without events, and for
  /// strict negatives where a source has events with all destinations.
  EventSource(std::shared_ptr<const EventGraph> graph, const EventOptions& options, EventUse use,
              const std::string& last, const EventRoom& room);

  /// The least room for the first `samples` samples.
  static EventRoom room_of(const EventGraph& graph, const EventOptions& options, EventUse use, const std::string& last,
                           int64_t samples);
  /// Room for any sample.
  static EventRoom most_room(const EventGraph& graph, const EventOptions& options);

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t index) const override { return index / epoch_samples(0); }
  int64_t epoch_samples(int64_t epoch) const override;
  Hash identity() const override;
  std::string text_of(int64_t index) const override { return "batch of events " + std::to_string(index); }
  int64_t host_bytes() const override { return graph_->host_bytes() + graph_->nodes() * 4; }

  const EventGraph& graph() const { return *graph_; }
  const EventRoom& room() const { return room_; }
  /// The events of a sample, and the wrong destination of each, as numbers of nodes.
  EventRange events_of(int64_t index) const;
  std::vector<int32_t> negatives_of(int64_t index) const;

 private:
  struct Contents;
  class Writer;
  Contents contents(int64_t index) const;
  void count_before(int64_t event) const;
  int64_t begin_of_sample(int64_t event) const;

  std::shared_ptr<const EventGraph> graph_;
  EventOptions options_;
  EventUse use_;
  std::vector<EventRange> parts_;  ///< that samples come from
  std::vector<EventRange> all_;    ///< all parts of the events, in order
  EventRoom room_;
  /// How many events each node has before event `counted_`: samples mostly follow one another, and going on from one to
  /// the next is cheaper than a search for each node.
  mutable std::mutex counting_;
  mutable std::vector<int32_t> counts_;
  mutable int64_t counted_ = 0;
};

}  // namespace ramet::graphs
