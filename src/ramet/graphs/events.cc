#include "ramet/graphs/events.h"

#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/graphs/categories.h"

namespace ramet::graphs {
namespace {

uint64_t pair_of(int32_t source, int32_t target) {
  return static_cast<uint64_t>(static_cast<uint32_t>(source)) << 32 | static_cast<uint32_t>(target);
}

}  // namespace

EventGraph::EventGraph(std::shared_ptr<const GraphSet> set, const std::string& split)
    : set_(std::move(set)), split_(split) {
  const auto refuse = [&](const std::string& what, const std::string& found) {
    throw Error({.what = what,
                 .where = set_->source(),
                 .found = found,
                 .remedy = "Make the set with `ramet graphs prepare events`"});
  };
  if (set_->graphs() != 1 || !set_->homogeneous())
    refuse("events are the edges of one graph with one type of nodes and of edges",
           std::to_string(set_->graphs()) + " graphs");
  if (!set_->has("edge.time")) refuse("the edges of the graph set have no time", "no field edge.time");
  const auto field = [&](const std::string& key) {
    const size_t at = set_->field(key);
    return std::pair<const Field&, std::span<const std::byte>>(set_->fields()[at], set_->bytes(at));
  };
  const auto [time, time_bytes] = field("edge.time");
  const size_t events = set_->sources(0).size();
  if (time.shape.rank() > 0 || time.missing) refuse("the time of an event must be one number", time.key());
  if (events == 0) refuse("the graph set has no events", "no edges");
  std::vector<double> times(events), numbers(events, 0);
  for (size_t i = 0; i < events; ++i) times[i] = field_number(time, time_bytes, static_cast<int64_t>(i));
  if (set_->has("edge.event")) {
    const auto [event, bytes] = field("edge.event");
    for (size_t i = 0; i < events; ++i) numbers[i] = field_number(event, bytes, static_cast<int64_t>(i));
  }
  order_.resize(events);
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    return times[i] != times[j] ? times[i] < times[j] : numbers[i] < numbers[j];
  });
  for (const int64_t edge : order_) {
    sources_.push_back(set_->sources(0)[static_cast<size_t>(edge)]);
    targets_.push_back(set_->targets(0)[static_cast<size_t>(edge)]);
    times_.push_back(times[static_cast<size_t>(edge)] - times[static_cast<size_t>(order_[0])]);
  }
  if (set_->has("edge.message")) {
    const auto [message, bytes] = field("edge.message");
    message_width_ = message.shape.elements();
    const std::vector<float> values = field_floats(message, bytes);
    for (const int64_t edge : order_)
      messages_.insert(messages_.end(), values.begin() + edge * message_width_,
                       values.begin() + (edge + 1) * message_width_);
  }
  sources_.shrink_to_fit(), targets_.shrink_to_fit(), times_.shrink_to_fit(), messages_.shrink_to_fit();
  read_parts();
  index();
}

void EventGraph::read_parts() {
  if (split_.empty()) {
    parts_ = {{0, events()}};
    return;
  }
  const size_t at = set_->field(split_);
  const Field& field = set_->fields()[at];
  const std::vector<std::string> names = split_names();
  if (field.per != Per::kEdge || field.values.size() < 3 ||
      !std::equal(names.begin(), names.begin() + 3, field.values.begin()))
    throw Error({.what = "the field does not say which part of the data an event belongs to",
                 .where = set_->source() + ": " + split_,
                 .found = field.values.empty() ? "no categories" : joined(field.values),
                 .expected = "categories train, validation, test of edges",
                 .remedy = "Make it with `--apply split-by-time=70:15:15`"});
  int64_t part = 0;
  parts_.assign(3, {});
  for (int64_t event = 0; event < events(); ++event) {
    const auto of = static_cast<int64_t>(field_number(field, set_->bytes(at), order_[static_cast<size_t>(event)]));
    if (of < part || of > 2)
      throw Error({.what = "the parts of the events do not follow one another in time",
                   .where = set_->source() + ": " + split_,
                   .found = "event " + std::to_string(event) + " of part " + std::to_string(of) +
                            " behind one of part " + std::to_string(part),
                   .expected = "training first, then validation, then test",
                   .remedy = "Make the field with `--apply split-by-time=70:15:15`"});
    for (; part < of; ++part) parts_[static_cast<size_t>(part) + 1].begin = event;
    for (int64_t p = part; p < 3; ++p) parts_[static_cast<size_t>(p)].end = event + 1;
  }
  for (; part < 2; ++part) parts_[static_cast<size_t>(part) + 1].begin = events();
}

