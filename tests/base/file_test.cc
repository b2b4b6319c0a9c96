#include "ramet/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "ramet/base/error.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

size_t entries_of(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(ReadFile, ReadsAllOfIt) {
  const TemporaryFolder folder;
  for (const size_t size : {0ul, 1ul, 65535ul, 65536ul, 65537ul, 300000ul}) {
    std::string contents(size, 'x');
    for (size_t i = 0; i < size; ++i) contents[i] = static_cast<char>(i * 7);
    std::ofstream(folder / "file", std::ios::binary) << contents;
    EXPECT_EQ(read_file(folder / "file"), contents);
    const MappedFile map(folder / "file");
    EXPECT_EQ(map.view(), contents);
  }
}

TEST(ReadFile, ReadsWhatHasNoSize) { EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Pid:")); }

TEST(ReadFile, NamesThePathAndTheReason) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing").string();
  EXPECT_EQ(message_of([&] { read_file(missing); }), missing + ": cannot open the file (No such file or directory)");
  EXPECT_EQ(message_of([&] { MappedFile map(missing); }),
            missing + ": cannot open the file (No such file or directory)");
  EXPECT_EQ(message_of([&] { read_file(folder.path()); }),
            folder.path().string() + ": cannot read the file (Is a directory)");
  EXPECT_EQ(message_of([&] { MappedFile map(folder.path()); }),
            folder.path().string() + ": not a regular file; expected a file that can be mapped");
}

TEST(MappedFile, Moves) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "hello";
  MappedFile first(folder / "file");
  const MappedFile second(std::move(first));
  EXPECT_EQ(second.view(), "hello");
  EXPECT_EQ(first.size(), 0u);
}

TEST(WriteFileAtomic, ReplacesAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "file", "old");
  write_file_atomic(folder / "file", "");
  EXPECT_EQ(read_file(folder / "file"), "");
  write_file_atomic(folder / "file", "new");
  EXPECT_EQ(read_file(folder / "file"), "new");
  EXPECT_EQ(entries_of(folder.path()), 1u);
}

TEST(WriteFileAtomic, NamesTheFileItWasAskedFor) {
  const TemporaryFolder folder;
  const std::string path = (folder / "missing/file").string();
  EXPECT_EQ(message_of([&] { write_file_atomic(path, "x"); }),
            path + ": cannot create the file (No such file or directory)");
  fs::create_directories(folder / "taken/inside");
  const std::string taken = (folder / "taken").string();
  EXPECT_EQ(message_of([&] { write_file_atomic(taken, "x"); }),
            taken + ": cannot put the file in place (Is a directory)");
  EXPECT_EQ(entries_of(folder.path()), 1u) << "the temporary file was left behind";
}

TEST(WriteFileAtomic, ReadersSeeOldOrNewNeverAPart) {
  const TemporaryFolder folder;
  const std::string a(100000, 'a'), b(50000, 'b');
  write_file_atomic(folder / "file", a);
  std::atomic<bool> over{false};
  std::thread first([&] {
    for (int i = 0; i < 30; ++i) write_file_atomic(folder / "file", i % 2 ? a : b);
    over = true;
  });
  std::thread second([&] {
    for (int i = 0; i < 30; ++i) write_file_atomic(folder / "file", i % 2 ? b : a);
  });
  int reads = 0;
  do {
    const std::string seen = read_file(folder / "file");
    EXPECT_TRUE(seen == a || seen == b) << "a part of a file was seen: " << seen.size() << " bytes";
    ++reads;
  } while (!over);
  first.join();
  second.join();
  EXPECT_GT(reads, 0);
  EXPECT_EQ(entries_of(folder.path()), 1u);
}

