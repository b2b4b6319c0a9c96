#include "ramet/runtime/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/runtime/engine_state.h"

namespace ramet {
namespace {

constexpr std::string_view kCounter = "counter";

/// Adds blocks of a fixed length, which the compiler turns into vectors; f32 sums do not depend on how.
void add_floats(float* into, const float* from, int64_t count) {
  constexpr int64_t kBlock = 64;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    float sum[kBlock];
    for (int64_t j = 0; j < kBlock; ++j) sum[j] = into[i + j] + from[i + j];
    std::memcpy(into + i, sum, sizeof sum);
  }
  for (; i < count; ++i) into[i] += from[i];
}

bool is_finite_scalar(const TensorType& type, const std::byte* data) {
  return !is_floating(type.dtype) || std::isfinite(load_element(data, type.dtype, 0));
}

bool is_trained(StateKind kind) { return kind == StateKind::kWeight || kind == StateKind::kOptimizer; }

}  // namespace

const TensorView* StepResults::find(std::string_view name) const {
  for (const TensorView& view : update_)
    if (view.name == name) return &view;
  if (!micro_.empty())
    for (const TensorView& view : micro_.back())
      if (view.name == name) return &view;
  return nullptr;
}

double StepResults::sum(std::string_view name) const {
  double total = 0;
  for (const auto& views : micro_) {
    const auto view = std::find_if(views.begin(), views.end(), [&](const TensorView& each) { return each.name == name; });
    if (view == views.end())
      throw Error({.what = "micro-batches have no result of this name", .found = "'" + std::string(name) + "'"});
    total += view->get();
  }
  return total;
}

EngineState::EngineState(Executable executable, const Backend& backend, int threads)
    : exe_(std::move(executable)), team_(threads > 0 ? threads : exe_.threads), arena_(exe_.arena_bytes, team_) {
  check_backend(backend, team_.size());
  make_kernels(backend);
  lane_slot_ = lane_slot_of(exe_.lanes);
  combines_ = lane_combines(exe_.lanes);
  make_tables();
  make_results();
  find_guards();
}

void EngineState::check_backend(const Backend& backend, int threads) const {
  if (backend.kernel_class() != exe_.kernel_class)
    throw Error({.what = "executable was compiled for other kernels", .where = "engine", .found = exe_.kernel_class,
                 .expected = backend.kernel_class(), .remedy = "Compile it on this machine"});
  if (threads != exe_.threads)
    throw Error({.what = "executable was compiled for another number of threads", .where = "engine",
                 .found = std::to_string(exe_.threads), .expected = std::to_string(threads),
                 .remedy = "Compile it with --threads " + std::to_string(threads)});
}

void EngineState::make_kernels(const Backend& backend) {
  for (const Task& task : exe_.tasks) kernels_.push_back(backend.make(task.node, team_.size(), task.kernel));
}

void EngineState::make_tables() {
  for (size_t id = 0; id < exe_.segments.size(); ++id) {
    const int slots = id == static_cast<size_t>(SegmentId::kMicro) ? lane_slots(exe_.lanes) : 1;
    for (int slot = 0; slot < slots; ++slot) tables_[id].push_back(make_table(exe_.segments[id], slot));
    seconds_[id].assign(exe_.segments[id].instructions.size(), 0);
  }
}

CallTable EngineState::make_table(const Segment& segment, int slot) const {
  std::map<BufferId, BufferId> moved;  // accumulators of slot 0 to those of `slot`
  for (const StatePlace& state : exe_.states)
    if (slot > 0 && state.slots.size() > 1) moved[state.slots[0]] = state.slots[static_cast<size_t>(slot)];
  const auto address = [&](BufferId id) {
    const auto other = moved.find(id);
    return at(other == moved.end() ? id : other->second);
  };
  CallTable table;
  for (const Instruction& instruction : segment.instructions) {
    for (BufferId id : instruction.inputs) table.inputs.push_back(address(id));
    for (BufferId id : instruction.outputs) table.outputs.push_back(address(id));
  }
  const void* const* inputs = table.inputs.data();
  void* const* outputs = table.outputs.data();
  for (const Instruction& instruction : segment.instructions) {
    Call call;
    call.kernel = instruction.task < 0 ? nullptr : kernels_[static_cast<size_t>(instruction.task)].get();
    call.inputs = inputs;
    call.outputs = outputs;
    call.input_count = static_cast<uint32_t>(instruction.inputs.size());
    call.output_count = static_cast<uint32_t>(instruction.outputs.size());
    inputs += call.input_count;
    outputs += call.output_count;
    if (instruction.scratch != kNoBuffer) call.scratch = at(instruction.scratch);
    if (!call.kernel) call.bytes = exe_.buffers[static_cast<size_t>(instruction.inputs[0])].bytes;
    table.calls.push_back(call);
  }
  return table;
}

