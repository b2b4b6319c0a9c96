#include <algorithm>
#include <array>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/graphs/events.h"

namespace ramet::graphs {
namespace {

// The tensors of a signature, in order; those of messages are there where messages have a width, the last two to
// evaluate.
enum Tensor : size_t {
  kNode,
  kPartner,
  kMessageTime,
  kHasMessage,
  kSource,
  kPtr,
  kTargetOf,
  kBySource,
  kSourcePtr,
  kEdgeTime,
  kEventSource,
  kEventTarget,
  kEventNegative,
  kReal,
  kContinued,
  kPartnerContinued,
  kMessage,
  kEdgeMessage
};

std::vector<EventRange> parts_of(const EventGraph& graph, EventUse use, const std::string& last) {
  if (use == EventUse::kTrain) return {graph.part("train")};
  std::vector<EventRange> parts;
  if (last == "validation" || graph.has_part("validation")) parts.push_back(graph.part("validation"));
  if (last == "test") parts.push_back(graph.part("test"));
  return parts;
}

int64_t samples_in(const EventRange& part, int64_t batch) { return (part.size() + batch - 1) / batch; }

}  // namespace

/// The nodes and edges of a sample. Nodes stand in one row: members, others, neighbours.
struct EventSource::Contents {
  EventRange events;
  std::vector<int32_t> negatives;
  std::vector<int32_t> nodes;
  int64_t members = 0, others = 0;
  std::vector<int32_t> edge_source;  ///< in `nodes`
  std::vector<int32_t> edge_event;
  std::vector<int32_t> ptr;                                   ///< edges of members and others
  std::vector<std::span<const EventGraph::Contact>> history;  ///< of each node: all events before the sample
  std::vector<int32_t> place;                                 ///< of a node in `nodes`, or -1

  int64_t targets() const { return members + others; }
  /// Adds a node where it is not there yet.
  void add(int32_t node) {
    int32_t& at = place[static_cast<size_t>(node)];
    if (at >= 0) return;
    at = static_cast<int32_t>(nodes.size());
    nodes.push_back(node);
  }
  /// Puts those of the nodes from `first` on that `is_first` says before the others: rows of nodes without a message
  /// are zero, and products leave out such rows where they lie together.
  template <typename IsFirst>
  void put_first(int64_t first, const IsFirst& is_first) {
    std::stable_partition(nodes.begin() + first, nodes.end(), is_first);
    for (int64_t at = first; at < std::ssize(nodes); ++at)
      place[static_cast<size_t>(nodes[static_cast<size_t>(at)])] = static_cast<int32_t>(at);
  }
};

EventSource::EventSource(std::shared_ptr<const EventGraph> graph, const EventOptions& options, EventUse use,
                         const std::string& last, const EventRoom& room)
    : graph_(std::move(graph)), options_(options), use_(use), parts_(parts_of(*graph_, use, last)), room_(room) {
  for (const char* const name : {"train", "validation", "test"})
    if (graph_->has_part(name)) all_.push_back(graph_->part(name));
  if (options_.batch < 1 || options_.recent < 1)
    throw Error({.what = "a batch needs an event, and nodes a neighbour",
                 .where = "the events",
                 .found = std::to_string(options_.batch) + " and " + std::to_string(options_.recent),
                 .expected = "1 or more"});
  if (options_.negatives != Negatives::kStrict) return;
  for (const EventRange& part : parts_)
    for (int64_t e = part.begin; e < part.end; ++e)
      if (graph_->destinations_of(graph_->source(e)).size() == graph_->destinations().size())
        throw Error({.what = "a node has events with all destinations, so there are no strict negatives",
                     .where = graph_->set().source(),
                     .found = "node " + std::to_string(graph_->source(e)),
                     .expected = "a destination that is none of its own",
                     .remedy = "Draw from all destinations: data.events.negatives = \"random\""});
}

int64_t EventSource::epoch_samples(int64_t) const {
  int64_t samples = 0;
  for (const EventRange& part : parts_) samples += samples_in(part, options_.batch);
  return samples;
}

EventRange EventSource::events_of(int64_t index) const {
  int64_t at = index % epoch_samples(0);
  for (const EventRange& part : parts_) {
    if (at >= samples_in(part, options_.batch)) {
      at -= samples_in(part, options_.batch);
      continue;
    }
    const int64_t begin = part.begin + at * options_.batch;
    return {begin, std::min(begin + options_.batch, part.end)};
  }
  internal_error("events_of", "no sample " + std::to_string(index));
}

/// The first event of the sample that an event belongs to, where the parts of all samples begin anew.
int64_t EventSource::begin_of_sample(int64_t event) const {
  for (const EventRange& part : all_)
    if (event < part.end) return part.begin + (event - part.begin) / options_.batch * options_.batch;
  internal_error("begin_of_sample", "no event " + std::to_string(event));
}

std::vector<int32_t> EventSource::negatives_of(int64_t index) const {
  const EventRange events = events_of(index);
  const std::vector<int32_t>& all = graph_->destinations();
  const uint64_t sample = static_cast<uint64_t>(use_ == EventUse::kTrain ? index : index % epoch_samples(0));
  const RandomStream stream(options_.seed, RandomPurpose::kSampling, use_ == EventUse::kTrain ? 0 : 1, sample);
  std::vector<int32_t> negatives;
  for (int64_t e = events.begin; e < events.end; ++e) {
    std::span<const int32_t> excluded;
    if (options_.negatives == Negatives::kStrict) excluded = graph_->destinations_of(graph_->source(e));
    const auto choices = static_cast<uint32_t>(all.size() - excluded.size());
    const auto rank = static_cast<int64_t>(stream.below(static_cast<uint64_t>(e - events.begin), choices));
    // The destination of this rank among those that are not excluded.
    int64_t low = 0, high = std::ssize(excluded);
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (excluded[static_cast<size_t>(middle)] - middle <= rank)
        low = middle + 1;
      else
        high = middle;
    }
    negatives.push_back(all[static_cast<size_t>(rank + low)]);
  }
  return negatives;
}

