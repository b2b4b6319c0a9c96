#pragma once

#include <chrono>
#include <map>

#include "ramet/runtime/arena.h"
#include "ramet/runtime/engine.h"

namespace ramet {

/// One instruction with its addresses, ready to be called.
struct Call {
  const Kernel* kernel = nullptr;  ///< null: copies `bytes` from inputs[0] to outputs[0]
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  uint32_t input_count = 0, output_count = 0;
  void* scratch = nullptr;
  int64_t bytes = 0;
};

/// An operand whose address depends on the micro-batch or on the lane's slot: `table[index]` is set before the segment runs.
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
  int32_t slot = 0, micro = 0;  ///< for which `operands` are set
};

/// A scalar result that is looked at as soon as instruction `after` has run.
struct Guard {
  int32_t after = 0;
  const Binding* result = nullptr;
};

class EngineState final : private FeedSink {
 public:
  EngineState(Executable executable, const Backend& backend, int threads);

  const StepResults& run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars);
  std::span<const TensorView> evaluate(const Feed& feed, std::span<const ScalarValue> scalars);
  std::optional<NonFinite> find_first_nonfinite(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars);

  void prepare();
  const StatePlace& find_state(std::string_view name) const;
  std::byte* at(BufferId id, int64_t micro = -1) const { return arena_.data() + exe_.buffers[static_cast<size_t>(id)].at(micro); }

  Executable exe_;
  ThreadTeam team_;
  Arena arena_;
  bool profiling_ = false;
  std::vector<std::vector<double>> seconds_;  // by segment and instruction
  std::vector<int64_t> runs_;                 // timed runs of each segment

 private:
  friend class NonFiniteSearch;

  // Preparation.
  void check_backend(const Backend& backend, int threads) const;
  void make_kernels(const Backend& backend);
  CallTable make_table(const Segment& segment) const;
  void make_results();
  bool has_results(const ProgramStep& step) const;
  void find_guards();

  // Running.
  /// One step of a program; false when a guard ended the training step.
  bool run_program_step(const ProgramStep& step);
  void set_operands(CallTable& table, const ProgramStep& step) const;
  void run_calls(int32_t segment, size_t begin, size_t end);
  void run_timed(int32_t segment, size_t begin, size_t end);
  void run_call(const Call& call);
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

  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<CallTable> tables_;          // by segment
  std::vector<std::vector<Guard>> guards_;
  std::vector<int32_t> first_state_write_; // instruction; INT32_MAX: none
  StepResults results_;
  std::vector<TensorView> evaluated_;
  std::vector<size_t> first_result_;       // of each segment, in the micro-batch's, the update's or the evaluation's
  std::vector<std::byte> result_bytes_;
  // Of the step at hand.
  int64_t step_ = 0;
  const Feed* feed_ = nullptr;
  std::span<const ScalarValue> scalars_;
  const Segment* feeding_ = nullptr;
  std::vector<bool> fed_;
};

}  // namespace ramet
