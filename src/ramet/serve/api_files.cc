#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/serve/handlers.h"
#include "ramet/serve/run_json.h"
#include "ramet/serve/trace.h"
#include "ramet/track/run_record.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;

/// Types that a browser may show. Everything else is offered as a file: a run may hold what a stranger wrote.
constexpr std::array<std::string_view, 9> kShown = {"image/png",  "image/jpeg",    "image/webp",
                                                    "image/gif",  "image/svg+xml", "image/avif",
                                                    "text/plain", "text/markdown", "application/json"};

std::string without_parameters(const std::string& type) {
  std::string plain = type.substr(0, type.find(';'));
  while (!plain.empty() && plain.back() == ' ') plain.pop_back();
  return plain;
}

/// "attachment; filename*=UTF-8''..." for any name.
std::string attachment(const std::string& name) {
  const size_t slash = name.find_last_of("/\\");
  std::string last = slash == std::string::npos ? name : name.substr(slash + 1);
  if (last.empty()) last = "file";
  return "attachment; filename*=UTF-8''" + percent_encode(last.substr(0, 200));
}

std::string text_or_throw(const fs::path& folder, const fs::path& file, const std::string& name) {
  auto text = file.empty() ? std::nullopt : read_inside(folder, file);
  if (!text) throw Error({.what = "the run has no such file", .where = folder.filename().string(), .found = name});
  return std::move(*text);
}

HttpResponse file_response(ApiCall& call, const std::string& name) {
  call.query.finish();
  const auto folder = call.context.store.run_folder(call.arguments.at(0));
  const fs::path file = run_file(folder, name);
  const bool is_text = name == "recipe";
  return {.headers = {{"Content-Type", is_text ? "text/plain; charset=utf-8" : "application/json"}},
          .body = text_or_throw(folder, file, "'" + name.substr(0, 80) + "'")};
}

}  // namespace

HttpResponse get_file(ApiCall& call) { return file_response(call, call.arguments.at(1)); }
HttpResponse get_numerics(ApiCall& call) { return file_response(call, "numerics/" + call.arguments.at(1)); }

HttpResponse get_trace(ApiCall& call) {
  call.query.finish();
  const auto& id = call.arguments.at(0);
  const auto folder = call.context.store.run_folder(id);
  const std::string program = text_or_throw(folder, run_file(folder, "program"), "program");
  const std::string times = text_or_throw(folder, run_file(folder, "times"), "times");
  return {
      .headers = {{"Content-Type", "application/octet-stream"}, {"Content-Disposition", attachment(id + ".pftrace")}},
      .body = step_trace(program, times)};
}

HttpResponse get_media(ApiCall& call) {
  call.query.finish();
  const auto& id = call.arguments.at(0);
  (void)call.context.store.run_folder(id);
  return json_response(media_json(*call.context.store.read(), id));
}

HttpResponse get_artifact(ApiCall& call) {
  call.query.finish();
  const auto& id = call.arguments.at(0);
  const auto& hash = call.arguments.at(1);
  if (!is_hash(hash)) throw HttpFailure(400, "An artifact is named by 32 hexadecimal digits.");
  const auto folder = call.context.store.run_folder(id);
  std::string type, name = hash;
  for (const auto& media : call.context.store.read()->media(id))
    if (media.artifact == hash) type = without_parameters(media.type), name = media.name;
  HttpResponse response{.body = text_or_throw(folder, folder / "artifacts" / hash, "artifact " + hash)};
  const bool shown = std::find(kShown.begin(), kShown.end(), type) != kShown.end();
  const bool is_text = type.starts_with("text/");
  response.headers = {{"Content-Type", !shown    ? "application/octet-stream"
                                       : is_text ? "text/plain; charset=utf-8"
                                                 : type},
                      {"Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'"},
                      {"Cache-Control", "private, max-age=31536000, immutable"}};
  if (!shown) response.headers.emplace_back("Content-Disposition", attachment(name));
  return response;
}

HttpResponse get_csv(ApiCall& call) {
  call.query.finish();
  const auto& id = call.arguments.at(0);
  const auto folder = call.context.store.run_folder(id);
  return {.headers = {{"Content-Type", "text/csv; charset=utf-8"}, {"Content-Disposition", attachment(id + ".csv")}},
          .body = export_csv(read_run(folder))};
}

}  // namespace ramet::serve
