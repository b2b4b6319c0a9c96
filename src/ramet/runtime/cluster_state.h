#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "ramet/runtime/cluster.h"
#include "ramet/runtime/device_engine.h"
#include "ramet/runtime/row_tables.h"

namespace ramet::runtime {

/// A device of this process.
struct ClusterDevice {
  int number = 0;
  Mesh::Position position;
  Transport* transport = nullptr;  ///< null: there is only this device
  std::unique_ptr<DeviceEngine> engine;
  std::unique_ptr<Collectives> all;  ///< with all devices of the job, where it is more than this process
  const StepResults* results = nullptr;
  std::optional<NonFinite> nonfinite;
  std::vector<std::byte> window,
      packed;  ///< a part of a state on its way to another rank, as it is there and as it is here
};

/// The threads that drive the devices: one each.
class DeviceThreads {
 public:
  explicit DeviceThreads(size_t devices);
  ~DeviceThreads();
  /// Runs `body(index)` on every device's thread and waits for all. Throws the first exception again; `on_error` gets
  /// each exception at once, on the thread that threw it.
  void run(const std::function<void(size_t)>& body, const std::function<void(size_t, std::string_view)>& on_error);

 private:
  void loop(size_t index);
  void run_one(size_t index);

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(size_t)>* body_ = nullptr;
  const std::function<void(size_t, std::string_view)>* on_error_ = nullptr;
  uint64_t round_ = 0;
  size_t running_ = 0;
  bool ending_ = false;
  std::exception_ptr first_error_;
  std::vector<std::thread> threads_;
};

/// A scalar result of a stage, and where it goes.
struct ResultSlot {
  std::string name;
  int64_t micro = -1;  ///< of the device; -1: of the update
  friend auto operator<=>(const ResultSlot&, const ResultSlot&) = default;
};
/// What all devices of a stage give in a training step, in the order in which they give it.
std::vector<ResultSlot> result_slots(const Executable& executable);

/// Tag of messages between ranks outside of programs. The tags of programs count boundaries from 0.
inline constexpr int kHostTag = Transport::kUserTags - 1;

/// A logical state on the devices that hold it.
struct StateMap {
  struct Holder {
    int device = 0;
    bool reads = false;          ///< the first that has these elements: the one that is read
    std::vector<ShardRun> runs;  ///< where it is on another rank than the leading one
  };
  std::string name;
  int64_t element_bytes = 1;
  std::vector<Holder> holders;
};

struct ClusterState {
  ClusterState(std::vector<Executable> stages, const Backend& backend, const ClusterOptions& options);
  ~ClusterState();

  const Executable& stage_of(int device) const { return stages[static_cast<size_t>(mesh.position(device).stage)]; }
  int rank_of(int device) const { return device / per_rank; }
  bool alone() const { return mesh.devices() == 1; }
  ClusterDevice* local(int device);
  /// Runs a body on the threads of all devices of this process.
  void on_devices(const std::function<void(ClusterDevice&)>& body);
  /// The same for a body that feeds data inputs. An exception of a feed on one device is thrown when all devices have
  /// ended their work, so that no device waits for another and the cluster stays usable. With several ranks it ends
  /// them all, as any error does.
  void on_fed_devices(const std::function<void(ClusterDevice&)>& body);
  Feed feed_of(const ClusterDevice& device, const ClusterFeed& feed) const;

  // cluster_results.cc
  void gather_step();
  void check_wanted(const Wanted& wanted) const;
  void check_scalars_of(int32_t program, std::span<const ScalarValue> scalars) const;
  /// The tensors of a step that are wanted, and the results of the programs that ran after it.
  void gather_tensors(int64_t step, const Wanted& wanted);
  std::vector<ResultTensors> run(std::string_view program, int64_t count, const ClusterFeed& feed,
                                 std::span<const ScalarValue> scalars, const Wanted& wanted);
  /// Gives every rank every device's numbers: `numbers[d]` of each local device in, of all devices out.
  void exchange(std::vector<std::vector<double>>& numbers);
  std::optional<std::string> first_nonfinite();
  std::string share_text(int from, std::string text);

  // numerics.cc
  std::vector<NumericsRecord> survey_numerics(int64_t step, const ClusterFeed& feed,
                                              std::span<const ScalarValue> scalars, int gradient_parts);

  // cluster_states.cc
  const StateMap& map_of(const StateTensor& state);
  void write_window(const StateMap& where, int64_t offset, std::span<const std::byte> bytes);
  void read_window(const StateMap& where, int64_t offset, std::span<std::byte> to);

  std::vector<Executable> stages;
  Mesh mesh;
  ClusterOptions options;
  int rank = 0, ranks = 1, per_rank = 1;
  Transports transports;
  std::vector<ClusterDevice> devices;
  std::vector<int64_t> arena_bytes;  // of all devices
  std::unique_ptr<DeviceThreads> threads;
  std::vector<std::vector<ResultSlot>> train_slots;  // by stage
  ClusterResults results;
  StateMap map;  // of the state last asked for
  std::unique_ptr<RowTables> rows;

 private:
  void make_transports();
  void check_memory() const;
  void make_devices(const Backend& backend);
};

}  // namespace ramet::runtime
