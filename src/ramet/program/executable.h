#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/ir/graph.h"
#include "ramet/ir/op.h"
#include "ramet/layout/piece_kind.h"
#include "ramet/layout/sharding.h"
#include "ramet/transform/step_graph.h"

namespace ramet::program {

/// The use of a buffer: the rows of a memory report.
enum class BufferClass : uint8_t {
  kWeights,
  kOptimizer,
  kGradients,    ///< accumulators, one slot a live subtree of the lanes
  kDerived,      ///< casts and blocked copies of weights
  kStates,       ///< constants, patterns, statistics, memories and caches
  kActivations,  ///< values between instructions, transient gradients among them
  kStash,        ///< values of micro-batches in flight that wait for a later piece of the same stage
  kExchange,     ///< values sent to other devices or received from them
  kScratch,      ///< of one instruction
  kHost          ///< feeds, scalars and results: copied from and to the host
};
inline constexpr int kBufferClassCount = 10;
/// "weights", "optimizer", "gradients", "derived", "states", "activations", "stash", "exchange", "scratch", "host"
std::string_view name_of(BufferClass buffer_class);

/// Index of a buffer in Executable::buffers; kNoBuffer where there is none.
using BufferId = int32_t;
inline constexpr BufferId kNoBuffer = -1;

/// A range of the arena, live at every instant of [first, last] of the timeline. Several values may share one
/// (views, results written in place of an operand, a state and its successor). A buffer with several slots is a ring:
/// the value of micro-batch m is in slot m % slots, and the slots are stride() apart. In a program that streams,
/// buffers start at multiples of 4096, and no other buffer uses the rest of a buffer's last 4096 bytes.
struct Buffer {
  std::string name;  ///< of the state or of the first value that lives there
  BufferClass kind = BufferClass::kActivations;
  int64_t bytes = 0;   ///< of one slot
  int64_t offset = 0;  ///< from the start of the arena, a multiple of `alignment`
  int32_t first = 0, last = 0;
  int32_t slots = 1;
  int32_t alignment = 64;  ///< a power of two, of offset and stride

  int64_t stride() const { return (bytes + alignment - 1) / alignment * alignment; }
  int64_t total() const { return stride() * (slots - 1) + bytes; }
  /// Address of a micro-batch's slot (-1: no micro-batch).
  int64_t at(int64_t micro) const { return slots == 1 || micro < 0 ? offset : offset + micro % slots * stride(); }
};

/// A kind of instruction: a node without its name, its kernel and its cost. Equal instructions share one call.
struct Call {
  NodeSignature node;  ///< `name` is that of the first such node
  std::string kernel;
  int64_t scratch_bytes = 0;
  Cost cost;
};

/// One kernel call, one copy, or one collective (a call whose op is an exchange).
struct Instruction {
  int32_t call = -1;  ///< index in Executable::calls; -1: copies buffer inputs[0] to outputs[0]
  std::string name;   ///< of the node
  std::vector<BufferId> inputs, outputs;
  BufferId scratch = kNoBuffer;
  Part part{};  ///< of the model
  NodePass pass = NodePass::kForward;
  std::string gradient{};  ///< name of the weight whose whole gradient operand 0 is; "" of others
  std::string origin{};    ///< of the node: where the model says so (NodeInfo)
};

/// A feed, scalar or result by name.
struct Binding {
  std::string name;
  TensorType type;
  BufferId buffer = kNoBuffer;
  int32_t ready = -1;  ///< results: index of the instruction that wrote it; -1 when none did
  bool guard = false;  ///< results: the step ends when it is not finite
  /// Feeds and results: how the part that this device holds lies in the logical tensor; `type` is the part's.
  Sharding sharding{};
};

/// A straight run of instructions: a piece of the step. Instruction i works at instant `first + 1 + i`; feeds are
/// written at `first`, results are read at `last`.
struct Segment {
  std::string name;
  PieceKind kind = PieceKind::kForward;
  int32_t part = 0;    ///< of the model; update: its place in the order of updates
  int32_t region = 0;  ///< part of the timeline in which it runs
  std::vector<Instruction> instructions;
  std::vector<Binding> feeds, scalars, results;
  std::vector<int32_t> accumulators;  ///< states that it sums into, in the slot of the lane at hand
  int32_t first = 0, last = 0;
  int32_t program = 0;  ///< in Executable::programs; what derives states counts to the program whose region it is in
};

/// Where a state lives. `tensor` has the logical name and the type of the piece that this device holds.
struct StatePlace {
  StateTensor tensor;
  /// Accumulators: a buffer for each slot of lanes, where they are summed. Others: one; none where it is in device
  /// memory for some regions only.
  std::vector<BufferId> slots;
  Sharding sharding;          ///< how the piece lies in the logical tensor
  BufferId home = kNoBuffer;  ///< in Executable::streaming, where it is at home there
};

/// A transfer of bytes between a buffer and another device, or streaming memory.
struct Transfer {
  std::string name;  ///< of the boundary or of the state
  TensorType type;
  BufferId buffer = kNoBuffer;
  int32_t peer = -1;  ///< stage of the other side, at the same coordinates in r, t1, t2; -1: streaming memory
  int32_t tag = 0;    ///< with a peer: the same on both sides
  BufferId streaming = kNoBuffer;  ///< without: in Executable::streaming
  int32_t state = -1;              ///< index of the state; -1: a boundary
};

/// One thing that a device does; a program is a list of them, in order.
struct ProgramStep {
  enum class Kind : uint8_t {
    kRun,      ///< segment `subject` for micro-batch `micro`, its accumulators in slot `slot`
    kZero,     ///< zeros slot `slot` of the accumulators of segment `subject`
    kCombine,  ///< adds slot `from` to slot `slot`, for the accumulators of segment `subject`
    kSend,     ///< starts to send transfer `subject` of `micro`
    kReceive,  ///< starts to receive it
    kLoad,     ///< starts to bring transfer `subject` of `micro` from streaming memory
    kStore,    ///< starts to bring it there
    kWait      ///< until what step `subject` of this program started has ended
  };
  static constexpr int kKinds = 8;
  Kind kind = Kind::kRun;
  int32_t subject = -1;
  /// Index of the micro-batch: in `train` on this device, in order of lanes; in another program in this run of its
  /// list, below Program::width. -1: none.
  int32_t micro = -1;
  int32_t slot = 0, from = 0;
  int32_t superstep = 0;
};

/// One run of a program on request: some micro-batches of the request, and which replica does which.
struct RequestRound {
  int64_t count = 0;     ///< micro-batches of the whole request
  int64_t first = 0;     ///< of this run, on replica 0
  int64_t replicas = 1;  ///< that share micro-batches; 1: each replica does all
  int64_t most = 0;      ///< micro-batches of a replica in this run, the same on all

