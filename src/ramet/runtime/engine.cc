#include "ramet/runtime/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/runtime/engine_state.h"
#include "ramet/runtime/localize.h"
#include "ramet/transport/collectives_kernels.h"

namespace ramet::runtime {
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
    const auto view =
        std::find_if(views.begin(), views.end(), [&](const TensorView& each) { return each.name == name; });
    if (view == views.end())
      throw Error({.what = "micro-batches have no result of this name", .found = "'" + std::string(name) + "'"});
    total += view->get();
  }
  return total;
}

EngineState::EngineState(Executable executable, const Backend& backend, const DeviceOptions& options)
    : exe_(std::move(executable)),
      options_(options),
      position_(exe_.mesh.position(options.device)),
      team_(options.threads > 0 ? options.threads : exe_.threads) {
  check_backend(backend, team_.size());
  make_memory();
  make_kernels(backend);
  for (const Segment& segment : exe_.segments) {
    tables_.push_back(make_table(segment));
    seconds_.emplace_back(segment.instructions.size(), 0.0);
  }
  runs_.assign(exe_.segments.size(), 0);
  goes_on_ = !alone() || !exe_.transfers.empty();
  make_results();
  find_guards();
  tickets_.resize(std::max({exe_.train.size(), exe_.prepare.size(), exe_.evaluate.size()}));
  under_way_.reserve(exe_.transfers.size() + 1);
}

void EngineState::check_backend(const Backend& backend, int threads) const {
  if (backend.kernel_class() != exe_.kernel_class)
    throw Error({.what = "executable was compiled for other kernels",
                 .where = "engine",
                 .found = exe_.kernel_class,
                 .expected = backend.kernel_class(),
                 .remedy = "Compile it on this machine"});
  if (options_.device < 0 || options_.device >= exe_.mesh.devices() || position_.stage != exe_.stage)
    throw Error({.what = "executable is not of this device's stage",
                 .where = "engine",
                 .found = "stage " + std::to_string(exe_.stage),
                 .expected = "that of device " + std::to_string(options_.device) + " of " +
                             std::to_string(exe_.mesh.devices())});
  if (options_.transport &&
      (options_.transport->device() != options_.device || options_.transport->devices() != exe_.mesh.devices()))
    throw Error(
        {.what = "the transport is another device's",
         .where = "engine",
         .found = options_.transport->text_of(options_.transport->device()),
         .expected = "device " + std::to_string(options_.device) + " of " + std::to_string(exe_.mesh.devices())});
  if (threads != exe_.threads)
    throw Error({.what = "executable was compiled for another number of threads",
                 .where = "engine",
                 .found = std::to_string(exe_.threads),
                 .expected = std::to_string(threads),
                 .remedy = "Compile it with --threads " + std::to_string(threads)});
}

void EngineState::make_memory() {
  if (options_.shared_arena && options_.transport) {
    memory_ = options_.transport->allocate(static_cast<size_t>(std::max<int64_t>(exe_.arena_bytes, 1)));
    memory_bytes_ = exe_.arena_bytes;
  } else {
    arena_ = std::make_unique<Arena>(exe_.arena_bytes, team_);
    memory_ = arena_->data();
    memory_bytes_ = arena_->bytes();
  }
  if (exe_.streaming_bytes == 0) return;
  store_ = options_.streaming ? options_.streaming(exe_.streaming_bytes, team_)
                              : make_ram_store(exe_.streaming_bytes, &team_);
}

void EngineState::make_kernels(const Backend& backend) {
  backend_ = &backend;
  collectives_.resize(exe_.tasks.size());
  for (size_t i = 0; i < exe_.tasks.size(); ++i) {
    const Task& task = exe_.tasks[i];
    kernels_.emplace_back();
    if (task.node.op->exchange != Exchange::kNone)
      collectives_[i] = make_collective(task.node);
    else
      kernels_[i] = backend.make(localize(task.node, position_), team_.size(), task.kernel);
  }
  if (!alone() && options_.transport)
    everyone_ =
        std::make_unique<Collectives>(*options_.transport, Group::all(exe_.mesh.devices()), options_.collectives);
}

