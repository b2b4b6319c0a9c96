#include <nlohmann/json.hpp>

#include "ramet/base/version.h"
#include "ramet/serve/handlers.h"
#include "ramet/serve/prometheus.h"

namespace ramet::serve {

HttpResponse get_stream(ApiCall& call) {
  call.query.finish();
  HttpResponse response{.headers = {{"Content-Type", "text/event-stream; charset=utf-8"},
                                    {"Cache-Control", "no-store"},
                                    {"X-Accel-Buffering", "no"}}};
  if (call.request.method != "HEAD") response.stream = call.context.hub.subscribe(call.request.header("Last-Event-ID"));
  return response;
}

HttpResponse post_link(ApiCall& call) {
  call.query.finish();
  if (!call.context.access.asks_for_token()) throw HttpFailure(409, "This server asks for no token.");
  return json_response({{"url", call.context.url + "/?token=" + call.context.access.new_link_token()}}, 201);
}

HttpResponse get_prometheus(ApiCall& call) {
  call.query.finish();
  PrometheusText text;
  text.family("ramet_info", "gauge", "The program's version.");
  text.sample("ramet_info", {{"version", version()}}, 1);
  const auto reader = call.context.store.read();
  text.family("ramet_runs", "gauge", "Runs by how they stand.");
  for (const char* status : {"running", "done", "interrupted", "failed", "killed", "planned"})
    text.sample("ramet_runs", {{"status", status}},
                static_cast<double>(reader->runs(first_runs("status = \"" + std::string(status) + "\"", 0)).total));
  // Runs that go on, with the last value of each metric: what an alarm needs.
  constexpr int64_t kMostShown = 200;
  const RunPage page = reader->runs(first_runs("status = \"running\"", kMostShown));
  text.family("ramet_run_steps", "counter", "Steps of a run that goes on.");
  for (const auto& run : page.runs)
    text.sample("ramet_run_steps", {{"run", run.id}, {"name", run.name}}, static_cast<double>(run.steps));
  text.family("ramet_run_metric", "gauge", "The last value of a metric of a run that goes on.");
  for (const auto& run : page.runs)
    for (const auto& metric : reader->metrics(run.id))
      text.sample("ramet_run_metric", {{"run", run.id}, {"name", run.name}, {"metric", metric.name}}, metric.last);
  text.family("ramet_run_metric_time_seconds", "gauge", "When that value was logged, in seconds since 1970.");
  for (const auto& run : page.runs)
    for (const auto& metric : reader->metrics(run.id))
      text.sample("ramet_run_metric_time_seconds", {{"run", run.id}, {"name", run.name}, {"metric", metric.name}},
                  metric.last_time);
  if (call.context.counts) {
    const HttpCounts counts = call.context.counts();
    text.family("ramet_http_requests_total", "counter", "Requests to this server.");
    text.sample("ramet_http_requests_total", {}, static_cast<double>(counts.requests));
    text.family("ramet_http_connections", "gauge", "Open connections.");
    text.sample("ramet_http_connections", {}, static_cast<double>(counts.connections));
    text.family("ramet_http_streams", "gauge", "Open streams of events.");
    text.sample("ramet_http_streams", {}, static_cast<double>(counts.streams));
    text.family("ramet_http_closed_slow_total", "counter",
                "Connections that were closed because they were slow or idle.");
    text.sample("ramet_http_closed_slow_total", {}, static_cast<double>(counts.closed_slow));
  }
  if (call.context.index_seconds) {
    text.family("ramet_index_seconds", "gauge", "Seconds that the last look at the runs took.");
    text.sample("ramet_index_seconds", {}, call.context.index_seconds());
  }
  return {.headers = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}}, .body = text.text()};
}

}  // namespace ramet::serve
