#include "ramet/runtime/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/kernel/devices.h"
#include "ramet/runtime/engine_state.h"
#include "ramet/runtime/localize.h"

namespace ramet::runtime {
namespace {

bool is_finite_scalar(const TensorView& view) { return !is_floating(view.type->dtype) || std::isfinite(view.get()); }

}  // namespace

const TensorView* StepResults::find(std::string_view name) const {
  for (const TensorView& view : update_)
    if (view.name == name) return &view;
  if (!micro_.empty())
    for (const TensorView& view : micro_.back())
      if (view.name == name) return &view;
  return nullptr;
}

std::span<const TensorView> StepResults::program(std::string_view name) const {
  for (const OfProgram& each : programs_)
    if (each.name == name && each.ran) return each.views;
  return {};
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
      device_(find_device(options.kind).make(options.threads > 0 ? options.threads : exe_.threads)),
      queue_(device_->make_queue()),
      staging_(std::make_unique<Staging>(*device_, *queue_)) {
  check_backend(backend, device_->threads());
  make_memory();
  write_constants();
  make_kernels(backend);
  for (const Segment& segment : exe_.segments) {
    tables_.push_back(make_table(segment));
    seconds_.emplace_back(segment.instructions.size(), 0.0);
  }
  runs_.assign(exe_.segments.size(), 0);
  make_results();
  find_guards();
  for (const Program& program : exe_.programs) tickets_.resize(std::max(tickets_.size(), program.steps.size()));
  staged_.resize(tickets_.size());
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
  if (options_.shared_arena && options_.transport && device_->addressable()) {
    const auto bytes = static_cast<size_t>(std::max<int64_t>(exe_.arena_bytes, 1));
    memory_ = device_->adopt(options_.transport->allocate(bytes), exe_.arena_bytes);
  } else {
    memory_ = device_->take(exe_.arena_bytes, Memory::kDevice, "device memory");
  }
  if (exe_.streaming_bytes == 0) return;
  store_ = std::make_unique<DeviceStore>(options_.streaming ? options_.streaming(exe_.streaming_bytes)
                                                            : make_ram_store(exe_.streaming_bytes, device_.get()),
                                         *device_, *queue_, *staging_);
}

void EngineState::write_constants() {
  for (const StatePlace& state : exe_.states)
    if (state.tensor.kind == StateKind::kConstant && state.tensor.init.data)
      write_state(state.tensor.name, 0, state.tensor.init.data->bytes());
}

void EngineState::make_kernels(const Backend& backend) {
  backend_ = &backend;
  collectives_.resize(exe_.calls.size());
  for (size_t i = 0; i < exe_.calls.size(); ++i) {
    const Call& call = exe_.calls[i];
    kernels_.emplace_back();
    if (call.node.op->exchange != Exchange::kNone)
      collectives_[i] = make_collective(call.node);
    else
      kernels_[i] = backend.make(localize(call.node, position_), device_->threads(), call.kernel);
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
    BoundCall call;
    call.kernel = instruction.call < 0 ? nullptr : kernels_[static_cast<size_t>(instruction.call)].get();
    if (instruction.call >= 0 && !call.kernel) call.collective = instruction.call;
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
    if (instruction.call < 0) call.bytes = exe_.buffers[static_cast<size_t>(instruction.inputs[0])].bytes;
    table.calls.push_back(call);
  }
  return table;
}

/// Places for all results of a step, so that they outlive the buffers that they come from.
void EngineState::make_results() {
  result_memory_ = device_->take(exe_.result_bytes(), Memory::kPinned, "results");
  std::byte* next = result_memory_.data();
  results_.micro_.resize(static_cast<size_t>(exe_.micro_batches()));
  first_result_.assign(exe_.segments.size(), 0);
  const auto place = [&](const Program& program, bool train, std::vector<TensorView>& once) {
    for (const ProgramStep& step : program.steps) {
      if (!exe_.gives_results(step)) continue;
      std::vector<TensorView>& views =
          step.micro < 0 || !train ? once : results_.micro_[static_cast<size_t>(step.micro)];
      first_result_[static_cast<size_t>(step.subject)] = views.size();
      for (const Binding& result : exe_.segments[static_cast<size_t>(step.subject)].results) {
        views.push_back({result.name, &result.type, next});
        next += Executable::padded_bytes(result);
      }
    }
  };
  place(exe_.train(), true, results_.update_);
  if (exe_.joined) results_.update_ = results_.micro_[0];
  for (int32_t program = kFirstProgram; program < static_cast<int32_t>(exe_.programs.size()); ++program) {
    if (!exe_.runs_in_step(program)) continue;
    const Program& known = exe_.programs[static_cast<size_t>(program)];
    results_.programs_.push_back({program, known.name, false, {}});
    place(known, false, results_.programs_.back().views);
  }
  size_t feeds = 0;
  int64_t scalar_bytes = 0;
  for (const Segment& segment : exe_.segments) {
    feeds = std::max(feeds, segment.feeds.size());
    for (const Binding& scalar : segment.scalars) scalar_bytes = std::max(scalar_bytes, scalar.type.bytes());
  }
  fed_.reserve(feeds);
  scalar_room_.resize(static_cast<size_t>(scalar_bytes));
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
  const int64_t bytes = state.tensor.type.bytes();
  if (!state.slots.empty()) return host_bytes(at(state.slots[0]), bytes, room);
  room.resize(static_cast<size_t>(bytes));
  store_->load(exe_.streaming[static_cast<size_t>(state.home)].offset, room.data(), bytes);
  return room.data();
}

const std::byte* EngineState::host_bytes(const void* data, int64_t bytes, std::vector<std::byte>& room) const {
  const auto* from = static_cast<const std::byte*>(data);
  if (device_->addressable()) {
    queue_->wait();
    return from;
  }
  room.resize(static_cast<size_t>(bytes));
  queue_->copy_out(room.data(), from, bytes);
  return room.data();
}

void EngineState::watch_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars,
                             const std::function<bool(const ProgramStep&)>& run_segment) {
  prepare();
  step_ = step;
  feed_ = &feed;
  scalars_ = scalars;
  feed_error_ = nullptr;
  may_change_ = false;
  begin_program(kTrain);
  agreed_ = true;
  for (size_t index = 0; index < exe_.train().steps.size(); ++index) {
    const ProgramStep& each = exe_.train().steps[index];
    if (each.kind != ProgramStep::Kind::kRun) {
      run_program_step(index);
      continue;
    }
    feed_segment(each);
    set_operands(tables_[static_cast<size_t>(each.subject)], each);
    const bool goes_on = run_segment(each);
    finish_superstep(index);
    if (!goes_on) return;
  }
  end_program();
  if (feed_error_ && alone()) std::rethrow_exception(take_feed_error());
}

void EngineState::find_guards() {
  const std::vector<bool> trained = trained_buffers();
  for (const Segment& segment : exe_.segments) {
    auto& guards = guards_.emplace_back();
    for (size_t i = 0; i < segment.results.size(); ++i)
      if (const Binding& result = segment.results[i];
          result.guard && result.ready >= 0 && (alone() || segment.kind == PieceKind::kUpdate))
        guards.push_back({result.ready, i});
    std::sort(guards.begin(), guards.end(), [](const Guard& a, const Guard& b) { return a.after < b.after; });
    int32_t& first = first_state_write_.emplace_back(INT32_MAX);
    for (size_t i = segment.instructions.size(); i-- > 0;)
      for (BufferId output : segment.instructions[i].outputs)
        if (trained[static_cast<size_t>(output)]) first = static_cast<int32_t>(i);
  }
}

void EngineState::run_call(const BoundCall& call) {
  if (call.collective >= 0) return run_collective(call);
  if (!call.kernel)
    return queue_->copy(static_cast<std::byte*>(call.outputs[0]), static_cast<const std::byte*>(call.inputs[0]),
                        call.bytes);
  queue_->launch(*call.kernel, {{call.inputs, call.input_count}, {call.outputs, call.output_count}, call.scratch});
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
  if (device_->gains_by_replay()) return run_recorded(segment, begin, end);
  give_calls(tables_[static_cast<size_t>(segment)], begin, end);
}

void EngineState::give_calls(const CallTable& table, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) run_call(table.calls[i]);
}

