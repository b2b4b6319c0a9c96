#include "ramet/runtime/row_tables.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/runtime/cluster_state.h"

namespace ramet::runtime {
namespace {

constexpr int64_t kBlock = 4096;     // of files
constexpr int64_t kMostBlocks = 4;   // of a page
constexpr int64_t kRange = 4 << 20;  // bytes of pages at a time when whole states are read or written

/// Where records lie.
struct Pages {
  int64_t record = 0;   ///< bytes: a row of each state
  int64_t each = 1;     ///< records of a page
  int64_t bytes = 0;    ///< of a page
  int64_t count = 0;    ///< pages of the table
  int64_t at_once = 0;  ///< the most that the rows of a step lie in
  int64_t total() const { return count * bytes; }
  int64_t place_of(int64_t row) const { return row / each * bytes + row % each * record; }
};

int64_t row_bytes(const StateTensor& state) { return state.type.bytes() / state.type.shape[0]; }

/// In files pages are whole blocks: few, but so many that at most an eighth of a page is empty, if that is possible.
Pages pages_of(const RowTable& table, bool files) {
  Pages pages;
  for (const RowTable::State& state : table.states) pages.record += row_bytes(state.whole);
  pages.bytes = pages.record;
  if (files) {
    const int64_t least = (pages.record + kBlock - 1) / kBlock;
    int64_t blocks = least;
    while (blocks < std::max(least, kMostBlocks) && blocks * kBlock % pages.record > blocks * kBlock / 8) ++blocks;
    pages.bytes = blocks * kBlock;
    pages.each = pages.bytes / pages.record;
  }
  pages.count = (table.rows() + pages.each - 1) / pages.each;
  pages.at_once = std::min(table.window(), pages.count);
  return pages;
}

/// Pages of the rows of a step in host memory.
struct Staged {
  std::vector<int32_t> rows;   ///< of the step
  std::vector<int64_t> pages;  ///< numbers, ascending
  std::vector<Ticket> tickets{};
  std::byte* memory = nullptr;
};

}  // namespace

int64_t RowTable::widest_window() const {
  int64_t most = 0;
  for (const State& state : states) most = std::max(most, state.window.type.bytes());
  return most;
}

struct RowTables::Table {
  Table(RowTable given, const std::string& streaming)
      : table(std::move(given)), pages(pages_of(table, streaming != "ram")) {
    // Through the page cache: the system keeps the rows that are read often in the memory that nobody else needs.
    store = streaming == "ram"
                ? make_ram_store(pages.total())
                : make_file_store(pages.total(), {.folder = streaming, .name = "ramet-rows", .direct = false});
    const auto bytes = static_cast<size_t>(kBuffers * pages.at_once * pages.bytes);
    memory.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kBlock})));
    for (int i = 0; i < kBuffers; ++i) staged[i].memory = memory.get() + i * pages.at_once * pages.bytes;
    packed.resize(static_cast<size_t>(table.widest_window()));
  }
  ~Table() {
    for (Staged& each : staged) {
      try {
        finish(each);
      } catch (const std::exception&) {  // nobody needs the bytes any more
      }
    }
  }

  /// Waits for all transfers of some pages.
  void finish(Staged& each) {
    for (const Ticket ticket : std::exchange(each.tickets, {})) store->wait(ticket);
  }

  void start_loads(Staged& to, const std::vector<int32_t>& rows) {
    finish(to);
    to.rows = rows;
    to.pages.clear();
    for (const int32_t row : rows)
      if (const int64_t page = row / pages.each; to.pages.empty() || to.pages.back() != page) to.pages.push_back(page);
    for (size_t i = 0; i < to.pages.size(); ++i)
      to.tickets.push_back(store->start_load(to.pages[i] * pages.bytes, memory_of(to, i), pages.bytes));
  }
  void start_stores(Staged& from) {
    for (size_t i = 0; i < from.pages.size(); ++i)
      from.tickets.push_back(store->start_store(from.pages[i] * pages.bytes, memory_of(from, i), pages.bytes));
  }
  std::byte* memory_of(const Staged& in, size_t page) const {
    return in.memory + static_cast<int64_t>(page) * pages.bytes;
  }

  /// Pages that both have, from one to the other.
  void copy_common(const Staged& from, Staged& to) {
    for (size_t i = 0, j = 0; i < from.pages.size() && j < to.pages.size();) {
      if (from.pages[i] == to.pages[j])
        std::memcpy(memory_of(to, j++), memory_of(from, i++), static_cast<size_t>(pages.bytes));
      else if (from.pages[i] < to.pages[j])
        ++i;
      else
        ++j;
    }
  }

  /// Calls visit(record, place) for each row of a step, place counting from 0.
  template <typename Visit>
  void each_record(const Staged& of, const Visit& visit) {
    size_t page = 0;
    for (size_t i = 0; i < of.rows.size(); ++i) {
      const int64_t row = of.rows[i];
      while (of.pages[page] != row / pages.each) ++page;
      visit(memory_of(of, page) + row % pages.each * pages.record, static_cast<int64_t>(i));
    }
  }

  /// The devices' windows to the pages at hand, or the other way.
  void take_windows(ClusterState& devices) {
    int64_t offset = 0;
    for (const RowTable::State& state : table.states) {
      const int64_t bytes = row_bytes(state.whole);
      const std::span<std::byte> to(packed.data(), now->rows.size() * static_cast<size_t>(bytes));
      if (!to.empty()) devices.read_window(devices.map_of(state.window), 0, to);
      each_record(*now, [&](std::byte* record, int64_t place) {
        std::memcpy(record + offset, packed.data() + place * bytes, static_cast<size_t>(bytes));
      });
      offset += bytes;
    }
  }
  void give_windows(ClusterState& devices) {
    int64_t offset = 0;
    for (const RowTable::State& state : table.states) {
      const int64_t bytes = row_bytes(state.whole);
      each_record(*now, [&](const std::byte* record, int64_t place) {
        std::memcpy(packed.data() + place * bytes, record + offset, static_cast<size_t>(bytes));
      });
      const std::span<const std::byte> from(packed.data(), now->rows.size() * static_cast<size_t>(bytes));
      if (!from.empty()) devices.write_window(devices.map_of(state.window), 0, from);
      offset += bytes;
    }
  }

  /// What the devices have changed goes to the store.
  void put_back(ClusterState& devices) {
    if (!std::exchange(dirty, false)) return;
    finish(*now);
    take_windows(devices);
    start_stores(*now);
  }

  bool bring(ClusterState& devices, const std::vector<int32_t>& rows, const std::vector<int32_t>& coming) {
    const bool same = shown && now->rows == rows;
    if (!same) {
      put_back(devices);
      if (!fetched || next->rows != rows) start_loads(*next, rows);
      finish(*next);
      if (shown) copy_common(*now, *next);
      std::swap(now, next);
      std::swap(next, spare);
      fetched = false;
      give_windows(devices);
      shown = true;
    }
    dirty = true;  // by the step that follows
    if (!fetched || next->rows != coming) start_loads(*next, coming);
    fetched = true;
    return !same;
  }

  /// Calls visit(page, room) for the pages of a range of rows, some at a time: room for those from `page` on.
  template <typename Visit>
  void each_range(int64_t first, int64_t last, const Visit& visit) {
    std::vector<std::byte> room;
    const int64_t most = std::max<int64_t>(1, kRange / pages.bytes);
    for (int64_t page = first / pages.each; page * pages.each < last; page += most) {
      const int64_t end = std::min({page + most, (last + pages.each - 1) / pages.each, pages.count});
      room.resize(static_cast<size_t>((end - page) * pages.bytes));
      visit(page, room);
    }
  }

  /// Calls visit(place in the range of bytes, byte of the record, count) for the rows of pages [page, ...) that hold
  /// bytes [offset, offset + size) of a state.
  template <typename Visit>
  void each_part(int64_t page, size_t room, const RowTable::State& state, int64_t offset, int64_t size,
                 const Visit& visit) {
    const int64_t bytes = row_bytes(state.whole), within = offset_of(state);
    const int64_t rows =
        std::min(static_cast<int64_t>(room) / pages.bytes * pages.each, table.rows() - page * pages.each);
    for (int64_t row = page * pages.each; row < page * pages.each + rows; ++row) {
      const int64_t begin = std::max(offset, row * bytes), end = std::min(offset + size, (row + 1) * bytes);
      if (begin >= end) continue;
      visit(begin - offset, pages.place_of(row) - page * pages.bytes + within + (begin - row * bytes), end - begin);
    }
  }

  int64_t offset_of(const RowTable::State& state) const {
    int64_t offset = 0;
    for (const RowTable::State& each : table.states) {
      if (&each == &state) break;
      offset += row_bytes(each.whole);
    }
    return offset;
  }

  void write(ClusterState& devices, const RowTable::State& state, int64_t offset, std::span<const std::byte> bytes) {
    put_back(devices);
    shown = fetched = false;
    const int64_t row = row_bytes(state.whole), size = std::ssize(bytes);
    each_range(offset / row, (offset + size + row - 1) / row, [&](int64_t page, std::vector<std::byte>& room) {
      store->load(page * pages.bytes, room.data(), std::ssize(room));
      each_part(page, room.size(), state, offset, size, [&](int64_t place, int64_t at, int64_t count) {
        std::memcpy(room.data() + at, bytes.data() + place, static_cast<size_t>(count));
      });
      store->store(page * pages.bytes, room.data(), std::ssize(room));
    });
  }

  void read(ClusterState& devices, const RowTable::State& state, int64_t offset, std::span<std::byte> to) {
    put_back(devices);
    const int64_t row = row_bytes(state.whole), size = std::ssize(to);
    each_range(offset / row, (offset + size + row - 1) / row, [&](int64_t page, std::vector<std::byte>& room) {
      store->load(page * pages.bytes, room.data(), std::ssize(room));
      each_part(page, room.size(), state, offset, size, [&](int64_t place, int64_t at, int64_t count) {
        std::memcpy(to.data() + place, room.data() + at, static_cast<size_t>(count));
      });
    });
  }

  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t{kBlock}); }
  };

  static constexpr int kBuffers = 3;
  RowTable table;
  Pages pages;
  std::unique_ptr<std::byte, Free> memory;
  std::unique_ptr<StreamingStore> store;
  std::vector<std::byte> packed;  ///< a window on its way
  Staged staged[kBuffers];
  /// The pages of the step at hand, those that are fetched, and those that are written.
  Staged *now = &staged[0], *next = &staged[1], *spare = &staged[2];
  bool shown = false;    ///< the devices' windows have the rows of `now`
  bool dirty = false;    ///< a step may have changed them since `now` was written
  bool fetched = false;  ///< `next` has been asked for
};

