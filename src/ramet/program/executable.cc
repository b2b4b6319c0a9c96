#include "ramet/program/executable.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>

#include "ramet/base/error.h"

namespace ramet::program {

std::string_view name_of(BufferClass buffer_class) {
  static constexpr std::string_view names[] = {"weights",     "optimizer", "gradients", "derived", "states",
                                               "activations", "stash",     "exchange",  "scratch", "host"};
  return names[static_cast<size_t>(buffer_class)];
}

double Executable::gap() const {
  return bound_bytes > 0 ? static_cast<double>(arena_bytes - bound_bytes) / static_cast<double>(bound_bytes) : 0;
}

int Executable::find_state(std::string_view name) const {
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i].tensor.name == name) return static_cast<int>(i);
  return -1;
}

const Segment* Executable::find_segment(PieceKind kind) const {
  const auto found =
      std::find_if(segments.begin(), segments.end(), [&](const Segment& segment) { return segment.kind == kind; });
  return found == segments.end() ? nullptr : &*found;
}

namespace {

bool has_binding(const Executable& exe, std::string_view name, int32_t program,
                 std::vector<Binding> Segment::* bindings) {
  for (const Segment& segment : exe.segments)
    if (segment.program == program)
      for (const Binding& binding : segment.*bindings)
        if (binding.name == name) return true;
  return false;
}

}  // namespace

void Program::each_round(int64_t count, int replicas, const std::function<void(const RequestRound&)>& visit) const {
  RequestRound round{.count = count, .replicas = writes_states ? 1 : replicas};
  const int64_t all = width * round.replicas;
  for (; round.first < count; round.first += all) {
    // As many on every replica, for collectives among them.
    round.most = (std::min(all, count - round.first) + round.replicas - 1) / round.replicas;
    visit(round);
  }
}

int32_t Executable::find_program(std::string_view name) const {
  for (size_t i = 0; i < programs.size(); ++i)
    if (programs[i].name == name) return static_cast<int32_t>(i);
  return -1;
}

