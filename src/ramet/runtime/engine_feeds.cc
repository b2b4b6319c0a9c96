#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/runtime/engine_state.h"

// Data between the host and a step: scalars, the tensors of micro-batches, results.

namespace ramet::runtime {

void EngineState::check_scalars(std::span<const ScalarValue> scalars) const {
  for (const ScalarValue& scalar : scalars) {
    bool known = false;
    std::vector<std::string> names;
    for (const Segment& segment : exe_.segments)
      for (const Binding& binding : segment.scalars) {
        known = known || binding.name == scalar.name;
        names.push_back(binding.name);
      }
    if (known || !alone()) continue;
    const std::string near = nearest_name(std::string(scalar.name), names);
    throw Error({.what = "the step has no scalar input of this name",
                 .where = "scalars",
                 .found = "'" + std::string(scalar.name) + "'",
                 .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
  }
}

/// Gives a segment its data inputs and scalars.
void EngineState::feed_segment(const ProgramStep& step) {
  const Segment& segment = exe_.segments[static_cast<size_t>(step.subject)];
  const int64_t micro = micro_batch_of(step);
  const bool by_lanes = exe_.runs_in_step(program_);
  if (!segment.feeds.empty())
    take_feeds(segment, by_lanes ? micro / exe_.micro_batches_per_lane : 0,
               by_lanes ? micro % exe_.micro_batches_per_lane : micro);
  if (!segment.scalars.empty()) set_scalars(segment, step_, micro);
}

void EngineState::set_scalars(const Segment& segment, int64_t step, int64_t micro) {
  for (const Binding& binding : segment.scalars) {
    if (binding.name == kCounterInput) {
      const int64_t counter[2] = {step, micro};
      queue_->copy_in(at(binding.buffer), counter, std::min<int64_t>(binding.type.bytes(), sizeof counter));
      continue;
    }
    const auto scalar = std::find_if(scalars_.begin(), scalars_.end(),
                                     [&](const ScalarValue& each) { return each.name == binding.name; });
    if (scalar == scalars_.end())
      throw Error({.what = "a scalar input is missing",
                   .where = "segment '" + segment.name + "'",
                   .expected = "'" + binding.name + "'"});
    for (int64_t i = 0; i < binding.type.elements(); ++i)
      store_element(scalar_room_.data(), binding.type.dtype, i, scalar->value);
    queue_->copy_in(at(binding.buffer), scalar_room_.data(), binding.type.bytes());
  }
}

void EngineState::set(std::string_view name, const TensorType& type, const void* data) {
  const auto& feeds = feeding_->feeds;
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].name != name) continue;
    if (feeds[i].sharding.logical != type)
      throw Error({.what = "a feed is of another type than the input",
                   .where = "'" + feeds[i].name + "'",
                   .found = type.text(),
                   .expected = feeds[i].sharding.logical.text()});
    return put(i, data);
  }
  // What another segment takes is fed to that one, and what another program of the step takes to that.
  const auto may_take = [&](const Segment& segment) {
    return segment.program == program_ || (exe_.runs_in_step(program_) && exe_.runs_in_step(segment.program));
  };
  std::vector<std::string> names;
  for (const Segment& segment : exe_.segments)
    if (may_take(segment))
      for (const Binding& feed : segment.feeds) names.push_back(feed.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  if (!alone()) {  // another device may take it
    not_taken_.emplace_back(name);
    return;
  }
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = "there is no data input of this name",
               .where = "segment '" + feeding_->name + "'",
               .found = "'" + std::string(name) + "'",
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

bool EngineState::takes(std::string_view name) const {
  return std::any_of(feeding_->feeds.begin(), feeding_->feeds.end(),
                     [&](const Binding& feed) { return feed.name == name; });
}

void EngineState::put(size_t input, const void* data) {
  const Binding& feed = feeding_->feeds.at(input);
  if (feed.sharding.cuts.empty()) {
    queue_->copy_in(at(feed.buffer), data, feed.type.bytes());
  } else {  // the clusters that this device has
    const auto size = static_cast<int64_t>(size_of(feed.type.dtype));
    for_each_run(feed.sharding, position_, [&](const ShardRun& run) {
      queue_->copy_in(at(feed.buffer) + run.local * size, static_cast<const std::byte*>(data) + run.logical * size,
                      run.count * size);
    });
  }
  fed_[input] = true;
}

void EngineState::give_zeros(const Segment& segment) {
  for (const Binding& feed : segment.feeds) queue_->fill(at(feed.buffer), 0, feed.type.bytes());
}

/// An exception of the feed ends the step at once only when no other device waits for this one and no transfer is under
/// way, or when weights may have changed already. Otherwise the step goes on with zeros until all devices agree to end
/// it, before weights change; the caller then takes the exception (take_feed_error).
void EngineState::take_feeds(const Segment& segment, int64_t lane, int64_t micro) {
  feeding_ = &segment;
  fed_.assign(segment.feeds.size(), false);
  not_taken_.clear();
  if (feed_error_) return give_zeros(segment);
  try {
    (*feed_)(lane, micro, *this);
    check_fed(segment);
  } catch (...) {
    if (!drains() || (may_change_ && agreed_ && !alone())) throw;
    feed_error_ = std::current_exception();
    if (may_change_) results_.not_finite = segment.feeds[0].name;
    if (may_change_ && alone()) ended_ = stale_ = true;
    return give_zeros(segment);
  }
}

void EngineState::check_fed(const Segment& segment) const {
  for (size_t i = 0; i < segment.feeds.size(); ++i) {
    if (fed_[i]) continue;
    const std::string near = nearest_name(segment.feeds[i].name, not_taken_);
    throw Error({.what = "a data input was not fed",
                 .where = "segment '" + segment.name + "'",
                 .found = near.empty() ? "" : "'" + near + "'",
                 .expected = "'" + segment.feeds[i].name + "' " + segment.feeds[i].type.text()});
  }
}

/// Places of a segment's results, in their order.
std::span<const TensorView> EngineState::views_of(const ProgramStep& step) const {
  const auto id = static_cast<size_t>(step.subject);
  const auto& views = program_ != kTrain ? std::find_if(results_.programs_.begin(), results_.programs_.end(),
                                                        [&](const auto& each) { return each.program == program_; })
                                               ->views
                      : step.micro < 0 ? results_.update_
                                       : results_.micro_[static_cast<size_t>(step.micro)];
  return std::span(views).subspan(first_result_[id], exe_.segments[id].results.size());
}

void EngineState::copy_result(const ProgramStep& step, size_t result) {
  const Binding& binding = exe_.segments[static_cast<size_t>(step.subject)].results[result];
  queue_->copy_out(const_cast<std::byte*>(views_of(step)[result].data), at(binding.buffer, step.micro),
                   binding.type.bytes());
}

/// Results of a training step are valid once the caller has waited for the queue; results of a request are passed to
/// the sink here.
void EngineState::copy_results(const ProgramStep& step) {
  if (!exe_.gives_results(step)) return;
  const Segment& segment = exe_.segments[static_cast<size_t>(step.subject)];
  if (exe_.runs_in_step(program_)) {
    for (size_t i = 0; i < segment.results.size(); ++i) copy_result(step, i);
    return;
  }
  const int64_t micro = request_.of(std::max(step.micro, 0), position_.replica);
  if (micro >= request_.count) return;
  for (const Binding& result : segment.results)
    (*sink_)(micro, result, host_bytes(at(result.buffer, step.micro), result.type.bytes(), result_room_));
}

}  // namespace ramet::runtime
