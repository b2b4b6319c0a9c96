#pragma once

#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <utility>

#include "ramet/base/clock.h"
#include "ramet/ops/collective.h"
#include "ramet/runtime/device_engine.h"
#include "ramet/runtime/device_store.h"
#include "ramet/runtime/staging.h"

namespace ramet::runtime {

/// One instruction with its addresses, ready to be called.
struct BoundCall {
  const Kernel* kernel = nullptr;  ///< null: copies `bytes` from inputs[0] to outputs[0], or is a collective
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  uint32_t input_count = 0, output_count = 0;
  void* scratch = nullptr;
  int64_t bytes = 0;
  int32_t collective = -1;  ///< index of the call of a collective

  bool is_recordable() const { return collective < 0 && (!kernel || kernel->recordable()); }
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
  std::vector<BoundCall> calls;
  std::vector<MovingOperand> by_slot, by_micro;
  std::vector<int32_t> between_stages;  ///< collectives that other stages wait for even when a guard has ended the step
  int32_t slot = 0, micro = 0;          ///< for which `operands` are set
};

/// A run of a segment's instructions with the addresses of one slot and micro-batch, recorded when it comes a second
/// time.
struct RecordedCalls {
  bool seen = false;
  std::unique_ptr<CapturedProgram> program;
};

/// A scalar result that ends the step when it is not finite.
struct Guard {
  int32_t after = 0;  ///< instruction that makes it
  size_t result = 0;  ///< of the segment's
};

/// The members of a collective, and how its operands lie.
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
    if (sum_) *sum_ += seconds_since(start_);
  }
  WaitClock(const WaitClock&) = delete;
  WaitClock& operator=(const WaitClock&) = delete;

 private:
  double* sum_;
  std::chrono::steady_clock::time_point start_;
};

/// Whether a training step changes such a state for good.
inline bool is_trained(StateKind kind) { return is_saved(kind); }

class EngineState final : private FeedSink {
 public:
  EngineState(Executable executable, const Backend& backend, const DeviceOptions& options);

