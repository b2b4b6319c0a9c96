// `ramet runs export`, `import` and `push` as users type them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <map>
#include <sstream>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "support/temporary.h"
#include "track/made_run.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ExchangeCommands : public ::testing::Test {
 protected:
  ExchangeCommands() { make_ended_run(folder_ / "runs", kRun, 40, 1, 2); }
  Outcome ramet(std::vector<std::string> arguments, const std::vector<std::string>& launcher = {}) {
    arguments.insert(arguments.begin(), "runs");
    return Process(arguments, folder_.path(), launcher).wait();
  }
  /// The losses of a run by step, as floats: event files of TensorBoard hold no more.
  std::map<int64_t, float> losses(const std::string& runs, const std::string& run) {
    const Outcome outcome = ramet({"export", run, "--run-dir", runs});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    std::string header;
    std::map<int64_t, float> all;
    std::getline(lines, header);
    std::istringstream names(header);
    size_t column = 0;
    for (std::string name; std::getline(names, name, ',') && name != "loss";) ++column;
    for (std::string line; std::getline(lines, line);) {
      std::vector<std::string> cells;
      std::istringstream row(line);
      for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
      if (column < cells.size() && !cells[column].empty()) all[std::stoll(cells[0])] = std::stof(cells[column]);
    }
    return all;
  }

  static constexpr const char* kRun = "2026-01-01-made-000001";
  TemporaryFolder folder_;
};

TEST_F(ExchangeCommands, WhatGoesOutComesBack) {
  const auto before = losses("runs", kRun);
  ASSERT_EQ(before.size(), 40u);
  for (const std::string format : {"tensorboard", "wandb"}) {
    const Outcome out = ramet({"export", kRun, "--format", format, "--out", format});
    ASSERT_EQ(out.status, 0) << out.err;
    const Outcome in = ramet({"import", format, "--run-dir", "from-" + format});
    ASSERT_EQ(in.status, 0) << in.err;
    EXPECT_THAT(in.out, HasSubstr("1 run imported"));
    std::string run;
    for (const auto& entry : fs::directory_iterator(folder_ / ("from-" + format)))
      if (entry.is_directory()) run = entry.path().filename();
    EXPECT_EQ(losses("from-" + format, run), before) << format;
  }
}

TEST_F(ExchangeCommands, WordsForWhatCannotBe) {
  EXPECT_EQ(ramet({"push", kRun}).status, 2);
  EXPECT_EQ(ramet({"push", "no-such-run", "--mlflow", "http://127.0.0.1:1"}).status, 2);
  EXPECT_EQ(ramet({"push", kRun, "--mlflow", "file:///tmp"}).status, 2);
  EXPECT_EQ(ramet({"import", "no-such-file"}).status, 2);
  EXPECT_EQ(ramet({"export", kRun, "--format", "tensorboard"}).status, 2);
}

/// 256 MiB of zeros in a quarter of a megabyte.
std::string bomb() {
  const std::string zeros(size_t{1} << 20, '\0');
  std::string packed(size_t{1} << 20, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  for (int i = 0; i < 256; ++i) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
    stream.avail_in = static_cast<uInt>(zeros.size());
    EXPECT_EQ(deflate(&stream, i < 255 ? Z_NO_FLUSH : Z_FINISH), i < 255 ? Z_OK : Z_STREAM_END);
  }
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST_F(ExchangeCommands, ABombIsRefusedAndNeverUnpacked) {
  const std::string packed = bomb();
  fs::create_directories(folder_ / "bombs");
  ASSERT_LT(packed.size(), size_t{512} << 10);
  // A program that unpacked it would need more memory than it may have here.
  const std::vector<std::string> in_little = {"/bin/sh", "-c", "ulimit -v 200000; exec \"$@\"", "sh"};
  for (const std::string name : {"events.out.tfevents.1.host", "run-1.wandb", "mlflow.db"}) {
    write_file_atomic(folder_ / "bombs" / name, packed);
    const Outcome outcome = ramet({"import", "bombs/" + name, "--run-dir", "imported"}, in_little);
    EXPECT_EQ(outcome.status, 2) << name << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(name));
  }
  // In a folder the others still come in.
  ASSERT_EQ(ramet({"export", kRun, "--format", "tensorboard", "--out", "bombs/good"}).status, 0);
  const Outcome mixed = ramet({"import", "bombs", "--run-dir", "imported"}, in_little);
  EXPECT_THAT(mixed.out, HasSubstr("1 run imported"));
  EXPECT_THAT(mixed.err, HasSubstr("events.out.tfevents.1.host"));
}

}  // namespace
}  // namespace ramet::tests
