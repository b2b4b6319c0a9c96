// What is exported is imported again: runs, their points and what else they logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/base/proto.h"
#include "ramet/track/annotations.h"
#include "ramet/track/export.h"
#include "ramet/track/import.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/tf_record.h"
#include "ramet/track/wandb_file.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::string_view kPng("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\3", 24);

std::string store(const fs::path& run, std::string_view bytes) {
  fs::create_directories(run / "artifacts");
  const std::string hash = hash_text(bytes).hex();
  write_file_atomic(run / "artifacts" / hash, bytes);
  return hash;
}

/// A run with metrics that are not finite, an image, a text, a histogram and a file.
fs::path make_run(const fs::path& parent, const std::string& status = "done") {
  const RunDirectory run = RunDirectory::create(parent, {.name = "round trip",
                                                         .recipe = "[train]\nsteps = 4\nname = \"x|y\"\n",
                                                         .command = {"ramet", "train"},
                                                         .kernel_class = "k"});
  RunLogWriter log(run.log());
  log.event("{\"event\":\"start\",\"from_step\":0}");
  log.event("{\"event\":\"config\",\"values\":{\"train.rate\":0.125,\"on\":true}}");
  for (int step = 1; step <= 4; ++step) {
    const std::vector<LoggedNumber> values = {{"loss", step == 3 ? std::nan("") : 1.0 / step},
                                              {"speed", step == 4 ? std::numeric_limits<double>::infinity() : 100.0}};
    log.metrics(step, values);
    if (step % 2 == 1) continue;
    const std::vector<LoggedNumber> held_out = {{"held_out/loss", 2.0 * step}};
    log.metrics(step, held_out);
  }
  const auto logged = [&](const char* kind, const char* name, const char* type, std::string_view bytes) {
    log.event(json{{"event", "logged"},
                   {"kind", kind},
                   {"name", name},
                   {"step", 2},
                   {"time", static_cast<double>(std::time(nullptr) + 1)},
                   {"type", type},
                   {"artifact", store(run.path(), bytes)},
                   {"bytes", bytes.size()},
                   {"caption", "a caption"}}
                  .dump());
  };
  logged("image", "picture", "image/png", kPng);
  logged("text", "sample", "text/plain", "It was a dark night.");
  logged("histogram", "weights", "application/json", json_of({.edges = {0, 1, 4}, .counts = {5, 6}}));
  logged("file", "other", "application/octet-stream", "bytes");
  if (!status.empty()) log.event("{\"event\":\"end\",\"status\":\"" + status + "\"}");
  log.flush();
  annotate_run(run.path(), {.tags = {{"first", "second"}},
                            .added_tags = {},
                            .removed_tags = {},
                            .note = "A *note*.",
                            .group = "seeds",
                            .colour = {},
                            .name = {},
                            .pinned = {},
                            .archived = {}});
  fs::create_directories(run.path() / "system");
  RunLogWriter system(run.path() / "system" / "host-0.ramet");
  for (int sample = 0; sample < 3; ++sample) {
    const std::vector<LoggedNumber> values = {{"cpu_percent", 10.0 * sample}};
    system.metrics(sample, values);
  }
  return run.path();
}

ImportedRun foreign_run(const std::string& from, const std::string& id) {
  ImportedRun run;
  run.from = from, run.path = "p", run.id = id, run.name = "n";
  return run;
}

struct Imported {
  std::vector<ImportResult> results;
  std::vector<std::string> remarks;
};

Imported import_all(const fs::path& from, const fs::path& runs, bool again = false) {
  Imported imported;
  RunImporter importer(runs, again);
  const ImportSearch search = find_import_sources(from);
  imported.remarks = search.remarks;
  for (const ImportSource& source : search.sources)
    read_runs(source, {.wants =
                           [&](const std::string& id) {
                             return again || importer.find(std::string(name_of(source.kind)), id).empty();
                           },
                       .take = [&](ImportedRun run) { imported.results.push_back(importer.add(std::move(run))); },
                       .remark = [&](const std::string& remark) { imported.remarks.push_back(remark); },
                       .progress = {}});
  return imported;
}

