#include "ramet/kernel/kernel.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ramet/base/error.h"
#include "ramet/base/verbose.h"

namespace ramet::kernel {
namespace {

/// Types that most fast kernels do not take.
bool is_rare(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kU32 ||
         dtype == DType::kU64;
}

/// RAMET_KERNELS=NAME allows only kernels of that name (the reference always remains). "host" are all that run on the
/// host for a device, "host:NAME".
const char* forced_kernel() { return std::getenv("RAMET_KERNELS"); }

bool is_allowed(std::string_view name, std::string_view forced) {
  constexpr std::string_view kHost = "host:";
  const bool host = name.starts_with(kHost);
  const std::string_view plain = host ? name.substr(kHost.size()) : name;
  return name == forced || plain == forced || plain == "reference" || (host && forced == "host");
}

}  // namespace

void Backend::add(KernelEntry entry) {
  if (!entry.any_type)
    entry.refuse = [own = std::move(entry.refuse)](const NodeSignature& node) {
      for (const auto* types : {&node.inputs, &node.outputs})
        for (const TensorType& type : *types)
          if (is_rare(type.dtype)) return "it takes no " + std::string(name_of(type.dtype));
      return own ? own(node) : std::string();
    };
  entries_[entry.op].push_back(std::move(entry));
}

const std::vector<KernelEntry>& Backend::entries(const std::string& op) const {
  static const std::vector<KernelEntry> none;
  const auto found = entries_.find(op);
  return found == entries_.end() ? none : found->second;
}

const KernelEntry& Backend::select(const NodeSignature& node, const std::string& name,
                                   std::vector<std::string>* skipped) const {
  const char* forced = name.empty() ? forced_kernel() : nullptr;
  std::string reasons;
  for (const KernelEntry& entry : entries(node.op->name)) {
    std::string reason;
    if (!name.empty() && entry.name != name)
      reason = "another kernel was asked for";
    else if (forced && !is_allowed(entry.name, forced))
      reason = "RAMET_KERNELS forbids it";
    else if (entry.refuse)
      reason = entry.refuse(node);
    if (reason.empty()) {
      if (is_verbose("dispatch"))
        std::fprintf(stderr, "ramet: dispatch %s -> %s%s\n", node.text().c_str(), entry.name.c_str(), reasons.c_str());
      return entry;
    }
    reasons += "; skipped " + entry.name + ": " + reason;
    if (skipped) skipped->push_back(entry.name + ": " + reason);
  }
  throw Error({.what = "no kernel for the node in " + kernel_class_ + reasons,
               .where = node.text(),
               .remedy = "Use types that the op supports, or another backend"});
}

KernelChoice Backend::choose(const NodeSignature& node, int threads) const {
  KernelChoice choice;
  const KernelEntry& entry = select(node, "", &choice.skipped);
  choice.name = entry.name;
  if (entry.scratch) choice.scratch_bytes = entry.scratch(node, threads);
  if (entry.may_alias) choice.may_alias = entry.may_alias(node);
  return choice;
}

std::optional<BlockedLayout> Backend::blocking(const NodeSignature& node, int index) const {
  const KernelEntry& entry = select(node, "", nullptr);
  return entry.blocking ? entry.blocking(node, index) : std::nullopt;
}

std::unique_ptr<Kernel> Backend::make(const NodeSignature& node, int threads, const std::string& name) const {
  return select(node, name, nullptr).make(node, threads);
}

}  // namespace ramet::kernel
