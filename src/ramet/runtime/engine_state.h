#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>

#include "ramet/ops/collective.h"
#include "ramet/runtime/arena.h"
#include "ramet/runtime/device_engine.h"

namespace ramet::runtime {

/// One instruction with its addresses, ready to be called.
struct Call {
  const Kernel* kernel = nullptr;  ///< null: copies `bytes` from inputs[0] to outputs[0], or is a collective
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  uint32_t input_count = 0, output_count = 0;
  void* scratch = nullptr;
  int64_t bytes = 0;
  int32_t collective = -1;  ///< index of the task of a collective
};

/// An operand whose address depends on the micro-batch or on the lane's slot: `place` is set before the segment runs.
struct MovingOperand {
  const void** place = nullptr;
  const StatePlace* accumulator = nullptr;  ///< addresses by slot; null: `buffer` is a ring
  BufferId buffer = kNoBuffer;
};

/// A segment ready to be called. `inputs` and `outputs` of its calls point into `operands`.
struct CallTable {
  std::vector<const void*> operands;
  std::vector<Call> calls;
  std::vector<MovingOperand> by_slot, by_micro;
  std::vector<int32_t> between_stages;  ///< collectives that other stages wait for even when a guard has ended the step
  int32_t slot = 0, micro = 0;          ///< for which `operands` are set
};

/// A scalar result that is looked at as soon as instruction `after` has run.
struct Guard {
  int32_t after = 0;
  const Binding* result = nullptr;
};

/// Who takes part in a collective, and how its operands lie.
struct PreparedCollective {
  CollectiveForm form;
  Collectives* group = nullptr;
  Reduction reduction = Reduction::kSum;
  int split = 0, concat = 0;  ///< all_to_all
};

/// Adds the time of a scope to a sum of seconds; does nothing where there is no sum.
class WaitClock {
 public:
  explicit WaitClock(double* sum) : sum_(sum) {
    if (sum_) start_ = std::chrono::steady_clock::now();
  }
  ~WaitClock() {
    if (sum_) *sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  WaitClock(const WaitClock&) = delete;
  WaitClock& operator=(const WaitClock&) = delete;

 private:
  double* sum_;
  std::chrono::steady_clock::time_point start_;
};

inline bool is_trained(StateKind kind) { return kind == StateKind::kWeight || kind == StateKind::kOptimizer; }

class EngineState final : private FeedSink {
 public:
  EngineState(Executable executable, const Backend& backend, const DeviceOptions& options);

  const StepResults& run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars);
  std::span<const TensorView> evaluate(const Feed& feed, std::span<const ScalarValue> scalars);
  std::optional<NonFinite> find_first_nonfinite(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars);
  std::vector<int64_t> count_exponents(const NumericsPlan& plan, int64_t step, const Feed& feed,
                                       std::span<const ScalarValue> scalars);
  void prepare();

  const StatePlace& find_state(std::string_view name) const;
  std::byte* at(BufferId id, int64_t micro = -1) const {
    return memory_ + exe_.buffers[static_cast<size_t>(id)].at(micro);
  }
  void write_state(std::string_view name, int64_t offset, std::span<const std::byte> bytes);
  int64_t read_state(std::string_view name, int64_t offset, std::span<std::byte> bytes) const;
  bool alone() const { return exe_.mesh.devices() == 1; }

  Executable exe_;
  DeviceOptions options_;
  Mesh::Position position_;
  ThreadTeam team_;
  int64_t memory_bytes_ = 0;  // of device memory, taken
  bool profiling_ = false;
  std::vector<std::vector<double>> seconds_;  // by segment and instruction
  std::vector<int64_t> runs_;                 // timed runs of each segment

 private:
  friend class NonFiniteSearch;
  friend class NumericsSurvey;
  using Program = std::vector<ProgramStep>;

