#include <algorithm>
#include <array>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/base/svg.h"
#include "ramet/report/perfetto.h"
#include "ramet/report/simulation.h"

namespace ramet::report {
namespace {

constexpr double kWidth = 1200, kLeft = 170, kRight = 20, kTop = 56, kRow = 22, kTraffic = 44, kGap = 6;
constexpr double kLeast = 0.5;     // pixels: narrower spans are joined with their neighbours
constexpr size_t kMostRows = 256;  // of devices
// Told apart by readers who do not see red and green apart, too (Okabe and Ito's palette).
constexpr std::array<const char*, kActivities> kColours = {"#0072b2", "#e69f00", "#009e73", "#d9d9d9"};

class Picture : SvgPicture {
 public:
  Picture(const Simulation& simulation, const std::string& title)
      : simulation_(simulation),
        rows_(std::min(simulation.timelines.size(), kMostRows)),
        scale_((kWidth - kLeft - kRight) / (simulation.seconds > 0 ? simulation.seconds : 1)) {
    for (const ChannelTraffic& channel : simulation.channels)
      if (!channel.rates.empty()) channels_.push_back(&channel);
    const double height =
        kTop + static_cast<double>(rows_) * kRow + static_cast<double>(channels_.size()) * kTraffic + 40;
    open(kWidth, height);
    text_ += "<text x=\"20\" y=\"18\">" + svg_text(title) + "</text>\n";
  }

  std::string run() {
    legend();
    double y = kTop;
    for (size_t i = 0; i < rows_; ++i, y += kRow) device(simulation_.timelines[i], y);
    for (const ChannelTraffic* channel : channels_) {
      traffic(*channel, y);
      y += kTraffic;
    }
    axis(y);
    return close();
  }

 private:
  double x(double seconds) const { return kLeft + seconds * scale_; }

  void legend() {
    double at = kLeft;
    for (int a = 0; a < kActivities; ++a) {
      swatch(at, 30, kColours[static_cast<size_t>(a)], name_of(static_cast<Activity>(a)));
      at += 100;
    }
  }

  void device(const DeviceTimeline& device, double y) {
    std::string name = "stage " + std::to_string(device.stage);
    if (device.devices.size() > 1) name += " (" + std::to_string(device.devices.size()) + " devices)";
    text_ += "<g><title>devices " + svg_text(devices_text(device.devices)) + "</title>";
    add("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">", kLeft - 6, y + kRow - 8);
    text_ += svg_text(name) + "</text></g>\n";
    // Narrow spans are gathered until they can be seen.
    std::array<double, kActivities> gathered{};
    double from = 0;
    for (size_t i = 0; i < device.work.size(); ++i) {
      const Span& span = device.work[i];
      const bool wide = (span.end - span.begin) * scale_ >= kLeast;
      if (wide) flush(gathered, from, span.begin, y);
      if (wide) {
        rectangle(span.begin, span.end, y, span.activity,
                  svg_text(simulation_.labels[static_cast<size_t>(span.label)]) + run_at(device, span.begin));
        from = span.end;
        continue;
      }
      gathered[static_cast<size_t>(span.activity)] += span.end - span.begin;
      if ((span.end - from) * scale_ < kLeast) continue;
      flush(gathered, from, span.end, y);
      from = span.end;
    }
    flush(gathered, from, simulation_.seconds, y);
  }

  /// The run of a segment to which a time belongs, as a line of its own.
  std::string run_at(const DeviceTimeline& device, double at) const {
    const auto after = std::upper_bound(device.runs.begin(), device.runs.end(), at,
                                        [](double time, const Span& run) { return time < run.begin; });
    if (after == device.runs.begin() || std::prev(after)->end <= at) return "";
    return "\n" + svg_text(simulation_.labels[static_cast<size_t>(std::prev(after)->label)]);
  }

  void flush(std::array<double, kActivities>& gathered, double begin, double end, double y) {
    const auto most = std::max_element(gathered.begin(), gathered.end());
    if (*most > 0) rectangle(begin, end, y, static_cast<Activity>(most - gathered.begin()), "many short ones");
    gathered = {};
  }

  void rectangle(double begin, double end, double y, Activity activity, const std::string& label) {
    add("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\">", x(begin), y,
        std::max(0.2, (end - begin) * scale_), kRow - kGap, kColours[static_cast<size_t>(activity)]);
    char times[96];
    std::snprintf(times, sizeof times, "%s, %.6g s to %.6g s", name_of(activity), begin, end);
    text_ += "<title>" + label + "\n" + times + "</title></rect>\n";
  }

  /// Mean bytes a second over each pixel, as an area.
  void traffic(const ChannelTraffic& channel, double y) {
    const auto pixels = static_cast<size_t>(kWidth - kLeft - kRight);
    const double step = simulation_.seconds / static_cast<double>(pixels);
    std::vector<double> mean(pixels, 0);
    for (size_t i = 0; i < channel.rates.size(); ++i) {
      const double end = i + 1 < channel.rates.size() ? channel.rates[i + 1].at : simulation_.seconds;
      double at = channel.rates[i].at;
      for (auto pixel = static_cast<size_t>(at / step); pixel < pixels && at < end; ++pixel) {
        const double until = std::min(end, static_cast<double>(pixel + 1) * step);
        mean[pixel] += std::max(0.0, until - at) * channel.rates[i].rate / step;
        at = std::max(at, until);
      }
    }
    const double most = std::max(1.0, *std::max_element(mean.begin(), mean.end())), height = kTraffic - 14;
    text_ += "<g><title>" + svg_text(channel.name) + "</title>";
    add("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">", kLeft - 6, y + 20);
    text_ += svg_text(channel.name.size() > 24 ? channel.name.substr(0, 23) + "..." : channel.name) + "</text></g>\n";
    add("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\" font-size=\"9\">", kLeft - 6, y + 33);
    text_ += "up to " + format_size(static_cast<int64_t>(most)) + "/s</text>\n";
    add("<polygon fill=\"#56b4e9\" points=\"%.1f,%.1f", kLeft, y + 4 + height);
    for (size_t i = 0; i < pixels; ++i)
      if (i == 0 || i + 1 == pixels || mean[i] != mean[i - 1] || mean[i] != mean[i + 1])
        add(" %.1f,%.1f", kLeft + static_cast<double>(i), y + 4 + height * (1 - mean[i] / most));
    add(" %.1f,%.1f\"/>\n", kWidth - kRight, y + 4 + height);
  }

  void axis(double y) {
    add("<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"black\" stroke-width=\"0.6\"/>\n", kLeft,
        kWidth - kRight, y + 2, y + 2);
    for (int i = 0; i <= 4; ++i) {
      const double at = simulation_.seconds * i / 4;
      add("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g s</text>\n", x(at), y + 18, at);
    }
  }

  const Simulation& simulation_;
  const size_t rows_;
  const double scale_;
  std::vector<const ChannelTraffic*> channels_;
};

}  // namespace

std::string timeline_svg(const Simulation& simulation, const std::string& title) {
  return Picture(simulation, title).run();
}

}  // namespace ramet::report