  const StepResults& run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars);
  void run(std::string_view program, int64_t count, const Feed& feed, std::span<const ScalarValue> scalars,
           const ResultSink& sink);
  std::span<const TensorView> run(std::string_view program, const Feed& feed, std::span<const ScalarValue> scalars);
  std::optional<NonFinite> find_first_nonfinite(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars);
  std::vector<int64_t> count_exponents(const NumericsTable& table, int64_t step, const Feed& feed,
                                       std::span<const ScalarValue> scalars);
  void prepare();

  const StatePlace& find_state(std::string_view name) const;
  /// Where a buffer is in device memory.
  std::byte* at(BufferId id, int64_t micro = -1) const {
    return memory_.data() + exe_.buffers[static_cast<size_t>(id)].at(micro);
  }
  void write_state(std::string_view name, int64_t offset, std::span<const std::byte> bytes);
  int64_t read_state(std::string_view name, int64_t offset, std::span<std::byte> bytes) const;
  /// The exception of the feed in the last step, when the step had to go on for other devices.
  std::exception_ptr take_feed_error() { return std::exchange(feed_error_, nullptr); }
  /// What this device holds of a state, for the host; read into `room` where the host cannot read it in place.
  const std::byte* state_data(const StatePlace& state, std::vector<std::byte>& room) const;
  /// The same of any range of device memory, after all that the queue was given.
  const std::byte* host_bytes(const void* data, int64_t bytes, std::vector<std::byte>& room) const;
  bool alone() const { return exe_.mesh.devices() == 1; }
  /// Whether a step that has ended early still does its messages, because other devices or streaming memory wait for
  /// them.
  bool drains() const { return !alone() || !exe_.transfers.empty(); }

  Executable exe_;
  DeviceOptions options_;
  Mesh::Position position_;
  std::unique_ptr<Device> device_;
  DeviceMemory memory_;  // the arena
  bool profiling_ = false;
  std::vector<std::byte> looked_at_;  // the state that a caller looked at last, where the host cannot read it in place
  std::vector<std::vector<double>> seconds_;  // by segment and instruction
  std::vector<int64_t> runs_;                 // timed runs of each segment
  std::vector<StepSpan> spans_;               // of the training program's last run, while profiling

 private:
  friend class NonFiniteSearch;
  friend class NumericsSurvey;

  // Preparation.
  void check_backend(const Backend& backend, int threads) const;
  void make_memory();
  void make_kernels(const Backend& backend);
  PreparedCollective make_collective(const NodeSignature& node);
  CallTable make_table(const Segment& segment) const;
  void make_results();
  void find_guards();
  /// Brings the constants that the executable has the data of to where they live.
  void write_constants();
  /// Buffers where states lie that a step changes, at any time.
  std::vector<bool> trained_buffers() const;
  /// Whether an instruction writes to one of `buffers`.
  static bool changes_any(const Instruction& instruction, const std::vector<bool>& buffers);

  // Running.
  void run_program(int32_t program);
  bool run_step_timed(size_t index);
  void run_due_programs(int64_t step);
  const Program& at_hand() const { return exe_.programs[static_cast<size_t>(program_)]; }
  /// Micro-batch, of the whole step or request, that a step of the program at hand is of; 0 where it is of none.
  int64_t micro_batch_of(const ProgramStep& step) const;
  /// Runs a step whose segments the caller runs, instruction by instruction; ends early where `run_segment` says false.
  void watch_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars,
                  const std::function<bool(const ProgramStep&)>& run_segment);
  /// One step of the program at hand; false when that was the last.
  bool run_program_step(size_t index);
  void start(size_t index);
  void wait(size_t index);
  void begin_program(int32_t program);
  /// Waits for all that was started, and counts supersteps on to the program's end.
  void end_program();
  void abandon();
  void finish_superstep(size_t index);
  void set_operands(CallTable& table, const ProgramStep& step) const;
  void run_calls(int32_t segment, size_t begin, size_t end);
  void run_timed(int32_t segment, size_t begin, size_t end);
  void run_call(const BoundCall& call);
  void give_calls(const CallTable& table, size_t begin, size_t end);
  std::unique_ptr<CapturedProgram> record(const CallTable& table, size_t begin, size_t end);
  void run_recorded(int32_t segment, size_t begin, size_t end);
  void run_collective(const BoundCall& call);
  template <typename Meet>
  void exchange(const std::byte* in, int64_t in_bytes, std::byte* out, int64_t out_bytes, const Meet& meet);
  void all_to_all(const PreparedCollective& collective, const BoundCall& call);
  bool run_guarded(const ProgramStep& step);
  const Guard* find_failed_guard(const ProgramStep& step, size_t& looked_at, int32_t before);
  void zero_accumulators(const ProgramStep& step);
  void combine_slots(const ProgramStep& step);
  void feed_segment(const ProgramStep& step);
  void set_scalars(const Segment& segment, int64_t step, int64_t micro);
  void check_scalars(std::span<const ScalarValue> scalars) const;
  void take_feeds(const Segment& segment, int64_t lane, int64_t micro);
  void set(std::string_view name, const TensorType& type, const void* data) override;
  int device() const override { return options_.device; }
  int32_t segment() const override { return static_cast<int32_t>(feeding_ - exe_.segments.data()); }
  void put(size_t input, const void* data) override;
  void give_zeros(const Segment& segment);
  void check_fed(const Segment& segment) const;
  bool takes(std::string_view name) const override;
  std::span<const TensorView> views_of(const ProgramStep& step) const;
  void copy_result(const ProgramStep& step, size_t result);
  void copy_results(const ProgramStep& step);
  void note_results(const ProgramStep& step);
  void agree();
  template <typename Visit>
  void each_run(const StatePlace& state, int64_t offset, int64_t size, const Visit& visit) const;

  const Backend* backend_ = nullptr;
  DeviceMemory result_memory_;                                // pinned: results of a step, where their views look
  std::vector<std::byte> scalar_room_;                        // of the largest scalar input
  std::vector<std::unique_ptr<Kernel>> kernels_;              // by call
  std::map<std::array<int64_t, 5>, RecordedCalls> recorded_;  // by segment, slot, micro-batch, first and last call
  // All work of the programs. Goes before what it works on.
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<DeviceStore> store_;
  std::map<std::array<int64_t, 3>, std::unique_ptr<Collectives>> groups_;  // by axis, parts, stride
  std::unique_ptr<Collectives> everyone_;                                  // all devices; null: there is one
  std::vector<PreparedCollective> collectives_;                            // by call
  std::vector<CallTable> tables_;                                          // by segment
  std::vector<std::vector<Guard>> guards_;
  std::vector<int32_t> first_state_write_;  // instruction; INT32_MAX: none
  StepResults results_;
  std::vector<size_t> first_result_;    // of each segment, in the micro-batch's, the update's or the program's
  std::vector<std::byte> result_room_;  // of a result on request, where the host cannot read it in place
  std::vector<double> stamps_;          // while profiling
  std::vector<std::vector<std::byte>> once_bytes_;  // results of the last request of one micro-batch
  std::vector<TensorView> once_;
  // Of the program at hand.
  int32_t program_ = kTrain;
  int32_t first_label_ = 0;         // of its steps
  std::vector<Ticket> tickets_;     // by step
  std::vector<std::byte*> staged_;  // by step: host memory of a message
  std::vector<int32_t> under_way_;  // steps that were started and not waited for
  uint64_t superstep_ = 0;          // number of the program's first
  bool ended_ = false;    // a guard, the feed or another device has ended the step: only messages are left to do
  bool agreed_ = false;   // all devices know whether any of them saw a loss that is not finite
  bool changed_ = false;  // the step has changed weights or optimizer states
  bool stale_ = false;    // derived states may differ from the weights: `prepare` is due before the next program
  // Of the step at hand.
  int64_t step_ = 0;
  const Feed* feed_ = nullptr;
  std::span<const ScalarValue> scalars_;
  const Segment* feeding_ = nullptr;
  RequestRound request_;              ///< of the request at hand
  const ResultSink* sink_ = nullptr;  ///< that hears its results
  std::vector<bool> fed_;
  std::vector<std::string> not_taken_;  // names that were fed and that this device's program does not have
  bool may_change_ = false;             ///< the program at hand changes weights
  std::exception_ptr feed_error_;
};

}  // namespace ramet::runtime
