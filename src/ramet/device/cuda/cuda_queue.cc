#include "ramet/device/cuda/cuda_queue.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/verbose.h"
#include "ramet/device/cuda/code.h"
#include "ramet/device/cuda/device_files.h"
#include "ramet/device/cuda/queue_arguments.h"
#include "ramet/device/host_work.h"

namespace ramet::device {
namespace {

/// The widest word of 16 bytes or fewer that all of these are multiples of.
int64_t word_of(int64_t bytes, const void* to, const void* from) {
  for (int64_t word = 16; word > 1; word /= 2)
    if (bytes % word == 0 && address_of(to) % static_cast<uint64_t>(word) == 0 &&
        address_of(from) % static_cast<uint64_t>(word) == 0)
      return word;
  return 1;
}

/// What a launch of a kernel reads and writes.
Touched touched_by(const CudaKernel& kernel, const KernelOperands& operands) {
  const CudaKernel::OperandBytes& bytes = kernel.operand_bytes();
  Touched touched;
  touched.everything = bytes.inputs.size() != operands.inputs.size() || bytes.outputs.size() != operands.outputs.size();
  if (touched.everything) return touched;
  for (size_t i = 0; i < bytes.inputs.size(); ++i) touched.reads.emplace_back(operands.inputs[i], bytes.inputs[i]);
  for (size_t i = 0; i < bytes.outputs.size(); ++i) touched.writes.emplace_back(operands.outputs[i], bytes.outputs[i]);
  touched.writes.emplace_back(operands.scratch, bytes.scratch);
  return touched;
}

}  // namespace

CudaProgram::~CudaProgram() {
  if (exec_) cuda_driver().graph_exec_destroy.attempt(exec_);
}

void CudaProgram::set(CuGraph graph) {
  const CudaDriver& driver = cuda_driver();
  const CuResult result = driver.graph_instantiate.attempt(&exec_, graph, 0);
  driver.graph_destroy.attempt(graph);
  if (result) fail_cuda(driver.graph_instantiate.name(), result);
}

CudaQueue::CudaQueue(CudaDevice& device) : device_(device) {
  cuda_card().make_current();
  cuda_driver().stream_create(&stream_, kCuStreamNonBlocking);
  timeline_ = std::make_shared<CudaTimeline>(device.shared(), stream_);
  faults_ = std::make_shared<FaultBox>(device.shared()->device_slots, stream_);
}

CudaQueue::~CudaQueue() {
  const CudaDriver& driver = cuda_driver();
  driver.ctx_set_current.attempt(cuda_card().context);
  if (CuGraph graph = nullptr; program_ && driver.stream_end_capture.attempt(stream_, &graph) == 0 && graph)
    driver.graph_destroy.attempt(graph);
  timeline_->close();
  driver.stream_destroy.attempt(stream_);
}

void CudaQueue::begin_work() {
  cuda_card().make_current();
  if (!program_) timeline_->note_work();
}

bool CudaQueue::orders() const {
  return program_ && device_.reorders() && cuda_driver().stream_update_capture_dependencies.exists();
}

void CudaQueue::give(const Touched& touched, const std::function<void()>& work) {
  if (!orders()) return work();
  const CudaDriver& driver = cuda_driver();
  std::vector<CuGraphNode> before = program_->order.before(touched);
  CuGraphNode none = nullptr;
  driver.stream_update_capture_dependencies(stream_, before.empty() ? &none : before.data(), before.size(),
                                            kCuSetCaptureDependencies);
  work();
  int status = 0;
  unsigned long long id = 0;
  CuGraph graph = nullptr;
  const CuGraphNode* last = nullptr;
  size_t count = 0;
  driver.stream_get_capture_info(stream_, &status, &id, &graph, &last, &count);
  // Where nothing was given, what the next work would be behind has not changed.
  if (count != 1 || std::find(before.begin(), before.end(), last[0]) != before.end()) return;
  program_->order.note(touched, last[0]);
}

void CudaQueue::refuse_in_capture(const char* method) const {
  if (program_)
    throw Error({.what = "this cannot be recorded", .where = std::string("cuda device, ") + method},
                ErrorKind::kFailure);
}

// --- copies ---

void CudaQueue::copy_in(std::byte* to, const void* from, int64_t bytes) {
  device_.check_range(to, bytes, "copy_in");
  const bool pinned = device_.is_pinned(from, bytes);
  if (!pinned) refuse_in_capture("copy_in from plain memory");
  if (bytes == 0) return;
  cuda_card().make_current();
  const bool staged = !pinned && bytes <= StagedCopies::kMost;
  if (staged) from = staged_.stage(*timeline_, from, bytes);
  begin_work();
  give({.reads = {{from, bytes}}, .writes = {{to, bytes}}},
       [&] { cuda_driver().memcpy_htod_async(address_of(to), from, static_cast<size_t>(bytes), stream_); });
  if (!pinned && !staged) cuda_driver().stream_synchronize(stream_);  // the driver may read it until then
}

void CudaQueue::copy_out(void* to, const std::byte* from, int64_t bytes) {
  device_.check_range(from, bytes, "copy_out");
  const bool pinned = device_.is_pinned(to, bytes);
  if (!pinned) refuse_in_capture("copy_out to plain memory");
  if (bytes > 0) {
    begin_work();
    give({.reads = {{from, bytes}}, .writes = {{to, bytes}}},
         [&] { cuda_driver().memcpy_dtoh_async(to, address_of(from), static_cast<size_t>(bytes), stream_); });
  }
  if (!pinned) Queue::wait();
}

void CudaQueue::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  device_.check_range(to, bytes, "copy");
  device_.check_range(from, bytes, "copy");
  give({.reads = {{from, bytes}}, .writes = {{to, bytes}}},
       [&] { copy(static_cast<void*>(to), static_cast<const void*>(from), bytes); });
}

