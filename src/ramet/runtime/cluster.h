#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/runtime/engine.h"
#include "ramet/runtime/numerics.h"
#include "ramet/transport/collectives.h"
#include "ramet/transport/transport.h"

namespace ramet::transport {
class MpiSession;
}  // namespace ramet::transport

namespace ramet::runtime {

class RowTables;  // runtime/row_tables.h

struct ClusterOptions {
  /// The job of which this process is a rank; every rank has an equal share of the devices. Null: all devices are in
  /// this process.
  MpiSession* mpi = nullptr;
  /// Longest time that a device may wait for another before the run ends.
  std::chrono::milliseconds time_limit{60'000};
  /// Where streaming memory is: "ram", or a folder for files.
  std::string streaming = "ram";
  /// Kind of the devices (kernel/devices.h), which the backend is for; "": the default.
  std::string device;
  bool profile = false;
  /// Whether sums between devices keep the recipe's order (docs/architecture.md, "The same bits").
  ExactBits bits = ExactBits::kExact;
};

/// Scalar results by name, as doubles.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// A result as one logical tensor, whichever devices held parts of it.
struct ResultTensor {
  std::string name;
  TensorType type;
  std::vector<std::byte> bytes;

  /// Element `index` as double.
  double get(int64_t index = 0) const { return load_element(bytes.data(), type.dtype, index); }
};
using ResultTensors = std::vector<ResultTensor>;
/// Those of one element, as numbers.
NamedNumbers numbers_of(const ResultTensors& tensors);

/// The results that are wanted, and on which ranks. They take as much host memory as they have bytes, on the leading
/// rank or on all.
struct Wanted {
  std::vector<std::string> names{};  ///< empty: all of a program on request; of a step, all scalars
  bool everywhere = false;           ///< on all ranks; else others than the leading one get empty lists
};

/// The result of a step over all devices. Equal on all ranks, and for all layouts.
struct ClusterResults {
  std::vector<NamedNumbers> micro;  ///< scalars of every micro-batch of the global batch, in order
  NamedNumbers update;
  /// Tensors that were asked for by name, of micro-batches and of the update.
  std::vector<ResultTensors> micro_tensors;
  ResultTensors update_tensors;
  /// Of the programs that ran after this step: scalars, and tensors that were asked for.
  std::vector<std::pair<std::string, ResultTensors>> programs;
  std::string not_finite;       ///< as in StepResults
  bool states_changed = false;  ///< on any device
  double waiting = 0;           ///< share of all devices' time in which they waited for other stages

  /// First result of this name: of the update, or else of the last micro-batch; null when there is none.
  const double* find(std::string_view name) const;
  /// Results of a program that runs in steps; null where it did not run in this one.
  const ResultTensors* program(std::string_view name) const;
};

/// The micro-batches of the global batch whose data a device takes, in the order in which its program takes them: one
/// for each call of its feed.
struct DeviceReads {
  int device = 0;
  std::vector<int32_t> micro;
};
DeviceReads reads_of_step(const Executable& executable, int device);
DeviceReads reads_of_request(const Executable& executable, int device, std::string_view program, int64_t count);

/// Called for each segment with data inputs that a device is about to run, by each device in the order of its reads and
/// by several devices at once: it gives the data inputs of `executable` for micro-batch `micro` to `sink`. An exception
/// that it throws is thrown by the call that runs the program, which then changes no weight.
using ClusterFeed = std::function<void(int64_t micro, const Executable& executable, FeedSink& sink)>;

/// The devices of a mesh that this process runs, each an Engine with its streaming memory and its endpoint, driven by a
/// thread of its own; with one device alone, by the caller's. Together with its peers on other ranks it does what one
/// device would do, with the same bits. All ranks make the same calls in the same order. An error on one device ends
/// them all: the first is thrown, and no call works after it.
class Cluster {
 public:
  /// `stages`: the executable of each stage. Throws Error when memory is short, or when ranks and devices do not fit.
  Cluster(std::vector<Executable> stages, const Backend& backend, const ClusterOptions& options = {});
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  const Mesh& mesh() const;
  const std::vector<Executable>& stages() const;
  /// Devices of this process, by number.
  std::vector<int> local_devices() const;
  /// Whether this process writes and prints: rank 0, or the only one.
  bool leads() const;
  int rank() const;
  int ranks() const;
  /// Device and host streaming memory that all devices of this process take.
  int64_t local_planned_bytes() const;
  /// Sizes of the arenas of all devices, as they were allocated.
  const std::vector<int64_t>& arena_bytes() const;
  /// "threads", "mpi", or "" for one device.
  std::string_view transport() const;