/// Brings `counts_` to an event.
void EventSource::count_before(int64_t event) const {
  counts_.resize(static_cast<size_t>(graph_->nodes()));
  const auto add = [&](int64_t e, int32_t count) {
    counts_[static_cast<size_t>(graph_->source(e))] += count;
    counts_[static_cast<size_t>(graph_->target(e))] += count;
  };
  for (; counted_ < event; ++counted_) add(counted_, 1);
  while (counted_ > event) add(--counted_, -1);
}

EventSource::Contents EventSource::contents(int64_t index) const {
  Contents found;
  found.events = events_of(index);
  found.negatives = negatives_of(index);
  found.place.assign(static_cast<size_t>(graph_->nodes()), -1);
  const std::lock_guard lock(counting_);
  count_before(found.events.begin);
  const auto has_history = [&](int32_t node) { return counts_[static_cast<size_t>(node)] > 0; };
  for (int64_t e = found.events.begin; e < found.events.end; ++e)
    found.add(graph_->source(e)), found.add(graph_->target(e));
  found.members = std::ssize(found.nodes);
  found.put_first(0, has_history);
  for (const int32_t node : found.negatives) found.add(node);
  found.others = std::ssize(found.nodes) - found.members;
  found.put_first(found.members, has_history);
  found.ptr = {0};
  const auto add_history = [&](int64_t place) {
    const int32_t node = found.nodes[static_cast<size_t>(place)];
    found.history.push_back(graph_->first(node, counts_[static_cast<size_t>(node)]));
  };
  for (int64_t target = 0; target < found.targets(); ++target) {
    add_history(target);
    std::span<const EventGraph::Contact> last = found.history.back();
    if (std::ssize(last) > options_.recent) last = last.last(static_cast<size_t>(options_.recent));
    for (const EventGraph::Contact& contact : last) {
      found.add(contact.other);
      found.edge_source.push_back(found.place[static_cast<size_t>(contact.other)]);
      found.edge_event.push_back(contact.event);
    }
    found.ptr.push_back(static_cast<int32_t>(found.edge_source.size()));
  }
  for (int64_t place = found.targets(); place < std::ssize(found.nodes); ++place) add_history(place);
  return found;
}

EventRoom EventSource::room_of(const EventGraph& graph, const EventOptions& options, EventUse use,
                               const std::string& last, int64_t samples) {
  // The graph outlives this source.
  const EventSource source(std::shared_ptr<const EventGraph>(std::shared_ptr<void>(), &graph), options, use, last, {});
  EventRoom room;
  for (int64_t i = 0; i < samples; ++i) {
    const Contents found = source.contents(i);
    room.members = std::max(room.members, found.members), room.others = std::max(room.others, found.others);
    room.neighbors = std::max(room.neighbors, std::ssize(found.nodes) - found.targets());
    room.edges = std::max(room.edges, std::ssize(found.edge_source));
  }
  return room;
}

EventRoom EventSource::most_room(const EventGraph& graph, const EventOptions& options) {
  EventRoom room;
  room.members = std::min(2 * options.batch, graph.nodes());
  room.others = std::max<int64_t>(1, std::min(options.batch, std::ssize(graph.destinations())));
  room.edges = room.targets() * options.recent;
  room.neighbors = std::min(room.edges, graph.nodes());
  return room;
}