/// Equal steps and values, NaN with NaN; `single`: as far as single precision goes.
void expect_same_points(const RunRecord& a, const RunRecord& b, const std::string& name, bool single) {
  const auto expected = a.log.series(name), got = b.log.series(name);
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, expected[i].first) << name;
    const double value = single ? static_cast<double>(static_cast<float>(expected[i].second)) : expected[i].second;
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(got[i].second)) << name;
    else
      EXPECT_EQ(got[i].second, value) << name;
  }
}

std::string artifact(const RunRecord& run, const std::string& kind) {
  for (const MediaRow& media : media_of(run))
    if (media.kind == kind && media.name != "config" && media.name != "note")
      return read_artifact(run.path, media.artifact);
  return "";
}

TEST(Exchange, EventFilesGoOutAndIn) {
  const TemporaryFolder folder;
  const RunRecord run = read_run(make_run(folder / "runs"));
  const ExportReport report = export_tensorboard(run, folder / "events");
  EXPECT_EQ(report.points, 8 + 2 + 3);
  EXPECT_EQ(report.media, 3);
  EXPECT_THAT(report.remarks, ElementsAre("file 'other' has no place in an event file"));
  EXPECT_EQ(export_tensorboard(run, folder / "events").path, report.path) << "the same file again";
  const Imported imported = import_all(folder / "events", folder / "back");
  ASSERT_EQ(imported.results.size(), 1u);
  EXPECT_THAT(imported.results[0].remarks, IsEmpty());
  const RunRecord back = read_run(imported.results[0].run);
  EXPECT_EQ(back.name, run.id);
  EXPECT_EQ(back.status, RunStatus::kDone);
  EXPECT_NEAR(start_of(back), start_of(run), 1e-3);
  for (const char* name : {"loss", "speed", "held_out/loss"}) expect_same_points(run, back, name, true);
  EXPECT_EQ(back.log.series("system/host-0/cpu_percent").size(), 3u);
  EXPECT_EQ(back.log.steps.at(2)[0].time, run.log.steps.at(2)[0].time);
  EXPECT_EQ(artifact(back, "image"), kPng);
  EXPECT_EQ(artifact(back, "text"), "It was a dark night.");
  EXPECT_EQ(artifact(back, "histogram"), artifact(run, "histogram"));
  EXPECT_THAT(config_of(back), ElementsAre(Pair("on", "true"), Pair("train.name", "\"x|y\""),
                                           Pair("train.rate", "0.125"), Pair("train.steps", "4.0")));
}

TEST(Exchange, WandbFilesGoOutAndIn) {
  const TemporaryFolder folder;
  const RunRecord run = read_run(make_run(folder / "runs", "failed"));
  const ExportReport report = export_wandb(run, folder / "wandb", "project");
  EXPECT_EQ(report.points, 8 + 2 + 3);
  EXPECT_EQ(report.media, 3);
  const Imported imported = import_all(folder / "wandb", folder / "back");
  ASSERT_EQ(imported.results.size(), 1u);
  EXPECT_THAT(imported.results[0].remarks, IsEmpty());
  const RunRecord back = read_run(imported.results[0].run);
  EXPECT_EQ(back.name, run.id);
  EXPECT_EQ(back.status, RunStatus::kFailed);
  EXPECT_EQ(back.started, run.started);
  for (const char* name : {"loss", "speed", "held_out/loss"}) expect_same_points(run, back, name, false);
  EXPECT_EQ(artifact(back, "image"), kPng);
  EXPECT_EQ(artifact(back, "text"), "It was a dark night.");
  EXPECT_EQ(artifact(back, "histogram"), artifact(run, "histogram"));
  EXPECT_THAT(config_of(back), ElementsAre(Pair("on", "true"), Pair("train.name", "\"x|y\""),
                                           Pair("train.rate", "0.125"), Pair("train.steps", "4")));
  const Annotations said = read_annotations(back.path);
  EXPECT_THAT(said.tags, ElementsAre("first", "second"));
  EXPECT_EQ(said.note, "A *note*.");
  EXPECT_EQ(said.group, "seeds");
  const auto system = system_logs(back.path);
  ASSERT_EQ(system.size(), 1u);
  EXPECT_THAT(system[0].second.series("cpu_percent"), ElementsAre(Pair(0, 0.0), Pair(1, 10.0), Pair(2, 20.0)));
  const json facts = json::parse(read_file(back.path / "run.json"));
  EXPECT_EQ(facts["imported"]["from"], "wandb");
  EXPECT_EQ(facts["imported"]["id"], run.id);
  EXPECT_EQ(facts["imported"]["source"], "project");
}

