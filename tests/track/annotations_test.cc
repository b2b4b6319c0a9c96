#include "ramet/track/annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ramet/base/file.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Annotations, ChangeWhatIsNamedAndKeepTheRest) {
  const TemporaryFolder run;
  write_file_atomic(run / "annotations.json", R"({"version":1,"tags":["b"],"future":{"x":[1]},"note":"n"})");
  const Annotations all =
      annotate_run(run.path(), {.added_tags = {"a", "b"}, .group = "g", .colour = "#00ff7F", .pinned = true});
  EXPECT_THAT(all.tags, ElementsAre("a", "b"));
  EXPECT_EQ(all.note, "n");
  EXPECT_EQ(read_annotations(run.path()), all);
  EXPECT_THAT(read_file(run / "annotations.json"), HasSubstr("\"future\""));
  EXPECT_THAT(annotate_run(run.path(), {.removed_tags = {"a", "absent"}, .note = ""}).tags, ElementsAre("b"));
  EXPECT_EQ(read_annotations(run.path()).note, "");
  EXPECT_TRUE(read_annotations(run.path()).pinned);
  EXPECT_EQ(annotate_run(run.path(), {.tags = std::vector<std::string>{"z", "y"}}).tags.size(), 2u);
}

TEST(Annotations, RefuseWhatIsNoText) {
  const TemporaryFolder run;
  const auto error = [&](const AnnotationChanges& changes) {
    return error_of([&] { annotate_run(run.path(), changes); });
  };
  EXPECT_THAT(error({.added_tags = {""}}), HasSubstr("this tag is not allowed"));
  EXPECT_THAT(error({.added_tags = {"two\nlines"}}), HasSubstr("this tag is not allowed"));
  EXPECT_THAT(error({.added_tags = {"\xff\xfe"}}), HasSubstr("this tag is not allowed"));
  EXPECT_THAT(error({.colour = "red"}), HasSubstr("#rrggbb"));
  EXPECT_THAT(error({.group = std::string(300, 'x')}), HasSubstr("this group is not allowed"));
  EXPECT_THAT(error({.note = std::string(300 << 10, 'x')}), HasSubstr("256 KiB"));
  EXPECT_FALSE(std::filesystem::exists(run / "annotations.json"));
  EXPECT_THAT(error_of([] { annotate_run("/nowhere/at/all", {.note = "x"}); }), HasSubstr("/nowhere"));
}

TEST(Annotations, KeepADamagedFileAside) {
  const TemporaryFolder run;
  write_file_atomic(run / "annotations.json", "{\"tags\": [");
  EXPECT_EQ(read_annotations(run.path()), Annotations());
  annotate_run(run.path(), {.note = "new"});
  EXPECT_EQ(read_file(run / "annotations.json.damaged"), "{\"tags\": [");
  EXPECT_EQ(read_annotations(run.path()).note, "new");
}

TEST(Annotations, ProcessesTakeTurns) {
  const TemporaryFolder run;
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    for (int i = 0; i < 5; ++i)
      annotate_run(run.path(), {.added_tags = {std::to_string(child) + "-" + std::to_string(i)}});
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_annotations(run.path()).tags.size(), 20u);
}

}  // namespace
}  // namespace ramet::tests
