#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ramet/device/kernel_call.h"
#include "ramet/program/kernel_library.h"

namespace ramet::kernel {

/// One implementation of one op.
struct KernelEntry {
  std::string op;
  std::string name;  ///< "reference", "hwy", "onednn"
  /// Why this kernel does not take the node; "" when it does.
  std::function<std::string(const NodeSignature& node)> refuse;
  std::function<std::unique_ptr<Kernel>(const NodeSignature& node, int threads)> make;
  std::function<int64_t(const NodeSignature& node, int threads)> scratch{};                ///< empty: none
  std::function<std::vector<std::pair<int, int>>(const NodeSignature& node)> may_alias{};  ///< empty: none
  std::function<std::optional<BlockedLayout>(const NodeSignature& node, int input)> blocking{};
  /// Whether `refuse` is asked about operands of every element type. Otherwise Backend::add lets the kernel refuse f64,
  /// i8, i16, u32 and u64.
  bool any_type = false;
};

/// A backend: for each op an ordered list of kernels, best first, reference last. RAMET_VERBOSE=dispatch prints every
/// choice and why better ones were skipped; RAMET_KERNELS=reference forces the reference.
class Backend : public KernelLibrary {
 public:
  explicit Backend(std::string kernel_class) : kernel_class_(std::move(kernel_class)) {}
  void add(KernelEntry entry);  ///< after all entries of the same op that are better

  KernelChoice choose(const NodeSignature& node, int threads) const override;
  std::optional<BlockedLayout> blocking(const NodeSignature& node, int index) const override;
  std::string kernel_class() const override { return kernel_class_; }

  /// The kernel that `choose` chose (or, with `name` given, the one of that name).
  std::unique_ptr<Kernel> make(const NodeSignature& node, int threads, const std::string& name = "") const;
  const std::vector<KernelEntry>& entries(const std::string& op) const;

 private:
  const KernelEntry& select(const NodeSignature& node, const std::string& name,
                            std::vector<std::string>* skipped) const;
  std::string kernel_class_;
  std::map<std::string, std::vector<KernelEntry>> entries_;
};

/// The oracle: every op in plain loops of double, any dtype, one thread (kernel/reference/).
const Backend& reference_backend();
/// CPU kernels for the processor at hand, with the reference behind them (kernel/cpu/).
const Backend& cpu_backend();

}  // namespace ramet::kernel
