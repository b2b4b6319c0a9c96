#include <algorithm>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/base/svg.h"
#include "ramet/report/memory.h"

namespace ramet::report {
namespace {

constexpr double kWidth = 1200, kHeight = 640, kLeft = 90, kTop = 50, kBottom = 46, kRight = 20;
constexpr double kLeastSide = 0.4;  // pixels; buffers smaller in both directions cannot be seen

// One colour a class, told apart by readers who do not see red and green apart too (Okabe and Ito's palette).
constexpr const char* kColours[kBufferClassCount] = {"#0072b2", "#56b4e9", "#d55e00", "#009e73", "#332288",
                                                     "#e69f00", "#f0e442", "#8c564b", "#999999", "#cc79a7"};

class Picture : SvgPicture {
 public:
  explicit Picture(const Executable& exe)
      : exe_(exe),
        x_scale_((kWidth - kLeft - kRight) / std::max(1, exe.instants)),
        y_scale_((kHeight - kTop - kBottom) / static_cast<double>(std::max<int64_t>(1, exe.arena_bytes))) {}

  std::string run() {
    open(kWidth, kHeight);
    text_ += "<text x=\"" + std::to_string(static_cast<int>(kLeft)) +
             "\" y=\"18\">Device memory over the step: " + svg_text(format_size(exe_.arena_bytes)) + "</text>\n";
    legend();
    axes();
    for (const Buffer& buffer : exe_.buffers) rectangle(buffer);
    peak();
    return close();
  }

 private:
  double x(double instant) const { return kLeft + instant * x_scale_; }
  double y(double address) const { return kHeight - kBottom - address * y_scale_; }

  void legend() {
    double at = kLeft;
    for (int kind = 0; kind < kBufferClassCount; ++kind) {
      const std::string name(name_of(static_cast<BufferClass>(kind)));
      swatch(at, 28, kColours[kind], name);
      at += 34 + 7.5 * static_cast<double>(name.size());
    }
  }

  void axes() {
    for (int i = 0; i <= 4; ++i) {
      const int64_t address = exe_.arena_bytes * i / 4;
      add("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft - 6, y(static_cast<double>(address)) + 4,
          format_size(address).c_str());
    }
    for (const Segment& segment : exe_.segments) {
      if (segment.instructions.empty()) continue;
      add("<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.0f\" y2=\"%.0f\" stroke=\"black\" stroke-width=\"0.6\"/>\n",
          x(segment.first), x(segment.first), kTop, kHeight - kBottom + 16);
      text_ += "<text x=\"" + std::to_string(x(segment.first) + 3) + "\" y=\"" +
               std::to_string(kHeight - kBottom + 14) + "\">" + svg_text(segment.name) + "</text>\n";
    }
  }

  void rectangle(const Buffer& buffer) {
    const double width = (buffer.last - buffer.first + 1) * x_scale_,
                 height = static_cast<double>(buffer.total()) * y_scale_;
    if (buffer.bytes == 0 || (width < kLeastSide && height < kLeastSide)) return;
    add("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" stroke=\"white\" "
        "stroke-width=\"0.15\">",
        x(buffer.first), y(static_cast<double>(buffer.offset)) - height, width, height,
        kColours[static_cast<size_t>(buffer.kind)]);
    text_ += "<title>" + svg_text(buffer.name) + "\n" + std::string(name_of(buffer.kind)) + ", " +
             svg_text(format_size(buffer.total())) + " at " + std::to_string(buffer.offset) + "\nfrom " +
             svg_text(exe_.at(buffer.first)) + "\nto " + svg_text(exe_.at(buffer.last)) + "</title></rect>\n";
  }

  void peak() {
    add("<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.0f\" y2=\"%.0f\" stroke=\"black\" stroke-dasharray=\"3 3\" "
        "stroke-width=\"0.8\">",
        x(exe_.peak_instant + 0.5), x(exe_.peak_instant + 0.5), kTop, kHeight - kBottom);
    text_ += "<title>most is live: " + svg_text(exe_.at(exe_.peak_instant)) + "</title></line>\n";
  }

  const Executable& exe_;
  double x_scale_, y_scale_;
};

}  // namespace

std::string memory_svg(const Executable& executable) { return Picture(executable).run(); }

}  // namespace ramet::report
