#include "ramet/serve/series.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"

namespace ramet::serve {
namespace {

using nlohmann::json;

constexpr size_t kMostRequests = 256;
constexpr int64_t kMostBuckets = 20000;
constexpr uint32_t kRaw = 1, kByTime = 2;

std::string text_of_member(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    throw HttpFailure(400, std::string("Each request needs a text '") + key + "'.");
  return found->get<std::string>();
}

double limit_of(const json& body, const char* key, double otherwise) {
  const auto found = body.find(key);
  if (found == body.end() || found->is_null()) return otherwise;
  if (!found->is_number()) throw HttpFailure(400, std::string("'") + key + "' is no number.");
  return found->get<double>();
}

template <typename T>
void append_numbers(std::string& to, const std::vector<T>& numbers) {
  to.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

void append_u32(std::string& to, uint32_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); }

bool is_system(std::string_view metric) { return metric.starts_with("system/"); }

}  // namespace

SeriesQuestion parse_series_question(const HttpRequest& request) {
  const json body = json_body(request, {"requests", "x", "from", "to", "buckets"});
  SeriesRequest common;
  if (const auto x = body.find("x"); x != body.end()) {
    if (!x->is_string()) throw HttpFailure(400, "'x' is no text.");
    try {
      common.axis = parse_axis(x->get<std::string>());
    } catch (const Error& error) {
      throw HttpFailure(400, error.what());
    }
  }
  common.from = limit_of(body, "from", common.from);
  common.to = limit_of(body, "to", common.to);
  if (const auto buckets = body.find("buckets"); buckets != body.end()) {
    if (!buckets->is_number_integer() || buckets->get<double>() < 1 ||
        buckets->get<double>() > static_cast<double>(kMostBuckets))
      throw HttpFailure(400, "'buckets' is no whole number from 1 to " + std::to_string(kMostBuckets) + ".");
    common.buckets = buckets->get<int64_t>();
  }
  const auto list = body.find("requests");
  if (list == body.end() || !list->is_array()) throw HttpFailure(400, "'requests' is no list.");
  if (list->size() > kMostRequests)
    throw HttpFailure(400, "At most " + std::to_string(kMostRequests) + " series can be asked for at once.");
  SeriesQuestion question;
  for (const auto& entry : *list) {
    if (!entry.is_object()) throw HttpFailure(400, "A request is no object.");
    SeriesRequest one = common;
    one.run = text_of_member(entry, "run");
    one.metric = text_of_member(entry, "metric");
    question.requests.push_back(std::move(one));
  }
  return question;
}

void append_series(std::string& to, const Series& series, bool by_time) {
  const size_t n = series.x.size();
  append_u32(to, static_cast<uint32_t>(n));
  append_u32(to, (series.raw ? kRaw : 0) | (by_time ? kByTime : 0));
  append_numbers(to, series.x);
  if (!series.raw) {
    append_numbers(to, series.min);
    append_numbers(to, series.max);
  }
  append_numbers(to, series.last);
  if (series.raw) return;
  append_numbers(to, series.count);
  if (n % 2 == 1) append_u32(to, 0);
}

HttpResponse answer_series(ApiCall& call) {
  call.query.finish();
  const SeriesQuestion question = parse_series_question(call.request);
  HttpResponse response{.headers = {{"Content-Type", "application/octet-stream"}}};
  const auto reader = call.context.store.read();
  for (SeriesRequest one : question.requests) {
    // The numbers of samples of the system mean nothing to people.
    const bool by_time =
        is_system(one.metric) && one.axis != SeriesAxis::kTime && one.axis != SeriesAxis::kRelativeTime;
    if (by_time) one.axis = SeriesAxis::kTime, one.from = -INFINITY, one.to = INFINITY;
    Series series;
    try {
      if (is_file_name(one.run)) series = reader->series(one);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kFailure) throw;
      series = {};  // no such run or metric: no points
    }
    append_series(response.body, series, by_time);
  }
  return response;
}

}  // namespace ramet::serve
