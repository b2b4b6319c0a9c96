#include "ramet/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<StateTensor> kStates = {
    {"a.weight", {DType::kF32, {3, 5}}, StateKind::kWeight, {}, "decay"},
    {"a.bias", {DType::kF32, {5}}, StateKind::kWeight, {}, "no_decay"},
    {"grad", {DType::kF32, {5}}, StateKind::kAccumulator, {}, ""},
    {"optimizer.m.a.weight", {DType::kF32, {3, 5}}, StateKind::kOptimizer, {}, ""},
    {"empty", {DType::kF32, {0}}, StateKind::kOptimizer, {}, ""},
};

/// State `s` holds bytes that follow from its name and `salt`.
void fill(const StateTensor& state, int salt, uint64_t offset, std::span<std::byte> to) {
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<std::byte>(hash64(state.name) + static_cast<uint64_t>(salt) * 31 + offset + i);
}
ReadState reader(int salt) {
  return [salt](const StateTensor& state, uint64_t offset, std::span<std::byte> to) {
    ASSERT_NE(state.kind, StateKind::kAccumulator);
    fill(state, salt, offset, to);
  };
}

fs::path save(const fs::path& folder, int step, SaveOptions options = {}) {
  return save_checkpoint(folder,
                         {.step = step,
                          .samples = step * 8,
                          .recipe_hash = "r",
                          .data_hash = "d",
                          .kernel_class = "k",
                          .version = "v",
                          .weights_hash = "",
                          .loss_scale = {}},
                         kStates, reader(step), options);
}

void expect_holds(const fs::path& path, int step) {
  const Checkpoint checkpoint(path);
  EXPECT_EQ(checkpoint.info().step, step);
  checkpoint.verify();
  int seen = 0;
  checkpoint.load(kStates, [&](const StateTensor& state, std::span<const std::byte> bytes) {
    std::vector<std::byte> expected(static_cast<size_t>(state.type.bytes()));
    fill(state, step, 0, expected);
    ASSERT_EQ(bytes.size(), expected.size());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin())) << state.name;
    ++seen;
  });
  EXPECT_EQ(seen, 4);
}

