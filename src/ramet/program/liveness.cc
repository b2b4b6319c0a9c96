#include "ramet/program/liveness.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ramet/base/error.h"

namespace ramet::program {
namespace {

BufferClass class_of(StateKind kind) {
  switch (kind) {
    case StateKind::kWeight: return BufferClass::kWeights;
    case StateKind::kOptimizer: return BufferClass::kOptimizer;
    case StateKind::kAccumulator: return BufferClass::kGradients;
    case StateKind::kDerived: return BufferClass::kDerived;
    default: return BufferClass::kStates;
  }
}

/// Buffers of one segment. A *root* is a value that is no view; roots get buffers, views have their root's.
class SegmentBuilder {
 public:
  SegmentBuilder(Executable& exe, const Stage& stage, const Stays& stays, size_t persistent, const Piece& piece,
                 const NodeOrder& order, const std::vector<int32_t>& call_of_node, const KernelChoices& kernels,
                 int32_t id)
      : exe_(exe),
        stage_(stage),
        stays_(stays),
        piece_(piece),
        graph_(piece.graph),
        order_(order),
        call_of_node_(call_of_node),
        kernels_(kernels),
        segment_(exe.segments[static_cast<size_t>(id)]),
        id_(id),
        state_buffers_(persistent) {}

  void run() {
    find_roots();
    bind_states();
    number_instructions();
    find_last_reads();
    bind_feeds();
    for (NodeId id : order_.order)
      if (!graph_.node(id).op->is_view) add_instruction(id);
    write_states_back();
    bind_results();
    segment_.last = segment_.first + 1 + static_cast<int32_t>(segment_.instructions.size());
    stretch_to_end();
  }

 private:
  static constexpr int32_t kEnd = INT32_MAX;  // read after the last instruction

  ValueId root(ValueId value) const { return root_[static_cast<size_t>(value)]; }
  int32_t& last_read(ValueId root) { return last_read_[static_cast<size_t>(root)]; }
  BufferId& buffer(ValueId root) { return buffer_[static_cast<size_t>(root)]; }
  bool is_state(BufferId id) const { return static_cast<size_t>(id) < state_buffers_; }

  void find_roots() {
    root_.resize(graph_.values().size());
    for (size_t value = 0; value < root_.size(); ++value) root_[value] = static_cast<ValueId>(value);
    for (const Node& node : graph_.nodes())
      if (node.op->is_view)
        for (ValueId output : node.outputs) root_[static_cast<size_t>(output)] = root(node.inputs[0]);
  }

  BufferId state_buffer(const std::string& name) const { return stays_.state(name, segment_.region).buffers[0]; }
  BufferId boundary_buffer(const std::string& name) const { return stays_.boundary(name, id_).buffer; }
  /// Where a value goes that outlives the segment.
  BufferId buffer_of(const GraphOutput& output) const {
    return output.role == OutputRole::kState ? state_buffer(output.name) : boundary_buffer(output.name);
  }

  void bind_states() {
    buffer_.assign(graph_.values().size(), kNoBuffer);
    for (const GraphInput& input : graph_.inputs()) {
      const std::string& name = graph_.value(input.value).name;
      if (input.role == InputRole::kBoundary) buffer(input.value) = boundary_buffer(name);
      if (input.role != InputRole::kState) continue;
      buffer(input.value) = state_buffer(name);
      old_value_[buffer(input.value)] = input.value;
    }
    for (const GraphOutput& output : graph_.outputs())
      if (output.role != OutputRole::kResult) becomes_.emplace(root(output.value), buffer_of(output));
  }

  /// Every node that is no view gets an instant, and one more for each copy right behind it.
  void number_instructions() {
    std::vector<NodeId> last_reader(graph_.values().size(), kNoNode);
    for (NodeId id : order_.order)
      for (ValueId input : graph_.node(id).inputs) last_reader[static_cast<size_t>(root(input))] = id;
    for (const GraphOutput& output : graph_.outputs()) last_reader[static_cast<size_t>(root(output.value))] = kNoNode;
    instant_.assign(graph_.nodes().size(), -1);
    int32_t next = segment_.first + 1;
    for (NodeId id : order_.order) {
      if (graph_.node(id).op->is_view) continue;
      instant_[static_cast<size_t>(id)] = next++;
      next += plan_copies(id, last_reader);
    }
  }

