// Views and reports: files that people write with the page.
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/serve/handlers.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostDocument = 1 << 20, kMostDocuments = 2000, kMostTitle = 200;

/// A folder of documents: RUNS/views/NAME.json or RUNS/reports/NAME.md.
struct DocumentKind {
  const char* folder;
  const char* end;
  const char* type;
  const char* word;
};
constexpr DocumentKind kViews = {"views", ".json", "application/json", "view"};
constexpr DocumentKind kReports = {"reports", ".md", "text/markdown; charset=utf-8", "report"};

fs::path folder_of(const ApiCall& call, const DocumentKind& kind) { return call.context.store.folder() / kind.folder; }

/// The file of the document that the call names.
fs::path file_of(const ApiCall& call, const DocumentKind& kind) {
  const auto& name = call.arguments.at(0);
  if (!is_plain_name(name)) throw HttpFailure(400, "A name has 1 to 80 of the characters a to z, 0 to 9 and -.");
  return folder_of(call, kind) / (name + kind.end);
}

/// A view's "title"; the first heading of a report.
std::string title_of(const std::string& text, const DocumentKind& kind) {
  std::string title;
  if (std::string_view(kind.end) == ".json") {
    const json view = json::parse(text, nullptr, false);
    if (view.is_object() && view.contains("title") && view["title"].is_string())
      title = view["title"].get<std::string>();
  } else {
    for (size_t at = 0; at < text.size() && title.empty();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line(text.data() + at, end - at);
      const size_t letters = line.find_first_not_of("# \r");
      if (line.starts_with('#') && letters != std::string_view::npos) title = line.substr(letters);
      at = end + 1;
    }
  }
  return title.substr(0, kMostTitle);
}

double seconds_of(const fs::path& file) {
  struct stat facts{};
  return ::stat(file.c_str(), &facts) == 0
             ? static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec)
             : 0;
}

std::vector<std::string> names_of(const fs::path& folder, const DocumentKind& kind) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == kind.end && is_plain_name(entry.path().stem().string()))
      names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

HttpResponse list_documents(ApiCall& call, const DocumentKind& kind) {
  call.query.finish();
  const fs::path folder = folder_of(call, kind);
  json list = json::array();
  for (const auto& name : names_of(folder, kind)) {
    const fs::path file = folder / (name + kind.end);
    const auto text = read_inside(folder, file);
    if (!text) continue;
    list.push_back(
        {{"name", name}, {"modified", seconds_of(file)}, {"bytes", text->size()}, {"title", title_of(*text, kind)}});
  }
  return json_response(list);
}

HttpResponse get_document(ApiCall& call, const DocumentKind& kind) {
  call.query.finish();
  auto text = read_inside(folder_of(call, kind), file_of(call, kind));
  if (!text) throw Error({.what = std::string("no such ") + kind.word, .found = "'" + call.arguments.at(0) + "'"});
  return {.headers = {{"Content-Type", kind.type}}, .body = std::move(*text)};
}

/// Refuses a change of a document that is not as the client believes (If-Match, If-None-Match: *).
void check_version(const ApiCall& call, const std::optional<std::string>& text) {
  const std::string_view match = call.request.header("If-Match"), none = call.request.header("If-None-Match");
  if (!match.empty() && (!text || (match != "*" && !names_tag(match, etag_of(*text)))))
    throw HttpFailure(412, "Somebody else has changed it since it was read.");
  if (none == "*" && text) throw HttpFailure(412, "There is one of that name already.");
}

HttpResponse put_document(ApiCall& call, const DocumentKind& kind) {
  call.query.finish();
  const fs::path folder = folder_of(call, kind), file = file_of(call, kind);
  if (call.request.body.size() > kMostDocument)
    throw HttpFailure(413, std::string("A ") + kind.word + " has at most 1 MiB.");
  if (!is_utf8(call.request.body)) throw HttpFailure(400, "The body is no UTF-8.");
  const auto before = read_inside(folder, file);
  check_version(call, before);
  std::error_code error;
  if (!before && names_of(folder, kind).size() >= kMostDocuments)
    throw HttpFailure(409, std::string("There are too many ") + kind.word + "s. Remove some.");
  fs::create_directories(folder, error);
  write_file_atomic(file, call.request.body);
  call.context.hub.send(kind.folder, "{}");
  HttpResponse response{.status = before ? 204 : 201, .headers = {{"ETag", etag_of(call.request.body)}}};
  if (!before)
    response.headers.emplace_back("Location", "/api/v1/" + std::string(kind.folder) + "/" + call.arguments.at(0));
  return response;
}

HttpResponse delete_document(ApiCall& call, const DocumentKind& kind) {
  call.query.finish();
  const fs::path folder = folder_of(call, kind), file = file_of(call, kind);
  const auto before = read_inside(folder, file);
  if (!before) throw Error({.what = std::string("no such ") + kind.word, .found = "'" + call.arguments.at(0) + "'"});
  check_version(call, before);
  std::error_code error;
  if (!fs::remove(file, error) || error)
    throw Error({.what = "cannot remove the file (" + error.message() + ")", .where = file.string()},
                ErrorKind::kFailure);
  call.context.hub.send(kind.folder, "{}");
  return {.status = 204};
}

}  // namespace

HttpResponse list_views(ApiCall& call) { return list_documents(call, kViews); }
HttpResponse get_view(ApiCall& call) { return get_document(call, kViews); }
HttpResponse put_view(ApiCall& call) {
  (void)json_object(call.request);
  return put_document(call, kViews);
}
HttpResponse delete_view(ApiCall& call) { return delete_document(call, kViews); }

HttpResponse list_reports(ApiCall& call) { return list_documents(call, kReports); }
HttpResponse get_report(ApiCall& call) { return get_document(call, kReports); }
HttpResponse put_report(ApiCall& call) { return put_document(call, kReports); }
HttpResponse delete_report(ApiCall& call) { return delete_document(call, kReports); }

}  // namespace ramet::serve
