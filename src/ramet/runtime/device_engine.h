#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/runtime/engine.h"
#include "ramet/runtime/streaming_store.h"
#include "ramet/transport/collectives.h"

namespace ramet::runtime {

struct NumericsTable;

/// The surroundings of a device beside its program.
struct DeviceOptions {
  int device = 0;           ///< its number in the executable's mesh
  int threads = 0;          ///< must be the number that the executable was compiled for; 0 takes that number
  std::string_view kind{};  ///< of device (kernel/devices.h), which the backend is for; "": the default
  Transport* transport =
      nullptr;  ///< its endpoint, which must outlive the engine; may be null where there is one device
  CollectiveOptions collectives{};
  /// The arena comes from `transport`, so that peers in other processes reach it; where the host can use its addresses.
  bool shared_arena = false;
  /// Makes its streaming memory of so many bytes; empty: host memory. Not called for a program that streams nothing.
  std::function<std::unique_ptr<StreamingStore>(int64_t bytes)> streaming{};
};

/// Runs one device's program. All memory is taken when it is made: arena, streaming memory, kernels, addresses,
/// results; a step allocates nothing. One thread drives it. Devices of one mesh make the same calls in the same order,
/// each on its own thread; every call meets the others through the transport. An exception on one device must be told
/// to the others by Transport::stop: they would wait for it.
class DeviceEngine {
 public:
  /// Throws Error when the executable is of another kernel class than the backend's, when the device is not of its
  /// stage, or when memory is short.
  DeviceEngine(Executable executable, const Backend& backend, const DeviceOptions& options = {});
  ~DeviceEngine();
  DeviceEngine(const DeviceEngine&) = delete;
  DeviceEngine& operator=(const DeviceEngine&) = delete;

  const Executable& executable() const;
  int device() const;
  const Mesh::Position& position() const;
  int threads() const;
  /// Device memory that it has taken.
  int64_t arena_bytes() const;

  bool has_state(std::string_view name) const;
  /// Takes what bytes [offset, offset + bytes.size()) of the logical tensor (whole elements) this device holds. After
  /// weights, call `prepare` on all devices. Throws Error on an unknown state or a range outside it.
  void write_state(std::string_view name, int64_t offset, std::span<const std::byte> bytes);
  /// Gives into `bytes`, which stand for such a range, what this device holds of it, and leaves the rest as it is; how
  /// many bytes it gave.
  int64_t read_state(std::string_view name, int64_t offset, std::span<std::byte> bytes) const;

  /// Derives states from weights.
  void prepare();
  /// One training step. The feed is called with micro-batches of the whole step, in the lanes of this replica; the
  /// counter numbers them in the same way. With several devices, scalars and feeds that this stage does not read are
  /// ignored. A guard that is not finite ends the step on all devices before weights change; `not_finite` then says on
  /// which device it was seen.
  const StepResults& run_step(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars = {});
  /// A program on request, on `count` micro-batches of all replicas together: a program that changes no state does
  /// micro-batch i on replica i mod r; one that changes states does each micro-batch on every replica. Between
  /// micro-batches a device waits only for messages of other devices. `sink` gets the results of this device's stage,
  /// and nothing when a replica has no micro-batch of its own.
  void run(std::string_view program, int64_t count, const Feed& feed, std::span<const ScalarValue> scalars,
           const ResultSink& sink);
  /// The same on one micro-batch; the views hold until the next call.
  std::span<const TensorView> run(std::string_view program, const Feed& feed,
                                  std::span<const ScalarValue> scalars = {});
  /// The exception of the feed in the last call. This device then went on with zeros, so that others did not wait for
  /// it, and the call changed no weight. With a single device the calls themselves throw it.
  std::exception_ptr take_feed_error();
  /// As Engine::find_first_nonfinite, of this device; with many devices the step runs to its end.
  std::optional<NonFinite> find_first_nonfinite(int64_t step, const Feed& feed,
                                                std::span<const ScalarValue> scalars = {});

  /// Runs a step, changing no weight, and counts the exponents of each row of `table`, which is of this executable:
  /// kExponentBins numbers a row.
  std::vector<int64_t> count_exponents(const NumericsTable& table, int64_t step, const Feed& feed,
                                       std::span<const ScalarValue> scalars = {});

  void profile(bool on);
  std::vector<ProfileRow> profile_by_kernel() const;
  std::vector<ProfileRow> profile_by_node() const;
  MeasuredTimes measured_times() const;

  /// Text of a superstep's label, as the transport was given it: "train: run 'backward 3', micro-batch 2". For
  /// TransportOptions::label_text; needs the executable only.
  static std::string label_text(const Executable& executable, int label);

 private:
  std::unique_ptr<class EngineState> state_;
};

}  // namespace ramet::runtime