  /// Outputs that become a state whose old value this node is the last to read, but that its kernel may not write over
  /// it: they are copied there at once, so that they need no room to the end of the segment.
  int32_t plan_copies(NodeId id, const std::vector<NodeId>& last_reader) {
    const Node& node = graph_.node(id);
    int32_t copies = 0;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto [begin, end] = becomes_.equal_range(node.outputs[i]);
      for (auto state = begin; state != end; ++state) {
        const auto old = old_value_.find(state->second);
        if (old == old_value_.end() || last_reader[static_cast<size_t>(old->second)] != id) continue;
        if (may_overwrite(node, choice_of(id), old->second, static_cast<int>(i))) continue;
        copied_at_once_[node.outputs[i]] = state->second;
        ++copies;
        break;
      }
    }
    return copies;
  }

  const KernelChoice& choice_of(NodeId id) const {
    return kernels_.choices[static_cast<size_t>(call_of_node_[static_cast<size_t>(id)])];
  }

  void find_last_reads() {
    last_read_.assign(graph_.values().size(), -1);
    for (NodeId id : order_.order)
      for (ValueId input : graph_.node(id).inputs)
        last_read(root(input)) = std::max(last_read(root(input)), instant_[static_cast<size_t>(id)]);
    for (const GraphOutput& output : graph_.outputs()) last_read(root(output.value)) = kEnd;
  }

  BufferId add_buffer(std::string name, BufferClass kind, int64_t bytes, int32_t first, int32_t last) {
    exe_.buffers.push_back({std::move(name), kind, bytes, 0, first, last});
    if (last == kEnd) open_.push_back(static_cast<BufferId>(exe_.buffers.size() - 1));
    return static_cast<BufferId>(exe_.buffers.size() - 1);
  }

  void bind_feeds() {
    for (const GraphInput& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      if (input.role == InputRole::kState || input.role == InputRole::kBoundary) continue;
      buffer(input.value) = add_buffer(value.name, BufferClass::kHost, value.type.bytes(), segment_.first,
                                       std::max(segment_.first, last_read(input.value)));
      auto& bindings = input.role == InputRole::kData ? segment_.feeds : segment_.scalars;
      const auto part = piece_.feeds.find(value.name);
      bindings.push_back(
          {.name = value.name,
           .type = value.type,
           .buffer = buffer(input.value),
           .sharding = part == piece_.feeds.end() ? Sharding{.logical = value.type, .cuts = {}} : part->second});
    }
  }

