#include "ramet/serve/trace.h"

#include <gtest/gtest.h>

#include "ramet/serve/page_export.h"
#include "ramet/serve/prometheus.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

const std::string kProgram =
    R"({"version":1,"stages":[{"stage":0,"segments":[{"name":"s","kind":"forward","instructions":[
    {"name":"first","op":"add","kernel":"hwy"},{"name":"second","op":"mul","kernel":"hwy"}]}],
    "programs":{"train":[{"kind":"run","subject":0,"superstep":0,"text":"run s"},{"kind":"send","subject":0,"superstep":0,"text":"send 1"},
    {"kind":"run","subject":0,"superstep":1,"text":"run s again"}]}}]})";
const std::string kTimes =
    R"({"version":1,"devices":[{"device":0,"stage":0,"kernels":[],"instructions":[[0.5,1.0]],
    "last_step":[[0,0.0,1.5],[1,1.5,1.6],[2,1.75,4.75]]},{"device":1,"stage":0,"kernels":[],"instructions":[[0,0]],"last_step":[]}]})";

/// A varint of Protocol Buffers.
std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

TEST(StepTrace, ShowsTheLastMeasuredStep) {
  const std::string trace = step_trace(kProgram, kTimes);
  for (const char* text :
       {"stage 0, device 0", "stage 0, device 1", "run s again", "first add", "second mul", "send 1"})
    EXPECT_NE(trace.find(text), std::string::npos) << text;
  // Field 8 of a packet is its time. The first instruction takes a third of its run: of 1.5 s, and of 3 s.
  for (const uint64_t nanoseconds : {500'000'000, 1'500'000'000, 1'750'000'000})
    EXPECT_NE(trace.find("\x40" + varint(nanoseconds)), std::string::npos) << nanoseconds;
  EXPECT_NE(trace.find("\x40" + varint(2'750'000'000)), std::string::npos);
  EXPECT_NE(trace.find("\x40" + varint(4'750'000'000)), std::string::npos);
}

TEST(StepTrace, RefusesWhatIsNotThere) {
  EXPECT_NE(error_of([] { step_trace(kProgram, R"({"version":1,"devices":[]})"); }).find("--profile"),
            std::string::npos);
  const auto with_device = [](const std::string& rest) {
    return R"({"version":1,"devices":[{"device":0,"stage":0,)" + rest + "}]}";
  };
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string(R"({"version":2})"),
        std::string(R"({"version":1})"), std::string(R"({"version":1,"devices":1})"),
        std::string(R"({"version":1,"devices":[{"device":0,"stage":7,"kernels":[]}]})"), with_device(R"("kernels":[])"),
        with_device(R"("instructions":[[0.5]],"last_step":[[0,0,1]])"),
        with_device(R"("instructions":[[0.5,1]],"last_step":[[9,0,1]])"),
        with_device(R"("instructions":[[0.5,1]],"last_step":[[-1,0,1]])"),
        with_device(R"("instructions":[[0.5,1]],"last_step":[[0,0]])"),
        with_device(R"("instructions":[[0.5,"x"]],"last_step":[[0,0,1]])"),
        with_device(R"("instructions":1,"last_step":[[0,0,1]])"),
        with_device(R"("instructions":[],"last_step":[[0,0,1]])"),
        with_device(R"("instructions":[[0.5,1]],"last_step":[[0,null,1]])")}) {
    EXPECT_NE(error_of([&] { step_trace(kProgram, text); }), "no error") << text;
    EXPECT_NE(error_of([&] { step_trace(text, kTimes); }), "no error") << text;
  }
}

TEST(PageExport, PutsFilesInTheirPlaces) {
  const auto file = [](const std::string& name) -> std::optional<std::string> {
    if (name == "assets/a.js") return "if (a < b) '</SCRIPT><!--'";
    if (name == "assets/a.css") return "a{}</style>";
    if (name == "icon.svg") return "<svg/>";
    return std::nullopt;
  };
  const std::string page = single_file_page(
      "<!-- c --><head><link rel=modulepreload href=/assets/b.js><link rel='stylesheet' href=\"/assets/a.css?1\">"
      "<link rel=icon href=./icon.svg><script type=\"module\" crossorigin src=\"./assets/a.js\">\n</script></head>",
      "{\"a\":\"</script>\xe2\x80\xa8\"}", file);
  EXPECT_EQ(page,
            "<!-- c --><head><style>a{}<\\/style></style><link rel=\"icon\" "
            "href=\"data:image/svg+xml;base64,PHN2Zy8+\"><script>window.__RAMET_EXPORT__ = "
            "{\"a\":\"\\u003c/script>\\u2028\"};</script>\n<script type=\"module\">if (a < b) "
            "'<\\/script><\\!--'</script></head>");
  EXPECT_NE(error_of([&] { single_file_page("<script src=/none.js></script>", "{}", file); }), "no error");
  EXPECT_NE(error_of([&] { single_file_page("<p>no script", "{}", file); }), "no error");
}

TEST(Prometheus, EscapesLabels) {
  PrometheusText text;
  text.family("a", "gauge", "help");
  text.sample("a", {{"x", "a\"b\\c\nd"}, {"y", ""}}, 0.5);
  text.sample("a", {}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(text.text(), "# HELP a help\n# TYPE a gauge\na{x=\"a\\\"b\\\\c\\nd\",y=\"\"} 0.5\na NaN\n");
}

}  // namespace
}  // namespace ramet::tests