int32_t Executable::program_on_request(std::string_view name, int64_t count) const {
  const int32_t found = find_program(name);
  const bool asked = found >= kFirstProgram && !runs_in_step(found);
  if (asked && count > 0) return found;
  if (asked)
    throw Error({.what = "a program is asked for no micro-batch",
                 .where = "program '" + std::string(name) + "'",
                 .found = std::to_string(count)});
  std::vector<std::string> names;
  for (size_t i = kFirstProgram; i < programs.size(); ++i)
    if (!runs_in_step(static_cast<int32_t>(i))) names.push_back(programs[i].name);
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = found < 0 ? "the step has no program of this name" : "a program does not run on request",
               .where = "engine",
               .found = "'" + std::string(name) + "'" +
                        (found < 0 ? "" : ", " + transform::text_of(programs[static_cast<size_t>(found)].when)),
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

bool Executable::runs_in_step(int32_t program) const {
  return program == kTrain ||
         (program >= kFirstProgram && programs[static_cast<size_t>(program)].when.kind == When::Kind::kSteps);
}

bool Executable::has_feed(std::string_view name, int32_t program) const {
  return has_binding(*this, name, program, &Segment::feeds);
}
bool Executable::has_scalar(std::string_view name, int32_t program) const {
  return has_binding(*this, name, program, &Segment::scalars);
}

bool Executable::gives_results(const ProgramStep& step) const {
  return step.kind == ProgramStep::Kind::kRun &&
         segments[static_cast<size_t>(step.subject)].kind != PieceKind::kPrepare;
}

int64_t Executable::result_bytes() const {
  int64_t bytes = 0;
  for (size_t program = 0; program < programs.size(); ++program) {
    if (!runs_in_step(static_cast<int32_t>(program))) continue;
    for (const ProgramStep& step : programs[program].steps)
      if (gives_results(step))
        for (const Binding& result : segments[static_cast<size_t>(step.subject)].results) bytes += padded_bytes(result);
  }
  return bytes;
}

std::string Executable::text_of(const ProgramStep& step) const {
  using Kind = ProgramStep::Kind;
  const auto subject = static_cast<size_t>(step.subject);
  const std::string micro = step.micro < 0 ? "" : ", micro-batch " + std::to_string(step.micro);
  const auto segment = [&] { return "'" + segments[subject].name + "'"; };
  const auto transfer = [&] { return "'" + transfers[subject].name + "'"; };
  switch (step.kind) {
    case Kind::kRun: return "run " + segment() + micro;
    case Kind::kZero: return "zero the accumulators of " + segment() + ", slot " + std::to_string(step.slot);
    case Kind::kCombine:
      return "add slot " + std::to_string(step.from) + " to slot " + std::to_string(step.slot) +
             " of the accumulators of " + segment();
    case Kind::kSend: return "send " + transfer() + micro + " to stage " + std::to_string(transfers[subject].peer);
    case Kind::kReceive:
      return "receive " + transfer() + micro + " from stage " + std::to_string(transfers[subject].peer);
    case Kind::kLoad: return "load " + transfer() + micro;
    case Kind::kStore: return "store " + transfer() + micro;
    case Kind::kWait: return "wait for step " + std::to_string(step.subject);
  }
  return "";
}

const Instruction* Executable::instruction_at(int32_t instant) const {
  for (const Segment& segment : segments) {
    const int64_t index = int64_t{instant} - segment.first - 1;
    if (instant <= segment.last && index >= 0 && index < std::ssize(segment.instructions))
      return &segment.instructions[static_cast<size_t>(index)];
  }
  return nullptr;
}

std::string Executable::at(int32_t instant) const {
  for (const Segment& segment : segments) {
    if (instant < segment.first || instant > segment.last) continue;
    if (instant == segment.first) return segment.name + ": feeds";
    const Instruction* instruction = instruction_at(instant);
    if (!instruction) return segment.name + ": results";
    const std::string op = instruction->call < 0 ? "copy" : calls[static_cast<size_t>(instruction->call)].node.op->name;
    return segment.name + ": " + op + (instruction->name.empty() ? "" : " '" + instruction->name + "'") +
           (instruction->origin.empty() ? "" : " of " + instruction->origin);
  }
  return "between segments";
}

std::array<int64_t, kBufferClassCount> Executable::live_at(int32_t instant) const {
  std::array<int64_t, kBufferClassCount> live{};
  for (const Buffer& buffer : buffers)
    if (buffer.first <= instant && instant <= buffer.last)
      live[static_cast<size_t>(buffer.kind)] += buffer.stride() * buffer.slots;
  return live;
}

std::vector<int> lane_slot_of(int64_t lanes) {
  std::vector<int> slots;
  for (int64_t lane = 0; lane < lanes; ++lane) slots.push_back(std::popcount(static_cast<uint64_t>(lane)));
  return slots;
}

int lane_slots(int64_t lanes) {
  const std::vector<int> slots = lane_slot_of(lanes);
  return 1 + *std::max_element(slots.begin(), slots.end());
}

std::vector<std::vector<std::pair<int, int>>> lane_combines(int64_t lanes) {
  std::vector<std::vector<std::pair<int, int>>> combines;
  int waiting = 0;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    ++waiting;
    auto& now = combines.emplace_back();
    const bool last = lane + 1 == lanes;
    // Trailing ones of the lane's number: so many equal subtrees end with it.
    for (int64_t rest = lane; (rest & 1 || last) && waiting > 1; rest >>= 1, --waiting)
      now.emplace_back(waiting - 2, waiting - 1);
  }
  return combines;
}

namespace {

class ExecutableVerifier {
 public:
  ExecutableVerifier(const Executable& executable, const std::string& source) : exe_(executable), source_(source) {}