  /// Whether the kernel reads `operand` only where the same element of output `index` comes after.
  bool may_overwrite(const Node& node, const KernelChoice& choice, ValueId operand, int index) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (root(node.inputs[i]) != operand) continue;
      const std::pair<int, int> wanted(static_cast<int>(i), index);
      if (std::find(choice.may_alias.begin(), choice.may_alias.end(), wanted) == choice.may_alias.end()) return false;
    }
    return true;
  }

  /// The state that the output becomes, when its old value is dead by then or dies here and may be overwritten.
  BufferId state_to_write(const Node& node, const KernelChoice& choice, int index, int32_t now) {
    const ValueId output = node.outputs[static_cast<size_t>(index)];
    const auto [begin, end] = becomes_.equal_range(output);
    for (auto state = begin; state != end; ++state) {
      const auto old = old_value_.find(state->second);
      const int32_t last = old == old_value_.end() ? -1 : last_read(old->second);
      if (last < now || (last == now && may_overwrite(node, choice, old->second, index))) return state->second;
    }
    return kNoBuffer;
  }

  /// An operand of the same size that dies here and may be overwritten.
  BufferId operand_to_overwrite(const Node& node, const KernelChoice& choice, int index, int32_t now,
                                const std::vector<BufferId>& taken) {
    const int64_t bytes = graph_.type(node.outputs[static_cast<size_t>(index)]).bytes();
    for (const auto& [from, to] : choice.may_alias) {
      if (to != index || from < 0 || static_cast<size_t>(from) >= node.inputs.size()) continue;
      const ValueId operand = root(node.inputs[static_cast<size_t>(from)]);
      const BufferId candidate = buffer(operand);
      if (is_state(candidate) || last_read(operand) != now ||
          exe_.buffers[static_cast<size_t>(candidate)].bytes != bytes)
        continue;
      if (std::find(taken.begin(), taken.end(), candidate) != taken.end()) continue;
      if (may_overwrite(node, choice, operand, index)) return candidate;
    }
    return kNoBuffer;
  }

  void add_instruction(NodeId id) {
    const Node& node = graph_.node(id);
    const int32_t now = instant_[static_cast<size_t>(id)];
    const int32_t call = call_of_node_[static_cast<size_t>(id)];
    const KernelChoice& choice = choice_of(id);
    std::vector<std::pair<BufferId, BufferId>> copies;
    Instruction instruction{call, node.name, {}, {}, kNoBuffer, node.part, node.pass, node.gradient, node.origin};
    for (ValueId input : node.inputs) instruction.inputs.push_back(buffer(root(input)));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      const int32_t last = std::max(last_read(output), now);
      if (const auto state = copied_at_once_.find(output); state != copied_at_once_.end()) {
        const int32_t copied = now + 1 + static_cast<int32_t>(copies.size());
        instruction.outputs.push_back(
            add_buffer(node.name, BufferClass::kActivations, graph_.type(output).bytes(), now, copied));
        copies.emplace_back(instruction.outputs.back(), state->second);
        buffer(output) = state->second;
        continue;
      }
      BufferId target = state_to_write(node, choice, static_cast<int>(i), now);
      if (target == kNoBuffer)
        target = operand_to_overwrite(node, choice, static_cast<int>(i), now, instruction.outputs);
      if (target == kNoBuffer) {
        const std::string& name = graph_.value(output).name;
        target = add_buffer(name.empty() ? node.name : name, BufferClass::kActivations, graph_.type(output).bytes(),
                            now, last);
      } else if (!is_state(target)) {
        Buffer& shared = exe_.buffers[static_cast<size_t>(target)];
        shared.last = std::max(shared.last, last);
        if (last == kEnd) open_.push_back(target);
      }
      buffer(output) = target;
      instruction.outputs.push_back(target);
    }
    const int64_t scratch = kernels_.calls[static_cast<size_t>(call)].scratch_bytes;
    if (scratch > 0)
      instruction.scratch = add_buffer("scratch of " + node.name, BufferClass::kScratch, scratch, now, now);
    segment_.instructions.push_back(std::move(instruction));
    for (const auto& [from, to] : copies) add_copy(from, to, "write/" + node.name);
  }

  int32_t next_instant() const { return segment_.first + 1 + static_cast<int32_t>(segment_.instructions.size()); }

  void add_copy(BufferId from, BufferId to, const std::string& name) {
    segment_.instructions.push_back({-1, name, {from}, {to}, kNoBuffer});
  }

  /// Copies next values that could not be written in place. When another state or a result still needs the old value of
  /// such a state, the old value is copied there first.
  void write_states_back() {
    struct Copy {
      BufferId from, to;
      std::string name;
    };
    std::vector<Copy> copies;
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.role == OutputRole::kResult) continue;
      const BufferId from = buffer(root(output.value)), to = buffer_of(output);
      if (from != to) copies.push_back({from, to, output.name});
    }
    const auto is_copied_over = [&](BufferId id) {
      return std::any_of(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.to == id; });
    };
    const auto save = [&](BufferId& from, const std::string& name) {
      if (!is_state(from) || !is_copied_over(from)) return;
      const BufferId saved = add_buffer(name, BufferClass::kActivations, exe_.buffers[static_cast<size_t>(from)].bytes,
                                        next_instant(), kEnd);
      add_copy(from, saved, "save/" + name);
      from = saved;
    };
    for (Copy& copy : copies) save(copy.from, copy.name);
    for (const GraphOutput& output : graph_.outputs())
      if (output.role == OutputRole::kResult) save(buffer(root(output.value)), output.name);
    for (const Copy& copy : copies) add_copy(copy.from, copy.to, "write/" + copy.name);
  }

  void bind_results() {
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.role != OutputRole::kResult) continue;
      const TensorType& type = graph_.type(output.value);
      const NodeId producer = graph_.value(root(output.value)).producer;
      const int32_t ready = producer == kNoNode ? -1 : instant_[static_cast<size_t>(producer)] - segment_.first - 1;
      const bool guard = segment_.kind != PieceKind::kProgram && segment_.kind != PieceKind::kPrepare &&
                         std::find(stage_.guards.begin(), stage_.guards.end(), output.name) != stage_.guards.end();
      const auto part = piece_.results.find(output.name);
      segment_.results.push_back(
          {.name = output.name,
           .type = type,
           .buffer = buffer(root(output.value)),
           .ready = ready,
           .guard = guard,
           .sharding = part == piece_.results.end() ? Sharding{.logical = type, .cuts = {}} : part->second});
    }
  }

  void stretch_to_end() {
    for (BufferId id : open_) exe_.buffers[static_cast<size_t>(id)].last = segment_.last;
  }

  Executable& exe_;
  const Stage& stage_;
  const Stays& stays_;
  const Piece& piece_;
  const Graph& graph_;
  const NodeOrder& order_;
  const std::vector<int32_t>& call_of_node_;
  const KernelChoices& kernels_;
  Segment& segment_;
  const int32_t id_;
  const size_t state_buffers_;  // ids below are of states and boundaries; transients of other segments are never met
  std::vector<ValueId> root_;
  std::vector<int32_t> instant_, last_read_;
  std::vector<BufferId> buffer_;
  std::vector<BufferId> open_;                            // live to the segment's end, which is not known yet
  std::unordered_multimap<ValueId, BufferId> becomes_;    // roots that become states
  std::unordered_map<ValueId, BufferId> copied_at_once_;  // outputs that are copied into a state behind their node
  std::unordered_map<BufferId, ValueId> old_value_;       // the input that holds a state's old value
};

