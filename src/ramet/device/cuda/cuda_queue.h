#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ramet/device/cuda/cuda_kernel.h"
#include "ramet/device/cuda/recorded_order.h"
#include "ramet/device/cuda/staged_copies.h"
#include "ramet/device/cuda/timeline.h"

namespace ramet::device {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int threads);
  ~CudaDevice() override;

  std::string_view name() const override { return "cuda"; }
  bool addressable() const override { return false; }
  /// False where RAMET_CUDA_GRAPHS is "off": each kernel is then given by itself, which helps to find a faulty one.
  bool gains_by_replay() const override { return graphs_; }
  /// Whether what is recorded depends on what it touches alone: RAMET_CUDA_GRAPHS=free.
  bool reorders() const { return reorders_; }
  int threads() const override { return team_.size(); }
  std::unique_ptr<Queue> make_queue() override;

  ThreadTeam& team() { return team_; }
  const std::shared_ptr<CudaShared>& shared() const { return shared_; }
  using Device::check_range;
  using Device::is_device;
  using Device::is_pinned;

 protected:
  std::byte* allocate(int64_t bytes, Memory kind, const char* what) override;
  void release(std::byte* data, Memory kind) noexcept override;

 private:
  std::byte* allocate_aligned(int64_t bytes, Memory kind, const char* what);

  ThreadTeam team_;
  const bool graphs_, reorders_;
  CuStream stream_ = nullptr;  // for zeroing
  std::shared_ptr<CudaShared> shared_;
  std::map<std::byte*, void*> begins_;  // of blocks that had to be aligned
};

/// Work that was recorded: a graph.
class CudaProgram final : public CapturedProgram {
 public:
  explicit CudaProgram(std::shared_ptr<FaultBox> faults) : faults_(std::move(faults)) {}
  ~CudaProgram() override;
  /// Takes the graph that was recorded.
  void set(CuGraph graph);

  const std::shared_ptr<FaultBox>& faults() const { return faults_; }
  CuGraphExec exec() const { return exec_; }
  bool reports = false;  ///< one of its kernels may report faults
  RecordedOrder order;

 private:
  std::shared_ptr<FaultBox> faults_;
  CuGraphExec exec_ = nullptr;
};

class CudaQueue final : public Queue, public CudaStream {
 public:
  explicit CudaQueue(CudaDevice& device);
  ~CudaQueue() override;

  // Queue
  void copy_in(std::byte* to, const void* from, int64_t bytes) override;
  void copy_out(void* to, const std::byte* from, int64_t bytes) override;
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override;
  void copy_from(std::byte* to, Device& other, const std::byte* from, int64_t bytes) override;
  void fill(std::byte* to, uint8_t value, int64_t bytes) override;
  void transpose(std::byte* to, const std::byte* from, int64_t rows, int64_t columns, int64_t bytes) override;
  void add(std::byte* to, const std::byte* from, DType dtype, int64_t count) override;
  void launch(const Kernel& kernel, const KernelOperands& operands) override;
  void stamp(double* seconds) override;
  Event record() override;
  void wait_for(const Event& event) override;
  bool done(const Event& event) override;
  void wait(const Event& event) override;
  void begin_capture() override;
  std::unique_ptr<CapturedProgram> end_capture() override;
  void replay(const CapturedProgram& program) override;

  // CudaStream
  void fill(void* to, uint8_t value, int64_t bytes) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void copy_out_now(void* to, const void* from, int64_t bytes) override;
  void copy_in_now(void* to, const void* from, int64_t bytes) override;
  ThreadTeam& team() override { return device_.team(); }
  std::byte* host_room(int64_t bytes) override;
  CudaFault* faults() override { return box()->data(); }
  unsigned number_of(const CudaKernel& kernel) override;

 protected:
  void launch_bytes(const CudaFunction& function, const CudaGrid& grid, const void* arguments, size_t bytes) override;

 private:
  using Queue::wait;
  void refuse_in_capture(const char* method) const;
  void check_operand(const void* operand) const;
  void launch_own(const char* function, int64_t count, const void* arguments, size_t bytes);
  /// To be called where work is given.
  void begin_work();
  /// Whether work is being recorded that depends on what it touches alone.
  bool orders() const;
  /// Gives work; what is recorded is done behind what it must be, and no more.
  void give(const Touched& touched, const std::function<void()>& work);
  const std::shared_ptr<FaultBox>& box() const { return program_ ? program_->faults() : faults_; }

  CudaDevice& device_;
  CuStream stream_ = nullptr;
  std::shared_ptr<CudaTimeline> timeline_;
  std::shared_ptr<FaultBox> faults_;
  std::unique_ptr<CudaProgram> program_;           // while recording
  std::map<std::string, CudaFunction> functions_;  // of queue.cu
  DeviceMemory room_;
  StagedCopies staged_;
};

}  // namespace ramet::device