  void run() {
    check(exe_.threads >= 1 && exe_.lanes >= 1 && exe_.micro_batches_per_lane >= 1 && exe_.lanes <= 1 << 20 &&
              exe_.micro_batches_per_lane <= 1 << 20,
          "threads, lanes and micro-batches must be 1 or more, and lanes and micro-batches at most 2^20");
    check(exe_.instants >= 0, "the timeline must not be negative");
    check(exe_.mesh.p >= 1 && exe_.mesh.r >= 1 && exe_.mesh.t1 >= 1 && exe_.mesh.t2 >= 1 &&
              int64_t{exe_.mesh.p} * exe_.mesh.r <= 1 << 20 && int64_t{exe_.mesh.t1} * exe_.mesh.t2 <= 1 << 20 &&
              int64_t{exe_.mesh.p} * exe_.mesh.r * (int64_t{exe_.mesh.t1} * exe_.mesh.t2) <= 1 << 20 &&
              exe_.stage >= 0 && exe_.stage < exe_.mesh.p,
          "the mesh of devices has no such stage");
    check_memory(exe_.buffers, exe_.arena_bytes, "the arena");
    check_memory(exe_.streaming, exe_.streaming_bytes, "streaming memory");
    slots_ = lane_slots(exe_.lanes);
    for (const StatePlace& state : exe_.states) check_state(state);
    for (const Segment& segment : exe_.segments) check_segment(segment);
    for (const Transfer& transfer : exe_.transfers) check_transfer(transfer);
    check_programs();
  }

 private:
  void check(bool holds, const std::string& what) const {
    if (!holds)
      throw Error({.what = "executable is not sound: " + what, .where = source_, .remedy = "Compile it again"});
  }

  void check_programs() const {
    check(exe_.programs.size() >= kFirstProgram && exe_.train().name == "train" && exe_.prepare().name == "prepare",
          "it has no programs 'train' and 'prepare'");
    std::set<std::string> names;
    for (const Program& program : exe_.programs) {
      check(names.insert(program.name).second, "two programs have one name");
      check(program.width >= 1 && program.width <= 1 << 20 && program.when.every >= 1 && program.when.micro >= -1 &&
                program.supersteps >= 0,
            "program '" + program.name + "' runs at an impossible time");
      const int64_t micro_batches = &program == &exe_.train() ? exe_.micro_batches() : program.width;
      for (size_t i = 0; i < program.steps.size(); ++i) check_step(program.steps, i, micro_batches);
    }
  }

  void check_memory(const std::vector<Buffer>& buffers, int64_t height, const std::string& memory) const {
    check(height >= 0, memory + " has a negative size");
    for (const Buffer& buffer : buffers) check_buffer(buffer, height, memory);
    check_overlaps(buffers);
  }

  void check_buffer(const Buffer& buffer, int64_t height, const std::string& memory) const {
    check(buffer.alignment >= 64 && std::has_single_bit(static_cast<uint32_t>(buffer.alignment)) && buffer.slots >= 1 &&
              buffer.bytes >= 0 && buffer.bytes <= height &&
              (buffer.slots == 1 || buffer.bytes == 0 || buffer.slots - 1 <= height / buffer.stride()),
          "buffer '" + buffer.name + "' has an impossible size");
    check(buffer.offset >= 0 && buffer.offset % buffer.alignment == 0 && buffer.total() <= height &&
              buffer.offset <= height - buffer.total(),
          "buffer '" + buffer.name + "' lies outside " + memory);
    check(0 <= buffer.first && buffer.first <= buffer.last && buffer.last < exe_.instants,
          "buffer '" + buffer.name + "' lives outside the timeline");
  }

