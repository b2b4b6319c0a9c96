#include "ramet/serve/handlers.h"
#include "ramet/serve/series.h"

namespace ramet::serve {

const std::vector<ApiRoute>& api_routes() {
  constexpr bool kChanges = true;
  constexpr std::string_view kJson = "application/json", kMarkdown = "text/markdown";
  static const std::vector<ApiRoute> routes = {
      {"GET", "/api/v1/version", get_version},
      {"GET", "/api/v1/runs", get_runs},
      {"GET", "/api/v1/runs/{id}", get_run},
      {"PATCH", "/api/v1/runs/{id}", patch_run, kChanges, kJson},
      {"GET", "/api/v1/runs/{id}/metrics", get_metrics},
      {"GET", "/api/v1/runs/{id}/events", get_events},
      {"GET", "/api/v1/runs/{id}/files/{file}", get_file},
      {"GET", "/api/v1/runs/{id}/files/numerics/{step}", get_numerics},
      {"GET", "/api/v1/runs/{id}/trace", get_trace},
      {"GET", "/api/v1/runs/{id}/media", get_media},
      {"GET", "/api/v1/runs/{id}/artifacts/{hash}", get_artifact},
      {"POST", "/api/v1/series", answer_series, false, kJson},
      {"GET", "/api/v1/keys", get_keys},
      {"GET", "/api/v1/compare", get_compare},
      {"GET", "/api/v1/importance", get_importance},
      {"GET", "/api/v1/sql", get_sql},
      {"GET", "/api/v1/views", list_views},
      {"GET", "/api/v1/views/{name}", get_view},
      {"PUT", "/api/v1/views/{name}", put_view, kChanges, kJson},
      {"DELETE", "/api/v1/views/{name}", delete_view, kChanges},
      {"GET", "/api/v1/reports", list_reports},
      {"GET", "/api/v1/reports/{name}", get_report},
      {"PUT", "/api/v1/reports/{name}", put_report, kChanges, kMarkdown},
      {"DELETE", "/api/v1/reports/{name}", delete_report, kChanges},
      {"GET", "/api/v1/sweeps", list_sweeps},
      {"GET", "/api/v1/sweeps/{name}", get_sweep},
      {"GET", "/api/v1/export/{id}.csv", get_csv},
      {"POST", "/api/v1/export/html", export_html, false, kJson},
      {"GET", "/api/v1/events", get_stream},
      {"POST", "/api/v1/links", post_link, kChanges},
      {"GET", "/metrics", get_prometheus},
  };
  return routes;
}

}  // namespace ramet::serve
