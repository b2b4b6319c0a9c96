#include "ramet/serve/assets.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/serve/gzip.h"
#include "ramet/serve/url.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".json", "application/json"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".ico", "image/x-icon"},
    {".woff2", "font/woff2"},
    {".wasm", "application/wasm"},
    {".txt", "text/plain; charset=utf-8"},
    {".map", "application/json"},
    {".webmanifest", "application/manifest+json"},
}};

/// Every part is a plain name: no "..", nothing hidden.
bool is_asset_name(std::string_view name) {
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (!is_file_name(part) || part.starts_with('.')) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

std::string content_type_of(std::string_view name) {
  for (const auto& [end, type] : kTypes)
    if (name.ends_with(end)) return std::string(type);
  return "application/octet-stream";
}

PageFiles::PageFiles(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (!folder_.empty() && !fs::is_directory(folder_, error))
    throw Error({.what = "no such folder", .where = "--ui-dir", .found = "'" + folder_.string() + "'"});
}

std::optional<PageFiles::File> PageFiles::find(const std::string& name) const {
  if (!is_asset_name(name)) return std::nullopt;
  if (folder_.empty()) {
    for (const auto& asset : embedded_assets())
      if (asset.name == name) return File{std::string(asset.bytes), asset.compressed};
    return std::nullopt;
  }
  std::error_code error;
  for (const bool compressed : {false, true})
    if (const fs::path path = folder_ / (name + (compressed ? ".gz" : "")); fs::is_regular_file(path, error))
      return File{read_file(path), compressed};
  return std::nullopt;
}

std::optional<std::string> PageFiles::text(const std::string& name) const {
  auto file = find(name);
  if (!file) return std::nullopt;
  return file->compressed ? gunzip(file->bytes) : std::move(file->bytes);
}

std::optional<HttpResponse> PageFiles::answer(const std::string& name, std::string_view accept_encoding) const {
  auto file = find(name);
  if (!file) return std::nullopt;
  HttpResponse response;
  response.headers = {{"Content-Type", content_type_of(name)}, {"Vary", "Accept-Encoding"}};
  // Names of the build's assets change with their contents.
  const bool hashed = name.starts_with("assets/") && folder_.empty();
  response.headers.emplace_back("Cache-Control", hashed ? "public, max-age=31536000, immutable" : "no-cache");
  if (file->compressed && takes_gzip(accept_encoding)) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = std::move(file->bytes);
  } else {
    response.body = file->compressed ? gunzip(file->bytes) : std::move(file->bytes);
  }
  return response;
}

}  // namespace ramet::serve