  // Preparation.
  void check_backend(const Backend& backend, int threads) const;
  void make_memory();
  void make_kernels(const Backend& backend);
  PreparedCollective make_collective(const NodeSignature& node);
  CallTable make_table(const Segment& segment) const;
  void make_results();
  bool has_results(const ProgramStep& step) const;
  void find_guards();
  /// Buffers where weights and optimizer states lie, at any time.
  std::vector<bool> trained_buffers() const;
  /// Whether an instruction writes to one of `buffers`.
  static bool changes_any(const Instruction& instruction, const std::vector<bool>& buffers);
  /// What this device holds of a state; read into `room` where that is in streaming memory.
  const std::byte* state_data(const StatePlace& state, std::vector<std::byte>& room) const;

  // Running.
  void run_program(const Program& program);
  /// Runs a step whose segments the caller runs, instruction by instruction; ends early where `run_segment` says false.
  void watch_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars,
                  const std::function<bool(const ProgramStep&)>& run_segment);
  /// One step of a program; false when that was the last.
  bool run_program_step(const Program& program, size_t index);
  void start(const Program& program, size_t index);
  void wait(const Program& program, size_t index);
  void begin_program(const Program& program);
  /// Waits for all that was started, and counts supersteps on to the program's end.
  void end_program(const Program& program);
  int number_of(const Program& program) const;
  void finish_superstep(const Program& program, size_t index);
  void set_operands(CallTable& table, const ProgramStep& step) const;
  void run_calls(int32_t segment, size_t begin, size_t end);
  void run_timed(int32_t segment, size_t begin, size_t end);
  void run_call(const Call& call);
  void run_collective(const Call& call);
  void all_to_all(const PreparedCollective& collective, const Call& call);
  void copy(const void* from, void* to, int64_t bytes);
  bool run_guarded(const ProgramStep& step);
  void zero_accumulators(const ProgramStep& step);
  void combine_slots(const ProgramStep& step);
  void feed_segment(const ProgramStep& step);
  void set_scalars(const Segment& segment, int64_t step, int64_t micro);
  void check_scalars(std::span<const ScalarValue> scalars) const;
  void take_feeds(const Segment& segment, int64_t lane, int64_t micro);
  void set(std::string_view name, const TensorType& type, const void* data) override;
  void copy_results(const ProgramStep& step);
  void note_results(const ProgramStep& step);
  void agree();
  template <typename Visit>
  void each_run(const StatePlace& state, int64_t offset, int64_t size, const Visit& visit) const;

  const Backend* backend_ = nullptr;
  std::unique_ptr<Arena> arena_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<StreamingStore> store_;
  std::vector<std::unique_ptr<Kernel>> kernels_;                           // by task
  std::map<std::array<int64_t, 3>, std::unique_ptr<Collectives>> groups_;  // by axis, parts, stride
  std::unique_ptr<Collectives> everyone_;                                  // all devices; null: there is one
  std::vector<PreparedCollective> collectives_;                            // by task
  std::vector<CallTable> tables_;                                          // by segment
  std::vector<std::vector<Guard>> guards_;
  std::vector<int32_t> first_state_write_;  // instruction; INT32_MAX: none
  StepResults results_;
  std::vector<TensorView> evaluated_;
  std::vector<size_t> first_result_;  // of each segment, in the micro-batch's, the update's or the evaluation's
  std::vector<std::byte> result_bytes_;
  // Of the program at hand.
  std::vector<Ticket> tickets_;     // by step
  std::vector<int32_t> under_way_;  // steps that were started and not waited for
  uint64_t superstep_ = 0;          // number of the program's first
  bool ended_ = false;              // by a guard, or because another device's step has ended
  bool agreed_ = false;             // all devices have told each other whether a loss was not finite
  bool changed_ = false;            // weights or optimizer states, in this step
  bool goes_on_ = false;            // what others or streaming memory wait for is done even so
  bool stale_ = false;              // derived states may not be those of the weights
  // Of the step at hand.
  int64_t step_ = 0;
  const Feed* feed_ = nullptr;
  std::span<const ScalarValue> scalars_;
  const Segment* feeding_ = nullptr;
  std::vector<bool> fed_;
};

}  // namespace ramet::runtime
