#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "ramet/serve/access.h"
#include "ramet/serve/http.h"
#include "ramet/track/catalogue.h"

namespace ramet::serve {

struct PageServerOptions {
  std::filesystem::path runs = "runs";
  HttpOptions http;
  AccessOptions access;
  bool read_only = false;          ///< refuses every change
  std::filesystem::path ui_dir{};  ///< files of the page, instead of those of the build
};

/// Whether an address is this machine's alone: "127.0.0.1", "::1", "localhost".
bool is_loopback(const std::string& host);
/// Where sessions of a server on this folder and port are kept: below XDG_STATE_HOME or ~/.local/state; "" where there
/// is no such place.
std::filesystem::path session_file_of(const std::filesystem::path& runs, int port);

/// `ramet serve`: the page, its API and the live events, over the runs of a folder. Every request is checked for its
/// Host and Origin, then for a session, before anything looks at what it asks for.
class PageServer {
 public:
  /// Indexes the runs, then serves until the object ends. Throws Error when the folder is not there, when the address
  /// cannot be had, and when others than this machine could come without a token.
  explicit PageServer(PageServerOptions options, const IndexProgress& progress = {});
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const;
  /// "http://127.0.0.1:8420"
  const std::string& url() const;
  /// The address for one browser, once: with a token, where one is asked for.
  std::string link() const;
  /// Why the catalogue is in memory, or "".
  std::string remark() const;
  bool has_page() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::serve
