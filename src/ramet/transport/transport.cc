#include "ramet/transport/transport.h"

#include <fmt/format.h>

#include <algorithm>

namespace ramet::transport {

namespace {

/// Orders progress: nothing finished comes first.
uint64_t rank_of(const Progress& progress) { return progress.finished == Progress::kNone ? 0 : progress.finished + 1; }

std::string one_text(const Transport& transport, int device, const Progress& progress,
                     const std::function<std::string(int, int)>& label_text) {
  const std::string name = transport.text_of(device);
  if (progress.finished == Progress::kNone) return fmt::format("{} has finished no superstep yet", name);
  std::string label;
  if (label_text && progress.label >= 0) label = label_text(device, progress.label);
  return label.empty() ? fmt::format("{} last finished superstep {}", name, progress.finished)
                       : fmt::format("{} last finished superstep {} ({})", name, progress.finished, label);
}

}  // namespace

std::string progress_text(const Transport& transport, std::span<const int> awaited,
                          const std::function<std::string(int device, int label)>& label_text) {
  constexpr size_t kMostNamed = 3;
  std::vector<int> candidates(awaited.begin(), awaited.end()), others;
  std::erase(candidates, transport.device());
  for (int device = 0; device < transport.devices(); ++device)
    if (device != transport.device()) others.push_back(device);
  if (candidates.empty()) candidates = others;
  if (candidates.empty()) return "";
  std::vector<Progress> all;
  all.reserve(static_cast<size_t>(transport.devices()));
  for (int device = 0; device < transport.devices(); ++device) all.push_back(transport.progress_of(device));
  const auto progress = [&](int device) -> const Progress& { return all[static_cast<size_t>(device)]; };

  // A device that waits is held up by another one. So the cause is among the devices that do not wait: the one furthest
  // behind. When all awaited devices wait themselves, the cause is elsewhere.
  std::vector<int> late;
  for (const std::vector<int>* among : {&candidates, &others})
    if (late.empty())
      std::copy_if(among->begin(), among->end(), std::back_inserter(late),
                   [&](int device) { return !progress(device).waiting; });
  if (late.empty()) late = candidates;
  uint64_t least = UINT64_MAX;
  for (const int device : late) least = std::min(least, rank_of(progress(device)));
  std::erase_if(late, [&](int device) { return rank_of(progress(device)) != least; });

  std::string text;
  for (size_t i = 0; i < late.size() && i < kMostNamed; ++i)
    text += (i ? ", " : "") + one_text(transport, late[i], progress(late[i]), label_text);
  if (late.size() > kMostNamed) text += fmt::format(" and {} more so far", late.size() - kMostNamed);

  uint64_t first = UINT64_MAX, last = 0;
  for (int device = 0; device < transport.devices(); ++device) {
    if (std::find(late.begin(), late.end(), device) != late.end()) continue;
    // Of a device elsewhere nothing may have been heard so far.
    if (progress(device).finished == Progress::kNone &&
        transport.host_of(device) != transport.host_of(transport.device()))
      continue;
    first = std::min(first, rank_of(progress(device)));
    last = std::max(last, rank_of(progress(device)));
  }
  if (first == UINT64_MAX) return text;
  // The current superstep is the one after the last finished one.
  return text + (first == last ? fmt::format("; others wait in {}", last)
                               : fmt::format("; others wait in {} to {}", first, last));
}

}  // namespace ramet::transport