/// Places for all results of a step, so that they outlive the buffers that they come from.
void EngineState::make_results() {
  const Segment &micro = segment(SegmentId::kMicro), &update = segment(SegmentId::kUpdate), &evaluation = segment(SegmentId::kEvaluate);
  const auto size_of_results = [](const Segment& segment) {
    int64_t bytes = 0;
    for (const Binding& result : segment.results) bytes += (result.type.bytes() + 63) / 64 * 64;
    return bytes;
  };
  result_bytes_.resize(static_cast<size_t>(size_of_results(micro) * exe_.micro_batches() + size_of_results(update) +
                                           size_of_results(evaluation)));
  std::byte* next = result_bytes_.data();
  const auto place = [&](const Segment& segment, std::vector<TensorView>& views) {
    for (const Binding& result : segment.results) {
      views.push_back({result.name, &result.type, next});
      next += (result.type.bytes() + 63) / 64 * 64;
    }
  };
  results_.micro_.resize(static_cast<size_t>(exe_.micro_batches()));
  for (auto& views : results_.micro_) place(micro, views);
  place(update, results_.update_);
  if (exe_.joined) results_.update_ = results_.micro_[0];
  place(evaluation, evaluated_);
  size_t feeds = 0;
  for (const Segment& segment : exe_.segments) feeds = std::max(feeds, segment.feeds.size());
  fed_.reserve(feeds);
}

void EngineState::find_guards() {
  std::vector<bool> trained(exe_.buffers.size(), false);
  for (const StatePlace& state : exe_.states) trained[static_cast<size_t>(state.slots[0])] = is_trained(state.tensor.kind);
  for (size_t id = 0; id < exe_.segments.size(); ++id) {
    const Segment& segment = exe_.segments[id];
    for (const Binding& result : segment.results)
      if (result.type.elements() == 1 && is_floating(result.type.dtype) && result.ready >= 0)
        guards_[id].push_back({result.ready, &result});
    std::sort(guards_[id].begin(), guards_[id].end(), [](const Guard& a, const Guard& b) { return a.after < b.after; });
    first_state_write_[id] = INT32_MAX;
    for (size_t i = segment.instructions.size(); i-- > 0;)
      for (BufferId output : segment.instructions[i].outputs)
        if (trained[static_cast<size_t>(output)]) first_state_write_[id] = static_cast<int32_t>(i);
  }
}

void EngineState::copy(const void* from, void* to, int64_t bytes) {
  if (from == to) return;
  team_.split(bytes, 1 << 16, [&](int64_t begin, int64_t end, int) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, static_cast<size_t>(end - begin));
  });
}

void EngineState::run_call(const Call& call) {
  if (!call.kernel) return copy(call.inputs[0], call.outputs[0], call.bytes);
  call.kernel->run({{call.inputs, call.input_count}, {call.outputs, call.output_count}, call.scratch, team_});
}

void EngineState::run_calls(SegmentId id, int slot, size_t begin, size_t end) {
  if (profiling_) return run_timed(id, slot, begin, end);
  const CallTable& table = tables_[static_cast<size_t>(id)][static_cast<size_t>(slot)];
  for (size_t i = begin; i < end; ++i) run_call(table.calls[i]);
}

void EngineState::run_timed(SegmentId id, int slot, size_t begin, size_t end) {
  const CallTable& table = tables_[static_cast<size_t>(id)][static_cast<size_t>(slot)];
  auto& seconds = seconds_[static_cast<size_t>(id)];
  if (begin == 0) ++runs_[static_cast<size_t>(id)];
  auto before = std::chrono::steady_clock::now();
  for (size_t i = begin; i < end; ++i) {
    run_call(table.calls[i]);
    const auto after = std::chrono::steady_clock::now();
    seconds[i] += std::chrono::duration<double>(after - before).count();
    before = after;
  }
}

/// Runs a segment, stopping behind the first scalar result that is not finite; whether it came to the end.
bool EngineState::run_guarded(SegmentId id, int slot) {
  size_t next = 0;
  for (const Guard& guard : guards_[static_cast<size_t>(id)]) {
    const auto stop = static_cast<size_t>(guard.after) + 1;
    if (stop > next) run_calls(id, slot, next, stop);
    next = std::max(next, stop);
    if (is_finite_scalar(guard.result->type, at(guard.result->buffer))) continue;
    results_.not_finite = guard.result->name;
    results_.states_changed = first_state_write_[static_cast<size_t>(id)] <= guard.after;
    return false;
  }
  run_calls(id, slot, next, segment(id).instructions.size());
  return true;
}