RowTables::RowTables(std::vector<RowTable> tables, const std::string& streaming) {
  for (RowTable& table : tables) tables_.push_back(std::make_unique<Table>(std::move(table), streaming));
}
RowTables::~RowTables() = default;

const StateTensor* RowTables::find(const std::string& name) const {
  for (const auto& table : tables_)
    for (const RowTable::State& state : table->table.states)
      if (state.whole.name == name) return &state.whole;
  return nullptr;
}

bool RowTables::holds(const StateTensor& state) const {
  const StateTensor* const whole = find(state.name);
  return whole && whole->type == state.type;
}

namespace {

[[noreturn]] void refuse_range(const StateTensor& state, int64_t offset, int64_t size) {
  throw Error({.what = "a range is not within the state",
               .where = "'" + state.name + "'",
               .found = "bytes " + std::to_string(offset) + " to " + std::to_string(offset + size),
               .expected = "within " + std::to_string(state.type.bytes())});
}

void check_range(const StateTensor& state, int64_t offset, int64_t size) {
  if (offset < 0 || size < 0 || offset > state.type.bytes() - size) refuse_range(state, offset, size);
}

}  // namespace

void RowTables::write(ClusterState& devices, const StateTensor& state, int64_t offset,
                      std::span<const std::byte> bytes) {
  check_range(state, offset, std::ssize(bytes));
  for (const auto& table : tables_)
    for (const RowTable::State& each : table->table.states)
      if (each.whole.name == state.name) return table->write(devices, each, offset, bytes);
}

