#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/track/catalogue.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ramet::track {

/// What SQLite says went wrong. `is_damaged`: the file is no database, or its pages contradict each other.
/// `is_refused`: the disk is full, cannot be written, or fails.
class DatabaseError : public v0::Error {
 public:
  DatabaseError(ErrorParts parts, int code, ErrorKind kind = ErrorKind::kFailure)
      : Error(std::move(parts), kind), code_(code) {}
  bool is_damaged() const;
  bool is_refused() const;
  bool is_interrupted() const;

 private:
  int code_;
};

/// The code of a DatabaseError for rows whose bytes are damaged.
inline constexpr int kDamagedCode = 11;

/// A prepared statement, bound from 1 on and stepped through; reset when it goes out of scope.
class Statement {
 public:
  Statement(sqlite3* database, sqlite3_stmt* statement, bool owned);
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;

  Statement& bind(int64_t value);
  Statement& bind(double value);  ///< NaN as NULL
  Statement& bind(std::string_view text);
  Statement& bind_blob(std::string_view bytes);
  Statement& bind_null();
  Statement& bind_value(const FieldValue& value);
  template <typename... Values>
  Statement& bind_all(const Values&... values) {
    (bind(values), ...);
    return *this;
  }

  /// To the next row; false when there is none. Throws DatabaseError.
  bool step();
  /// Steps to the end, and makes the statement ready to be bound again.
  void run();

  int columns() const;
  std::string column_name(int column) const;
  int64_t integer(int column) const;
  double real(int column) const;  ///< NULL as NaN
  std::string text(int column) const;
  std::string_view blob(int column) const;  ///< until the next step
  bool is_null(int column) const;
  FieldValue value(int column) const;

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_;
  bool owned_;
  int bound_ = 0;
};

/// A connection to an SQLite file. One thread at a time uses it.
class Database {
 public:
  enum class Mode {
    kReadWrite,  ///< the file is made where it is absent
    kRead,
    kReadForeign,  ///< a file of any origin: what its schema computes (views, triggers) is off, values are bounded
    kReadFrozen,   ///< as it lies there: no locks, nothing written beside it
    kMemory
  };
  Database(const std::filesystem::path& path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs statements that give no rows.
  void execute(const std::string& sql);
  /// A statement that is prepared once in the life of the connection.
  Statement prepare(const std::string& sql);
  /// A statement for one use.
  Statement prepare_once(const std::string& sql);
  /// A statement of a user's: prepared for this call alone, and checked to be one SELECT that writes nothing.
  Statement prepare_query(const std::string& sql);
  bool in_transaction() const;
  int64_t last_row() const;
  /// Copies all of another one into this.
  void copy_from(Database& other);

  /// While it lives: queries may only read, and end after so many seconds.
  class Guard {
   public:
    Guard(Database& database, double seconds);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Database& database_;
    double end_;
  };

 private:
  void distrust();
  [[noreturn]] void fail(int code, const std::string& doing) const;
  std::filesystem::path path_;
  sqlite3* handle_ = nullptr;
  std::map<std::string, sqlite3_stmt*, std::less<>> prepared_;
};

/// BEGIN IMMEDIATE ... COMMIT; rolled back when it goes out of scope uncommitted.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace ramet::track