/// Without fsync: for damage by the thousand.
void overwrite(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(Checkpoint, SavesAndLoads) {
  const TemporaryFolder folder;
  const fs::path path = save(folder.path(), 100);
  EXPECT_EQ(path.filename(), "step-00000100");
  expect_holds(path, 100);
  const Checkpoint checkpoint(path);
  EXPECT_EQ(checkpoint.info().samples, 800);
  EXPECT_EQ(checkpoint.info().kernel_class, "k");
  EXPECT_EQ(checkpoint.info().weights_hash, weights_hash(kStates, reader(100)).hex());
  EXPECT_EQ(checkpoint.tensors().size(), 4u);
  EXPECT_EQ(checkpoint.bytes(), 60 + 20 + 60);
  EXPECT_NE(weights_hash(kStates, reader(1)), weights_hash(kStates, reader(2)));
}

TEST(Checkpoint, CutsShards) {
  const TemporaryFolder folder;
  const fs::path path = save(folder.path(), 3, {.keep = 2, .shard_bytes = 1});
  EXPECT_TRUE(fs::exists(path / "weight-00001-of-00002.safetensors"));
  EXPECT_TRUE(fs::exists(path / "optimizer-00001-of-00001.safetensors") ||
              fs::exists(path / "optimizer-00002-of-00002.safetensors"));
  expect_holds(path, 3);
}

TEST(Checkpoint, KeepsTheLastOnes) {
  const TemporaryFolder folder;
  for (int step = 1; step <= 5; ++step) save(folder.path(), step, {.keep = 2});
  const auto left = list_checkpoints(folder.path());
  ASSERT_EQ(left.size(), 2u);
  expect_holds(left[0], 4);
  expect_holds(left[1], 5);
  // The one just written stays even where later ones are there.
  expect_holds(save(folder.path(), 2, {.keep = 1}), 2);
}

TEST(Checkpoint, ReplacesTheSameStep) {
  const TemporaryFolder folder;
  save(folder.path(), 7);
  std::ofstream(folder.path() / "step-00000007" / "extra") << "x";
  const fs::path path = save(folder.path(), 7);
  expect_holds(path, 7);
  EXPECT_FALSE(fs::exists(path / "extra"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Checkpoint, LeftoversAreSweptAndIgnored) {
  const TemporaryFolder folder;
  save(folder.path(), 1);
  fs::create_directory(folder / "step-00000009.tmp");
  fs::create_directory(folder / "step-00000008.old");
  fs::create_directory(folder / "step-x");
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 1u);
  save(folder.path(), 2);
  EXPECT_FALSE(fs::exists(folder / "step-00000009.tmp"));
  EXPECT_FALSE(fs::exists(folder / "step-00000008.old"));
}

TEST(Checkpoint, EveryFlippedBitIsFoundAndNamed) {
  const TemporaryFolder folder;
  save(folder.path(), 1);
  const fs::path path = save(folder.path(), 2);
  int named_tensor = 0;
  for (const char* name :
       {"weight-00001-of-00001.safetensors", "optimizer-00001-of-00001.safetensors", "manifest.json"}) {
    const std::string good = read_file(path / name);
    for (size_t at = 0; at < good.size(); at += name == std::string("manifest.json") ? 7 : 1) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
      overwrite(path / name, bad);
      const std::string error = error_of([&] { Checkpoint(path).verify(); });
      ASSERT_NE(error, "no error") << name << " byte " << at;
      ASSERT_THAT(error, testing::AnyOf(HasSubstr("the checkpoint is damaged"), HasSubstr("of another version"),
                                        HasSubstr("unknown"), HasSubstr("no such type"), HasSubstr("not a")))
          << name << " byte " << at;
      named_tensor += error.find("tensor 'a.weight': ") == std::string::npos &&
                      error.find("tensor 'a.weight'") != std::string::npos;
    }
    overwrite(path / name, good);
  }
  expect_holds(path, 2);
}

TEST(Checkpoint, DamageNamesFileTensorAndRemedy) {
  const TemporaryFolder folder;
  const fs::path previous = save(folder.path(), 1), path = save(folder.path(), 2),
                 file = path / "weight-00001-of-00001.safetensors";
  const std::string good = read_file(file);
  std::string bad = good;
  bad.back() = static_cast<char>(bad.back() ^ 4);
  write_file_atomic(file, bad);
  const auto load = [&] { Checkpoint(path).load(kStates, [](const StateTensor&, std::span<const std::byte>) {}); };
  EXPECT_THAT(
      error_of(load),
      HasSubstr(file.string() + ", tensor 'a.bias': the checkpoint is damaged: the tensor's checksum differs; found "));
  EXPECT_THAT(error_of(load), HasSubstr(". Resume from the previous checkpoint, " + previous.string()));
  write_file_atomic(file, good.substr(0, good.size() - 1));
  EXPECT_THAT(error_of(load), HasSubstr("the file was cut short; found " + std::to_string(good.size() - 1) +
                                        " bytes; expected " + std::to_string(good.size())));
  fs::remove(file);
  EXPECT_THAT(error_of(load), HasSubstr("the file is missing"));
  fs::remove(path / "manifest.json");
  EXPECT_THAT(error_of(load),
              HasSubstr("not a checkpoint: it has no manifest.json. Resume from the previous checkpoint, " +
                        previous.string()));
}

TEST(Checkpoint, OtherModelsAreRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const Checkpoint checkpoint(save(folder.path(), 1));
  int written = 0;
  const auto count = [&](const StateTensor&, std::span<const std::byte>) { ++written; };
  auto states = kStates;
  states[3].type.shape = Shape{5, 3};
  EXPECT_THAT(error_of([&] { checkpoint.load(states, count); }),
              HasSubstr("tensor 'optimizer.m.a.weight': a tensor differs from the recipe's model; found f32[3,5]; "
                        "expected f32[5,3]"));
  states = kStates;
  states.push_back({"b", {DType::kF32, {1}}, StateKind::kWeight, {}, ""});
  EXPECT_THAT(error_of([&] { checkpoint.load(states, count); }),
              HasSubstr("tensor 'b': the checkpoint lacks a tensor"));
  EXPECT_EQ(written, 0);
}

std::vector<StateTensor> states_of_all_roles() {
  std::vector<StateTensor> states = kStates;
  states.push_back({"memory", {DType::kF32, {2}}, StateKind::kChained, {}, ""});
  states.push_back({"mean", {DType::kF32, {3}}, StateKind::kDeferred, {}, ""});
  states.push_back({"route", {DType::kI64, {4}}, StateKind::kPattern, {}, ""});
  states.push_back({"cache", {DType::kF32, {6}}, StateKind::kKept, {}, ""});
  states.push_back({"edges",
                    {DType::kI32, {2}},
                    StateKind::kConstant,
                    StateInit::from(TensorData(HostTensor::of(DType::kI32, {2}, {3, 1}))),
                    ""});
  return states;
}

TEST(Checkpoint, RolesAreSavedAsTheyAreAndConstantsByTheirHash) {
  const TemporaryFolder folder;
  auto states = states_of_all_roles();
  const ReadState read = [](const StateTensor& state, uint64_t offset, std::span<std::byte> to) {
    ASSERT_TRUE(is_saved(state.kind)) << state.name;
    fill(state, 1, offset, to);
  };
  const Checkpoint checkpoint(save_checkpoint(folder.path(), {.step = 1}, states, read));
  checkpoint.verify();
  EXPECT_EQ(checkpoint.tensors().size(), 7u);
  EXPECT_EQ(checkpoint.info().weights_hash, weights_hash(states, read).hex());
  EXPECT_NE(checkpoint.info().weights_hash, weights_hash(kStates, read).hex()) << "patterns are hashed too";
  std::vector<std::string> names;
  const auto note = [&](const StateTensor& state, std::span<const std::byte>) { names.push_back(state.name); };
  checkpoint.load(states, note);
  checkpoint.check_no_others(states);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("a.weight", "a.bias", "optimizer.m.a.weight", "empty", "memory",
                                                     "mean", "route"));
  names.clear();
  EXPECT_THAT(error_of([&] { checkpoint.check_no_others(kStates); }),
              HasSubstr("tensor 'route': the checkpoint is another model's: it has a tensor that this one lacks; found "
                        "i64[4], pattern"));
  states[5].kind = StateKind::kDeferred;
  EXPECT_THAT(
      error_of([&] { checkpoint.load(states, note); }),
      HasSubstr("tensor 'memory': a tensor has another role than in the recipe's model; found chained; expected "
                "deferred"));
  states = states_of_all_roles();
  states.back().init = StateInit::from(TensorData(HostTensor::of(DType::kI32, {2}, {3, 2})));
  EXPECT_THAT(error_of([&] { checkpoint.load(states, note); }),
              HasSubstr("tensor 'edges': the checkpoint was made with another constant"));
  const Checkpoint without(save(folder.path(), 2));
  EXPECT_THAT(error_of([&] { without.load(states_of_all_roles(), note); }), HasSubstr("the checkpoint lacks a tensor"));
  EXPECT_TRUE(names.empty()) << "nothing is written before all is compared";
}

