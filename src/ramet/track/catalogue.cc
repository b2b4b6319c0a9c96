#include "ramet/track/catalogue.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unordered_set>

#include "ramet/base/error.h"
#include "ramet/ir/attribute.h"
#include "ramet/track/catalogue_state.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_indexer.h"
#include "ramet/track/run_record.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kPatience = 10;                  // seconds that a process waits for another one's indexing
constexpr auto kBatch = std::chrono::seconds(1);  // of runs that are committed together
constexpr int kCannotOpen = 14;                   // SQLITE_CANTOPEN

/// Whether the memory that processes share for a write-ahead log works on this disk.
bool is_network_disk(const fs::path& folder) {
  struct statfs facts{};
  if (::statfs(folder.c_str(), &facts) != 0) return false;
  switch (static_cast<uint32_t>(facts.f_type)) {
    case 0x6969:      // NFS
    case 0xff534d42:  // CIFS
    case 0xfe534d42:  // SMB2
    case 0x0bd00bd0:  // Lustre
    case 0x00c36400:  // Ceph
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0x65735546:  // FUSE
    case 0x01021997:  // 9P
      return true;
    default: return false;
  }
}

std::string reason_of(const Error& error) {
  const std::string& what = error.parts().what;
  return what;
}

void set_up_writing(Database& database, const fs::path& folder) {
  database.execute("PRAGMA page_size = 8192");
  if (is_network_disk(folder)) {
    database.execute("PRAGMA journal_mode = TRUNCATE");
  } else {
    database.execute("PRAGMA journal_mode = WAL");
    database.execute("PRAGMA journal_size_limit = 67108864");
  }
  database.execute("PRAGMA synchronous = NORMAL");
}

}  // namespace

std::string field_json(const FieldValue& value) {
  using nlohmann::json;
  const auto dump = [](const json& each) { return each.dump(-1, ' ', false, json::error_handler_t::replace); };
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const double* real = std::get_if<double>(&value)) return std::isfinite(*real) ? dump(*real) : "null";
  if (const std::string* text = std::get_if<std::string>(&value)) return dump(*text);
  return "null";
}

std::string field_text(const FieldValue& value) {
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  if (const double* real = std::get_if<double>(&value)) return ir::text_of(Attribute(*real));
  return std::holds_alternative<std::monostate>(value) ? "" : field_json(value);
}

CatalogueLock::CatalogueLock(const fs::path& runs_folder, double seconds) {
  const fs::path path = runs_folder / "catalogue.lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    throw DatabaseError(
        {.what = "cannot write beside the runs (" + std::string(std::strerror(errno)) + ")", .where = path.string()},
        kCannotOpen);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (Clock::now() > end) {
      ::close(fd);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  fd_ = fd;
}
CatalogueLock::~CatalogueLock() {
  if (fd_ >= 0) ::close(fd_);
}

Catalogue::Catalogue(std::unique_ptr<State> state) : state_(std::move(state)) {}
Catalogue::~Catalogue() = default;
Catalogue::Catalogue(Catalogue&&) noexcept = default;
Catalogue& Catalogue::operator=(Catalogue&&) noexcept = default;

Catalogue Catalogue::open(const fs::path& runs_folder, Access access) {
  std::error_code error;
  if (!fs::is_directory(runs_folder, error))
    throw Error({.what = "no folder of runs", .where = runs_folder.string(), .remedy = "Name it with --run-dir"});
  auto state = std::make_unique<State>();
  state->folder = runs_folder;
  state->access = access;
  state->open();
  return Catalogue(std::move(state));
}

const fs::path& Catalogue::folder() const { return state_->folder; }
std::string Catalogue::remark() const {
  const std::lock_guard lock(state_->mutex);
  return state_->remark;
}

uint64_t Catalogue::State::inode() const {
  struct stat facts{};
  return ::stat(file().c_str(), &facts) == 0 ? facts.st_ino : 0;
}

void Catalogue::State::reopen_if_replaced() {
  if (!in_memory && inode() != opened) database.reset(), open();
}

void Catalogue::State::open() {
  in_memory = false;
  opened = inode();
  std::error_code error;
  try {
    if (access == Access::kIndex) {
      database = std::make_unique<Database>(file(), Database::Mode::kReadWrite);
      const bool made = schema_of(*database) == kCatalogueSchema;
      opened = inode();
      if (made) {
        set_up_writing(*database, folder);
        return;
      }
      const CatalogueLock lock(folder, 1e9);
      set_up_writing(*database, folder);
      if (schema_of(*database) == kCatalogueSchema) return;  // another process was faster
      Transaction transaction(*database);
      make_schema(*database);
      transaction.commit();
      return;
    }
    if (fs::exists(file(), error)) {
      database = std::make_unique<Database>(file(), Database::Mode::kRead);
      if (schema_of(*database) == kCatalogueSchema) return;
    }
  } catch (const DatabaseError& problem) {
    database.reset();
    if (problem.is_damaged()) {
      replace_damaged();
      return;
    }
    if (!problem.is_refused()) throw;
    move_to_memory(reason_of(problem));
    return;
  }
  move_to_memory("");
}

