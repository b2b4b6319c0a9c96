#include "ramet/runtime/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/kernel/devices.h"
#include "ramet/program/match.h"
#include "ramet/runtime/cluster_state.h"
#include "ramet/transport/mpi_transport.h"
#include "ramet/transport/thread_transport.h"

namespace ramet::runtime {
namespace {

constexpr int64_t kWindow = int64_t{16} << 20;  // of a state at a time between memories and ranks

const double* find_number(const NamedNumbers& numbers, std::string_view name) {
  for (const auto& [key, value] : numbers)
    if (key == name) return &value;
  return nullptr;
}

}  // namespace

NamedNumbers numbers_of(const ResultTensors& tensors) {
  NamedNumbers numbers;
  for (const ResultTensor& tensor : tensors)
    if (tensor.type.elements() == 1) numbers.emplace_back(tensor.name, tensor.get());
  return numbers;
}

const ResultTensors* ClusterResults::program(std::string_view name) const {
  for (const auto& [known, tensors] : programs)
    if (known == name) return &tensors;
  return nullptr;
}

const double* ClusterResults::find(std::string_view name) const {
  if (const double* value = find_number(update, name)) return value;
  return micro.empty() ? nullptr : find_number(micro.back(), name);
}

DeviceThreads::DeviceThreads(size_t devices) {
  for (size_t i = 0; i < devices; ++i) threads_.emplace_back([this, i] { loop(i); });
}

DeviceThreads::~DeviceThreads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void DeviceThreads::run(const std::function<void(size_t)>& body,
                        const std::function<void(size_t, std::string_view)>& on_error) {
  std::unique_lock lock(mutex_);
  body_ = &body;
  on_error_ = &on_error;
  first_error_ = nullptr;
  running_ = threads_.size();
  ++round_;
  start_.notify_all();
  done_.wait(lock, [&] { return running_ == 0; });
  if (first_error_) std::rethrow_exception(first_error_);
}

void DeviceThreads::loop(size_t index) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return ending_ || round_ != seen; });
      if (ending_) return;
      seen = round_;
    }
    run_one(index);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) done_.notify_all();
  }
}

void DeviceThreads::run_one(size_t index) {
  const auto failed = [&](std::string_view text) {
    {
      const std::lock_guard lock(mutex_);
      if (!first_error_) first_error_ = std::current_exception();
    }
    (*on_error_)(index, text);
  };
  try {
    (*body_)(index);
  } catch (const std::exception& error) {
    failed(error.what());
  } catch (...) {
    failed("unknown error");
  }
}

ClusterState::ClusterState(std::vector<Executable> executables, const Backend& backend, const ClusterOptions& how)
    : stages(std::move(executables)), mesh(stages.at(0).mesh), options(how) {
  if (options.mpi) rank = options.mpi->rank(), ranks = options.mpi->ranks();
  if (mesh.devices() % ranks != 0)
    throw Error({.what = "the devices of the layout cannot be spread evenly over the ranks",
                 .where = "--layout",
                 .found = fmt::format("{} devices, {} ranks", mesh.devices(), ranks),
                 .expected = "as many devices on each rank",
                 .remedy = fmt::format("Start a number of ranks that divides {}", mesh.devices())});
  per_rank = mesh.devices() / ranks;
  for (const Executable& exe : stages) train_slots.push_back(result_slots(exe));
  make_transports();
  try {
    check_memory();
    make_devices(backend);
  } catch (const std::exception& error) {
    if (!transports.empty()) transports[0]->stop(error.what());
    throw;
  }
}

ClusterState::~ClusterState() {
  // Threads first: they drive all else.
  threads.reset();
  devices.clear();
}

void ClusterState::make_transports() {
  if (alone() && !options.mpi) return;
  TransportOptions how;
  how.time_limit = options.time_limit;
  how.messages = std::max(how.messages, static_cast<int>(program::messages_under_way(stages)));
  how.label_text = [this](int device, int label) { return DeviceEngine::label_text(stage_of(device), label); };
  transports = options.mpi ? options.mpi->make_transports(per_rank, how) : make_thread_transports(mesh.devices(), how);
}