void CudaQueue::copy(void* to, const void* from, int64_t bytes) {
  if (to == from || bytes == 0) return;
  begin_work();
  cuda_driver().memcpy_dtod_async(address_of(to), address_of(from), static_cast<size_t>(bytes), stream_);
}

/// Devices of this kind are one card, whose addresses are the same for all.
void CudaQueue::copy_from(std::byte* to, Device& other, const std::byte* from, int64_t bytes) {
  refuse_in_capture("copy_from");
  device_.check_range(to, bytes, "copy_from");
  if (const auto* same = dynamic_cast<CudaDevice*>(&other)) {
    same->check_range(from, bytes, "copy_from");
    return copy(static_cast<void*>(to), static_cast<const void*>(from), bytes);
  }
  if (other.addressable()) return copy_in(to, from, bytes);
  std::vector<std::byte> room(static_cast<size_t>(bytes));
  other.make_queue()->copy_out(room.data(), from, bytes);
  copy_in(to, room.data(), bytes);
}

void CudaQueue::fill(std::byte* to, uint8_t value, int64_t bytes) {
  device_.check_range(to, bytes, "fill");
  give({.reads = {}, .writes = {{to, bytes}}}, [&] { fill(static_cast<void*>(to), value, bytes); });
}

void CudaQueue::fill(void* to, uint8_t value, int64_t bytes) {
  if (bytes == 0) return;
  begin_work();
  cuda_driver().memset_d8_async(address_of(to), value, static_cast<size_t>(bytes), stream_);
}

// --- kernels ---

void CudaQueue::launch_own(const char* function, int64_t count, const void* arguments, size_t bytes) {
  constexpr int kThreads = 256;
  CudaFunction& loaded = functions_[function];
  if (!loaded.handle) loaded = load_cuda_function(cuda_device_source("queue.cu"), function);
  const int64_t blocks = std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, cuda_card().multiprocessors * 8);
  launch_bytes(loaded, {.x = blocks, .threads = count == 1 ? 1 : kThreads}, arguments, bytes);
}

void CudaQueue::transpose(std::byte* to, const std::byte* from, int64_t rows, int64_t columns, int64_t bytes) {
  device_.check_range(to, rows * columns * bytes, "transpose");
  device_.check_range(from, rows * columns * bytes, "transpose");
  if (rows * columns * bytes == 0) return;
  const int64_t word = word_of(bytes, to, from);
  const ramet_device::TransposeArguments arguments{from, to, rows, columns, bytes / word};
  give({.reads = {{from, rows * columns * bytes}}, .writes = {{to, rows * columns * bytes}}}, [&] {
    launch_own(("transpose_" + std::to_string(word)).c_str(), rows * columns * bytes / word, &arguments,
               sizeof arguments);
  });
}

void CudaQueue::add(std::byte* to, const std::byte* from, DType dtype, int64_t count) {
  check_sum_type(dtype);
  device_.check_range(to, count * static_cast<int64_t>(size_of(dtype)), "add");
  device_.check_range(from, count * static_cast<int64_t>(size_of(dtype)), "add");
  if (count == 0) return;
  const ramet_device::AddArguments arguments{from, to, count};
  const int64_t bytes = count * static_cast<int64_t>(size_of(dtype));
  give({.reads = {{from, bytes}, {to, bytes}}, .writes = {{to, bytes}}},
       [&] { launch_own(("add_" + std::string(name_of(dtype))).c_str(), count, &arguments, sizeof arguments); });
}

void CudaQueue::check_operand(const void* operand) const {
  if (operand && !device_.is_device(operand, 0))
    throw Error({.what = "an address is not in the device's memory",
                 .where = "cuda device, launch",
                 .found = std::to_string(reinterpret_cast<uintptr_t>(operand))},
                ErrorKind::kFailure);
}