Signature EventSource::signature(int64_t count) const {
  Signature made;
  const auto add = [&](const std::string& name, DType dtype, std::vector<int64_t> dims) {
    dims.insert(dims.begin(), count);
    made.emplace_back(name, TensorType{dtype, Shape(std::move(dims))});
  };
  const int64_t nodes = room_.nodes(), edges = room_.edges, width = graph_->message_width();
  add("node", DType::kI32, {nodes});
  add("partner", DType::kI32, {nodes});
  add("message_time", DType::kF32, {nodes});
  add("has_message", DType::kU8, {nodes});
  add("source", DType::kI32, {edges});
  add("ptr", DType::kI32, {room_.targets() + 1});
  add("target_of", DType::kI32, {edges});
  add("by_source", DType::kI32, {edges});
  add("source_ptr", DType::kI32, {nodes + 1});
  add("edge_time", DType::kF32, {edges});
  for (const char* const name : {"event_source", "event_target", "event_negative"})
    add(name, DType::kI32, {options_.batch});
  add("real", DType::kU8, {options_.batch});
  if (use_ == EventUse::kEvaluate)
    for (const char* const name : {"continued", "partner_continued"}) add(name, DType::kU8, {nodes});
  if (width > 0) add("message", DType::kF32, {nodes, width}), add("edge_message", DType::kF32, {edges, width});
  return made;
}

/// Writes a sample's tensors.
class EventSource::Writer {
 public:
  Writer(const EventSource& from, const Contents& found, int64_t sample, const Places& places)
      : from_(from),
        graph_(*from.graph_),
        room_(from.room_),
        found_(found),
        sample_(sample),
        places_(places),
        last_time_(found.nodes.size(), 0) {}

  void write() {
    write_nodes();
    write_edges();
    write_events();
  }

 private:
  bool evaluates() const { return from_.use_ == EventUse::kEvaluate; }
  /// A tensor's place for the sample, `row` elements wide, filled with a value; null where there is no such tensor.
  template <typename T>
  T* cleared(size_t tensor, int64_t row, T value = 0) const {
    const bool message = tensor >= kMessage;
    if (row == 0 || (!evaluates() && (tensor == kContinued || tensor == kPartnerContinued))) return nullptr;
    // Without the tensors of evaluation, those of messages stand further to the front.
    T* const data = reinterpret_cast<T*>(places_.tensors[tensor - (message && !evaluates() ? 2 : 0)]) + sample_ * row;
    std::fill(data, data + row, value);
    return data;
  }
  /// The place of a node, with room between members, others and neighbours.
  int32_t spread(int64_t place) const {
    if (place < found_.members) return static_cast<int32_t>(place);
    const bool target = place < found_.targets();
    return static_cast<int32_t>(place + (target ? room_.members - found_.members : room_.targets() - found_.targets()));
  }

  void write_nodes() {
    const int64_t nodes = room_.nodes(), width = graph_.message_width(), begin = found_.events.begin;
    const auto none = static_cast<int32_t>(graph_.nodes());
    int32_t *node = cleared<int32_t>(kNode, nodes, none), *partner = cleared<int32_t>(kPartner, nodes, none);
    float *message_time = cleared<float>(kMessageTime, nodes), *message = cleared<float>(kMessage, nodes * width);
    uint8_t *has_message = cleared<uint8_t>(kHasMessage, nodes), *continued = cleared<uint8_t>(kContinued, nodes),
            *partner_continued = cleared<uint8_t>(kPartnerContinued, nodes);
    for (size_t i = 0; i < found_.nodes.size(); ++i) {
      const auto place = static_cast<size_t>(spread(static_cast<int64_t>(i)));
      node[place] = found_.nodes[i];
      const auto history = found_.history[i];
      if (history.empty()) continue;
      const EventGraph::Contact last = history.back();
      auto earlier = history;
      for (const int64_t own = from_.begin_of_sample(last.event); !earlier.empty() && earlier.back().event >= own;)
        earlier = earlier.first(earlier.size() - 1);
      last_time_[i] = graph_.time(last.event);
      partner[place] = last.other;
      message_time[place] =
          static_cast<float>(last_time_[i] - (earlier.empty() ? 0 : graph_.time(earlier.back().event)));
      has_message[place] = 1;
      if (message) std::ranges::copy(graph_.message(last.event), message + static_cast<int64_t>(place) * width);
      if (!continued) continue;
      const int64_t evaluated = from_.parts_.front().begin;
      continued[place] = last.event >= evaluated;
      partner_continued[place] = graph_.before(last.other, begin).back().event >= evaluated;
    }
  }

