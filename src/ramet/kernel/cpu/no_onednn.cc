// Stands in for onednn.cc in builds without oneDNN.
#include "ramet/base/error.h"
#include "ramet/kernel/cpu/onednn.h"

namespace ramet::kernel::onednn {

struct Gemm::Parts {};

bool built() { return false; }

// No primitive runs here, so OpenMP's number of threads does not matter.
OneThread::OneThread() : before_(1) {}
OneThread::~OneThread() = default;

int64_t preferred_block(DType, int64_t, int64_t) { return 0; }

std::unique_ptr<Gemm> Gemm::make(const GemmShape&, int, std::string* why) {
  if (why) *why = "this build of Ramet has no oneDNN";
  return nullptr;
}

Gemm::Gemm(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Gemm::~Gemm() = default;

const std::string& Gemm::implementation() const { internal_error("onednn::Gemm", "a product of a library not built"); }
int64_t Gemm::scratch_bytes() const { return 0; }
void Gemm::run(int, const void*, const void*, const void*, void*, void*) const {
  internal_error("onednn::Gemm::run", "a product of a library not built");
}

std::string version() { return "none"; }
void limit_isa(CpuLevel) {}

}  // namespace ramet::kernel::onednn