  /// Sets bytes [offset, offset + bytes.size()) of a logical state on all devices that hold a part of them. All ranks
  /// bring the same bytes. After weights, call `run_derive`.
  void write_state(const StateTensor& state, uint64_t offset, std::span<const std::byte> bytes);
  /// Reads bytes of a logical state from whichever devices hold them; only the leading rank's `to` is written.
  void read_state(const StateTensor& state, uint64_t offset, std::span<std::byte> to);
  void run_derive();
  /// From now on the states of `tables` live there, and devices have a window of some of their rows: `write_state` and
  /// `read_state` of a whole one go to the tables.
  void set_rows(std::unique_ptr<RowTables> tables);
  const RowTables* rows() const;  ///< null: there are none
  /// Gives the devices the rows of a step by table, ascending and without duplicates, and fetches those of the next.
  void bring_rows(const std::vector<std::vector<int32_t>>& rows, const std::vector<std::vector<int32_t>>& next);

  /// What each device of this process reads in a training step, by its training program, and in a request of `count`
  /// micro-batches of a program.
  std::vector<DeviceReads> reads_of_step() const;
  std::vector<DeviceReads> reads_of_request(std::string_view program, int64_t count) const;
  /// Whether one holds a part of a logical state: others need not be brought to `write_state`.
  bool holds(const StateTensor& state) const;

  /// One training step on the global batch, and the programs that run after it. `scalars` may hold more than a stage
  /// takes. Tensors come only where `wanted` names them.
  const ClusterResults& run_step(int64_t step, const ClusterFeed& feed, std::span<const ScalarValue> scalars = {},
                                 const Wanted& wanted = {});
  /// Whether the step has a program of this name on request.
  bool has_program(std::string_view name) const;
  /// A program on request, on micro-batches 0 to count - 1 of `feed`: the results of each, as logical tensors. They go
  /// through the stages one behind another, some at a time (Program::width, in planned memory), and replicas share
  /// them. `feed` is asked for a micro-batch when a device begins with it. Throws Error on an unknown program or
  /// result.
  std::vector<ResultTensors> run(std::string_view program, int64_t count, const ClusterFeed& feed,
                                 std::span<const ScalarValue> scalars = {}, const Wanted& wanted = {});
  /// As Engine::find_first_nonfinite, for all devices: the finding that comes first in the order of the step, and the
  /// device that made it.
  std::optional<std::string> find_first_nonfinite(int64_t step, const ClusterFeed& feed,
                                                  std::span<const ScalarValue> scalars = {});

  /// Runs a step, changing no weight, as find_first_nonfinite does, and counts the exponents of
  /// all that can be seen, in the order of the step (runtime/numerics.h). `gradient_parts`: into how many ranges the
  /// layout cuts gradients among replicas.
  std::vector<NumericsRecord> survey_numerics(int64_t step, const ClusterFeed& feed,
                                              std::span<const ScalarValue> scalars, int gradient_parts);

  /// Whether anyone of all ranks says yes.
  bool any(bool yes);
  /// A text of the leading rank (at most 4095 bytes) for all; what other ranks give is not used.
  std::string share_text(std::string text);
  /// Ends all ranks' waits, naming `reason`; nothing works any more.
  void stop(std::string_view reason) noexcept;
  bool stopped() const;

  /// Rows of one device of this process, longest first.
  std::vector<ProfileRow> profile_by_kernel(int device) const;
  /// Of one device of this process; empty for others, and where nothing was profiled.
  MeasuredTimes measured_times(int device) const;

 private:
  std::unique_ptr<struct ClusterState> state_;
};

}  // namespace ramet::runtime