void RowTables::read(ClusterState& devices, const StateTensor& state, int64_t offset, std::span<std::byte> to) {
  check_range(state, offset, std::ssize(to));
  for (const auto& table : tables_)
    for (const RowTable::State& each : table->table.states)
      if (each.whole.name == state.name) return table->read(devices, each, offset, to);
}

bool RowTables::bring(ClusterState& devices, const RowsOfStep& rows, const RowsOfStep& next) {
  bool changed = false;
  for (size_t t = 0; t < tables_.size(); ++t) changed = tables_[t]->bring(devices, rows[t], next[t]) || changed;
  return changed;
}

int64_t RowTables::streaming_bytes(const std::vector<RowTable>& tables, bool files) {
  int64_t bytes = 0;
  for (const RowTable& table : tables) bytes += pages_of(table, files).total();
  return bytes;
}

int64_t RowTables::staging_bytes(const std::vector<RowTable>& tables, bool files) {
  int64_t bytes = Table::kBuffers * step_bytes(tables, files);
  for (const RowTable& table : tables) bytes += table.widest_window();
  return bytes;
}

int64_t RowTables::step_bytes(const std::vector<RowTable>& tables, bool files) {
  int64_t bytes = 0;
  for (const RowTable& table : tables) {
    const Pages pages = pages_of(table, files);
    bytes += pages.at_once * pages.bytes;
  }
  return bytes;
}

}  // namespace ramet::runtime