  /// A sweep over time that keeps live buffers in order of address.
  void check_overlaps(const std::vector<Buffer>& buffers) const {
    std::vector<std::pair<int32_t, int32_t>> begins, ends;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = buffers[i];
      if (buffer.bytes == 0) continue;
      begins.emplace_back(buffer.first, static_cast<int32_t>(i));
      ends.emplace_back(buffer.last, static_cast<int32_t>(i));
    }
    std::sort(begins.begin(), begins.end());
    std::sort(ends.begin(), ends.end());
    std::map<int64_t, const Buffer*> alive;
    size_t ended = 0;
    for (const auto& [when, id] : begins) {
      for (; ended < ends.size() && ends[ended].first < when; ++ended)
        alive.erase(buffers[static_cast<size_t>(ends[ended].second)].offset);
      const Buffer& buffer = buffers[static_cast<size_t>(id)];
      const auto [place, fresh] = alive.emplace(buffer.offset, &buffer);
      check(fresh, "buffers '" + buffer.name + "' and '" + place->second->name + "' overlap");
      if (const auto next = std::next(place); next != alive.end())
        check(buffer.offset + buffer.total() <= next->first,
              "buffers '" + buffer.name + "' and '" + next->second->name + "' overlap");
      if (place != alive.begin()) {
        const Buffer& before = *std::prev(place)->second;
        check(before.offset + before.total() <= buffer.offset,
              "buffers '" + before.name + "' and '" + buffer.name + "' overlap");
      }
    }
  }

  void check_state(const StatePlace& state) const {
    const std::string what = "state '" + state.tensor.name + "'";
    const bool summed = state.tensor.kind == StateKind::kAccumulator;
    check(summed ? state.slots.size() == static_cast<size_t>(slots_) : state.slots.size() <= 1,
          what + " has a wrong number of slots");
    for (BufferId slot : state.slots) check_operand(slot, state.tensor.type, what);
    check(state.home == kNoBuffer || holds(exe_.streaming, state.home, state.tensor.type),
          what + " does not fit into streaming memory");
    check_sharding(state.sharding, state.tensor.type, what);
    const auto& data = state.tensor.init.data;
    const bool constant = state.tensor.kind == StateKind::kConstant;
    check(!constant || (data && data->type() == state.sharding.logical), what + " has not the data of its type");
  }

  void check_sharding(const Sharding& sharding, const TensorType& local, const std::string& what) const {
    bool sound = sharding.flat_parts >= 1 && sharding.flat_parts <= 1 << 20 && sharding.flat_stride >= 1;
    for (const Cut& cut : sharding.cuts)
      sound = sound && cut.dim >= 0 && cut.dim < sharding.logical.shape.rank() && cut.parts >= 1 && cut.blocks >= 1 &&
              cut.stride >= 1 && cut.parts <= 1 << 20 && cut.blocks <= 1 << 20 &&
              sharding.logical.shape[cut.dim] % (cut.parts * cut.blocks) == 0 &&
              (!cut.dealt || (!sharding.deal.empty() && cut.axis == MeshAxis::kTensor1));
    check(sound && sharding.local() == local, what + " is no piece of its logical tensor");
  }

  void check_transfer(const Transfer& transfer) const {
    const std::string what = "transfer '" + transfer.name + "'";
    check(holds(exe_.buffers, transfer.buffer, transfer.type), what + " does not fit into its buffer");
    if (transfer.peer >= 0)
      check(transfer.peer < exe_.mesh.p && transfer.peer != exe_.stage && transfer.tag >= 0,
            what + " has no other side");
    else
      check(holds(exe_.streaming, transfer.streaming, transfer.type), what + " does not fit into streaming memory");
    check(transfer.state >= -1 && transfer.state < static_cast<int32_t>(exe_.states.size()),
          what + " is of a state that does not exist");
  }

  static bool holds(const std::vector<Buffer>& buffers, BufferId id, const TensorType& type) {
    return id >= 0 && static_cast<size_t>(id) < buffers.size() &&
           buffers[static_cast<size_t>(id)].bytes >= type.bytes();
  }

  void check_operand(BufferId id, const TensorType& type, const std::string& what) const {
    check(id >= 0 && static_cast<size_t>(id) < exe_.buffers.size(), what + " names a buffer that does not exist");
    check(exe_.buffers[static_cast<size_t>(id)].bytes >= type.bytes(), what + " does not fit into its buffer");
  }