CallTable EngineState::make_table(const Segment& segment) const {
  std::map<BufferId, const StatePlace*> sums;  // by the buffer of slot 0
  for (int32_t state : segment.accumulators) {
    const StatePlace& place = exe_.states[static_cast<size_t>(state)];
    if (place.slots.size() > 1) sums[place.slots[0]] = &place;
  }
  const std::vector<bool> trained = trained_buffers();
  CallTable table;
  for (const Instruction& instruction : segment.instructions)
    for (const auto* ids : {&instruction.inputs, &instruction.outputs})
      for (BufferId id : *ids) table.operands.push_back(at(id));
  const void** next = table.operands.data();  // stays where it is when the table moves
  const auto note = [&](BufferId id, const void** place) {
    if (const auto sum = sums.find(id); sum != sums.end())
      table.by_slot.push_back({place, sum->second, id});
    else if (exe_.buffers[static_cast<size_t>(id)].slots > 1)
      table.by_micro.push_back({place, nullptr, id});
  };
  for (const Instruction& instruction : segment.instructions) {
    Call call;
    call.kernel = instruction.task < 0 ? nullptr : kernels_[static_cast<size_t>(instruction.task)].get();
    if (instruction.task >= 0 && !call.kernel) call.collective = instruction.task;
    const bool between_stages = call.collective >= 0 && collectives_[static_cast<size_t>(call.collective)].form.axis ==
                                                            static_cast<int64_t>(MeshAxis::kStage);
    if (between_stages && !trained[static_cast<size_t>(instruction.outputs[0])])
      table.between_stages.push_back(static_cast<int32_t>(table.calls.size()));
    call.input_count = static_cast<uint32_t>(instruction.inputs.size());
    call.output_count = static_cast<uint32_t>(instruction.outputs.size());
    call.inputs = next;
    for (BufferId id : instruction.inputs) note(id, next++);
    call.outputs = const_cast<void* const*>(next);
    for (BufferId id : instruction.outputs) note(id, next++);
    if (instruction.scratch != kNoBuffer) call.scratch = at(instruction.scratch);
    if (instruction.task < 0) call.bytes = exe_.buffers[static_cast<size_t>(instruction.inputs[0])].bytes;
    table.calls.push_back(call);
  }
  return table;
}

/// Places for all results of a step, so that they outlive the buffers that they come from. What derives states has
/// none.
void EngineState::make_results() {
  const auto padded = [](const Binding& result) { return (result.type.bytes() + 63) / 64 * 64; };
  int64_t bytes = 0;
  const auto count = [&](const std::vector<ProgramStep>& program) {
    for (const ProgramStep& step : program)
      if (has_results(step))
        for (const Binding& result : exe_.segments[static_cast<size_t>(step.subject)].results) bytes += padded(result);
  };
  count(exe_.train);
  count(exe_.evaluate);
  result_bytes_.resize(static_cast<size_t>(bytes));
  std::byte* next = result_bytes_.data();
  results_.micro_.resize(static_cast<size_t>(exe_.micro_batches()));
  first_result_.assign(exe_.segments.size(), 0);
  const auto place = [&](const std::vector<ProgramStep>& program, std::vector<TensorView>& once) {
    for (const ProgramStep& step : program) {
      if (!has_results(step)) continue;
      std::vector<TensorView>& views = step.micro < 0 ? once : results_.micro_[static_cast<size_t>(step.micro)];
      first_result_[static_cast<size_t>(step.subject)] = views.size();
      for (const Binding& result : exe_.segments[static_cast<size_t>(step.subject)].results) {
        views.push_back({result.name, &result.type, next});
        next += padded(result);
      }
    }
  };
  place(exe_.train, results_.update_);
  if (exe_.joined) results_.update_ = results_.micro_[0];
  place(exe_.evaluate, evaluated_);
  size_t feeds = 0;
  for (const Segment& segment : exe_.segments) feeds = std::max(feeds, segment.feeds.size());
  fed_.reserve(feeds);
}

bool EngineState::has_results(const ProgramStep& step) const {
  return step.kind == ProgramStep::Kind::kRun &&
         exe_.segments[static_cast<size_t>(step.subject)].kind != PieceKind::kPrepare;
}