  bool runs(const ProgramStep& step) const { return step.micro < most; }
  /// Micro-batch `micro` of a replica as a number of the request; it may be beyond the last.
  int64_t of(int64_t micro, int replica) const { return first + micro * replicas + replica % replicas; }
  /// The micro-batch that a step does. A replica without one of its own does the last one of the request again.
  int64_t micro_batch_of(const ProgramStep& step, int replica) const {
    return std::min(of(std::max(step.micro, 0), replica), count - 1);
  }
};

/// A list of steps that a device runs as a whole, by name. All stages have the same programs, in the same order.
struct Program {
  std::string name;
  When when;
  int32_t width = 1;           ///< micro-batches of one replica in one run of the list; `train`: not used
  bool writes_states = false;  ///< then all replicas do every micro-batch
  bool prepares = false;       ///< writes states that derived ones may come from: `prepare` follows it
  bool reads_data = false;     ///< on some stage
  std::vector<ProgramStep> steps{};
  int32_t supersteps = 0;  ///< over all stages

  /// The runs of the list that do a request of `count` micro-batches, in order, on a mesh of `replicas` replicas.
  void each_round(int64_t count, int replicas, const std::function<void(const RequestRound&)>& visit) const;
};

/// Indices in Executable::programs of the two programs that every executable has.
inline constexpr int32_t kTrain = 0, kPrepare = 1, kFirstProgram = 2;

/// A compiled training step of one device: everything that happens, in order, and where every byte is. It is plain
/// data; the runtime runs it and the simulator times it. The program `train` is one step, `prepare` makes derived
/// states after weights were changed otherwise, the others are those of StepGraph::programs. The gradient of a step is
/// the sum over lanes along the balanced binary tree that splits n leaves at the largest power of two below n
/// (lane_combines); within a lane, micro-batches are added in order.
struct Executable {
  static constexpr int kVersion = 6;  ///< of the saved form and of the compiler's conventions