void EngineState::zero_accumulators(int slot) {
  for (const StatePlace& state : exe_.states) {
    if (state.tensor.kind != StateKind::kAccumulator) continue;
    std::byte* data = at(state.slots[static_cast<size_t>(slot)]);
    team_.split(state.tensor.type.bytes(), 1 << 16,
                [&](int64_t begin, int64_t end, int) { std::memset(data + begin, 0, static_cast<size_t>(end - begin)); });
  }
}

void EngineState::combine_slots(int into, int from) {
  for (const StatePlace& state : exe_.states) {
    if (state.tensor.kind != StateKind::kAccumulator) continue;
    std::byte *a = at(state.slots[static_cast<size_t>(into)]), *b = at(state.slots[static_cast<size_t>(from)]);
    const DType dtype = state.tensor.type.dtype;
    team_.split(state.tensor.type.elements(), 1 << 14, [&](int64_t begin, int64_t end, int) {
      if (dtype == DType::kF32)
        return add_floats(reinterpret_cast<float*>(a) + begin, reinterpret_cast<const float*>(b) + begin, end - begin);
      for (int64_t i = begin; i < end; ++i) store_element(a, dtype, i, load_element(a, dtype, i) + load_element(b, dtype, i));
    });
  }
}

void EngineState::check_scalars(std::span<const ScalarValue> scalars) const {
  for (const ScalarValue& scalar : scalars) {
    bool known = false;
    std::vector<std::string> names;
    for (const Segment& segment : exe_.segments)
      for (const Binding& binding : segment.scalars) {
        known = known || binding.name == scalar.name;
        names.push_back(binding.name);
      }
    if (known) continue;
    const std::string near = nearest_name(std::string(scalar.name), names);
    throw Error({.what = "the step has no scalar input of this name", .where = "scalars", .found = "'" + std::string(scalar.name) + "'",
                 .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
  }
}

void EngineState::set_scalars(const Segment& segment, int64_t step, int64_t micro, std::span<const ScalarValue> scalars) {
  for (const Binding& binding : segment.scalars) {
    std::byte* data = at(binding.buffer);
    if (binding.name == kCounter) {
      const int64_t counter[2] = {step, micro};
      std::memcpy(data, counter, static_cast<size_t>(std::min<int64_t>(binding.type.bytes(), sizeof counter)));
      continue;
    }
    const auto scalar = std::find_if(scalars.begin(), scalars.end(), [&](const ScalarValue& each) { return each.name == binding.name; });
    if (scalar == scalars.end())
      throw Error({.what = "a scalar input is missing", .where = "segment '" + segment.name + "'", .expected = "'" + binding.name + "'"});
    for (int64_t i = 0; i < binding.type.elements(); ++i) store_element(data, binding.type.dtype, i, scalar->value);
  }
}

void EngineState::set(std::string_view name, const TensorType& type, const void* data) {
  const auto& feeds = feeding_->feeds;
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].name != name) continue;
    if (feeds[i].type != type)
      throw Error({.what = "a feed is of another type than the input", .where = "'" + feeds[i].name + "'", .found = type.text(),
                   .expected = feeds[i].type.text()});
    if (type.bytes() > 0) std::memcpy(at(feeds[i].buffer), data, static_cast<size_t>(type.bytes()));
    fed_[i] = true;
    return;
  }
  std::vector<std::string> names;
  for (const Binding& feed : feeds) names.push_back(feed.name);
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = "there is no data input of this name", .where = "segment '" + feeding_->name + "'", .found = "'" + std::string(name) + "'",
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

void EngineState::take_feeds(const Segment& segment, const Feed& feed, int64_t lane, int64_t micro) {
  feeding_ = &segment;
  fed_.assign(segment.feeds.size(), false);
  feed(lane, micro, *this);
  for (size_t i = 0; i < segment.feeds.size(); ++i)
    if (!fed_[i])
      throw Error({.what = "a data input was not fed", .where = "segment '" + segment.name + "'",
                   .expected = "'" + segment.feeds[i].name + "' " + segment.feeds[i].type.text()});
}

void EngineState::copy_results(const Segment& segment, const EngineState& state, std::vector<TensorView>& into) {
  for (size_t i = 0; i < into.size(); ++i) {
    const Binding& result = segment.results[i];
    std::memcpy(const_cast<std::byte*>(into[i].data), state.at(result.buffer), static_cast<size_t>(result.type.bytes()));
  }
}