TEST(Exchange, ARunIsImportedOnce) {
  const TemporaryFolder folder;
  const RunRecord run = read_run(make_run(folder / "runs", ""));
  export_wandb(run, folder / "wandb", "project");
  const fs::path first = import_all(folder / "wandb", folder / "back").results.at(0).run;
  EXPECT_EQ(read_run(first).status, RunStatus::kKilled);
  annotate_run(first, {.tags = {{"mine"}},
                       .added_tags = {},
                       .removed_tags = {},
                       .note = {},
                       .group = {},
                       .colour = {},
                       .name = {},
                       .pinned = {},
                       .archived = {}});
  EXPECT_THAT(import_all(folder / "wandb", folder / "back").results, IsEmpty());
  // The importer reports a run that it has imported before.
  RunImporter importer(folder / "back", false);
  EXPECT_EQ(importer.add(foreign_run("wandb", run.id)).kind, ImportResult::Kind::kAlreadyThere);
  {
    RunLogWriter more(run.path / "log.ramet");
    const std::vector<LoggedNumber> values = {{"loss", 0.0625}};
    more.metrics(16, values);
    more.event("{\"event\":\"end\",\"status\":\"done\"}");
  }
  export_wandb(read_run(run.path), folder / "wandb", "project");
  const ImportResult again = import_all(folder / "wandb", folder / "back", true).results.at(0);
  EXPECT_EQ(again.kind, ImportResult::Kind::kReplaced);
  EXPECT_EQ(again.run, first);
  const RunRecord back = read_run(first);
  EXPECT_EQ(back.log.series("loss").size(), 5u);
  EXPECT_EQ(back.status, RunStatus::kDone);
  EXPECT_EQ(back.id, first.filename());
  EXPECT_THAT(read_annotations(first).tags, ElementsAre("mine")) << "what people say of a run stays";
  EXPECT_EQ(list_runs(folder / "back").size(), 1u);
}

TEST(Exchange, AnImportedRunIsNotTheLatest) {
  const TemporaryFolder folder;
  const fs::path own = make_run(folder / "runs");
  ImportedRun later = foreign_run("mlflow", "1");
  later.started = 4e9;
  const fs::path imported = RunImporter(folder / "runs", false).add(std::move(later)).run;
  EXPECT_EQ(fs::canonical(find_run("latest", folder / "runs")), fs::canonical(own));
  EXPECT_TRUE(is_imported(imported));
  EXPECT_FALSE(is_imported(own));
  refuse_imported(own, "x");
  EXPECT_THAT(error_of([&] { refuse_imported(imported, "train --resume"); }),
              HasSubstr("train --resume: a run of another tracker has neither a recipe nor weights"));
}

TEST(Exchange, EachFolderOfEventFilesIsARun) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& below, const std::string& file, const std::string& bytes) {
    fs::create_directories(folder / "logs" / below);
    write_file_atomic(folder / "logs" / below / file, bytes);
  };
  const auto scalar = [](int64_t step, double value) {
    const std::vector<LoggedNumber> values = {{"loss", value}};
    return event_file::scalars(1e9 + static_cast<double>(step), step, values);
  };
  write("a/train", "events.out.tfevents.1.h", event_file::version(1e9) + scalar(1, 1) + scalar(2, 2) + scalar(3, 3));
  // The run was resumed behind step 1: a new file.
  write("a/train", "events.out.tfevents.2.h", event_file::version(2e9) + event_file::restart(2e9, 2) + scalar(2, 20));
  write("a/test", "events.out.tfevents.3.h", event_file::version(3e9) + scalar(1, 5) + "torn");
  write("a/empty", "events.out.tfevents.4.h", "");
  write("b", "notes.txt", event_file::version(3e9));
  const Imported imported = import_all(folder / "logs", folder / "runs");
  ASSERT_EQ(imported.results.size(), 2u);
  const RunRecord test = read_run(imported.results[0].run), train = read_run(imported.results[1].run);
  EXPECT_EQ(test.name, "a/test");
  EXPECT_THAT(imported.results[0].remarks, ElementsAre("4 bytes are torn or damaged and were skipped"));
  EXPECT_EQ(train.name, "a/train");
  EXPECT_THAT(train.log.series("loss"), ElementsAre(Pair(1, 1.0), Pair(2, 20.0)));
  EXPECT_EQ(train.log.steps.at(1)[0].time, 1e9 + 1);
  EXPECT_EQ(train.path.filename().string().substr(0, 11), "2001-09-09-") << "named for the day on which it began";
}