/// Arenas are asked for at the same time by many threads, each of which would find enough.
void ClusterState::check_memory() const {
  int64_t wanted = 0;
  for (int device = rank * per_rank; device < (rank + 1) * per_rank; ++device)
    wanted += stage_of(device).arena_bytes + (options.streaming == "ram" ? stage_of(device).streaming_bytes : 0);
  const int64_t available = find_device(options.device).available();
  if (wanted <= available) return;
  throw Error(
      {.what = fmt::format("not enough memory for {} devices", per_rank),
       .where = rank > 0 || ranks > 1 ? fmt::format("rank {}", rank) : "machine",
       .found = format_size(available) + " available",
       .expected = format_size(wanted),
       .remedy = options.streaming == "ram" && stages[0].streaming_bytes > 0
                     ? "Keep streaming memory in files: streaming=FOLDER in the layout"
                     : "Let device_memory, phases, offload or recompute in the layout lower what each device takes"},
      ErrorKind::kFailure);
}

void ClusterState::make_devices(const Backend& backend) {
  devices.resize(static_cast<size_t>(per_rank));
  for (size_t i = 0; i < devices.size(); ++i) {
    devices[i].number = rank * per_rank + static_cast<int>(i);
    devices[i].position = mesh.position(devices[i].number);
    devices[i].transport = transports.empty() ? nullptr : transports[i].get();
  }
  if (!alone()) threads = std::make_unique<DeviceThreads>(devices.size());
  on_devices([&](ClusterDevice& device) {
    DeviceOptions how;
    how.device = device.number;
    how.kind = options.device;
    how.transport = device.transport;
    how.collectives.bits = options.bits;
    how.shared_arena = ranks > 1;
    if (options.streaming != "ram")
      how.streaming = [&](int64_t bytes) {
        return make_file_store(bytes,
                               {.folder = options.streaming, .name = "ramet-device-" + std::to_string(device.number)});
      };
    device.engine = std::make_unique<DeviceEngine>(stage_of(device.number), backend, how);
    if (options.profile) device.engine->profile(true);
    if (ranks > 1) device.all = std::make_unique<Collectives>(*device.transport, Group::all(mesh.devices()));
  });
  // Here all ranks meet for the first time, so that what failed on one is known to all.
  std::vector<std::vector<double>> arenas(static_cast<size_t>(mesh.devices()));
  for (const ClusterDevice& device : devices)
    arenas[static_cast<size_t>(device.number)] = {static_cast<double>(device.engine->arena_bytes())};
  exchange(arenas);
  for (const auto& arena : arenas) arena_bytes.push_back(static_cast<int64_t>(arena[0]));
}

ClusterDevice* ClusterState::local(int device) {
  const int index = device - rank * per_rank;
  return index >= 0 && index < per_rank ? &devices[static_cast<size_t>(index)] : nullptr;
}

void ClusterState::on_devices(const std::function<void(ClusterDevice&)>& body) {
  if (!threads) return body(devices[0]);
  threads->run([&](size_t index) { body(devices[index]); },
               [&](size_t index, std::string_view why) {
                 if (devices[index].transport) devices[index].transport->stop(why);
               });
}

void ClusterState::on_fed_devices(const std::function<void(ClusterDevice&)>& body) {
  const auto pass_on = [](ClusterDevice& device) {
    if (const std::exception_ptr error = device.engine->take_feed_error()) std::rethrow_exception(error);
  };
  on_devices([&](ClusterDevice& device) {
    body(device);
    if (ranks > 1) pass_on(device);
  });
  for (ClusterDevice& device : devices) pass_on(device);
}

Feed ClusterState::feed_of(const ClusterDevice& device, const ClusterFeed& feed) const {
  const Executable& exe = stage_of(device.number);
  return [&exe, &feed](int64_t lane, int64_t micro, FeedSink& sink) {
    feed(lane * exe.micro_batches_per_lane + micro, exe, sink);
  };
}