std::vector<bool> EngineState::trained_buffers() const {
  std::vector<bool> trained(exe_.buffers.size(), false);
  for (const StatePlace& state : exe_.states)
    if (is_trained(state.tensor.kind))
      for (BufferId slot : state.slots) trained[static_cast<size_t>(slot)] = true;
  for (const Transfer& transfer : exe_.transfers)
    if (transfer.state >= 0 && is_trained(exe_.states[static_cast<size_t>(transfer.state)].tensor.kind))
      trained[static_cast<size_t>(transfer.buffer)] = true;
  return trained;
}

bool EngineState::changes_any(const Instruction& instruction, const std::vector<bool>& buffers) {
  return std::any_of(instruction.outputs.begin(), instruction.outputs.end(),
                     [&](BufferId id) { return buffers[static_cast<size_t>(id)]; });
}

const std::byte* EngineState::state_data(const StatePlace& state, std::vector<std::byte>& room) const {
  if (!state.slots.empty()) return at(state.slots[0]);
  room.resize(static_cast<size_t>(state.tensor.type.bytes()));
  store_->load(exe_.streaming[static_cast<size_t>(state.home)].offset, room.data(), state.tensor.type.bytes());
  return room.data();
}

void EngineState::watch_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars,
                             const std::function<bool(const ProgramStep&)>& run_segment) {
  prepare();
  step_ = step;
  feed_ = &feed;
  scalars_ = scalars;
  begin_program(exe_.train);
  agreed_ = true;
  for (size_t index = 0; index < exe_.train.size(); ++index) {
    const ProgramStep& each = exe_.train[index];
    if (each.kind != ProgramStep::Kind::kRun) {
      run_program_step(exe_.train, index);
      continue;
    }
    feed_segment(each);
    set_operands(tables_[static_cast<size_t>(each.subject)], each);
    const bool goes_on = run_segment(each);
    finish_superstep(exe_.train, index);
    if (!goes_on) return;
  }
  end_program(exe_.train);
}

void EngineState::find_guards() {
  const std::vector<bool> trained = trained_buffers();
  for (const Segment& segment : exe_.segments) {
    auto& guards = guards_.emplace_back();
    for (const Binding& result : segment.results)
      if (result.guard) guards.push_back({result.ready, &result});
    std::sort(guards.begin(), guards.end(), [](const Guard& a, const Guard& b) { return a.after < b.after; });
    int32_t& first = first_state_write_.emplace_back(INT32_MAX);
    for (size_t i = segment.instructions.size(); i-- > 0;)
      for (BufferId output : segment.instructions[i].outputs)
        if (trained[static_cast<size_t>(output)]) first = static_cast<int32_t>(i);
  }
}