  Hash key;  ///< of all that the result depends on (see compile_key)
  std::string kernel_class;
  int threads = 1;
  int64_t lanes = 1, micro_batches_per_lane = 1;  ///< of this device
  Mesh mesh;                                      ///< of all devices
  int32_t stage = 0;                              ///< all devices of a stage have the same executable
  bool joined = false;                            ///< forward, backward and update are one segment
  std::vector<Call> calls;
  std::vector<Buffer> buffers;
  std::vector<StatePlace> states;
  std::vector<Segment> segments;
  std::vector<Transfer> transfers;
  std::vector<Program> programs = {
      {.name = "train", .when = When::each_step(), .writes_states = true, .prepares = true},
      {.name = "prepare", .when = When::on_request(), .writes_states = true}};
  std::vector<Buffer> streaming;  ///< ranges of this device's streaming memory, as `buffers` are of the arena
  int64_t streaming_bytes = 0;
  int32_t instants = 0;      ///< length of the timeline: the regions of `train` in order, then those of each program
  int64_t arena_bytes = 0;   ///< all of device memory that will ever be used
  int64_t bound_bytes = 0;   ///< no placement of this order can be smaller
  int32_t peak_instant = 0;  ///< where `bound_bytes` are live
  std::string placement;     ///< how the placement was found
  std::string activations;   ///< what each layer's activations do, where that was chosen to fit; not saved
  std::string given_up;      ///< what of speed was given up to fit into device memory; not saved
  std::vector<std::pair<std::string, double>> pass_seconds;  ///< of the compilation; not saved

  int64_t planned_bytes() const { return arena_bytes; }
  /// Host memory for the results of a training step and of the programs that run in it.
  int64_t result_bytes() const;
  Program& train() { return programs[kTrain]; }
  const Program& train() const { return programs[kTrain]; }
  Program& prepare() { return programs[kPrepare]; }
  const Program& prepare() const { return programs[kPrepare]; }
  /// Index of a program by its name, or -1.
  int32_t find_program(std::string_view name) const;
  /// Index of a program that may be asked for `count` micro-batches. Throws Error when there is none of this name, when
  /// it runs in steps, or when `count` is none.
  int32_t program_on_request(std::string_view name, int64_t count) const;
  /// Whether a program runs in a training step: `train` itself, and those of kind When::kSteps.
  bool runs_in_step(int32_t program) const;
  int64_t micro_batches() const { return lanes * micro_batches_per_lane; }
  double gap() const;
  /// Index of a state by its logical name, or -1.
  int find_state(std::string_view name) const;
  /// First segment of a kind, or null.
  const Segment* find_segment(PieceKind kind) const;
  /// Whether some segment of a program has a data input, or a scalar input, of this name.
  bool has_feed(std::string_view name, int32_t program = kTrain) const;
  bool has_scalar(std::string_view name, int32_t program = kTrain) const;
  /// The work at an instant: "micro: attention 'layer3/attention/backward' of mine.cc:12", "combine".
  std::string at(int32_t instant) const;
  /// The instruction that works at an instant; null when none does.
  const Instruction* instruction_at(int32_t instant) const;
  /// A step of a program in words: "run 'backward 3', micro-batch 2".
  std::string text_of(const ProgramStep& step) const;
  /// Place of a result in the host's memory: its bytes, rounded up to a multiple of 64.
  static int64_t padded_bytes(const Binding& result) { return (result.type.bytes() + 63) / 64 * 64; }
  /// Whether a step gives results: a run of a segment of a program that is not `prepare`.
  bool gives_results(const ProgramStep& step) const;
  /// Live bytes at an instant, for each class.
  std::array<int64_t, kBufferClassCount> live_at(int32_t instant) const;
};

/// Slots that accumulators need: the most subtrees that can wait, and the one being summed. At most ceil(log2 lanes)
/// + 1.
int lane_slots(int64_t lanes);

/// How the lanes' sums meet: after each lane, the (into, from) slots to be combined, in order.
std::vector<std::vector<std::pair<int, int>>> lane_combines(int64_t lanes);
/// Slot in which each lane sums.
std::vector<int> lane_slot_of(int64_t lanes);

/// Checks that an executable is sound, whatever its source: ids are in range, buffers lie inside the arena and are
/// large enough for the values written to them, and no two buffers overlap while both are live. Throws Error with
/// `where` = `source`.
void verify(const Executable& executable, const std::string& source);

/// Listing for people: states, then the instructions of each segment with the addresses of their operands.
std::string print(const Executable& executable);

/// Saved form: a header, then a body with its checksum.
void save_executable(const Executable& executable, const std::filesystem::path& path);
/// Throws Error on a file that is not whole, of another version, or that does not verify.
Executable load_executable(const std::filesystem::path& path);
/// The same to and from memory; `source` names the bytes in messages.
std::string executable_bytes(const Executable& executable);
/// A body (what follows the 24 bytes of the header) with a header that fits.
std::string sealed_executable(std::string_view body);
Executable executable_from_bytes(std::string_view bytes, const std::string& source);

}  // namespace ramet::program
