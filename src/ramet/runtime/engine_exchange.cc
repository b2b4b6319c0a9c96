#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/runtime/engine_state.h"

// What a device does with others and with its streaming memory.

namespace ramet::runtime {
namespace {

using Kind = ProgramStep::Kind;

Reduction reduction_of(const std::string& kind) {
  return kind == "max" ? Reduction::kMax : kind == "min" ? Reduction::kMin : Reduction::kSum;
}

}  // namespace

PreparedCollective EngineState::make_collective(const NodeSignature& node) {
  PreparedCollective call;
  call.form = collective_form(node);
  call.reduction = reduction_of(call.form.kind);
  const auto axis = static_cast<MeshAxis>(call.form.axis);
  const int64_t reach = call.form.parts * call.form.stride;
  if (call.form.axis < 0 || call.form.axis >= static_cast<int64_t>(kMeshAxes.size()) ||
      reach > exe_.mesh.extent(axis) || exe_.mesh.extent(axis) % reach != 0)
    throw Error({.what = "a collective does not fit the mesh of devices",
                 .where = node.text(),
                 .found = std::to_string(call.form.parts) + " members at distance " + std::to_string(call.form.stride),
                 .expected = "groups of " + std::to_string(exe_.mesh.extent(axis)) + " devices along " +
                             std::string(name_of(axis))});
  if (call.form.exchange == Exchange::kAllToAll) {
    const int rank = call.form.input.shape.rank();
    call.split = static_cast<int>((node.attributes.get_int("split") + rank) % rank);
    call.concat = static_cast<int>((node.attributes.get_int("concat") + rank) % rank);
  }
  if (call.form.parts == 1) return call;
  if (!options_.transport)
    throw Error({.what = "the program exchanges with other devices, but there is no transport", .where = node.text()});
  auto& group = groups_[{call.form.axis, call.form.parts, call.form.stride}];
  if (!group)
    group =
        std::make_unique<Collectives>(*options_.transport,
                                      Group{exe_.mesh.group(options_.device, axis, static_cast<int>(call.form.stride),
                                                            static_cast<int>(call.form.parts))},
                                      options_.collectives);
  call.group = group.get();
  return call;
}

void EngineState::run_collective(const BoundCall& call) {
  const PreparedCollective& collective = collectives_[static_cast<size_t>(call.collective)];
  const CollectiveForm& form = collective.form;
  const auto* in = static_cast<const std::byte*>(call.inputs[0]);
  auto *out = static_cast<std::byte*>(call.outputs[0]), *scratch = static_cast<std::byte*>(call.scratch);
  const DType dtype = form.input.dtype;
  if (!collective.group) return queue_->copy(out, in, form.output.bytes());
  const WaitClock clock(form.axis == static_cast<int64_t>(MeshAxis::kStage) ? &results_.waiting_seconds : nullptr);
  Collectives& group = *collective.group;
  const int64_t run_bytes = form.run * static_cast<int64_t>(size_of(dtype));
  // Tensors travel as [parts][outer][run] and lie as [outer][parts][run]: scratch is where they are as they travel.
  switch (form.exchange) {
    case Exchange::kAllReduce:
      return exchange(in, form.input.bytes(), out, form.input.bytes(), [&](const void* from, void* to) {
        group.all_reduce(from, to, form.input.elements(), dtype, collective.reduction);
      });
    case Exchange::kAllGather:
      exchange(in, form.input.bytes(), scratch ? scratch : out, form.output.bytes(),
               [&](const void* from, void* to) { group.all_gather(from, to, form.output.elements(), dtype); });
      if (scratch) queue_->transpose(out, scratch, form.parts, form.outer, run_bytes);
      return;
    case Exchange::kReduceScatter:
      if (scratch) queue_->transpose(scratch, in, form.outer, form.parts, run_bytes);
      return exchange(scratch ? scratch : in, form.input.bytes(), out, form.output.bytes(),
                      [&](const void* from, void* to) {
                        group.reduce_scatter(from, to, form.input.elements(), dtype, collective.reduction);
                      });
    case Exchange::kAllToAll: return all_to_all(collective, call);
    case Exchange::kNone: return;
  }
}

/// Calls meet(from, to) with host copies of device memory.
template <typename Meet>
void EngineState::exchange(const std::byte* in, int64_t in_bytes, std::byte* out, int64_t out_bytes, const Meet& meet) {
  std::byte* const from = staging_->outgoing(in, in_bytes);
  std::byte* const to = staging_->incoming(out, out_bytes);
  meet(from, to);
  staging_->release(from);
  staging_->deliver(out, to, out_bytes);
}

/// Part k of `split` goes to member k as a tensor of its own; the received parts are joined along `concat`.
void EngineState::all_to_all(const PreparedCollective& collective, const BoundCall& call) {
  const CollectiveForm& form = collective.form;
  const auto element = static_cast<int64_t>(size_of(form.input.dtype));
  // A tensor cut in `parts` along a dimension is [outer, parts, run].
  const auto cut = [&](const Shape& shape, int dim, int64_t& outer, int64_t& run) {
    outer = 1;
    for (int i = 0; i < dim; ++i) outer *= shape[i];
    run = outer > 0 ? shape.elements() / (outer * form.parts) * element : 0;
  };
  auto* goes = static_cast<std::byte*>(call.scratch);
  std::byte* comes = goes + form.input.bytes();
  int64_t outer = 1, run = 0;
  cut(form.input.shape, collective.split, outer, run);
  queue_->transpose(goes, static_cast<const std::byte*>(call.inputs[0]), outer, form.parts, run);
  exchange(goes, form.input.bytes(), comes, form.input.bytes(), [&](const void* from, void* to) {
    collective.group->all_to_all(from, to, form.input.elements(), form.input.dtype);
  });
  cut(form.output.shape, collective.concat, outer, run);
  queue_->transpose(static_cast<std::byte*>(call.outputs[0]), comes, form.parts, outer, run);
}

void EngineState::begin_program(int32_t program) {
  program_ = program;
  first_label_ = 0;
  for (int32_t before = 0; before < program; ++before)
    first_label_ += static_cast<int32_t>(exe_.programs[static_cast<size_t>(before)].steps.size());
  under_way_.clear();
  ended_ = false;
  agreed_ = program != kTrain || alone();
}

void EngineState::start(size_t index) {
  const ProgramStep& step = at_hand().steps[index];
  const Transfer& transfer = exe_.transfers[static_cast<size_t>(step.subject)];
  std::byte* data = at(transfer.buffer, step.micro);
  const int64_t bytes = transfer.type.bytes();
  Ticket ticket;
  if (transfer.peer >= 0) {
    Mesh::Position other = position_;
    other.stage = transfer.peer;
    const int device = exe_.mesh.device(other);
    const bool sends = step.kind == Kind::kSend;
    std::byte* const host = sends ? staging_->outgoing(data, bytes) : staging_->incoming(data, bytes);
    ticket = sends ? options_.transport->start_send(device, transfer.tag, host, static_cast<size_t>(bytes))
                   : options_.transport->start_receive(device, transfer.tag, host, static_cast<size_t>(bytes));
    staged_[index] = host;
  } else {
    const int64_t offset = exe_.streaming[static_cast<size_t>(transfer.streaming)].at(step.micro);
    ticket =
        step.kind == Kind::kLoad ? store_->start_load(offset, data, bytes) : store_->start_store(offset, data, bytes);
  }
  tickets_[index] = ticket;
  under_way_.push_back(static_cast<int32_t>(index));
}

void EngineState::wait(size_t index) {
  const auto started = std::find(under_way_.begin(), under_way_.end(), static_cast<int32_t>(index));
  if (started == under_way_.end()) return;
  *started = under_way_.back();
  under_way_.pop_back();
  const ProgramStep& step = at_hand().steps[index];
  const Transfer& transfer = exe_.transfers[static_cast<size_t>(step.subject)];
  if (transfer.peer < 0) return store_->wait(tickets_[index]);
  const WaitClock clock(&results_.waiting_seconds);
  options_.transport->wait(tickets_[index]);
  if (step.kind == Kind::kSend)
    staging_->release(staged_[index]);
  else
    staging_->deliver(at(transfer.buffer, step.micro), staged_[index], transfer.type.bytes());
}

/// A step that a guard has ended does its messages and nothing else (drains). The last round of a request may have
/// fewer micro-batches than the program has room for: the steps of the others are left out on all devices.
bool EngineState::run_program_step(size_t index) {
  const ProgramStep& step = at_hand().steps[index];
  if (step.micro >= 0 && !exe_.runs_in_step(program_) && !request_.runs(step)) return true;
  switch (step.kind) {
    case Kind::kZero:
      if (!ended_) zero_accumulators(step);
      return true;
    case Kind::kCombine:
      if (!ended_) combine_slots(step);
      return true;
    case Kind::kWait: wait(static_cast<size_t>(step.subject)); return true;
    case Kind::kRun: break;
    default: start(index); return true;
  }
  if (!agreed_ && exe_.segments[static_cast<size_t>(step.subject)].kind == PieceKind::kUpdate) agree();
  if (!ended_) feed_segment(step);
  set_operands(tables_[static_cast<size_t>(step.subject)], step);
  if (!run_guarded(step)) ended_ = true;
  copy_results(step);
  note_results(step);
  finish_superstep(index);
  return !ended_ || drains();
}

bool EngineState::run_step_timed(size_t index) {
  const auto now = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
  const double begin = now();
  const bool goes_on = run_program_step(index);
  spans_.push_back({static_cast<int32_t>(index), begin, now()});
  return goes_on;
}

void EngineState::run_program(int32_t program) {
  begin_program(program);
  const bool timed = profiling_ && program == kTrain;
  if (timed) spans_.clear();
  try {
    for (size_t index = 0; index < at_hand().steps.size(); ++index)
      if (!(timed ? run_step_timed(index) : run_program_step(index))) break;
    end_program();
  } catch (...) {
    abandon();
    throw;
  }
}

/// After an error: waits, so that no work of the queue is still running when the caller gets the error. An exception of
/// the queue is either that error or follows from it.
void EngineState::abandon() {
  try {
    queue_->wait();
  } catch (...) {
  }
}

void EngineState::end_program() {
  if (!agreed_) agree();
  std::vector<int32_t> rest = under_way_;
  std::sort(rest.begin(), rest.end());
  for (int32_t step : rest) wait(static_cast<size_t>(step));
  queue_->wait();
  superstep_ += static_cast<uint64_t>(at_hand().supersteps);
}

void EngineState::finish_superstep(size_t index) {
  if (!options_.transport) return;
  options_.transport->finish_superstep(superstep_ + static_cast<uint64_t>(at_hand().steps[index].superstep),
                                       first_label_ + static_cast<int>(index));
}

std::string DeviceEngine::label_text(const Executable& executable, int label) {
  auto index = static_cast<size_t>(std::max(label, 0));
  for (const Program& program : executable.programs) {
    if (label >= 0 && index < program.steps.size())
      return program.name + ": " + executable.text_of(program.steps[index]);
    index -= std::min(index, program.steps.size());
  }
  return "";
}

}  // namespace ramet::runtime
