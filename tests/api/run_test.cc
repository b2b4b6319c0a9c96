// Runs that a program logs to, as a user of the library sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/log.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(Run, KeepsWhatAProgramLogs) {
  const TemporaryFolder folder;
  std::ofstream(folder / "mine.txt") << "a file";
  std::string path;
  {
    v0::Run run({.folder = (folder / "runs").string(),
                 .name = "my search",
                 .group = "g",
                 .note = "n",
                 .tags = {"t"},
                 .config = {{"depth", int64_t{3}}, {"rate", 0.5}, {"on", true}, {"kind", std::string("x")}}});
    path = run.path();
    EXPECT_THAT(run.id(), HasSubstr("my-search"));
    run.axis(32, 64, "words");
    for (int64_t step = 0; step < 10; ++step)
      run.log(step, {{"score", 0.5 * static_cast<double>(step)}, {"x", std::nan("")}});
    run.log(10, "score", 9);
    const std::vector<uint8_t> pixels(3 * 4 * 3, 7);
    run.log_image(1, "picture", {.width = 3, .height = 4, .channels = 3, .pixels = pixels, .caption = "c"});
    const std::vector<float> values = {1, 2, 2, 3, NAN};
    run.log_histogram(2, "spread", v0::LogHistogram::of(values, 2));
    run.log_table(3, "table", {.columns = {"a", "b"}, .rows = {{int64_t{1}, std::string("x")}, {0.5, false}}});
    run.log_text(4, "words", "some text");
    run.log_file(5, "file", (folder / "mine.txt").string());
    run.alert(v0::AlertLevel::kWarning, "look", "here", 6);
    run.config({{"late", 1.5}});
    run.tag("u");
    EXPECT_TRUE(run.flush());
    EXPECT_EQ(run.dropped(), 0);
    EXPECT_EQ(run.problem(), "");
    v0::Run other = v0::Run::join(path, "judge");
    other.log(3, "accuracy", 0.75);
    EXPECT_TRUE(other.flush());
    EXPECT_THAT(error_of([&] { v0::Run::join(path, "../x"); }), HasSubstr("not a name for a writer"));
    EXPECT_THAT(error_of([&] { run.log(1, "", 1); }), HasSubstr("this name cannot be logged"));
    EXPECT_THAT(error_of([&] { run.log_image(1, "p", {.width = 9, .height = 9, .pixels = pixels}); }),
                HasSubstr("not the pixels of an image"));
    EXPECT_THAT(error_of([&] { run.log_table(1, "t", {.columns = {"a"}, .rows = {{}}}); }),
                HasSubstr("a row of another length"));
    EXPECT_THAT(error_of([&] { run.log_file(1, "f", "/nowhere"); }), HasSubstr("no such file"));
  }
  const std::string log = contents(fs::path(path) / "log.ramet");
  for (const char* const part :
       {"\"event\":\"start\"", "\"units\":\"words\"", "\"depth\":3", "\"late\":1.5", "\"level\":\"warn\"",
        "\"kind\":\"image\",\"name\":\"picture\",\"step\":1", "\"type\":\"image/png\"", "\"kind\":\"histogram\"",
        "\"kind\":\"table\"", "\"kind\":\"text\"", "\"kind\":\"file\"", "\"event\":\"end\",\"status\":\"done\""})
    EXPECT_THAT(log, HasSubstr(part));
  EXPECT_THAT(log, Not(HasSubstr("dropped")));
  EXPECT_THAT(contents(fs::path(path) / "logs" / "judge.ramet"), HasSubstr("accuracy"));
  const std::string annotations = contents(fs::path(path) / "annotations.json");
  EXPECT_THAT(annotations, HasSubstr("\"u\""));
  EXPECT_THAT(annotations, HasSubstr("\"group\": \"g\""));
  bool histogram = false, table = false, file = false;
  for (const auto& entry : fs::directory_iterator(fs::path(path) / "artifacts")) {
    const std::string bytes = contents(entry.path());
    histogram |= bytes == R"({"version":1,"edges":[1.0,2.0,3.0],"counts":[1.0,3.0]})";
    table |= bytes == R"({"version":1,"columns":["a","b"],"rows":[[1,"x"],[0.5,false]]})";
    file |= bytes == "a file";
  }
  EXPECT_TRUE(histogram && table && file);
}

TEST(Run, EndsOnceAndWithItsError) {
  const TemporaryFolder folder;
  v0::Run run({.exactly = (folder / "one").string()});
  EXPECT_THAT(error_of([&] { v0::Run again({.exactly = (folder / "one").string()}); }),
              HasSubstr("holds a run already"));
  run.finish("it broke");
  run.log(1, "late", 1);
  run.finish();
  const std::string log = contents(folder / "one" / "log.ramet");
  EXPECT_THAT(log, HasSubstr("\"status\":\"failed\""));
  EXPECT_THAT(log, HasSubstr("it broke"));
  EXPECT_THAT(log, Not(HasSubstr("late")));
  EXPECT_THAT(error_of([] { v0::Run nowhere({.folder = "/proc/nowhere"}); }),
              HasSubstr("cannot make the run's folder"));
}

}  // namespace
}  // namespace ramet::tests
