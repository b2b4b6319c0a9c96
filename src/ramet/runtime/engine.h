#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/kernel/kernel.h"
#include "ramet/program/executable.h"

namespace ramet::runtime {

/// A tensor somewhere in memory, by name; owns nothing.
struct TensorView {
  std::string_view name;
  const TensorType* type = nullptr;
  const std::byte* data = nullptr;

  /// Element `index` as double.
  double get(int64_t index = 0) const { return load_element(data, type->dtype, index); }
};

/// Where a feed callback puts the data inputs of one micro-batch; they are copied at once.
class FeedSink {
 public:
  virtual ~FeedSink() = default;
  /// Throws Error when there is no such input, or its type differs.
  virtual void set(std::string_view name, const TensorType& type, const void* data) = 0;
  /// Whether the program that is fed now has a data input of this name.
  virtual bool takes(std::string_view name) const = 0;

  /// For callers that know the program: the executable that asks, and data inputs by number instead of by name.
  virtual int device() const = 0;       ///< that asks, by its number in the mesh
  virtual int32_t segment() const = 0;  ///< of its program, that is about to run
  /// Copies data input `input` of that segment's `feeds`, of its type.
  virtual void put(size_t input, const void* data) = 0;
};

/// Called for each micro-batch, in order: (lane, micro-batch within the lane, where to put it). For a program on
/// request all micro-batches are of lane 0.
using Feed = std::function<void(int64_t lane, int64_t micro, FeedSink& sink)>;

/// Hears the results of a program on request as soon as they are there: of micro-batch `micro`, as the device holds
/// them. `data` holds until the call returns.
using ResultSink = std::function<void(int64_t micro, const Binding& result, const std::byte* data)>;

/// The scalar input that the engine gives itself: {step, micro-batch}.
inline constexpr std::string_view kCounterInput = "counter";

/// A scalar input of the step, as the learning rate. "counter" is the engine's own.
struct ScalarValue {
  std::string name;  // its own: a list of them outlives what its names were taken from
  double value = 0;
};

/// The result of a step. Views are valid until the next step of the engine.
class StepResults {
 public:
  StepResults() = default;
  /// From results of several devices; the views must outlive it.
  StepResults(std::vector<std::vector<TensorView>> micro, std::vector<TensorView> update)
      : micro_(std::move(micro)), update_(std::move(update)) {}
  /// Results of micro-batch `index` (in order of lanes, then within them).
  std::span<const TensorView> micro(int64_t index) const { return micro_[static_cast<size_t>(index)]; }
  /// Results of the update; those of the one micro-batch too where both are joined.
  std::span<const TensorView> update() const { return update_; }
  /// First result of this name: of the update, or else of the last micro-batch; null when there is none.
  const TensorView* find(std::string_view name) const;
  /// Sum of a scalar result over the micro-batches, in order, in double; throws Error on an unknown name.
  double sum(std::string_view name) const;
  int64_t micro_batches() const { return static_cast<int64_t>(micro_.size()); }
  /// Results of a program that runs in steps; none where it did not run in this one.
  std::span<const TensorView> program(std::string_view name) const;

  /// Name of the first guard that was not finite: the step ended there. Empty when all went well.
  std::string not_finite;
  /// Whether weights or optimizer states had been changed when the step ended early.
  bool states_changed = false;
  /// Time of the step on this device, and the part of it spent waiting for devices of other stages.
  double seconds = 0, waiting_seconds = 0;

 private:
  friend class EngineState;
  std::vector<std::vector<TensorView>> micro_;
  std::vector<TensorView> update_;
  struct OfProgram {
    int32_t program = 0;
    std::string_view name;
    bool ran = false;
    std::vector<TensorView> views;
  };
  std::vector<OfProgram> programs_;
};

/// Where numbers went wrong first.
struct NonFinite {
  std::string segment, node, op;
  int64_t lane = 0, micro = 0;
  std::string output;               ///< type of the operand
  int64_t count = 0, first = 0;     ///< elements that are not finite, and the first of them
  std::vector<std::string> inputs;  ///< "bf16[16,128] from -3.5 to 80.25"
  int32_t superstep = 0;            ///< of the step; -1: before it
  std::string origin{};             ///< of the node
  std::string text() const;
};

/// Time of all instructions with one op and kernel.
struct ProfileRow {
  std::string segment, op, kernel, node;  ///< node only in rows by node
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

/// When a step of the training program ran: seconds of the steady clock, which all devices of a host share.
struct StepSpan {
  int32_t step = 0;  ///< number in the program's list
  double begin = 0, end = 0;
};

/// What a device measured while it was profiled.
struct MeasuredTimes {
  /// Mean seconds of each instruction in a run of its segment, by segment; all 0 where the segment never ran.
  std::vector<std::vector<double>> instructions;
  std::vector<StepSpan> last_step;  ///< the last training step, in the order of the program; empty: none was profiled
};

/// Runs an Executable on this machine. All memory is taken when it is made: the arena, the kernels, the tables of
/// addresses and the places of results; a step allocates nothing. One thread drives an engine.
class Engine {
 public:
  /// Throws Error when the executable is of another kernel class than the backend's, or when memory is short. `threads`
  /// must be the number that the executable was compiled for; 0 takes that number.
  Engine(Executable executable, const Backend& backend, int threads = 0);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Executable& executable() const;
  int threads() const;

  /// Sets a state by its logical name. After weights, call `run_derive`. Throws Error on an unknown name or another
  /// type.
  void write_state(std::string_view name, const TensorType& type, const void* data);
  /// The same, with the value made in place, without a copy. Throws Error likewise.
  void fill_state(std::string_view name, const TensorType& type, const std::function<void(std::span<std::byte>)>& fill);
  /// A state as it is now, in place; on a device whose memory the host cannot read a copy, which holds until the next
  /// call.
  TensorView state(std::string_view name) const;
  void read_state(std::string_view name, std::span<std::byte> into) const;
  void run_derive();

  /// One training step. `step` is the counter's first number; random draws depend on it. `scalars` holds each scalar
  /// input of the step but "counter". A guard (StepGraph::guards) that is not finite ends the step there, before an
  /// update where it comes before one. Else the programs follow that run after this step, each with the states as they
  /// are then.
  const StepResults& run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars = {});
  /// A program on request, on `count` micro-batches. Throws Error when there is none of this name.
  void run(std::string_view program, int64_t count, const Feed& feed, std::span<const ScalarValue> scalars,
           const ResultSink& sink);
  /// The same on one; the views hold until the next call.
  std::span<const TensorView> run(std::string_view program, const Feed& feed,
                                  std::span<const ScalarValue> scalars = {});

  /// Runs the step again, changing no weight, and checks every output of every instruction. Returns the first that is
  /// not finite, or nothing. States that were not finite before the step are found too. For use after a step that ended
  /// early.
  std::optional<NonFinite> find_first_nonfinite(int64_t step, const Feed& feed,
                                                std::span<const ScalarValue> scalars = {});

  /// Hash over all weights in canonical order: names, types, bytes.
  Hash weights_hash() const;

  /// From now on each instruction is timed (tens of nanoseconds each); false stops the timing and keeps the times so
  /// far.
  void profile(bool on);
  std::vector<ProfileRow> profile_by_kernel() const;  ///< longest first
  std::vector<ProfileRow> profile_by_node() const;    ///< longest first

 private:
  std::unique_ptr<class EngineState> state_;
};

/// A table of profile rows: time, share, GF/s, GB/s.
std::string profile_text(std::span<const ProfileRow> rows, int64_t steps, size_t most = 30);

}  // namespace ramet::runtime