/// Runs `body` in a process whose files may hold at most `bytes`, as on a full disk; gives what it says.
std::string in_limited_process(rlim_t bytes, const std::function<std::string()>& body) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    std::string text = ::setrlimit(RLIMIT_FSIZE, &limit) == 0 ? body() : "no limit could be set";
    const ssize_t wrote = ::write(ends[1], text.data(), text.size());
    ::_exit(wrote == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

TEST(WriteFileAtomic, AFullDiskLeavesTheOldFileWhole) {
  const TemporaryFolder folder;
  const fs::path path = folder / "checkpoint";
  write_file_atomic(path, "the old contents");
  const std::string text = in_limited_process(
      1 << 16, [&] { return message_of([&] { write_file_atomic(path, std::string(1 << 20, 'n')); }); });
  EXPECT_EQ(text, path.string() +
                      ": cannot write the file (File too large). Free some room, or raise the limit, and try again");
  EXPECT_EQ(read_file(path), "the old contents");
  EXPECT_EQ(entries_of(folder.path()), 1u) << "the temporary file was left behind";
}

TEST(FileWriter, SaysThatTheDeviceIsFull) {
  FileWriter writer("/dev/full");
  try {
    writer.write("x");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "/dev/full: cannot write the file (No space left on device). Free some room, or raise the limit, and try "
        "again");
    EXPECT_EQ(error.kind(), ErrorKind::kFailure);
  }
}

TEST(FileWriter, CountsWhatItWrote) {
  const TemporaryFolder folder;
  FileWriter writer(folder / "file");
  EXPECT_EQ(writer.position(), 0u);
  writer.write("hello ");
  writer.write("world", 5);
  writer.write("");
  EXPECT_EQ(writer.position(), 11u);
  writer.close();
  EXPECT_EQ(read_file(folder / "file"), "hello world");
  EXPECT_THAT(message_of([&] { writer.write("more"); }), HasSubstr("cannot write the file (Bad file descriptor)"));
}

TEST(FileWriter, CannotCreateInAMissingFolder) {
  EXPECT_THAT(message_of([] { FileWriter writer("/nonexistent/file"); }),
              StartsWith("/nonexistent/file: cannot create the file"));
}

TEST(SyncDirectory, RefusesWhatIsNone) {
  const TemporaryFolder folder;
  sync_directory(folder.path());
  EXPECT_THAT(message_of([&] { sync_directory(folder / "none"); }), HasSubstr("cannot open the folder"));
}

TEST(ParseSize, Units) {
  EXPECT_EQ(parse_size("0"), 0);
  EXPECT_EQ(parse_size("123456"), 123456);
  EXPECT_EQ(parse_size("17B"), 17);
  EXPECT_EQ(parse_size("64 MiB"), 64 << 20);
  EXPECT_EQ(parse_size("64MiB"), 64 << 20);
  EXPECT_EQ(parse_size("64M"), 64 << 20);
  EXPECT_EQ(parse_size("64Mi"), 64 << 20);
  EXPECT_EQ(parse_size("64MB"), 64'000'000);
  EXPECT_EQ(parse_size("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(parse_size("2KiB"), 2048);
  EXPECT_EQ(parse_size("2KB"), 2000);
  EXPECT_EQ(parse_size("1TiB"), int64_t{1} << 40);
  EXPECT_EQ(parse_size("1TB"), 1'000'000'000'000);
  EXPECT_EQ(parse_size("1e3"), 1000);
}

TEST(ParseSize, RefusesAnythingElse) {
  for (const std::string text : {"", " ", "MiB", "-1", "-1MiB", "1 XiB", "1MiBs", "inf", "nan", "1e400", "0x10", "1..5",
                                 "+5", "9000000TiB", "1 M iB", " 1", "1\n", "5 percent", "9223372036854775808"})
    EXPECT_EQ(message_of([&] { parse_size(text); }),
              "not a size; found '" + text + "'; expected a number and a unit, as in 512MiB or 1.5GiB")
        << text;
  EXPECT_THAT(message_of([] { parse_size(std::string_view("1\0MiB", 5)); }), StartsWith("not a size"));
  EXPECT_LT(message_of([] { parse_size(std::string(1 << 20, '9') + "x"); }).size(), 300u);
}

TEST(FormatSize, ReadsWell) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1.00 KiB");
  EXPECT_EQ(format_size(1536), "1.50 KiB");
  EXPECT_EQ(format_size((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_size(3ll << 29), "1.50 GiB");
  EXPECT_EQ(format_size(-2048), "-2.00 KiB");
  EXPECT_EQ(format_size(INT64_MAX), "8192.00 PiB");
}

TEST(FormatSize, WhatItPrintsParsesBack) {
  for (int64_t bytes = 1; bytes < int64_t{1} << 49; bytes = bytes * 3 + 1) {
    const double back = static_cast<double>(parse_size(format_size(bytes)));
    EXPECT_NEAR(back / static_cast<double>(bytes), 1, 0.006) << bytes;
  }
}

}  // namespace
}  // namespace ramet::tests