void CudaQueue::launch(const Kernel& kernel, const KernelOperands& operands) {
  for (const void* input : operands.inputs) check_operand(input);
  for (const void* output : operands.outputs) check_operand(output);
  check_operand(operands.scratch);
  const auto* mine = dynamic_cast<const CudaKernel*>(&kernel);
  if (!mine) internal_error("CudaQueue::launch", "a kernel of another kind of device");
  if (!orders()) return mine->launch(*this, operands);
  give(touched_by(*mine, operands), [&] { mine->launch(*this, operands); });
}

void CudaQueue::launch_bytes(const CudaFunction& function, const CudaGrid& grid, const void* arguments, size_t) {
  begin_work();
  launch_on(stream_, function, grid, arguments);
}

unsigned CudaQueue::number_of(const CudaKernel& kernel) {
  if (program_)
    program_->reports = true;
  else
    timeline_->note_reports(faults_);
  return box()->number_of(kernel);
}

// --- kernels that run on the host ---

void CudaQueue::copy_out_now(void* to, const void* from, int64_t bytes) {
  refuse_in_capture("a kernel that runs on the host");
  Queue::wait();
  if (bytes == 0) return;
  cuda_driver().memcpy_dtoh_async(to, address_of(from), static_cast<size_t>(bytes), stream_);
  cuda_driver().stream_synchronize(stream_);
}

void CudaQueue::copy_in_now(void* to, const void* from, int64_t bytes) {
  refuse_in_capture("a kernel that runs on the host");
  if (bytes == 0) return;
  begin_work();
  cuda_driver().memcpy_htod_async(address_of(to), from, static_cast<size_t>(bytes), stream_);
  cuda_driver().stream_synchronize(stream_);
}

std::byte* CudaQueue::host_room(int64_t bytes) {
  if (room_.bytes() < bytes) {
    room_.reset();
    room_ = device_.take(bytes, Memory::kPinned, "memory for kernels that run on the host");
  }
  return room_.data();
}

// --- order ---

void CudaQueue::stamp(double* seconds) {
  refuse_in_capture("stamp");
  auto slot = std::make_unique<Slot>(device_.shared()->pinned_slots);
  const ramet_device::StampArguments arguments{reinterpret_cast<unsigned long long*>(slot->data())};
  launch_own("stamp", 1, &arguments, sizeof arguments);
  timeline_->note_stamp(seconds, std::move(slot));
}

Event CudaQueue::record() {
  refuse_in_capture("record");
  cuda_card().make_current();
  return {this, timeline_->mark()};
}

void CudaQueue::wait_for(const Event& event) {
  refuse_in_capture("wait_for");
  if (event.queue == this || !event.queue) return;  // earlier work is done first
  const auto* other = dynamic_cast<const CudaQueue*>(event.queue);
  if (!other) internal_error("Queue::wait_for", "an event of another kind of device");
  cuda_card().make_current();
  timeline_->follow(other->timeline_, event.number);
}

bool CudaQueue::done(const Event& event) {
  cuda_card().make_current();
  return timeline_->done(event.number);
}

void CudaQueue::wait(const Event& event) {
  refuse_in_capture("wait");
  if (event.queue && event.queue != this) internal_error("Queue::wait", "an event of another queue");
  cuda_card().make_current();
  timeline_->wait(event.number);
}

// --- recording ---

void CudaQueue::begin_capture() {
  refuse_in_capture("begin_capture");
  cuda_card().make_current();
  auto program = std::make_unique<CudaProgram>(std::make_shared<FaultBox>(device_.shared()->device_slots, stream_));
  cuda_driver().stream_synchronize(stream_);  // other queues may replay it
  cuda_driver().stream_begin_capture(stream_, kCuCaptureRelaxed);
  program_ = std::move(program);
}

std::unique_ptr<CapturedProgram> CudaQueue::end_capture() {
  if (!program_) internal_error("Queue::end_capture", "nothing is being recorded");
  auto program = std::exchange(program_, nullptr);
  CuGraph graph = nullptr;
  cuda_driver().stream_end_capture(stream_, &graph);
  program->set(graph);
  if (device_.reorders() && is_verbose("dispatch"))
    std::fprintf(stderr, "ramet: cuda records %d calls, the longest line of them has %d\n", program->order.nodes(),
                 program->order.longest_line());
  return program;
}

void CudaQueue::replay(const CapturedProgram& program) {
  refuse_in_capture("replay");
  const auto& mine = static_cast<const CudaProgram&>(program);
  begin_work();
  cuda_driver().graph_launch(mine.exec(), stream_);
  if (mine.reports) timeline_->note_reports(mine.faults());
}

}  // namespace ramet::device
