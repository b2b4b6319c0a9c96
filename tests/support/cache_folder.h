#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace ramet::tests {

/// While it lives, what Ramet keeps between processes is in a folder of its own.
class OwnCache {
 public:
  explicit OwnCache(const std::filesystem::path& folder) {
    if (const char* before = std::getenv(kName)) before_ = before;
    ::setenv(kName, folder.c_str(), 1);
  }
  ~OwnCache() {
    if (before_)
      ::setenv(kName, before_->c_str(), 1);
    else
      ::unsetenv(kName);
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

 private:
  static constexpr const char* kName = "XDG_CACHE_HOME";
  std::optional<std::string> before_;
};

}  // namespace ramet::tests