void Catalogue::State::move_to_memory(const std::string& reason) {
  database.reset();
  std::error_code error;
  auto memory = std::make_unique<Database>("", Database::Mode::kMemory);
  bool taken = false;
  if (fs::exists(file(), error)) try {
      Database there(file(), Database::Mode::kReadFrozen);
      memory->copy_from(there);
      taken = schema_of(*memory) == kCatalogueSchema;
    } catch (const DatabaseError&) {  // then from the folders
      memory = std::make_unique<Database>("", Database::Mode::kMemory);
    }
  database = std::move(memory);
  in_memory = true;
  remark = reason.empty() ? "" : reason + "; the catalogue is made in memory";
  if (!taken) make_schema(*database);
  try {
    index_all({}, false);
  } catch (const DatabaseError&) {  // the copy was damaged
    make_schema(*database);
    index_all({}, false);
  }
}

/// catalogue.db becomes catalogue.db.damaged, so that nothing is lost that somebody may want to look at.
void Catalogue::State::set_aside() {
  std::error_code error;
  fs::rename(file(), file().string() + ".damaged", error);
  if (error)
    throw DatabaseError({.what = "the catalogue is damaged and cannot be moved aside (" + error.message() + ")",
                         .where = file().string()},
                        kCannotOpen);
  for (const char* const beside : {"-wal", "-shm", "-journal"}) fs::remove(file().string() + beside, error);
  problems.push_back("the catalogue was damaged: it is kept as " + file().string() + ".damaged, and made again");
}

void Catalogue::State::replace_damaged() {
  database.reset();
  if (access == Access::kRead) {
    move_to_memory("the catalogue is damaged");
    return;
  }
  try {
    const CatalogueLock lock(folder, 1e9);
    const bool replaced = inode() != opened;  // by another process
    if (!replaced) set_aside();
    database = std::make_unique<Database>(file(), Database::Mode::kReadWrite);
    set_up_writing(*database, folder);
    opened = inode();
    if (!replaced) {
      Transaction transaction(*database);
      make_schema(*database);
      index_all({}, false);
      transaction.commit();
    }
  } catch (const DatabaseError& problem) {
    if (!problem.is_refused()) throw;
    move_to_memory(reason_of(problem));
  }
}

IndexReport Catalogue::index(const IndexProgress& progress) {
  return state_->with([&](Database&) { return state_->index(progress, false); });
}
IndexReport Catalogue::rebuild(const IndexProgress& progress) {
  return state_->with([&](Database&) { return state_->index(progress, true); });
}

IndexReport Catalogue::State::index(const IndexProgress& progress, bool from_nothing) {
  IndexReport report;
  if (access == Access::kRead && !in_memory)
    throw Error({.what = "the catalogue was opened for reading alone", .where = file().string()});
  if (in_memory) {
    report = index_all(progress, from_nothing);
  } else {
    try {
      const CatalogueLock lock(folder, kPatience);
      report.busy = !lock.is_held();
      if (lock.is_held()) report = index_all(progress, from_nothing);
    } catch (const DatabaseError& error) {
      if (!error.is_refused()) throw;
      move_to_memory(reason_of(error));
      report = index_all(progress, from_nothing);
    }
  }
  report.problems.insert(report.problems.begin(), problems.begin(), problems.end());
  problems.clear();
  return report;
}

namespace {

/// Commits what was done every second; of a rebuilding, all in the end.
class Batches {
 public:
  Batches(Database& database, bool nested) : database_(database), nested_(nested) {}
  void begin() {
    if (nested_ || open_) return;
    open_.emplace(database_);
    since_ = Clock::now();
  }
  void end_if_late() {
    if (open_ && Clock::now() - since_ > kBatch) end();
  }
  void end() {
    if (!open_) return;
    open_->commit();
    open_.reset();
  }

 private:
  Database& database_;
  const bool nested_;
  std::optional<Transaction> open_;
  Clock::time_point since_;
};

/// Takes one run in, or none of it.
void index_whole(Database& database, RunIndexer& indexer, const std::string& id, const KnownRun* known,
                 IndexReport& report) {
  database.execute("SAVEPOINT run");
  try {
    const RunIndexed indexed = indexer.index(id, known);
    database.execute("RELEASE run");
    if (indexed.changed) report.changed.push_back(id);
    report.points += indexed.points, report.bytes += indexed.bytes;
  } catch (const DatabaseError&) {
    throw;
  } catch (const std::exception& error) {
    database.execute("ROLLBACK TO run");
    database.execute("RELEASE run");
    indexer.forget_ids();
    report.problems.push_back(id + ": " + error.what());
  }
}

}  // namespace

