#include "ramet/runtime/streaming_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "ramet/base/error.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

template <typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailure);
    return error.what();
  }
  return "no error";
}

struct Way {
  const char* name;
  bool ram, uring, direct;
};

class StoreTest : public testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<StreamingStore> make(int64_t bytes) {
    if (GetParam().ram) return make_ram_store(bytes);
    return make_file_store(bytes, {.folder = folder_.path(), .uring = GetParam().uring, .direct = GetParam().direct});
  }
  TemporaryFolder folder_;
};

TEST_P(StoreTest, IsZeroAtFirst) {
  const auto store = make(10'000);
  EXPECT_EQ(store->bytes(), 10'000);
  std::vector<char> bytes(10'000, 'x');
  store->load(0, bytes.data(), 10'000);
  EXPECT_EQ(bytes, std::vector<char>(10'000, 0));
}

// Many transfers under way, at any offsets and addresses, against the same ones done one after another.
TEST_P(StoreTest, DoesWhatCopiesInOrderDo) {
  constexpr int64_t kBytes = 3 << 20;
  const auto store = make(kBytes);
  std::vector<char> model(kBytes, 0);
  std::mt19937_64 random(7);
  struct Under {
    Ticket ticket;
    std::vector<char> memory, expected;
    int64_t shift, bytes;
  };
  std::vector<Under> under;
  for (int i = 0; i < 150; ++i) {
    const bool aligned = random() % 2, load = random() % 2;
    const int64_t most = random() % 4 == 0 ? kBytes : 20'000;
    int64_t offset = static_cast<int64_t>(random() % kBytes), bytes = static_cast<int64_t>(random() % most);
    if (aligned) offset = offset / 4096 * 4096, bytes = (bytes + 4095) / 4096 * 4096;
    bytes = std::min(bytes, kBytes - offset);
    Under& each = under.emplace_back();
    each.shift = aligned ? 0 : static_cast<int64_t>(random() % 64);
    each.bytes = bytes;
    each.memory.resize(static_cast<size_t>(bytes + each.shift));
    char* const data = each.memory.data() + each.shift;
    if (load) {
      each.expected.assign(model.begin() + offset, model.begin() + offset + bytes);
      each.ticket = store->start_load(offset, data, bytes);
    } else {
      for (int64_t k = 0; k < bytes; ++k) data[k] = static_cast<char>(random());
      std::memcpy(model.data() + offset, data, static_cast<size_t>(bytes));
      each.ticket = store->start_store(offset, data, bytes);
    }
    if (under.size() < 12) continue;
    std::shuffle(under.begin(), under.end(), random);
    for (Under& done : under) {
      store->wait(done.ticket);
      if (done.expected.empty()) continue;
      ASSERT_EQ(std::memcmp(done.expected.data(), done.memory.data() + done.shift, static_cast<size_t>(done.bytes)), 0);
    }
    under.clear();
  }
  for (Under& done : under) store->wait(done.ticket);
  std::vector<char> all(kBytes);
  store->load(0, all.data(), kBytes);
  EXPECT_TRUE(all == model);
}

TEST_P(StoreTest, RangesOutsideAreRefused) {
  const auto store = make(8192);
  char byte[8] = {};
  EXPECT_THROW(store->start_load(8190, byte, 8), Error);
  EXPECT_THROW(store->start_store(-1, byte, 8), Error);
  store->load(8192, byte, 0);
}

TEST_P(StoreTest, MayEndWithTransfersUnderWay) {
  std::vector<char> bytes(2 << 20, 1);
  const auto store = make(4 << 20);
  for (int i = 0; i < 20; ++i) store->start_store(i * 4096, bytes.data(), 2 << 20);
}

INSTANTIATE_TEST_SUITE_P(Ways, StoreTest,
                         testing::Values(Way{"Ram", true, false, false}, Way{"UringDirect", false, true, true},
                                         Way{"UringCached", false, true, false}, Way{"PlainDirect", false, false, true},
                                         Way{"PlainCached", false, false, false}),
                         [](const auto& info) { return info.param.name; });

size_t entries_of(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(FileStore, LeavesNothingBehindUnlessAsked) {
  const TemporaryFolder folder;
  {
    const auto store = make_file_store(100'000, {.folder = folder.path()});
    EXPECT_EQ(entries_of(folder.path()), 0u);
  }
  {
    const auto store = make_file_store(100'000, {.folder = folder.path(), .name = "device3", .keep = true});
  }
  EXPECT_EQ(fs::file_size(folder / "device3"), 102'400u);
}

TEST(FileStore, TakesItsRoomAtOnce) {
  const TemporaryFolder folder;
  const auto before = fs::space(folder.path()).available;
  const auto store = make_file_store(64 << 20, {.folder = folder.path()});
  const auto after = fs::space(folder.path()).available;
  if (before < after) GTEST_SKIP() << "others write to the same file system";
  EXPECT_GE(before - after, 32u << 20);
}

TEST(FileStore, RefusesWhatTheFileSystemCannotHold) {
  const TemporaryFolder folder;
  const std::string text =
      message_of([&] { make_file_store(int64_t{1} << 56, {.folder = folder.path(), .name = "big", .keep = true}); });
  EXPECT_THAT(text, AllOf(HasSubstr("streaming memory in " + folder.path().string()), HasSubstr("no room for the file"),
                          HasSubstr(" free"), HasSubstr("expected 64.00 PiB"), HasSubstr("streaming=FOLDER")));
  EXPECT_EQ(entries_of(folder.path()), 0u);
}

TEST(FileStore, RefusesWhatTheProcessMayNotWrite) {
  const TemporaryFolder folder;
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small{1 << 20, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text = message_of([&] { make_file_store(2 << 20, {.folder = folder.path()}); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_THAT(text, AllOf(HasSubstr("no room"), HasSubstr("limit of 1.00 MiB"), HasSubstr("expected 2.00 MiB")));
}

TEST(FileStore, NamesTheFolderThatIsNotThere) {
  EXPECT_THAT(message_of([] { make_file_store(4096, {.folder = "/no/such/folder"}); }),
              AllOf(HasSubstr("/no/such/folder: cannot make a file of streaming memory"), HasSubstr("No such file")));
}

TEST(FileStore, TellsThatTheFileWasCutShort) {
  const TemporaryFolder folder;
  const auto store = make_file_store(1 << 20, {.folder = folder.path(), .name = "short", .keep = true});
  fs::resize_file(folder / "short", 8192);
  std::vector<char> bytes(1 << 20);
  store->load(0, bytes.data(), 8192);
  EXPECT_THAT(message_of([&] { store->load(0, bytes.data(), 1 << 20); }),
              AllOf(HasSubstr("was cut short at byte"), HasSubstr(folder.path().string())));
  // Other transfers go on.
  store->load(4096, bytes.data(), 4096);
}

}  // namespace
}  // namespace ramet::tests