/// Buffers of all that outlives segments, and where states are at home.
void add_stays(Executable& exe, const Stage& stage, Stays& stays) {
  const int slots = lane_slots(stage.lanes);
  const auto add = [&](std::vector<Buffer>& buffers, std::string name, BufferClass kind, int64_t bytes, int32_t ring) {
    Buffer buffer{.name = std::move(name), .kind = kind, .bytes = bytes};
    buffer.slots = ring;
    buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(buffers.size() - 1);
  };
  // Class by class, so that what a report and a checkpoint read together lies together.
  for (StateKind kind :
       {StateKind::kWeight, StateKind::kOptimizer, StateKind::kPattern, StateKind::kDeferred, StateKind::kChained,
        StateKind::kKept, StateKind::kConstant, StateKind::kDerived, StateKind::kAccumulator})
    for (const LocalState& state : stage.states) {
      const StateTensor& tensor = state.tensor;
      if (tensor.kind != kind) continue;
      StatePlace place{tensor, {}, state.sharding, kNoBuffer};
      const bool streams = state.home == HomeMemory::kStreaming && kind != StateKind::kDerived;
      for (int32_t id : stays.of_state[tensor.name]) {
        StateStay& stay = stays.states[static_cast<size_t>(id)];
        for (int slot = 0; slot < (stay.summed ? slots : 1); ++slot)
          stay.buffers.push_back(add(exe.buffers,
                                     slot ? tensor.name + " (slot " + std::to_string(slot) + ")" : tensor.name,
                                     class_of(kind), tensor.type.bytes(), 1));
        const bool whole = !streams && !(kind == StateKind::kDerived && stage.phased);
        if (stay.summed || whole) place.slots = stay.buffers;
      }
      if (streams) place.home = add(exe.streaming, tensor.name, class_of(kind), tensor.type.bytes(), 1);
      exe.states.push_back(std::move(place));
    }
  for (BoundaryStay& stay : stays.boundaries) {
    const Boundary& boundary = stage.boundaries[static_cast<size_t>(stay.boundary)].boundary;
    const bool exchanged = stay.received || !stay.sent.empty();
    stay.buffer = add(exe.buffers, boundary.name, exchanged ? BufferClass::kExchange : BufferClass::kStash,
                      boundary.type.bytes(), stay.slots);
  }
}

/// Which accumulators each segment sums into. One that no segment writes stays zero: the first one zeroes it.
void find_accumulators(Executable& exe, const Stage& stage, const Timeline& timeline) {
  std::vector<bool> written(exe.states.size(), false);
  std::unordered_map<std::string, int32_t> accumulators;
  for (size_t i = 0; i < exe.states.size(); ++i)
    if (exe.states[i].tensor.kind == StateKind::kAccumulator)
      accumulators[exe.states[i].tensor.name] = static_cast<int32_t>(i);
  for (size_t i = 0; i < exe.segments.size(); ++i) {
    Segment& segment = exe.segments[i];
    if (segment.kind == PieceKind::kUpdate || segment.kind == PieceKind::kProgram) continue;
    for (const GraphOutput& output : stage.pieces[static_cast<size_t>(timeline.segments[i].piece)].graph.outputs()) {
      const auto state = accumulators.find(output.name);
      if (output.role != OutputRole::kState || state == accumulators.end()) continue;
      if (written[static_cast<size_t>(state->second)])
        internal_error("find_accumulators",
                       "two pieces of stage " + std::to_string(stage.index) + " sum into '" + output.name + "'");
      segment.accumulators.push_back(state->second);
      written[static_cast<size_t>(state->second)] = true;
    }
  }
  for (const auto& [name, state] : accumulators)
    if (!written[static_cast<size_t>(state)]) exe.segments[0].accumulators.push_back(state);
  for (Segment& segment : exe.segments) std::sort(segment.accumulators.begin(), segment.accumulators.end());
}