TEST(Exchange, FilesAreKnownByTheirContents) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "anything", event_file::version(1));
  EXPECT_EQ(find_import_sources(folder / "anything").sources.at(0).kind, ImportKind::kTensorBoard);
  write_file_atomic(folder / "anything", WandbFile().bytes());
  EXPECT_EQ(find_import_sources(folder / "anything").sources.at(0).kind, ImportKind::kWandb);
  for (const std::string& contents : {std::string(""), std::string("text"), std::string("SQLite format 3\0junk", 20)}) {
    write_file_atomic(folder / "anything", contents);
    EXPECT_THAT(error_of([&] { find_import_sources(folder / "anything"); }),
                HasSubstr("not a file that can be imported"));
  }
  EXPECT_THAT(error_of([&] { find_import_sources(folder / "nowhere"); }), HasSubstr("no such file or folder"));
  fs::create_directories(folder / "mlruns" / "0");
  write_file_atomic(folder / "mlruns" / "0" / "meta.yaml", "artifact_location: x\n");
  const ImportSearch search = find_import_sources(folder / "mlruns");
  EXPECT_THAT(search.sources, IsEmpty());
  EXPECT_THAT(search.remarks, ElementsAre(HasSubstr("mlflow migrate-filestore")));
}

TEST(Exchange, PointsWithoutStepsAreNumbered) {
  const TemporaryFolder folder;
  RunImporter importer(folder.path(), false);
  ImportedRun run = foreign_run("mlflow", "1");
  for (int i = 0; i < 3; ++i) run.metrics["same"].push_back({.step = 7, .time = 100.0 + i, .value = i * 1.0});
  for (const int step : {3, 1, 3, 2})
    run.metrics["again"].push_back({.step = step, .time = 0, .value = run.metrics["again"].size() * 1.0});
  run.metrics[std::string("bad\0\xff", 5)].push_back({.step = 1, .time = std::nan(""), .value = 1});
  run.config = {{"key", "1"}, {"long", json(std::string(100'000, 'x')).dump()}, {"key", "2"}};
  const ImportResult result = importer.add(std::move(run));
  EXPECT_THAT(result.remarks, ElementsAre("1 metric has all values at one step: they are numbered from 0",
                                          "1 value was logged again at the same step: the last counts",
                                          HasSubstr("1 value of the configuration is longer than 64 KiB")));
  const RunRecord back = read_run(result.run);
  EXPECT_THAT(back.log.series("same"), ElementsAre(Pair(0, 0.0), Pair(1, 1.0), Pair(2, 2.0)));
  EXPECT_THAT(back.log.series("again"), ElementsAre(Pair(1, 1.0), Pair(2, 3.0), Pair(3, 2.0)));
  EXPECT_THAT(back.log.names(), ElementsAre("again", "bad\xef\xbf\xbd", "same"));
  EXPECT_EQ(config_of(back).at(0), ConfigValue("key", "2"));
}

/// A record of a .wandb file.
std::string record(int kind, const ProtoMessage& message) { return ProtoMessage().message(kind, message).data(); }

TEST(Exchange, FilesBesideAWandbFileAreTakenFromThereAlone) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run" / "files" / "media");
  write_file_atomic(folder / "secret", kPng);
  write_file_atomic(folder / "run" / "files" / "media" / "good.png", kPng);
  fs::create_symlink(folder / "secret", folder / "run" / "files" / "link.png");
  WandbFile file;
  file.add(record(17, ProtoMessage().bytes(1, "id")));
  int step = 0;
  for (const std::string& path :
       {std::string("media/good.png"), std::string("../../secret"), (folder / "secret").string(),
        std::string("link.png"), std::string("media"), std::string("")}) {
    ProtoMessage item, history, number;
    item.bytes(1, "picture").bytes(16, json{{"_type", "image-file"}, {"path", path}}.dump());
    number.number(1, static_cast<uint64_t>(step++));
    history.message(1, item).message(2, number);
    file.add(record(2, history));
  }
  write_file_atomic(folder / "run" / "run-id.wandb", file.bytes());
  const Imported imported = import_all(folder / "run", folder / "runs");
  ASSERT_EQ(imported.results.size(), 1u);
  EXPECT_EQ(imported.results[0].media, 1);
  EXPECT_THAT(imported.results[0].remarks, ElementsAre("4 files that were logged are not beside the .wandb file",
                                                       HasSubstr("1 values are neither numbers")));
}

TEST(Exchange, WandbsNumbersOfAllKinds) {
  const TemporaryFolder folder;
  WandbFile file;
  file.add(record(17, ProtoMessage().bytes(1, "id").bytes(8, "name")));
  const auto log = [&](const std::string& key, const std::string& value) {
    ProtoMessage item, time, history;
    item.bytes(1, key).bytes(16, value);
    time.bytes(1, "_timestamp").bytes(16, "1700000000.5");
    history.message(1, item).message(1, time);
    file.add(record(2, history));
  };
  log("x", "1");
  log("x", "NaN");
  log("x", "-Infinity");
  log("x", "true");
  log("nested", "{\"a\":{\"b\":2,\"c\":Infinity},\"text\":\"NaN, they say\"}");
  log("deep", std::string(100'000, '['));
  file.add(record(18, ProtoMessage().number(1, 3).number(2, 60)));
  write_file_atomic(folder / "f.wandb", file.bytes());
  const RunRecord run = read_run(import_all(folder / "f.wandb", folder / "runs").results.at(0).run);
  const auto x = run.log.series("x");
  ASSERT_EQ(x.size(), 4u);
  EXPECT_EQ(x[0], (std::pair<int64_t, double>(0, 1)));
  EXPECT_TRUE(std::isnan(x[1].second));
  EXPECT_EQ(x[2].second, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(x[3], (std::pair<int64_t, double>(3, 1)));
  EXPECT_THAT(run.log.series("nested.a.b"), ElementsAre(Pair(4, 2.0)));
  EXPECT_EQ(run.log.last("nested.a.c"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(artifact(run, "text"), "NaN, they say");
  EXPECT_EQ(run.log.steps.at(0)[0].time, 1700000000.5);
  EXPECT_EQ(run.status, RunStatus::kFailed);
  EXPECT_EQ(run.problem, "exit status 3");
}

TEST(Exchange, Moments) {
  EXPECT_EQ(seconds_of_moment("1970-01-02T00:00:00+0000"), 86400);
  EXPECT_EQ(seconds_of_moment("1970-01-02T01:30:00.250000+0130"), 86400.25);
  EXPECT_EQ(seconds_of_moment("yesterday"), 0);
  EXPECT_EQ(seconds_of_moment(""), 0);
}

TEST(Prometheus, RunsAsText) {
  RunGauges run{.id = "a\"b",
                .name = "line\nbreak",
                .status = "running",
                .steps = 3,
                .started = 0,
                .updated = 1700000000.5,
                .last = {{"loss", 2.5}, {"x", std::nan("")}}};
  const std::string text = prometheus_text({run});
  EXPECT_THAT(text, AllOf(HasSubstr("ramet_run_info{run=\"a\\\"b\",name=\"line\\nbreak\",status=\"running\"} 1\n"),
                          HasSubstr("# TYPE ramet_run_steps gauge\nramet_run_steps{run=\"a\\\"b\"} 3\n"),
                          HasSubstr("ramet_run_running{run=\"a\\\"b\"} 1\n"),
                          HasSubstr("ramet_run_last_time_seconds{run=\"a\\\"b\"} 1700000000.5\n"),
                          HasSubstr("ramet_run_metric{run=\"a\\\"b\",metric=\"loss\"} 2.5\n"),
                          HasSubstr("metric=\"x\"} NaN\n")));
  EXPECT_EQ(text.find("start_time"), std::string::npos) << "it is not known";
  EXPECT_EQ(prometheus_text({}), "");
}

}  // namespace
}  // namespace ramet::tests
