#include "ramet/device/cuda/faults.h"

#include <exception>
#include <string>

namespace ramet::device {

static_assert(sizeof(CudaFault) <= SlotPool::kSlotBytes);

SlotPool::~SlotPool() {
  for (std::byte* block : blocks_) release_(block);
}

std::byte* SlotPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    std::byte* block = allocate_(kBlockBytes);
    blocks_.push_back(block);
    for (size_t at = kBlockBytes; at > 0; at -= kSlotBytes) free_.push_back(block + at - kSlotBytes);
  }
  std::byte* slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotPool::give_back(std::byte* slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

FaultBox::FaultBox(std::shared_ptr<SlotPool> device_slots, CuStream stream) : slot_(std::move(device_slots)) {
  clear(stream);
}

void FaultBox::clear(CuStream stream) const { cuda_driver().memset_d8_async(address(), 0, sizeof(CudaFault), stream); }

unsigned FaultBox::number_of(const CudaKernel& kernel) {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = numbers_.try_emplace(&kernel, static_cast<unsigned>(kernels_.size() + 1));
  if (is_new) kernels_.push_back(&kernel);
  return known->second;
}

std::exception_ptr FaultBox::failure_of(const CudaFault& fault) const {
  const std::lock_guard lock(mutex_);
  if (fault.kernel <= kernels_.size()) return std::make_exception_ptr(kernels_[fault.kernel - 1]->error_of(fault));
  try {
    internal_error("FaultBox", "a fault of kernel " + std::to_string(fault.kernel) + ", which is none");
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace ramet::device