namespace {

/// Whether the device of the program takes data when it runs the step.
bool takes_data(const Executable& exe, const ProgramStep& step) {
  return step.kind == ProgramStep::Kind::kRun && !exe.segments[static_cast<size_t>(step.subject)].feeds.empty();
}

}  // namespace

DeviceReads reads_of_step(const Executable& exe, int device) {
  DeviceReads reads{device, {}};
  const int64_t first = exe.mesh.position(device).replica * exe.micro_batches();
  for (const ProgramStep& step : exe.train().steps)
    if (takes_data(exe, step)) reads.micro.push_back(static_cast<int32_t>(first + std::max(0, step.micro)));
  return reads;
}

DeviceReads reads_of_request(const Executable& exe, int device, std::string_view name, int64_t count) {
  DeviceReads reads{device, {}};
  const int32_t number = exe.find_program(name);
  if (number < kFirstProgram) return reads;
  const Program& program = exe.programs[static_cast<size_t>(number)];
  const int replica = exe.mesh.position(device).replica;
  program.each_round(count, exe.mesh.r, [&](const RequestRound& round) {
    for (const ProgramStep& step : program.steps)
      if (takes_data(exe, step) && round.runs(step))
        reads.micro.push_back(static_cast<int32_t>(round.micro_batch_of(step, replica)));
  });
  return reads;
}

Cluster::Cluster(std::vector<Executable> stages, const Backend& backend, const ClusterOptions& options)
    : state_(std::make_unique<ClusterState>(std::move(stages), backend, options)) {}
Cluster::~Cluster() = default;

const Mesh& Cluster::mesh() const { return state_->mesh; }
const std::vector<Executable>& Cluster::stages() const { return state_->stages; }
bool Cluster::leads() const { return state_->rank == 0; }
int Cluster::rank() const { return state_->rank; }
int Cluster::ranks() const { return state_->ranks; }
std::string_view Cluster::transport() const { return state_->transports.empty() ? "" : state_->transports[0]->name(); }

std::vector<int> Cluster::local_devices() const {
  std::vector<int> numbers;
  for (const ClusterDevice& device : state_->devices) numbers.push_back(device.number);
  return numbers;
}

const std::vector<int64_t>& Cluster::arena_bytes() const { return state_->arena_bytes; }

int64_t Cluster::local_planned_bytes() const {
  int64_t bytes = 0;
  for (const ClusterDevice& device : state_->devices)
    bytes += state_->stage_of(device.number).planned_bytes() +
             (state_->options.streaming == "ram" ? state_->stage_of(device.number).streaming_bytes : 0);
  return bytes;
}

void Cluster::write_state(const StateTensor& state, uint64_t offset, std::span<const std::byte> bytes) {
  if (state_->rows && state_->rows->holds(state))
    return state_->rows->write(*state_, state, static_cast<int64_t>(offset), bytes);
  const StateMap& map = state_->map_of(state);
  for (size_t done = 0; done < bytes.size(); done += kWindow)
    state_->write_window(map, static_cast<int64_t>(offset + done),
                         bytes.subspan(done, std::min<size_t>(kWindow, bytes.size() - done)));
}

void Cluster::read_state(const StateTensor& state, uint64_t offset, std::span<std::byte> to) {
  if (state_->rows && state_->rows->holds(state))
    return state_->rows->read(*state_, state, static_cast<int64_t>(offset), to);
  const StateMap& map = state_->map_of(state);
  for (size_t done = 0; done < to.size(); done += kWindow)
    state_->read_window(map, static_cast<int64_t>(offset + done),
                        to.subspan(done, std::min<size_t>(kWindow, to.size() - done)));
}

void Cluster::run_derive() {
  state_->on_devices([](ClusterDevice& device) { device.engine->prepare(); });
}