/// Runs calls between which the host has nothing to do by replays; others, and all calls the first time, one by one. A
/// run with collectives is recorded in the stretches between them.
void EngineState::run_recorded(int32_t segment, size_t begin, size_t end) {
  constexpr size_t kLeast = 4;             // calls that a replay is worth
  constexpr size_t kMostRecordings = 512;  // each takes memory of the device's driver
  const CallTable& table = tables_[static_cast<size_t>(segment)];
  for (size_t first = begin; first < end;) {
    size_t last = first;
    while (last < end && table.calls[last].is_recordable()) ++last;
    if (last - first < kLeast) {
      last = std::max(last, first + 1);
      give_calls(table, first, last);
    } else {
      const std::array<int64_t, 5> key{segment, table.slot, table.micro, static_cast<int64_t>(first),
                                       static_cast<int64_t>(last)};
      RecordedCalls* known = recorded_.contains(key) || recorded_.size() < kMostRecordings ? &recorded_[key] : nullptr;
      if (known && known->seen && !known->program) known->program = record(table, first, last);
      if (known && known->program)
        queue_->replay(*known->program);
      else
        give_calls(table, first, last);
      if (known) known->seen = true;
    }
    first = last;
  }
}

std::unique_ptr<CapturedProgram> EngineState::record(const CallTable& table, size_t begin, size_t end) {
  queue_->begin_capture();
  try {
    give_calls(table, begin, end);
  } catch (...) {
    queue_->end_capture();
    throw;
  }
  return queue_->end_capture();
}