void EngineState::copy(const void* from, void* to, int64_t bytes) {
  if (from == to) return;
  team_.split(bytes, 1 << 16, [&](int64_t begin, int64_t end, int) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

void EngineState::run_call(const Call& call) {
  if (call.collective >= 0) return run_collective(call);
  if (!call.kernel) return copy(call.inputs[0], call.outputs[0], call.bytes);
  call.kernel->run({{call.inputs, call.input_count}, {call.outputs, call.output_count}, call.scratch, team_});
}

void EngineState::set_operands(CallTable& table, const ProgramStep& step) const {
  if (step.slot != table.slot) {
    for (const MovingOperand& operand : table.by_slot)
      *operand.place = at(operand.accumulator->slots[static_cast<size_t>(step.slot)]);
    table.slot = step.slot;
  }
  if (step.micro >= 0 && step.micro != table.micro) {
    for (const MovingOperand& operand : table.by_micro) *operand.place = at(operand.buffer, step.micro);
    table.micro = step.micro;
  }
}

void EngineState::run_calls(int32_t segment, size_t begin, size_t end) {
  if (profiling_) return run_timed(segment, begin, end);
  const CallTable& table = tables_[static_cast<size_t>(segment)];
  for (size_t i = begin; i < end; ++i) run_call(table.calls[i]);
}

void EngineState::run_timed(int32_t segment, size_t begin, size_t end) {
  const CallTable& table = tables_[static_cast<size_t>(segment)];
  auto& seconds = seconds_[static_cast<size_t>(segment)];
  if (begin == 0) ++runs_[static_cast<size_t>(segment)];
  auto before = std::chrono::steady_clock::now();
  for (size_t i = begin; i < end; ++i) {
    run_call(table.calls[i]);
    const auto after = std::chrono::steady_clock::now();
    seconds[i] += std::chrono::duration<double>(after - before).count();
    before = after;
  }
}

/// Runs a segment up to the first guard that is not finite; false where there is one. After that, and after an earlier
/// guard, only its collectives between stages: all other devices that it would meet run the same segment and have ended
/// at the same place.
bool EngineState::run_guarded(const ProgramStep& step) {
  size_t next = 0;
  const auto id = static_cast<size_t>(step.subject);
  const size_t count = exe_.segments[id].instructions.size();
  const auto exchange_rest = [&] {
    for (int32_t call : tables_[id].between_stages)
      if (static_cast<size_t>(call) >= next) run_call(tables_[id].calls[static_cast<size_t>(call)]);
  };
  if (ended_) {
    exchange_rest();
    return true;
  }
  for (const Guard& guard : guards_[id]) {
    const auto stop = static_cast<size_t>(guard.after) + 1;
    if (stop > next) run_calls(step.subject, next, stop);
    next = std::max(next, stop);
    if (is_finite_scalar(guard.result->type, at(guard.result->buffer, step.micro))) continue;
    results_.not_finite = guard.result->name;
    results_.states_changed = changed_ || first_state_write_[id] <= guard.after;
    stale_ = goes_on_;
    exchange_rest();
    return false;
  }
  run_calls(step.subject, next, count);
  changed_ = changed_ || first_state_write_[id] != INT32_MAX;
  return true;
}

void EngineState::zero_accumulators(const ProgramStep& step) {
  for (int32_t id : exe_.segments[static_cast<size_t>(step.subject)].accumulators) {
    const StatePlace& state = exe_.states[static_cast<size_t>(id)];
    std::byte* data = at(state.slots[static_cast<size_t>(step.slot)]);
    team_.split(state.tensor.type.bytes(), 1 << 16, [&](int64_t begin, int64_t end, int) {
      std::memset(data + begin, 0, static_cast<size_t>(end - begin));
    });
  }
}

void EngineState::combine_slots(const ProgramStep& step) {
  for (int32_t id : exe_.segments[static_cast<size_t>(step.subject)].accumulators) {
    const StatePlace& state = exe_.states[static_cast<size_t>(id)];
    std::byte *a = at(state.slots[static_cast<size_t>(step.slot)]),
              *b = at(state.slots[static_cast<size_t>(step.from)]);
    const DType dtype = state.tensor.type.dtype;
    team_.split(state.tensor.type.elements(), 1 << 14, [&](int64_t begin, int64_t end, int) {
      if (dtype == DType::kF32)
        return add_floats(reinterpret_cast<float*>(a) + begin, reinterpret_cast<const float*>(b) + begin, end - begin);
      const std::byte* operands[2] = {a, b};
      reduce_elements({.in = operands, .inputs = 2, .out = &a, .outputs = 1, .in_type = dtype, .out_type = dtype}, begin,
                      begin, end - begin);
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
    if (known || !alone()) continue;
    const std::string near = nearest_name(std::string(scalar.name), names);
    throw Error({.what = "the step has no scalar input of this name",
                 .where = "scalars",
                 .found = "'" + std::string(scalar.name) + "'",
                 .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
  }
}

/// Gives a segment what it takes from the host.
void EngineState::feed_segment(const ProgramStep& step) {
  const Segment& segment = exe_.segments[static_cast<size_t>(step.subject)];
  // Of the whole step: replicas have lanes in order.
  const int64_t micro = step.micro < 0 ? 0 : position_.replica * exe_.micro_batches() + step.micro;
  if (!segment.feeds.empty())
    take_feeds(segment, micro / exe_.micro_batches_per_lane, micro % exe_.micro_batches_per_lane);
  if (!segment.scalars.empty()) set_scalars(segment, step_, micro);
}

void EngineState::set_scalars(const Segment& segment, int64_t step, int64_t micro) {
  for (const Binding& binding : segment.scalars) {
    std::byte* data = at(binding.buffer);
    if (binding.name == kCounter) {
      const int64_t counter[2] = {step, micro};
      std::memcpy(data, counter, static_cast<size_t>(std::min<int64_t>(binding.type.bytes(), sizeof counter)));
      continue;
    }
    const auto scalar = std::find_if(scalars_.begin(), scalars_.end(),
                                     [&](const ScalarValue& each) { return each.name == binding.name; });
    if (scalar == scalars_.end())
      throw Error({.what = "a scalar input is missing",
                   .where = "segment '" + segment.name + "'",
                   .expected = "'" + binding.name + "'"});
    for (int64_t i = 0; i < binding.type.elements(); ++i) store_element(data, binding.type.dtype, i, scalar->value);
  }
}

void EngineState::set(std::string_view name, const TensorType& type, const void* data) {
  const auto& feeds = feeding_->feeds;
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].name != name) continue;
    if (feeds[i].type != type)
      throw Error({.what = "a feed is of another type than the input",
                   .where = "'" + feeds[i].name + "'",
                   .found = type.text(),
                   .expected = feeds[i].type.text()});
    if (type.bytes() > 0) std::memcpy(at(feeds[i].buffer), data, static_cast<size_t>(type.bytes()));
    fed_[i] = true;
    return;
  }
  // What another segment takes is fed to that one.
  const bool evaluation = feeding_->kind == PieceKind::kEvaluate;
  if (!alone() || exe_.has_feed(name, evaluation)) return;
  std::vector<std::string> names;
  for (const Segment& segment : exe_.segments)
    if ((segment.kind == PieceKind::kEvaluate) == evaluation)
      for (const Binding& feed : segment.feeds) names.push_back(feed.name);
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = "there is no data input of this name",
               .where = "segment '" + feeding_->name + "'",
               .found = "'" + std::string(name) + "'",
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

void EngineState::take_feeds(const Segment& segment, int64_t lane, int64_t micro) {
  feeding_ = &segment;
  fed_.assign(segment.feeds.size(), false);
  (*feed_)(lane, micro, *this);
  for (size_t i = 0; i < segment.feeds.size(); ++i)
    if (!fed_[i])
      throw Error({.what = "a data input was not fed",
                   .where = "segment '" + segment.name + "'",
                   .expected = "'" + segment.feeds[i].name + "' " + segment.feeds[i].type.text()});
}

void EngineState::copy_results(const ProgramStep& step) {
  const auto id = static_cast<size_t>(step.subject);
  const Segment& segment = exe_.segments[id];
  if (!has_results(step)) return;
  const auto& views = segment.kind == PieceKind::kEvaluate ? evaluated_
                      : step.micro < 0                     ? results_.update_
                                                           : results_.micro_[static_cast<size_t>(step.micro)];
  for (size_t i = 0; i < segment.results.size(); ++i) {
    const Binding& result = segment.results[i];
    std::memcpy(const_cast<std::byte*>(views[first_result_[id] + i].data), at(result.buffer, step.micro),
                static_cast<size_t>(result.type.bytes()));
  }
}

const StepResults& EngineState::run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars) {
  check_scalars(scalars);
  results_.not_finite.clear();
  results_.states_changed = false;
  step_ = step;
  feed_ = &feed;
  scalars_ = scalars;
  changed_ = false;
  if (stale_) prepare();
  results_.seconds = results_.waiting_seconds = 0;
  const WaitClock clock(&results_.seconds);
  run_program(exe_.train);
  return results_;
}

/// With many devices a loss that is not finite is noted where it is seen.
void EngineState::note_results(const ProgramStep& step) {
  if (alone() || step.micro < 0 || ended_) return;
  for (const Binding& result : exe_.segments[static_cast<size_t>(step.subject)].results)
    if (results_.not_finite.empty() && result.type.elements() == 1 &&
        !is_finite_scalar(result.type, at(result.buffer, step.micro)))
      results_.not_finite = result.name;
}

/// Before weights change, all devices hear whether one has noted something: then the step ends for all.
void EngineState::agree() {
  agreed_ = true;
  if (!everyone_) return;
  const WaitClock clock(&results_.waiting_seconds);
  int32_t flag = results_.not_finite.empty() ? 0 : 1;
  everyone_->all_reduce(&flag, &flag, 1, DType::kI32, Reduction::kMax);
  if (flag) ended_ = stale_ = true;
}

void EngineState::prepare() {
  run_program(exe_.prepare);
  stale_ = false;
}

std::span<const TensorView> EngineState::evaluate(const Feed& feed, std::span<const ScalarValue> scalars) {
  // A stage may have no part in it, as one that only holds the loss head's neighbours.
  if (exe_.evaluate.empty() && alone())
    throw Error({.what = "the step was compiled without an evaluation", .where = "engine"});
  step_ = 0;
  feed_ = &feed;
  scalars_ = scalars;
  run_program(exe_.evaluate);
  return evaluated_;
}

const StatePlace& EngineState::find_state(std::string_view name) const {
  if (const int index = exe_.find_state(name); index >= 0) return exe_.states[static_cast<size_t>(index)];
  std::vector<std::string> names;
  for (const StatePlace& state : exe_.states) names.push_back(state.tensor.name);
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = "the step has no state of this name",
               .where = "engine",
               .found = "'" + std::string(name) + "'",
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

Engine::Engine(Executable executable, const Backend& backend, int threads)
    : state_(std::make_unique<EngineState>(std::move(executable), backend, DeviceOptions{.threads = threads})) {}
Engine::~Engine() = default;

const Executable& Engine::executable() const { return state_->exe_; }
int Engine::threads() const { return state_->team_.size(); }

void Engine::write_state(std::string_view name, const TensorType& type, const void* data) {
  fill_state(name, type, [&](std::span<std::byte> bytes) { std::memcpy(bytes.data(), data, bytes.size()); });
}

void Engine::fill_state(std::string_view name, const TensorType& type,
                        const std::function<void(std::span<std::byte>)>& fill) {
  const StatePlace& state = state_->find_state(name);
  if (state.tensor.type != type)
    throw Error({.what = "a state is given another type than it has",
                 .where = "'" + state.tensor.name + "'",
                 .found = type.text(),
                 .expected = state.tensor.type.text()});
  if (!state.slots.empty() && state.home == kNoBuffer)
    return fill({state_->at(state.slots[0]), static_cast<size_t>(type.bytes())});
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  fill(bytes);
  state_->write_state(name, 0, bytes);
}

TensorView Engine::state(std::string_view name) const {
  const StatePlace& state = state_->find_state(name);
  if (state.slots.empty())
    throw Error({.what = "a state is in device memory at times only and cannot be looked at in place",
                 .where = "'" + state.tensor.name + "'",
                 .remedy = "Read it"});
  return {state.tensor.name, &state.tensor.type, state_->at(state.slots[0])};
}

void Engine::read_state(std::string_view name, std::span<std::byte> into) const {
  const int64_t bytes = state_->find_state(name).tensor.type.bytes();
  if (static_cast<int64_t>(into.size()) != bytes)
    throw Error({.what = "a state is read into a buffer of another size",
                 .where = "'" + std::string(name) + "'",
                 .found = std::to_string(into.size()) + " bytes",
                 .expected = std::to_string(bytes)});
  state_->read_state(name, 0, into);
}

void Engine::run_derive() { state_->prepare(); }

const StepResults& Engine::run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars) {
  return state_->run_step(step, feed, scalars);
}

std::span<const TensorView> Engine::evaluate(const Feed& feed, std::span<const ScalarValue> scalars) {
  return state_->evaluate(feed, scalars);
}

std::optional<NonFinite> Engine::find_first_nonfinite(int64_t step, const Feed& feed,
                                                      std::span<const ScalarValue> scalars) {
  return state_->find_first_nonfinite(step, feed, scalars);
}

Hash Engine::weights_hash() const {
  Hasher hasher;
  std::vector<std::byte> bytes;
  for (const StatePlace& state : state_->exe_.states) {
    if (state.tensor.kind != StateKind::kWeight) continue;
    hasher.update(state.tensor.name + " " + state.tensor.type.text() + "\n");
    const std::byte* data = state.slots.empty() ? nullptr : state_->at(state.slots[0]);
    if (!data) {
      bytes.resize(static_cast<size_t>(state.tensor.type.bytes()));
      state_->read_state(state.tensor.name, 0, bytes);
      data = bytes.data();
    }
    hasher.update(data, static_cast<size_t>(state.tensor.type.bytes()));
  }
  return hasher.digest();
}

void Engine::profile(bool on) { state_->profiling_ = on; }

}  // namespace ramet::runtime
