#include "ramet/track/sqlite.h"

#include <sqlite3.h>

#include <chrono>
#include <cmath>
#include <limits>

namespace ramet::track {
namespace {

constexpr int kBusyMilliseconds = 20'000;
constexpr int kMostForeignText = 16 << 20;
constexpr int kMostText = 64 << 20;  // of one value: what a query may make out of nothing

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void throw_error(sqlite3* database, int code, const std::string& where) {
  const char* const said = database ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  throw DatabaseError({.what = "SQLite says: " + std::string(said), .where = where}, code & 0xff);
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n;") == std::string_view::npos; }

/// What a query of a user's may do: look.
int allow_reading(void*, int action, const char* first, const char* second, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION: return second && std::string_view(second) == "load_extension" ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
      return first && (std::string_view(first) == "table_info" || std::string_view(first) == "table_xinfo" ||
                       std::string_view(first) == "data_version")
                 ? SQLITE_OK
                 : SQLITE_DENY;
    default: return SQLITE_DENY;
  }
}

}  // namespace

bool DatabaseError::is_damaged() const { return code_ == SQLITE_CORRUPT || code_ == SQLITE_NOTADB; }
bool DatabaseError::is_refused() const {
  return code_ == SQLITE_FULL || code_ == SQLITE_READONLY || code_ == SQLITE_IOERR || code_ == SQLITE_CANTOPEN ||
         code_ == SQLITE_PERM;
}
bool DatabaseError::is_interrupted() const { return code_ == SQLITE_INTERRUPT; }

Statement::Statement(sqlite3* database, sqlite3_stmt* statement, bool owned)
    : database_(database), statement_(statement), owned_(owned) {}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), statement_(other.statement_), owned_(other.owned_), bound_(other.bound_) {
  other.statement_ = nullptr;
}

Statement::~Statement() {
  if (!statement_) return;
  if (owned_) {
    sqlite3_finalize(statement_);
  } else {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
}

Statement& Statement::bind(int64_t value) {
  sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}
Statement& Statement::bind(double value) {
  sqlite3_bind_double(statement_, ++bound_, value);
  return *this;
}
Statement& Statement::bind(std::string_view text) {
  sqlite3_bind_text64(statement_, ++bound_, text.data() ? text.data() : "", text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind_blob(std::string_view bytes) {
  sqlite3_bind_blob64(statement_, ++bound_, bytes.data() ? bytes.data() : "", bytes.size(), SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::bind_null() {
  sqlite3_bind_null(statement_, ++bound_);
  return *this;
}
Statement& Statement::bind_value(const FieldValue& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return bind(static_cast<int64_t>(*truth));
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return bind(*integer);
  if (const double* real = std::get_if<double>(&value)) return bind(*real);
  if (const std::string* text = std::get_if<std::string>(&value)) return bind(std::string_view(*text));
  return bind_null();
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  throw_error(database_, code, sqlite3_db_filename(database_, "main") ? sqlite3_db_filename(database_, "main") : "");
}

void Statement::run() {
  while (step()) {
  }
  sqlite3_reset(statement_);
  bound_ = 0;
}

int Statement::columns() const { return sqlite3_column_count(statement_); }
std::string Statement::column_name(int column) const {
  const char* const name = sqlite3_column_name(statement_, column);
  return name ? name : "";
}
int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::real(int column) const {
  return is_null(column) ? std::numeric_limits<double>::quiet_NaN() : sqlite3_column_double(statement_, column);
}
std::string Statement::text(int column) const {
  const auto* const bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
}
std::string_view Statement::blob(int column) const {
  const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return bytes ? std::string_view(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)))
               : std::string_view();
}
bool Statement::is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
FieldValue Statement::value(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER: return integer(column);
    case SQLITE_FLOAT: return real(column);
    case SQLITE_TEXT: return text(column);
    case SQLITE_BLOB: return "(" + std::to_string(sqlite3_column_bytes(statement_, column)) + " bytes)";
    default: return {};
  }
}

Database::Database(const std::filesystem::path& path, Mode mode) : path_(path) {
  int flags = SQLITE_OPEN_NOMUTEX;
  std::string name = path.string();
  switch (mode) {
    case Mode::kReadWrite: flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE; break;
    case Mode::kRead:
    case Mode::kReadForeign: flags |= SQLITE_OPEN_READONLY; break;
    case Mode::kReadFrozen: {
      std::string escaped;  // a URI: '?' ends the path, '%' begins a code
      for (const char c : std::filesystem::absolute(path).string())
        escaped += c == '?' ? "%3f" : c == '#' ? "%23" : c == '%' ? "%25" : std::string(1, c);
      name = "file:" + escaped + "?immutable=1";
      flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
      break;
    }
    case Mode::kMemory:
      name = ":memory:";
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      break;
  }
  const int code = sqlite3_open_v2(name.c_str(), &handle_, flags, nullptr);
  if (code != SQLITE_OK) {
    const std::string said = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
    sqlite3_close_v2(handle_);
    throw DatabaseError({.what = "cannot open the database (" + said + ")", .where = path_.string()}, code & 0xff);
  }
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMostText);
  sqlite3_limit(handle_, SQLITE_LIMIT_ATTACHED, 0);
  if (mode == Mode::kReadForeign) distrust();
}

void Database::distrust() {
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMostForeignText);
  sqlite3_limit(handle_, SQLITE_LIMIT_TRIGGER_DEPTH, 0);
  for (const int option : {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_ENABLE_TRIGGER})
    sqlite3_db_config(handle_, option, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_exec(handle_, "PRAGMA cell_size_check = ON", nullptr, nullptr, nullptr);
}

Database::~Database() {
  for (const auto& [sql, statement] : prepared_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

void Database::fail(int code, const std::string&) const { throw_error(handle_, code, path_.string()); }

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, sql);
}

Statement Database::prepare(const std::string& sql) {
  auto found = prepared_.find(sql);
  if (found == prepared_.end()) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                        &statement, nullptr);
    if (code != SQLITE_OK) fail(code, sql);
    found = prepared_.emplace(sql, statement).first;
  }
  return {handle_, found->second, false};
}