void Cluster::set_rows(std::unique_ptr<RowTables> tables) { state_->rows = std::move(tables); }
const RowTables* Cluster::rows() const { return state_->rows.get(); }

void Cluster::bring_rows(const RowsOfStep& rows, const RowsOfStep& next) {
  if (state_->rows->bring(*state_, rows, next)) run_derive();
}

std::vector<DeviceReads> Cluster::reads_of_step() const {
  std::vector<DeviceReads> all;
  for (const ClusterDevice& device : state_->devices)
    all.push_back(runtime::reads_of_step(state_->stage_of(device.number), device.number));
  return all;
}

std::vector<DeviceReads> Cluster::reads_of_request(std::string_view program, int64_t count) const {
  std::vector<DeviceReads> all;
  for (const ClusterDevice& device : state_->devices)
    all.push_back(runtime::reads_of_request(state_->stage_of(device.number), device.number, program, count));
  return all;
}

bool Cluster::has_program(std::string_view name) const {
  const Executable& exe = state_->stages[0];
  const int32_t program = exe.find_program(name);
  return program >= kFirstProgram && !exe.runs_in_step(program);
}

bool Cluster::holds(const StateTensor& state) const {
  return std::any_of(state_->devices.begin(), state_->devices.end(), [&](const ClusterDevice& device) {
    return state_->stage_of(device.number).find_state(state.name) >= 0;
  });
}

const ClusterResults& Cluster::run_step(int64_t step, const ClusterFeed& feed, std::span<const ScalarValue> scalars,
                                        const Wanted& wanted) {
  state_->check_wanted(wanted);
  state_->on_fed_devices([&](ClusterDevice& device) {
    device.results = &device.engine->run_step(step, state_->feed_of(device, feed), scalars);
  });
  state_->gather_step();
  state_->gather_tensors(step, wanted);
  return state_->results;
}

std::vector<ResultTensors> Cluster::run(std::string_view program, int64_t count, const ClusterFeed& feed,
                                        std::span<const ScalarValue> scalars, const Wanted& wanted) {
  return state_->run(program, count, feed, scalars, wanted);
}

std::optional<std::string> Cluster::find_first_nonfinite(int64_t step, const ClusterFeed& feed,
                                                         std::span<const ScalarValue> scalars) {
  state_->on_fed_devices([&](ClusterDevice& device) {
    device.nonfinite = device.engine->find_first_nonfinite(step, state_->feed_of(device, feed), scalars);
  });
  return state_->first_nonfinite();
}

std::vector<NumericsRecord> Cluster::survey_numerics(int64_t step, const ClusterFeed& feed,
                                                     std::span<const ScalarValue> scalars, int gradient_parts) {
  return state_->survey_numerics(step, feed, scalars, gradient_parts);
}

bool Cluster::any(bool yes) {
  if (state_->ranks == 1) return yes;
  std::vector<std::vector<double>> flags(static_cast<size_t>(mesh().devices()));
  for (const ClusterDevice& device : state_->devices) flags[static_cast<size_t>(device.number)] = {yes ? 1.0 : 0.0};
  state_->exchange(flags);
  return std::any_of(flags.begin(), flags.end(), [](const auto& flag) { return flag[0] != 0; });
}

std::string Cluster::share_text(std::string text) { return state_->share_text(0, std::move(text)); }

void Cluster::stop(std::string_view reason) noexcept {
  if (!state_->transports.empty()) state_->transports[0]->stop(reason);
}

bool Cluster::stopped() const { return !state_->transports.empty() && state_->transports[0]->stopped(); }

std::vector<ProfileRow> Cluster::profile_by_kernel(int device) const {
  const ClusterDevice* found = state_->local(device);
  return found ? found->engine->profile_by_kernel() : std::vector<ProfileRow>{};
}

MeasuredTimes Cluster::measured_times(int device) const {
  const ClusterDevice* found = state_->local(device);
  return found ? found->engine->measured_times() : MeasuredTimes{};
}

}  // namespace ramet::runtime
