#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/runtime/engine_state.h"

// What a device does with others and with its streaming memory.

namespace ramet::runtime {
namespace {

using Kind = ProgramStep::Kind;

Reduction reduction_of(const std::string& kind) {
  return kind == "max" ? Reduction::kMax : kind == "min" ? Reduction::kMin : Reduction::kSum;
}

constexpr int kLabelBits = 28;  // of a step's index in a label; the program above them

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

/// Between [parts][outer][run], as tensors travel, and [outer][parts][run], as they lie; the same permutation both ways
/// but for its numbers.
static void permute(ThreadTeam& team, const std::byte* from, std::byte* to, int64_t rows, int64_t columns,
                    int64_t bytes) {
  team.split(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t column = 0; column < columns; ++column)
        std::memcpy(to + (column * rows + row) * bytes, from + (row * columns + column) * bytes,
                    static_cast<size_t>(bytes));
  });
}

void EngineState::run_collective(const Call& call) {
  const PreparedCollective& collective = collectives_[static_cast<size_t>(call.collective)];
  const CollectiveForm& form = collective.form;
  const void* in = call.inputs[0];
  void* out = call.outputs[0];
  const DType dtype = form.input.dtype;
  if (!collective.group) return copy(in, out, form.output.bytes());
  const WaitClock clock(form.axis == static_cast<int64_t>(MeshAxis::kStage) ? &results_.waiting_seconds : nullptr);
  const auto* from = static_cast<const std::byte*>(in);
  auto *to = static_cast<std::byte*>(out), *scratch = static_cast<std::byte*>(call.scratch);
  const int64_t run_bytes = form.run * static_cast<int64_t>(size_of(dtype));
  switch (form.exchange) {
    case Exchange::kAllReduce:
      return collective.group->all_reduce(in, out, form.input.elements(), dtype, collective.reduction);
    case Exchange::kAllGather:
      collective.group->all_gather(in, scratch ? scratch : out, form.output.elements(), dtype);
      if (scratch) permute(team_, scratch, to, form.parts, form.outer, run_bytes);
      return;
    case Exchange::kReduceScatter:
      if (scratch) permute(team_, from, scratch, form.outer, form.parts, run_bytes);
      return collective.group->reduce_scatter(scratch ? scratch : in, out, form.input.elements(), dtype,
                                              collective.reduction);
    case Exchange::kAllToAll: return all_to_all(collective, call);
    case Exchange::kNone: return;
  }
}

/// Part k of `split` goes to member k as a tensor of its own; what comes is joined along `concat`.
void EngineState::all_to_all(const PreparedCollective& collective, const Call& call) {
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
  permute(team_, static_cast<const std::byte*>(call.inputs[0]), goes, outer, form.parts, run);
  collective.group->all_to_all(goes, comes, form.input.elements(), form.input.dtype);
  cut(form.output.shape, collective.concat, outer, run);
  permute(team_, comes, static_cast<std::byte*>(call.outputs[0]), form.parts, outer, run);
}

void EngineState::begin_program(const Program& program) {
  if (tickets_.size() < program.size()) tickets_.resize(program.size());
  under_way_.clear();
  ended_ = false;
  agreed_ = &program != &exe_.train || alone();
}

void EngineState::start(const Program& program, size_t index) {
  const ProgramStep& step = program[index];
  const Transfer& transfer = exe_.transfers[static_cast<size_t>(step.subject)];
  std::byte* data = at(transfer.buffer, step.micro);
  const int64_t bytes = transfer.type.bytes();
  Ticket ticket;
  if (transfer.peer >= 0) {
    Mesh::Position other = position_;
    other.stage = transfer.peer;
    const int device = exe_.mesh.device(other);
    ticket = step.kind == Kind::kSend
                 ? options_.transport->start_send(device, transfer.tag, data, static_cast<size_t>(bytes))
                 : options_.transport->start_receive(device, transfer.tag, data, static_cast<size_t>(bytes));
  } else {
    const int64_t offset = exe_.streaming[static_cast<size_t>(transfer.streaming)].at(step.micro);
    ticket =
        step.kind == Kind::kLoad ? store_->start_load(offset, data, bytes) : store_->start_store(offset, data, bytes);
  }
  tickets_[index] = ticket;
  under_way_.push_back(static_cast<int32_t>(index));
}

void EngineState::wait(const Program& program, size_t index) {
  const auto started = std::find(under_way_.begin(), under_way_.end(), static_cast<int32_t>(index));
  if (started == under_way_.end()) return;
  *started = under_way_.back();
  under_way_.pop_back();
  const bool exchanges = exe_.transfers[static_cast<size_t>(program[index].subject)].peer >= 0;
  if (!exchanges) return store_->wait(tickets_[index]);
  const WaitClock clock(&results_.waiting_seconds);
  options_.transport->wait(tickets_[index]);
}

/// A step that a guard has ended does nothing more, but for what others wait for.
bool EngineState::run_program_step(const Program& program, size_t index) {
  const ProgramStep& step = program[index];
  switch (step.kind) {
    case Kind::kZero:
      if (!ended_) zero_accumulators(step);
      return true;
    case Kind::kCombine:
      if (!ended_) combine_slots(step);
      return true;
    case Kind::kWait: wait(program, static_cast<size_t>(step.subject)); return true;
    case Kind::kRun: break;
    default: start(program, index); return true;
  }
  if (!agreed_ && exe_.segments[static_cast<size_t>(step.subject)].kind == PieceKind::kUpdate) agree();
  if (!ended_) feed_segment(step);
  set_operands(tables_[static_cast<size_t>(step.subject)], step);
  if (!run_guarded(step)) ended_ = true;
  copy_results(step);
  note_results(step);
  finish_superstep(program, index);
  return !ended_ || goes_on_;
}

void EngineState::run_program(const Program& program) {
  begin_program(program);
  for (size_t index = 0; index < program.size(); ++index)
    if (!run_program_step(program, index)) break;
  end_program(program);
}

void EngineState::end_program(const Program& program) {
  if (!agreed_) agree();
  std::vector<int32_t> rest = under_way_;
  std::sort(rest.begin(), rest.end());
  for (int32_t step : rest) wait(program, static_cast<size_t>(step));
  superstep_ += static_cast<uint64_t>(exe_.supersteps[static_cast<size_t>(number_of(program))]);
}

int EngineState::number_of(const Program& program) const {
  return &program == &exe_.train ? 0 : &program == &exe_.prepare ? 1 : 2;
}

void EngineState::finish_superstep(const Program& program, size_t index) {
  if (!options_.transport) return;
  options_.transport->finish_superstep(superstep_ + static_cast<uint64_t>(program[index].superstep),
                                       number_of(program) << kLabelBits | static_cast<int>(index));
}

std::string DeviceEngine::label_text(const Executable& executable, int label) {
  const Executable& exe = executable;
  const std::vector<ProgramStep>* programs[] = {&exe.train, &exe.prepare, &exe.evaluate};
  constexpr const char* names[] = {"train", "prepare", "evaluate"};
  const int which = label >> kLabelBits, index = label & ((1 << kLabelBits) - 1);
  if (label < 0 || which > 2 || static_cast<size_t>(index) >= programs[which]->size()) return "";
  return std::string(names[which]) + ": " + exe.text_of((*programs[which])[static_cast<size_t>(index)]);
}

}  // namespace ramet::runtime