void EventGraph::index() {
  contact_ptr_.assign(static_cast<size_t>(nodes()) + 1, 0);
  for (int64_t e = 0; e < events(); ++e)
    for (const int32_t node : {source(e), target(e)}) ++contact_ptr_[static_cast<size_t>(node) + 1];
  for (size_t i = 1; i < contact_ptr_.size(); ++i) contact_ptr_[i] += contact_ptr_[i - 1];
  contacts_.resize(static_cast<size_t>(2 * events()));
  std::vector<int64_t> next(contact_ptr_.begin(), contact_ptr_.end() - 1);
  std::vector<std::vector<int32_t>> known(static_cast<size_t>(nodes()));
  destinations_ = targets_;
  std::sort(destinations_.begin(), destinations_.end());
  destinations_.erase(std::unique(destinations_.begin(), destinations_.end()), destinations_.end());
  for (int64_t e = 0; e < events(); ++e) {
    const auto number = static_cast<int32_t>(e);
    contacts_[static_cast<size_t>(next[static_cast<size_t>(source(e))]++)] = {number, target(e)};
    contacts_[static_cast<size_t>(next[static_cast<size_t>(target(e))]++)] = {number, source(e)};
    if (!first_.emplace(pair_of(source(e), target(e)), number).second) continue;
    const auto place = std::lower_bound(destinations_.begin(), destinations_.end(), target(e));
    known[static_cast<size_t>(source(e))].push_back(static_cast<int32_t>(place - destinations_.begin()));
  }
  known_ptr_ = {0};
  for (std::vector<int32_t>& of_node : known) {
    std::sort(of_node.begin(), of_node.end());
    known_.insert(known_.end(), of_node.begin(), of_node.end());
    known_ptr_.push_back(std::ssize(known_));
  }
  known_.shrink_to_fit(), known_ptr_.shrink_to_fit(), destinations_.shrink_to_fit();
}

bool EventGraph::has_part(const std::string& name) const {
  const std::vector<std::string> names = split_names();
  const auto at = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  return at < parts_.size() && parts_[at].size() > 0;
}

EventRange EventGraph::part(const std::string& name) const {
  if (!has_part(name))
    throw Error({.what = "a part of the events is empty",
                 .where = set_->source() + (split_.empty() ? "" : ": " + split_),
                 .found = "'" + name + "'",
                 .expected = "events in it",
                 .remedy = "Divide the events with `--apply split-by-time=70:15:15`"});
  const std::vector<std::string> names = split_names();
  return parts_[static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
}

std::span<const EventGraph::Contact> EventGraph::before(int32_t node, int64_t event) const {
  const auto first = contacts_.begin() + contact_ptr_[static_cast<size_t>(node)],
             last = contacts_.begin() + contact_ptr_[static_cast<size_t>(node) + 1];
  const auto end = std::partition_point(first, last, [&](const Contact& each) { return each.event < event; });
  return {first, end};
}

std::span<const int32_t> EventGraph::destinations_of(int32_t source) const {
  const auto at = static_cast<size_t>(source);
  return std::span(known_).subspan(static_cast<size_t>(known_ptr_[at]),
                                   static_cast<size_t>(known_ptr_[at + 1] - known_ptr_[at]));
}

bool EventGraph::met(int32_t source, int32_t target, int64_t event) const {
  const auto found = first_.find(pair_of(source, target));
  return found != first_.end() && found->second < event;
}

int64_t EventGraph::host_bytes() const {
  constexpr size_t kPair = 32, kBucket = 8;  // of a hash map: an entry with what malloc keeps around it
  return set_->host_bytes() + std::ssize(messages_) * 4 + std::ssize(contacts_) * 8 + std::ssize(known_) * 4 +
         static_cast<int64_t>(first_.size() * kPair + first_.bucket_count() * kBucket) + events() * 24 + nodes() * 16 +
         std::ssize(destinations_) * 4;
}

}  // namespace ramet::graphs
