#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ramet/track/run_log.h"

namespace ramet::track {

/// Reads what this host and this process do: cpu_percent (of all processors), memory_bytes and memory_available_bytes,
/// disk_read_bytes_per_second and disk_write_bytes_per_second (of all disks), disk_free_bytes (where the run lies),
/// network_receive_bytes_per_second and network_send_bytes_per_second (without the loopback), process_memory_bytes,
/// process_cpu_percent (100: one processor), and of each GPU that NVIDIA's library finds, by number: gpu0_percent,
/// gpu0_memory_bytes, gpu0_watts, gpu0_celsius. What a system does not tell is left out.
class SystemReader {
 public:
  /// `disk`: a path on the disk whose free bytes count.
  explicit SystemReader(std::filesystem::path disk);
  ~SystemReader();
  /// Rates are means since the last call; the first call gives none.
  std::vector<LoggedNumber> read();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes a sample every so many seconds to RUN/system/HOST-RANK.ramet, and one at the end: the shortest run has one
/// too. The steps of the log are the numbers of the samples. A thread of its own reads: no training waits for it. Where
/// the file cannot be opened, nothing is written; never throws.
class SystemSampler {
 public:
  /// `seconds` > 0; otherwise it does nothing.
  SystemSampler(const std::filesystem::path& run, int rank, double seconds);
  ~SystemSampler();
  SystemSampler(const SystemSampler&) = delete;
  SystemSampler& operator=(const SystemSampler&) = delete;
  /// Why nothing is written, or "".
  const std::string& problem() const { return problem_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string problem_;
};

/// "HOST-RANK.ramet", with only characters that file names may have everywhere.
std::string system_log_name(int rank);

}  // namespace ramet::track