  void check_segment(const Segment& segment) const {
    for (const auto* bindings : {&segment.feeds, &segment.scalars, &segment.results})
      for (const Binding& binding : *bindings) {
        check_operand(binding.buffer, binding.type, "'" + binding.name + "'");
        check(binding.ready >= -1 && binding.ready < static_cast<int32_t>(segment.instructions.size()),
              "'" + binding.name + "' is written by an instruction that does not exist");
      }
    for (const Binding& feed : segment.feeds) check_sharding(feed.sharding, feed.type, "'" + feed.name + "'");
    for (const Binding& result : segment.results) check_sharding(result.sharding, result.type, "'" + result.name + "'");
    check(segment.program >= 0 && static_cast<size_t>(segment.program) < exe_.programs.size(),
          "segment '" + segment.name + "' is of a program that does not exist");
    for (const Instruction& instruction : segment.instructions) check_instruction(instruction);
    for (int32_t state : segment.accumulators)
      check(state >= 0 && static_cast<size_t>(state) < exe_.states.size() &&
                exe_.states[static_cast<size_t>(state)].tensor.kind == StateKind::kAccumulator,
            "segment '" + segment.name + "' sums into what is no accumulator");
  }

  void check_step(const std::vector<ProgramStep>& program, size_t index, int64_t micro_batches) const {
    using Kind = ProgramStep::Kind;
    const ProgramStep& step = program[index];
    check(step.micro >= -1 && step.micro < micro_batches, "a program names a micro-batch that does not exist");
    check(0 <= step.slot && step.slot < slots_ && 0 <= step.from && step.from < slots_,
          "a program names a slot that does not exist");
    const auto below = [&](size_t count) { return step.subject >= 0 && static_cast<size_t>(step.subject) < count; };
    if (step.kind == Kind::kWait) {
      check(below(index) && is_started(program[static_cast<size_t>(step.subject)].kind),
            "a program waits for what it has not started");
    } else if (is_started(step.kind)) {
      check(below(exe_.transfers.size()), "a program names a transfer that does not exist");
      const bool exchanges = step.kind == Kind::kSend || step.kind == Kind::kReceive;
      check(exchanges == (exe_.transfers[static_cast<size_t>(step.subject)].peer >= 0),
            "a program takes a transfer the wrong way");
    } else {
      check(below(exe_.segments.size()), "a program names a segment that does not exist");
    }
  }

  static bool is_started(ProgramStep::Kind kind) {
    using Kind = ProgramStep::Kind;
    return kind == Kind::kSend || kind == Kind::kReceive || kind == Kind::kLoad || kind == Kind::kStore;
  }

  void check_instruction(const Instruction& instruction) const {
    const std::string what = "instruction '" + instruction.name + "'";
    const auto& [call, name, inputs, outputs, scratch, part, pass, gradient, origin] = instruction;
    if (call < 0) {
      check(inputs.size() == 1 && outputs.size() == 1, what + " is no copy of one buffer to another");
      const auto exists = [&](BufferId id) { return id >= 0 && static_cast<size_t>(id) < exe_.buffers.size(); };
      check(exists(inputs[0]) && exists(outputs[0]), what + " names a buffer that does not exist");
      check(exe_.buffers[static_cast<size_t>(inputs[0])].bytes == exe_.buffers[static_cast<size_t>(outputs[0])].bytes,
            what + " copies between buffers of two sizes");
      return;
    }
    check(static_cast<size_t>(call) < exe_.calls.size(), what + " names a call that does not exist");
    const Call& known = exe_.calls[static_cast<size_t>(call)];
    check(inputs.size() == known.node.inputs.size() && outputs.size() == known.node.outputs.size(),
          what + " has a wrong number of operands");
    for (size_t i = 0; i < inputs.size(); ++i) check_operand(inputs[i], known.node.inputs[i], what);
    for (size_t i = 0; i < outputs.size(); ++i) check_operand(outputs[i], known.node.outputs[i], what);
    check(known.scratch_bytes >= 0 && (scratch != kNoBuffer) == (known.scratch_bytes > 0), what + " lacks its scratch");
    if (scratch != kNoBuffer) check_operand(scratch, {DType::kU8, Shape{known.scratch_bytes}}, what);
  }