  void write_edges() {
    const int64_t nodes = room_.nodes(), edges = std::ssize(found_.edge_source), width = graph_.message_width();
    int32_t *source = cleared<int32_t>(kSource, room_.edges), *source_ptr = cleared<int32_t>(kSourcePtr, nodes + 1);
    float *edge_time = cleared<float>(kEdgeTime, room_.edges),
          *edge_message = cleared<float>(kEdgeMessage, room_.edges * width);
    for (int64_t e = 0; e < edges; ++e) {
      const auto from = found_.edge_source[static_cast<size_t>(e)];
      const int32_t event = found_.edge_event[static_cast<size_t>(e)];
      source[e] = spread(from);
      edge_time[e] = static_cast<float>(last_time_[static_cast<size_t>(from)] - graph_.time(event));
      if (edge_message) std::ranges::copy(graph_.message(event), edge_message + e * width);
      ++source_ptr[source[e] + 1];
    }
    for (int64_t i = 0; i < nodes; ++i) source_ptr[i + 1] += source_ptr[i];
    write_targets(source, source_ptr);
  }

  /// Where the edges into each node end, and the edges by the nodes that they come from.
  void write_targets(const int32_t* source, const int32_t* source_ptr) {
    const int64_t targets = room_.targets();
    int32_t *ptr = cleared<int32_t>(kPtr, targets + 1), *target_of = cleared<int32_t>(kTargetOf, room_.edges),
            *by_source = cleared<int32_t>(kBySource, room_.edges);
    std::vector<int32_t> next(source_ptr, source_ptr + room_.nodes());
    for (int64_t t = 0; t < targets; ++t) {
      const bool member = t < room_.members;
      const int64_t i = member ? t : t - room_.members + found_.members;
      const bool there = member ? i < found_.members : i < found_.targets();
      ptr[t + 1] = there ? found_.ptr[static_cast<size_t>(i) + 1] : ptr[t];
      for (int32_t e = ptr[t]; e < ptr[t + 1]; ++e) {
        const int32_t slot = next[static_cast<size_t>(source[e])]++;
        by_source[slot] = e;
        target_of[slot] = static_cast<int32_t>(t);
      }
    }
  }

  void write_events() {
    const int64_t batch = from_.options_.batch;
    int32_t *source = cleared<int32_t>(kEventSource, batch), *target = cleared<int32_t>(kEventTarget, batch),
            *negative = cleared<int32_t>(kEventNegative, batch);
    uint8_t* real = cleared<uint8_t>(kReal, batch);
    const auto place = [&](int32_t node) { return spread(found_.place[static_cast<size_t>(node)]); };
    for (int64_t k = 0; k < found_.events.size(); ++k) {
      source[k] = place(graph_.source(found_.events.begin + k)),
      target[k] = place(graph_.target(found_.events.begin + k));
      negative[k] = place(found_.negatives[static_cast<size_t>(k)]);
      real[k] = 1;
    }
  }

  const EventSource& from_;
  const EventGraph& graph_;
  const EventRoom& room_;
  const Contents& found_;
  const int64_t sample_;
  const Places& places_;
  std::vector<double> last_time_;  ///< of each node's last event; 0 where there is none
};

void EventSource::fill(int64_t first, int64_t count, const Places& places) const {
  check_samples(first, count);
  for (int64_t i = 0; i < count; ++i) {
    const Contents found = contents(first + i);
    const int64_t neighbors = std::ssize(found.nodes) - found.targets(), edges = std::ssize(found.edge_source);
    if (found.members > room_.members || found.others > room_.others || neighbors > room_.neighbors ||
        edges > room_.edges)
      throw Error({.what = "a batch of events does not fit the room that the run was planned with",
                   .where = graph_->set().source() + ", " + text_of(first + i),
                   .found = std::to_string(found.members) + ", " + std::to_string(found.others) + " and " +
                            std::to_string(neighbors) + " nodes, " + std::to_string(edges) + " edges",
                   .expected = "at most " + std::to_string(room_.members) + ", " + std::to_string(room_.others) +
                               " and " + std::to_string(room_.neighbors) + " nodes, " + std::to_string(room_.edges) +
                               " edges",
                   .remedy = "Plan the run with as many epochs as it has"});
    Writer(*this, found, i, places).write();
  }
}

Hash EventSource::identity() const {
  return source_identity(use_ == EventUse::kTrain ? "events" : "events to evaluate",
                         graph_->set().contents().hex() + graph_->split(),
                         {static_cast<double>(options_.batch), static_cast<double>(options_.recent),
                          static_cast<double>(options_.negatives == Negatives::kStrict),
                          static_cast<double>(options_.seed), static_cast<double>(parts_.back().end)});
}

}  // namespace ramet::graphs