const StepResults& EngineState::run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars) {
  check_scalars(scalars);
  results_.not_finite.clear();
  results_.states_changed = false;
  const Segment &micro_segment = segment(SegmentId::kMicro), &update_segment = segment(SegmentId::kUpdate);
  int64_t index = 0;
  for (int64_t lane = 0; lane < exe_.lanes; ++lane) {
    const int slot = lane_slot_[static_cast<size_t>(lane)];
    zero_accumulators(slot);
    for (int64_t micro = 0; micro < exe_.micro_batches_per_lane; ++micro, ++index) {
      take_feeds(micro_segment, feed, lane, micro);
      set_scalars(micro_segment, step, index, scalars);
      const bool finite = run_guarded(SegmentId::kMicro, slot);
      copy_results(micro_segment, *this, results_.micro_[static_cast<size_t>(index)]);
      if (!finite) return results_;
    }
    for (const auto& [into, from] : combines_[static_cast<size_t>(lane)]) combine_slots(into, from);
  }
  if (!exe_.joined) {
    set_scalars(update_segment, step, 0, scalars);
    const bool finite = run_guarded(SegmentId::kUpdate, 0);
    copy_results(update_segment, *this, results_.update_);
    if (!finite) return results_;
  }
  run_all(SegmentId::kDerive);
  return results_;
}

std::span<const TensorView> EngineState::evaluate(const Feed& feed, std::span<const ScalarValue> scalars) {
  const Segment& evaluation = segment(SegmentId::kEvaluate);
  if (evaluation.results.empty())
    throw Error({.what = "the step was compiled without an evaluation", .where = "engine"});
  take_feeds(evaluation, feed, 0, 0);
  set_scalars(evaluation, 0, 0, scalars);
  run_all(SegmentId::kEvaluate);
  copy_results(evaluation, *this, evaluated_);
  return evaluated_;
}

const StatePlace& EngineState::find_state(std::string_view name) const {
  if (const int index = exe_.find_state(name); index >= 0) return exe_.states[static_cast<size_t>(index)];
  std::vector<std::string> names;
  for (const StatePlace& state : exe_.states) names.push_back(state.tensor.name);
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = "the step has no state of this name", .where = "engine", .found = "'" + std::string(name) + "'",
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

Engine::Engine(Executable executable, const Backend& backend, int threads)
    : state_(std::make_unique<EngineState>(std::move(executable), backend, threads)) {}
Engine::~Engine() = default;

const Executable& Engine::executable() const { return state_->exe_; }
int Engine::threads() const { return state_->team_.size(); }

void Engine::write_state(std::string_view name, const TensorType& type, const void* data) {
  const StatePlace& state = state_->find_state(name);
  if (state.tensor.type != type)
    throw Error({.what = "a state is given another type than it has", .where = "'" + state.tensor.name + "'", .found = type.text(),
                 .expected = state.tensor.type.text()});
  std::memcpy(state_->at(state.slots[0]), data, static_cast<size_t>(type.bytes()));
}

TensorView Engine::state(std::string_view name) const {
  const StatePlace& state = state_->find_state(name);
  return {state.tensor.name, &state.tensor.type, state_->at(state.slots[0])};
}

void Engine::read_state(std::string_view name, std::span<std::byte> into) const {
  const TensorView view = state(name);
  if (static_cast<int64_t>(into.size()) != view.type->bytes())
    throw Error({.what = "a state is read into a buffer of another size", .where = "'" + std::string(name) + "'",
                 .found = std::to_string(into.size()) + " bytes", .expected = std::to_string(view.type->bytes())});
  std::memcpy(into.data(), view.data, into.size());
}

void Engine::run_derive() { state_->run_all(SegmentId::kDerive); }

const StepResults& Engine::run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars) {
  return state_->run_step(step, feed, scalars);
}

std::span<const TensorView> Engine::evaluate(const Feed& feed, std::span<const ScalarValue> scalars) {
  return state_->evaluate(feed, scalars);
}

std::optional<NonFinite> Engine::find_first_nonfinite(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars) {
  return state_->find_first_nonfinite(step, feed, scalars);
}

Hash Engine::weights_hash() const {
  Hasher hasher;
  for (const StatePlace& state : state_->exe_.states) {
    if (state.tensor.kind != StateKind::kWeight) continue;
    hasher.update(state.tensor.name + " " + state.tensor.type.text() + "\n");
    hasher.update(state_->at(state.slots[0]), static_cast<size_t>(state.tensor.type.bytes()));
  }
  return hasher.digest();
}

void Engine::profile(bool on) { state_->profiling_ = on; }

}  // namespace ramet