IndexReport Catalogue::State::index_all(const IndexProgress& progress, bool from_nothing) {
  IndexReport report;
  RunIndexer indexer(*database, folder);
  std::optional<Transaction> whole;
  const bool nested = database->in_transaction();
  if (from_nothing && !nested) {
    whole.emplace(*database);
    make_schema(*database);
  }
  Batches batches(*database, nested || whole.has_value());
  const auto known = indexer.known_runs();
  const std::vector<std::string> ids = run_ids(folder);
  report.runs = static_cast<int64_t>(ids.size());
  int64_t done = 0;
  for (const auto& id : ids) {
    const auto found = known.find(id);
    if (found == known.end() || indexer.has_changed(id, found->second)) {
      batches.begin();
      index_whole(*database, indexer, id, found == known.end() ? nullptr : &found->second, report);
      batches.end_if_late();
    }
    if (progress) progress(++done, report.runs);
  }
  const std::unordered_set<std::string> there(ids.begin(), ids.end());
  for (const auto& [id, run] : known)
    if (!there.contains(id)) {
      batches.begin();
      indexer.remove(run.key);
      report.removed.push_back(id);
    }
  batches.end();
  if (whole) whole->commit();
  return report;
}

IndexReport Catalogue::index_run(const std::string& id) {
  return state_->with([&](Database&) { return state_->index_one(id); });
}

IndexReport Catalogue::State::index_one(const std::string& id) {
  IndexReport report;
  if (!is_run(folder / id) || fs::path(id).filename() != id)
    throw Error({.what = "no such run", .where = folder.string(), .found = "'" + id + "'"});
  const auto index_it = [&] {
    RunIndexer indexer(*database, folder);
    std::optional<KnownRun> known;
    {
      Statement row = database->prepare("SELECT key, stamp, status FROM runs WHERE id = ?");
      row.bind(std::string_view(id));
      if (row.step()) known = KnownRun{.key = row.integer(0), .stamp = row.text(1), .status = row.text(2), .logs = {}};
      if (known) {
        Statement logs = database->prepare("SELECT file, size FROM logs WHERE run = ?");
        logs.bind(known->key);
        while (logs.step()) known->logs[logs.text(0)] = logs.integer(1);
      }
    }
    report.runs = 1;
    if (known && !indexer.has_changed(id, *known)) return;
    Transaction transaction(*database);
    index_whole(*database, indexer, id, known ? &*known : nullptr, report);
    transaction.commit();
  };
  if (in_memory) {
    index_it();
    return report;
  }
  if (access == Access::kRead)
    throw Error({.what = "the catalogue was opened for reading alone", .where = file().string()});
  try {
    const CatalogueLock lock(folder, kPatience);
    report.busy = !lock.is_held();
    if (lock.is_held()) index_it();
  } catch (const DatabaseError& error) {
    if (!error.is_refused()) throw;
    move_to_memory(reason_of(error));
    report.changed = {id};
  }
  return report;
}

Annotations Catalogue::annotate(const std::string& id, const AnnotationChanges& changes) {
  if (state_->access == Access::kRead)
    throw Error({.what = "the catalogue was opened for reading alone", .where = state_->file().string()});
  const std::string run = state_->with([&](Database&) { return state_->id_of(state_->key_of(id)); });
  const Annotations all = annotate_run(state_->folder / run, changes);
  state_->with([&](Database&) { return state_->index_one(run); });
  return all;
}

int64_t Catalogue::State::key_of(const std::string& text) {
  const auto find = [&](const std::string& id) {
    Statement row = database->prepare("SELECT key FROM runs WHERE id = ?");
    row.bind(std::string_view(id));
    return row.step() ? row.integer(0) : 0;
  };
  if (const int64_t key = find(text)) return key;
  const std::string id = find_run(text, folder).filename().string();
  if (const int64_t key = find(id)) return key;
  if ((access == Access::kIndex || in_memory) && is_run(folder / id)) index_one(id);
  if (const int64_t key = find(id)) return key;
  throw Error({.what = "the run is not in the catalogue",
               .where = folder.string(),
               .found = "'" + text + "'",
               .remedy = "`ramet runs reindex` takes it in"});
}

std::string Catalogue::State::id_of(int64_t key) {
  Statement row = database->prepare("SELECT id FROM runs WHERE key = ?");
  row.bind(key);
  return row.step() ? row.text(0) : "";
}

}  // namespace ramet::track