TEST(Checkpoint, AFullDiskLeavesThePreviousOneWhole) {
  const TemporaryFolder folder;
  const fs::path previous = save(folder.path(), 1);
  // A limit on the size of files stands for the disk, at every size at which it could strike.
  const auto largest = fs::file_size(previous / "manifest.json");
  for (rlim_t limit = 0; limit < largest; limit += 97) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit small{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &small);
      const std::string error = error_of([&] { save(folder.path(), 2); });
      const bool right =
          error.find("cannot save a checkpoint: cannot write the file (File too large)") != std::string::npos &&
          error.find("The last whole checkpoint is " + previous.string()) != std::string::npos;
      ::_exit(right ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "limit " << limit;
    ASSERT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1) << "limit " << limit;
  }
  expect_holds(previous, 1);
}

TEST(Checkpoint, AKillAtAnyMomentLeavesAWholeOne) {
  const TemporaryFolder folder;
  save(folder.path(), 1);
  for (int round = 0; round < 25; ++round) {
    const pid_t child = ::fork();
    if (child == 0)
      for (int step = 2;; ++step) save(folder.path(), step % 50 + 1, {.keep = 2});
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 1371 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    const auto all = list_checkpoints(folder.path());
    ASSERT_FALSE(all.empty());
    for (const auto& path : all) expect_holds(path, std::stoi(path.filename().string().substr(5)));
  }
}

TEST(Checkpoint, UnwritableFolderIsAnError) {
  EXPECT_THAT(error_of([] { save("/proc/nowhere", 1); }),
              HasSubstr("cannot save a checkpoint: cannot make the folder"));
}

}  // namespace
}  // namespace ramet::tests
