#include "ramet/kernel/cpu/state_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ramet/kernel/cpu/rounding.h"

namespace ramet::kernel::cpu {
namespace {

constexpr int64_t kBlock = 256;       // elements; so few that the processor, which reads ahead, reads the next block
constexpr int64_t kWideBlock = 4096;  // where all tensors are read and written in place
constexpr size_t kMostTensors = 8;
constexpr int64_t kDraws = kBlock + kDrawSlack;

const char* element(const void* data, DType dtype, int64_t index) {
  return static_cast<const char*>(data) + index * static_cast<int64_t>(size_of(dtype));
}

}  // namespace

/// Of one thread: a block for each tensor, draws as they come, in the order of elements, and for a further output;
/// `draws` of the block once there are any.
struct StateBlocks::Room {
  float* blocks;
  uint16_t *drawn, *gathered, *multiplied;
  const uint16_t* draws = nullptr;

  static constexpr int64_t kBytes =
      (static_cast<int64_t>(kMostTensors) * kBlock * 4 + (kDraws + 2 * kBlock) * 2 + 63) / 64 * 64;
  Room(void* scratch, int rank)
      : blocks(reinterpret_cast<float*>(static_cast<char*>(scratch) + rank * kBytes)),
        drawn(reinterpret_cast<uint16_t*>(blocks + kMostTensors * kBlock)),
        gathered(drawn + kDraws),
        multiplied(gathered + kBlock) {}
  float* block(size_t tensor) const { return blocks + tensor * kBlock; }
};

int64_t StateBlocks::room_bytes(int threads) { return threads * Room::kBytes; }

StateNode::StateNode(const NodeSignature& signature)
    : node(signature),
      draws(rounds_stochastically(signature)),
      split(signature.attributes.get_bool_or("split", false)) {
  if (!draws) return;
  position.emplace(node);
  if (position->whole()) position.reset();
}

StateBlocks::StateBlocks(const StateNode& state, StateTensors tensors, const KernelContext& context)
    : state_(state), tensors_(std::move(tensors)), context_(context), block_(kWideBlock) {
  const NodeSignature& node = state_.node;
  if (state_.draws)
    draw_.emplace(node, static_cast<const int64_t*>(context_.inputs.back()),
                  state_.position ? state_.position->logical_elements() : node.inputs[0].elements());
  for (const StateOperand& tensor : tensors_.inputs)
    if (node.inputs[static_cast<size_t>(tensor.operand)].dtype != DType::kF32) block_ = kBlock;
  for (const StateOperand& tensor : tensors_.outputs)
    if (node.outputs[static_cast<size_t>(tensor.operand)].dtype != DType::kF32) block_ = kBlock;
}

const uint16_t* StateBlocks::low_in() const {
  return static_cast<const uint16_t*>(context_.inputs[context_.inputs.size() - 1 - state_.draws]);
}
uint16_t* StateBlocks::low_out() const { return static_cast<uint16_t*>(context_.outputs.back()); }

const float* StateBlocks::read(size_t tensor, int64_t first, int64_t count, const Room& room) const {
  const StateOperand& at = tensors_.inputs[tensor];
  const DType dtype = state_.node.inputs[static_cast<size_t>(at.operand)].dtype;
  const char* from = element(context_.inputs[static_cast<size_t>(at.operand)], dtype, first);
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(from);
  float* to = room.block(tensor);
  if (is_split(at.operand)) {
    rounding_loops().join(reinterpret_cast<const uint16_t*>(from), low_in() + first, count, to);
    return to;
  }
  rounding_loops().widen_state(dtype, at.role, from, count, to);
  return to;
}

/// Where the loop puts an output: in place, over the input that it follows, or in a block of its own.
float* StateBlocks::target(size_t tensor, int64_t first, const Room& room) const {
  const StateOperand& at = tensors_.outputs[tensor];
  if (state_.node.outputs[static_cast<size_t>(at.operand)].dtype == DType::kF32)
    return static_cast<float*>(context_.outputs[static_cast<size_t>(at.operand)]) + first;
  for (size_t i = 0; i < tensors_.inputs.size(); ++i)
    if (tensors_.inputs[i].operand == at.from) return room.block(i);
  return room.block(tensors_.inputs.size() + tensor);
}

const uint16_t* StateBlocks::draw_block(int64_t first, int64_t count, const Room& room) const {
  const RandomStream stream = draw_->stream();
  if (!state_.position)
    return rounding_loops().draw(stream, draw_->first + static_cast<uint64_t>(first), count, room.drawn);
  std::fill_n(room.gathered, count, uint16_t{0});  // padding
  state_.position->for_each_run(first, count, [&](const Position::Run& run) {
    const uint16_t* drawn =
        rounding_loops().draw(stream, draw_->first + static_cast<uint64_t>(run.logical), run.length, room.drawn);
    std::memcpy(room.gathered + (run.local - first), drawn, static_cast<size_t>(run.length) * 2);
  });
  return room.gathered;
}

const uint16_t* StateBlocks::draws_of(int output, int64_t first, int64_t count, Room& room) const {
  if (!room.draws) room.draws = draw_block(first, count, room);
  if (output == 0) return room.draws;
  rounding_loops().multiply_draws(rounding_factor(output), room.draws, count, room.multiplied);
  return room.multiplied;
}

void StateBlocks::write(size_t tensor, const float* from, int64_t first, int64_t count, Room& room) const {
  const StateOperand& at = tensors_.outputs[tensor];
  const DType dtype = state_.node.outputs[static_cast<size_t>(at.operand)].dtype;
  if (dtype == DType::kF32) return;
  void* to = const_cast<char*>(element(context_.outputs[static_cast<size_t>(at.operand)], dtype, first));
  if (is_split(at.from)) return rounding_loops().split(from, count, static_cast<uint16_t*>(to), low_out() + first);
  const uint16_t* draws = draw_ ? draws_of(at.operand, first, count, room) : nullptr;
  rounding_loops().narrow_state(dtype, at.role, from, count, to, draws, tensors_.saturate);
}

void StateBlocks::run(const Body& body) const {
  const int64_t elements = state_.node.inputs[0].elements();
  context_.team.split((elements + block_ - 1) / block_, 1, [&](int64_t begin, int64_t end, int rank) {
    Room room(context_.scratch, rank);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * block_, count = std::min(block_, elements - first);
      const float* in[kMostTensors] = {};
      float* out[kMostTensors] = {};
      for (size_t i = 0; i < tensors_.inputs.size(); ++i) in[i] = read(i, first, count, room);
      for (size_t i = 0; i < tensors_.outputs.size(); ++i) out[i] = target(i, first, room);
      body(count, in, out, rank);
      room.draws = nullptr;
      for (size_t i = 0; i < tensors_.outputs.size(); ++i) write(i, out[i], first, count, room);
    }
  });
}

void StateBlocks::keep() const {
  const auto copy = [&](const void* from, void* to, int64_t bytes) {
    if (from != to) std::memcpy(to, from, static_cast<size_t>(bytes));
  };
  for (const StateOperand& tensor : tensors_.outputs) {
    if (tensor.from < 0) continue;
    const auto from = static_cast<size_t>(tensor.from);
    copy(context_.inputs[from], context_.outputs[static_cast<size_t>(tensor.operand)],
         state_.node.inputs[from].bytes());
    if (is_split(tensor.from)) copy(low_in(), low_out(), state_.node.inputs[0].elements() * 2);
  }
}

}  // namespace ramet::kernel::cpu
