#include "ramet/serve/prometheus.h"

#include <cmath>
#include <cstdio>

namespace ramet::serve {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  text_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
  text_.append(name).append(" ").append(type).append("\n");
}

void PrometheusText::sample(std::string_view name, const std::vector<std::pair<std::string_view, std::string>>& labels,
                            double value) {
  text_ += name;
  for (size_t i = 0; i < labels.size(); ++i)
    text_.append(i == 0 ? "{" : ",")
        .append(labels[i].first)
        .append("=\"")
        .append(escaped(labels[i].second))
        .append("\"");
  text_.append(labels.empty() ? " " : "} ").append(number_text(value)).append("\n");
}

}  // namespace ramet::serve
