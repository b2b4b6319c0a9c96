#include <nlohmann/json.hpp>

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/serve/api.h"
#include "ramet/serve/gzip.h"
#include "ramet/serve/page_export.h"
#include "ramet/serve/series.h"
#include "ramet/serve/trace.h"
#include "ramet/serve/url.h"

using namespace ramet::tests;

namespace {

void read_target(std::string_view text) {
  const Target target = parse_target(text);
  for (const auto& segment : target.segments)
    if (segment == ".." || segment.find('\0') != std::string::npos) internal_error("parse_target", "a way out");
  for (const char* method : {"GET", "POST", "PATCH", "PUT", "DELETE"}) {
    const RouteMatch match = match_route(method, target.segments);
    if (match.route && match.arguments.size() > 2) internal_error("match_route", "too many arguments");
  }
  Query query(target.query);
  (void)query.list("columns");
  (void)query.number("limit", 10, 0, 1000);
  (void)query.flag("archived");
  query.finish();
}

void read_body(std::string_view text) {
  try {
    const SeriesQuestion question = parse_series_question({.body = std::string(text)});
    for (const auto& request : question.requests)
      if (request.buckets < 1 || request.buckets > 20000) internal_error("parse_series_question", "no bound");
  } catch (const HttpFailure& failure) {
    if (failure.status() != 400) internal_error("parse_series_question", "another status");
  }
}

void read_headers(std::string_view text) {
  (void)parse_host(text);
  (void)parse_origin(text);
  (void)takes_gzip(text);
  (void)names_tag(text, "\"a\"");
  if (const auto decoded = percent_decode(text, true); decoded && percent_decode(percent_encode(*decoded)) != *decoded)
    internal_error("percent_encode", "does not come back");
}

}  // namespace

// The first letter says what the rest is: a target, a body, a header, a page to export, or files of a trace.
RAMET_FUZZ_TARGET(http_request, std::string_view input) {
  if (input.empty()) return;
  const std::string_view rest = input.substr(1);
  switch (input[0]) {
    case 't': return read_target(rest);
    case 'b': return read_body(rest);
    case 'h': return read_headers(rest);
    case 'p': {
      const std::string page = single_file_page(rest, rest, [&](const std::string&) { return std::string(rest); });
      if (page.find("__RAMET_EXPORT__") == std::string::npos) internal_error("single_file_page", "no data");
      return;
    }
    case 'f': {
      const size_t cut = std::min(rest.find('\x1e'), rest.size());
      (void)step_trace(rest.substr(0, cut), rest.substr(std::min(cut + 1, rest.size())));
      return;
    }
    default: (void)gunzip(rest, 1 << 16);
  }
}

RAMET_FUZZ_SEEDS(http_request) {
  const std::string program =
      R"({"version":1,"stages":[{"stage":0,"segments":[{"name":"s","kind":"forward","instructions":[{"name":"a","op":"add","kernel":"hwy"}]}],)"
      R"("programs":{"train":[{"kind":"run","subject":0,"superstep":0,"text":"run"},{"kind":"send","superstep":1,"text":"send"}]}}]})";
  const std::string times =
      R"({"version":1,"devices":[{"device":0,"stage":0,"kernels":[{"segment":"s","op":"add","kernel":"hwy","calls":2,"seconds":0.5}]}]})";
  return {.inputs = {"t/api/v1/runs?filter=a%20%3D%201&limit=10&columns=a,b", "t/api/v1/runs/x%2Fy/files/numerics/12",
                     "t/api/v1/export/run.csv",
                     R"(b{"requests":[{"run":"a","metric":"loss"}],"x":"time","from":null,"to":1e3,"buckets":600})",
                     "hgzip;q=0.5, *", "h[::1]:80", "hhttps://a.example:443", "h\"a\", W/\"b\"",
                     R"(p<html><link rel="stylesheet" href="/a.css"><script type=module src='./a.js'></script></html>)",
                     "f" + program + "\x1e" + times, "g" + gzip("some text")},
          .words = {"%2e", "..", "/", "&", "=", "%00", "\"requests\"", "null", "[[", "</script", "<!--", "src=", "\x1e",
                    "\"superstep\"", "-1", "1e999"}};
}
