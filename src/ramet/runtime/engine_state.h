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

/// The calls of a segment with accumulators in one slot.
struct CallTable {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<Call> calls;
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

  void run_all(SegmentId id) { run_calls(id, 0, 0, segment(id).instructions.size()); }
  const Segment& segment(SegmentId id) const { return exe_.segment(id); }
  const StatePlace& find_state(std::string_view name) const;
  std::byte* at(BufferId id) const { return arena_.data() + exe_.buffers[static_cast<size_t>(id)].offset; }

  Executable exe_;
  ThreadTeam team_;
  Arena arena_;
  bool profiling_ = false;
  std::array<std::vector<double>, kSegmentCount> seconds_;  // by instruction
  std::array<int64_t, kSegmentCount> runs_{};               // timed runs of each segment

 private:
  friend class NonFiniteSearch;

  // Preparation.
  void check_backend(const Backend& backend, int threads) const;
  void make_kernels(const Backend& backend);
  void make_tables();
  CallTable make_table(const Segment& segment, int slot) const;
  void make_results();
  void find_guards();

  // Running.
  void run_calls(SegmentId id, int slot, size_t begin, size_t end);
  void run_timed(SegmentId id, int slot, size_t begin, size_t end);
  void run_call(const Call& call);
  void copy(const void* from, void* to, int64_t bytes);
  bool run_guarded(SegmentId id, int slot);
  void zero_accumulators(int slot);
  void combine_slots(int into, int from);
  void set_scalars(const Segment& segment, int64_t step, int64_t micro, std::span<const ScalarValue> scalars);
  void check_scalars(std::span<const ScalarValue> scalars) const;
  void take_feeds(const Segment& segment, const Feed& feed, int64_t lane, int64_t micro);
  void set(std::string_view name, const TensorType& type, const void* data) override;
  static void copy_results(const Segment& segment, const EngineState& state, std::vector<TensorView>& into);

  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::array<std::vector<CallTable>, kSegmentCount> tables_;  // by slot
  std::array<std::vector<Guard>, kSegmentCount> guards_;
  std::array<int32_t, kSegmentCount> first_state_write_{};    // instruction; INT32_MAX: none
  std::vector<int> lane_slot_;
  std::vector<std::vector<std::pair<int, int>>> combines_;
  StepResults results_;
  std::vector<TensorView> evaluated_;
  std::vector<std::byte> result_bytes_;
  const Segment* feeding_ = nullptr;
  std::vector<bool> fed_;
};

}  // namespace ramet