Statement Database::prepare_once(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) fail(code, sql);
  return {handle_, statement, true};
}

Statement Database::prepare_query(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const char* rest = nullptr;
  const std::string where = "the query";
  const int code = sqlite3_prepare_v2(handle_, sql.c_str(), static_cast<int>(sql.size()), &statement, &rest);
  if (code != SQLITE_OK) {
    const bool writes = (code & 0xff) == SQLITE_AUTH;
    throw Error({.what = writes ? "a query may only read" : sqlite3_errmsg(handle_),
                 .where = where,
                 .remedy = writes ? "Begin with SELECT or WITH" : "docs/runs.md lists tables and columns"});
  }
  Statement query(handle_, statement, true);
  if (!statement) throw Error({.what = "empty", .where = where, .expected = "one SELECT"});
  if (!is_blank(rest))
    throw Error(
        {.what = "more than one statement", .where = where, .found = "'" + std::string(rest).substr(0, 60) + "'"});
  if (!sqlite3_stmt_readonly(statement) || query.columns() == 0)
    throw Error({.what = "a query may only read", .where = where, .remedy = "Begin with SELECT or WITH"});
  return query;
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }
int64_t Database::last_row() const { return sqlite3_last_insert_rowid(handle_); }

void Database::copy_from(Database& other) {
  sqlite3_backup* const backup = sqlite3_backup_init(handle_, "main", other.handle_, "main");
  if (!backup) fail(sqlite3_errcode(handle_), "backup");
  sqlite3_backup_step(backup, -1);
  const int code = sqlite3_backup_finish(backup);
  if (code != SQLITE_OK) fail(code, "backup");
}

Database::Guard::Guard(Database& database, double seconds) : database_(database), end_(seconds_now() + seconds) {
  constexpr int kInstructions = 10'000;
  sqlite3_progress_handler(
      database.handle_, kInstructions,
      [](void* end) { return seconds_now() > *static_cast<const double*>(end) ? 1 : 0; }, &end_);
  sqlite3_set_authorizer(database.handle_, allow_reading, nullptr);
}

Database::Guard::~Guard() {
  sqlite3_progress_handler(database_.handle_, 0, nullptr, nullptr);
  sqlite3_set_authorizer(database_.handle_, nullptr, nullptr);
}

Transaction::Transaction(Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }
Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error&) {  // a full disk may have rolled back already
  }
}
void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace ramet::track