void EngineState::run_timed(int32_t segment, size_t begin, size_t end) {
  const CallTable& table = tables_[static_cast<size_t>(segment)];
  auto& seconds = seconds_[static_cast<size_t>(segment)];
  if (begin == 0) ++runs_[static_cast<size_t>(segment)];
  stamps_.resize(std::max(stamps_.size(), end - begin + 1));
  queue_->stamp(&stamps_[0]);
  for (size_t i = begin; i < end; ++i) {
    run_call(table.calls[i]);
    queue_->stamp(&stamps_[i - begin + 1]);
  }
  queue_->wait();
  for (size_t i = begin; i < end; ++i) seconds[i] += stamps_[i - begin + 1] - stamps_[i - begin];
}

/// The first guard that is not finite, among those from `looked_at` on that instructions below `before` compute. Their
/// values are copied to the host here, all at once.
const Guard* EngineState::find_failed_guard(const ProgramStep& step, size_t& looked_at, int32_t before) {
  const auto& guards = guards_[static_cast<size_t>(step.subject)];
  const size_t first = looked_at;
  while (looked_at < guards.size() && guards[looked_at].after < before) copy_result(step, guards[looked_at++].result);
  if (looked_at == first) return nullptr;
  queue_->wait();
  const auto views = views_of(step);
  for (size_t i = first; i < looked_at; ++i)
    if (!is_finite_scalar(views[guards[i].result])) return &guards[i];
  return nullptr;
}

/// Runs a segment, and checks its guards before it changes a weight or an optimizer state and again at its end; returns
/// false when one is not finite. From there on, and when the step had ended before, it does only the segment's
/// collectives between stages: all devices that it would meet in others run the same segment and ended at the same
/// place.
bool EngineState::run_guarded(const ProgramStep& step) {
  const auto id = static_cast<size_t>(step.subject);
  const auto count = static_cast<int32_t>(exe_.segments[id].instructions.size());
  const int32_t first_write = std::min(first_state_write_[id], count);
  int32_t next = 0;
  size_t looked_at = 0;
  const auto exchange_rest = [&] {
    for (int32_t call : tables_[id].between_stages)
      if (call >= next) run_call(tables_[id].calls[static_cast<size_t>(call)]);
  };
  if (ended_) {
    exchange_rest();
    return true;
  }
  for (const int32_t stop : {first_write, count}) {
    if (stop > next) run_calls(step.subject, static_cast<size_t>(next), static_cast<size_t>(stop));
    next = stop;
    const Guard* failed = find_failed_guard(step, looked_at, stop);
    if (!failed) continue;
    results_.not_finite = exe_.segments[id].results[failed->result].name;
    results_.states_changed = changed_ || stop > first_write;
    stale_ = drains();
    exchange_rest();
    return false;
  }
  changed_ = changed_ || first_write < count;
  return true;
}

void EngineState::zero_accumulators(const ProgramStep& step) {
  for (int32_t id : exe_.segments[static_cast<size_t>(step.subject)].accumulators) {
    const StatePlace& state = exe_.states[static_cast<size_t>(id)];
    queue_->fill(at(state.slots[static_cast<size_t>(step.slot)]), 0, state.tensor.type.bytes());
  }
}

