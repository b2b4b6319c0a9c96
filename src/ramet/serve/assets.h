#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ramet/serve/http.h"

namespace ramet::serve {

/// A file of the page, built into the program (cmake/assets.cmake).
struct PageAsset {
  std::string_view name;  ///< "index.html", "assets/app-1a2b.js": without ".gz"
  std::string_view bytes;
  bool compressed = false;  ///< the bytes are gzip
};
/// All of ui/dist, by name; empty in a build without a page.
std::span<const PageAsset> embedded_assets();

/// The files of the page: those of the build, or those of a folder, read at each request.
class PageFiles {
 public:
  /// "": those of the build. Throws Error when there is no such folder.
  explicit PageFiles(std::filesystem::path folder = {});

  /// Answers "index.html" and so on; nullopt when there is no such file. `accept_encoding` decides whether it goes out
  /// compressed.
  std::optional<HttpResponse> answer(const std::string& name, std::string_view accept_encoding) const;
  /// A file's text, unpacked.
  std::optional<std::string> text(const std::string& name) const;
  /// Whether there is a page at all.
  bool has_page() const { return text("index.html").has_value(); }

 private:
  struct File {
    std::string bytes;
    bool compressed = false;
  };
  std::optional<File> find(const std::string& name) const;
  std::filesystem::path folder_;
};

/// The Content-Type of a file by the end of its name; application/octet-stream when it is not known.
std::string content_type_of(std::string_view name);

}  // namespace ramet::serve