  const Executable& exe_;
  const std::string& source_;
  int slots_ = 1;
};

}  // namespace

std::string print(const Executable& executable) {
  std::string text = "executable " + executable.key.hex() + " " + executable.kernel_class +
                     " threads=" + std::to_string(executable.threads) + " lanes=" + std::to_string(executable.lanes) +
                     " micro_batches_per_lane=" + std::to_string(executable.micro_batches_per_lane) +
                     " arena=" + std::to_string(executable.arena_bytes) +
                     " bound=" + std::to_string(executable.bound_bytes) + "\n";
  const auto place = [&](BufferId id) {
    const Buffer& buffer = executable.buffers[static_cast<size_t>(id)];
    return "@" + std::to_string(buffer.offset) + "+" + std::to_string(buffer.bytes) +
           (buffer.slots > 1 ? "x" + std::to_string(buffer.slots) : "");
  };
  for (const StatePlace& state : executable.states) {
    text += "state '" + state.tensor.name + "' : " + state.tensor.type.text() + " " +
            std::string(name_of(state.tensor.kind));
    for (BufferId slot : state.slots) text += " " + place(slot);
    if (!state.sharding.whole()) text += " of " + state.sharding.text();
    if (state.home != kNoBuffer)
      text += " at home at " + std::to_string(executable.streaming[static_cast<size_t>(state.home)].offset) +
              " of streaming memory";
    text += "\n";
  }
  for (const Segment& segment : executable.segments) {
    text += "segment '" + segment.name + "' " + std::string(name_of(segment.kind)) + " " +
            std::to_string(segment.part) + " instants " + std::to_string(segment.first) + " to " +
            std::to_string(segment.last) + "\n";
    for (const auto& [bindings, what] : {std::pair{&segment.feeds, "feed"}, std::pair{&segment.scalars, "scalar"},
                                         std::pair{&segment.results, "result"}})
      for (const Binding& binding : *bindings)
        text += std::string("  ") + what + " '" + binding.name + "' : " + binding.type.text() + " " +
                place(binding.buffer) + (binding.sharding.cuts.empty() ? "" : " of " + binding.sharding.text()) +
                (binding.guard ? " guard" : "") + "\n";
    for (const Instruction& instruction : segment.instructions) {
      const Call* call = instruction.call < 0 ? nullptr : &executable.calls[static_cast<size_t>(instruction.call)];
      text += "  ";
      for (BufferId id : instruction.outputs) text += place(id) + " ";
      text += "= " + (call ? call->node.op->name + "[" + call->kernel + "]" : std::string("copy"));
      for (BufferId id : instruction.inputs) text += " " + place(id);
      if (instruction.scratch != kNoBuffer) text += " scratch " + place(instruction.scratch);
      text += (instruction.name.empty() ? "" : " '" + instruction.name + "'") +
              (instruction.origin.empty() ? "" : " of " + instruction.origin) + "\n";
    }
  }
  for (const Program& program : executable.programs) {
    text += "program " + program.name + ", " + text_of(program.when) +
            (program.width > 1 ? ", " + std::to_string(program.width) + " micro-batches at a time" : "") + "\n";
    for (size_t i = 0; i < program.steps.size(); ++i)
      text += "  " + std::to_string(i) + " [" + std::to_string(program.steps[i].superstep) + "] " +
              executable.text_of(program.steps[i]) + "\n";
  }
  return text;
}

void verify(const Executable& executable, const std::string& source) { ExecutableVerifier(executable, source).run(); }

}  // namespace ramet::program