/// Buffers that outlive segments live for their regions. Accumulators end with their last use in an update; their slots
/// but the first with the region that sums.
void set_stay_lives(Executable& exe, const Timeline& timeline, const Stays& stays) {
  const auto region = [&](int32_t id) -> const Region& { return timeline.regions[static_cast<size_t>(id)]; };
  std::vector<int32_t> last_use(exe.buffers.size(), 0);
  for (const Segment& update : exe.segments) {
    if (update.kind != PieceKind::kUpdate) continue;
    for (size_t i = 0; i < update.instructions.size(); ++i) {
      const Instruction& instruction = update.instructions[i];
      for (const auto* operands : {&instruction.inputs, &instruction.outputs})
        for (BufferId id : *operands) last_use[static_cast<size_t>(id)] = update.first + 1 + static_cast<int32_t>(i);
    }
    for (const Binding& result : update.results) last_use[static_cast<size_t>(result.buffer)] = update.last;
  }
  std::map<std::string, int32_t> summed;  // region that sums an accumulator
  for (const Segment& segment : exe.segments)
    for (int32_t state : segment.accumulators)
      summed[exe.states[static_cast<size_t>(state)].tensor.name] = segment.region;
  for (const auto& [name, ids] : stays.of_state)
    for (int32_t id : ids) {
      const StateStay& stay = stays.states[static_cast<size_t>(id)];
      for (BufferId buffer : stay.buffers) {
        Buffer& placed = exe.buffers[static_cast<size_t>(buffer)];
        placed.first = region(stay.first).first;
        placed.last = region(stay.last).last;
        if (!stay.summed) continue;
        const auto sums = summed.find(name);
        const int32_t combined = sums == summed.end() ? placed.first : region(sums->second).last;
        if (buffer != stay.buffers[0])
          placed.last = combined;
        else if (!stay.stored)
          placed.last = std::max(combined, last_use[static_cast<size_t>(buffer)]);
      }
    }
  for (const BoundaryStay& stay : stays.boundaries) {
    exe.buffers[static_cast<size_t>(stay.buffer)].first = region(stay.first).first;
    exe.buffers[static_cast<size_t>(stay.buffer)].last = region(stay.last).last;
  }
  for (Buffer& home : exe.streaming) home.last = exe.instants - 1;
}

}  // namespace

Executable assign_buffers(const Stage& stage, Timeline& timeline, Stays& stays, std::span<const NodeOrder> orders,
                          const KernelChoices& kernels) {
  Executable exe;
  exe.mesh = stage.mesh;
  exe.stage = stage.index;
  exe.lanes = stage.lanes;
  exe.micro_batches_per_lane = stage.micro_batches_per_lane;
  exe.calls = kernels.calls;
  add_stays(exe, stage, stays);
  const size_t persistent = exe.buffers.size();
  exe.segments.resize(timeline.segments.size());
  int32_t next = 0;
  for (size_t r = 0; r < timeline.regions.size(); ++r) {
    Region& region = timeline.regions[r];
    region.first = next;
    for (int32_t id : region.segments) {
      const auto piece = static_cast<size_t>(timeline.segments[static_cast<size_t>(id)].piece);
      Segment& segment = exe.segments[static_cast<size_t>(id)];
      segment.name = stage.pieces[piece].graph.name();
      segment.kind = stage.pieces[piece].kind;
      segment.part = stage.pieces[piece].part;
      segment.region = static_cast<int32_t>(r);
      segment.program = region.program;
      segment.first = next;
      SegmentBuilder(exe, stage, stays, persistent, stage.pieces[piece], orders[piece], kernels.call_of_node[piece],
                     kernels, id)
          .run();
      next = segment.last + 1;
    }
    region.last = next++;
  }
  exe.instants = next;
  find_accumulators(exe, stage, timeline);
  set_stay_lives(exe, timeline, stays);
  return exe;
}

}  // namespace ramet::program