void EngineState::combine_slots(const ProgramStep& step) {
  for (int32_t id : exe_.segments[static_cast<size_t>(step.subject)].accumulators) {
    const StatePlace& state = exe_.states[static_cast<size_t>(id)];
    queue_->add(at(state.slots[static_cast<size_t>(step.slot)]), at(state.slots[static_cast<size_t>(step.from)]),
                state.tensor.type.dtype, state.tensor.type.elements());
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
  for (StepResults::OfProgram& program : results_.programs_) program.ran = false;
  const WaitClock clock(&results_.seconds);
  feed_error_ = nullptr;
  may_change_ = true;
  run_program(kTrain);
  // A step that a guard has ended has ended on all devices.
  if (!ended_) run_due_programs(step);
  if (feed_error_ && alone()) std::rethrow_exception(take_feed_error());
  return results_;
}

/// The programs that follow a training step, each with the states as those before have left them.
void EngineState::run_due_programs(int64_t step) {
  for (StepResults::OfProgram& due : results_.programs_) {
    const Program& program = exe_.programs[static_cast<size_t>(due.program)];
    if ((step + 1) % program.when.every != 0) continue;
    run_program(due.program);
    due.ran = true;
    if (program.prepares) prepare();
  }
}

int64_t EngineState::micro_batch_of(const ProgramStep& step) const {
  // Of the whole step: replicas have lanes in order.
  if (program_ == kTrain) return step.micro < 0 ? 0 : position_.replica * exe_.micro_batches() + step.micro;
  if (exe_.runs_in_step(program_)) return std::max<int64_t>(at_hand().when.micro, 0);
  return request_.micro_batch_of(step, position_.replica);
}

/// With several devices, each notes the first loss of its own that is not finite; `agree` then ends the step on all.
void EngineState::note_results(const ProgramStep& step) {
  if (alone() || program_ != kTrain || step.micro < 0 || ended_ || !results_.not_finite.empty()) return;
  const auto& results = exe_.segments[static_cast<size_t>(step.subject)].results;
  if (std::none_of(results.begin(), results.end(), [](const Binding& result) { return result.guard; })) return;
  queue_->wait();
  const auto views = views_of(step);
  for (size_t i = 0; i < results.size(); ++i)
    if (results_.not_finite.empty() && results[i].guard && !is_finite_scalar(views[i]))
      results_.not_finite = results[i].name;
}

/// Before weights change, devices tell each other whether one of them saw a loss that is not finite; then the step ends
/// on all of them.
void EngineState::agree() {
  agreed_ = true;
  if (!everyone_) return;
  const WaitClock clock(&results_.waiting_seconds);
  int32_t flag = results_.not_finite.empty() ? 0 : 1;
  everyone_->all_reduce(&flag, &flag, 1, DType::kI32, Reduction::kMax);
  if (flag) ended_ = stale_ = true;
}

void EngineState::prepare() {
  run_program(kPrepare);
  stale_ = false;
}

void EngineState::run(std::string_view name, int64_t count, const Feed& feed, std::span<const ScalarValue> scalars,
                      const ResultSink& sink) {
  const int32_t number = exe_.program_on_request(name, count);
  const Program& program = exe_.programs[static_cast<size_t>(number)];
  check_scalars(scalars);
  step_ = 0;
  feed_ = &feed;
  scalars_ = scalars;
  feed_error_ = nullptr;
  may_change_ = program.writes_states;
  if (stale_) prepare();
  sink_ = &sink;
  program.each_round(count, exe_.mesh.r, [&](const RequestRound& round) {
    request_ = round;
    run_program(number);
    if (feed_error_ && alone()) std::rethrow_exception(take_feed_error());
    if (program.prepares) prepare();
  });
}

std::span<const TensorView> EngineState::run(std::string_view name, const Feed& feed,
                                             std::span<const ScalarValue> scalars) {
  once_bytes_.clear();
  once_.clear();
  run(name, 1, feed, scalars, [&](int64_t, const Binding& result, const std::byte* data) {
    once_bytes_.emplace_back(data, data + result.type.bytes());
    once_.push_back({result.name, &result.type, once_bytes_.back().data()});
  });
  return once_;
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
int Engine::threads() const { return state_->device_->threads(); }

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
  if (!state.slots.empty() && state.home == kNoBuffer && state_->device_->addressable())
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
  return {state.tensor.name, &state.tensor.type, state_->state_data(state, state_->looked_at_)};
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

void Engine::run(std::string_view program, int64_t count, const Feed& feed, std::span<const ScalarValue> scalars,
                 const ResultSink& sink) {
  state_->run(program, count, feed, scalars, sink);
}

std::span<const TensorView> Engine::run(std::string_view program, const Feed& feed,
                                        std::span<const ScalarValue> scalars) {
  return state_->run(program, feed, scalars);
}

std::optional<NonFinite> Engine::find_first_nonfinite(int64_t step, const Feed& feed,
                                                      std::span<const ScalarValue> scalars) {
  return state_->find_first_nonfinite(step, feed, scalars);
}

Hash Engine::weights_hash() const {
  Hasher hasher;
  std::vector<std::byte> bytes;
  for (const StatePlace& state : state_->exe_.states) {
    if (!is_hashed(state.tensor.kind)) continue;
    hasher.update(state.tensor.name + " " + state.tensor.type.text() + "\n");
    const std::byte* data = state_->state_data(state, bytes);
    hasher.update(data, static_cast<size_t>(state.tensor.type.bytes()));
  }
  return hasher.digest();
}

void Engine::profile(bool on) { state_->profiling_ = on; }

}  // namespace ramet::runtime
