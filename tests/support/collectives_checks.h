#pragma once

// Checks of collectives and messages that any transport must pass, called by each device on a thread or process of its
// own. They compare bits with the definition (ops/reduce_order.h) and throw std::runtime_error with what differs.

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ramet/base/rng.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/transport/collectives.h"

namespace ramet::tests::checks {

/// What one run of the checks goes through.
struct Plan {
  std::vector<Algorithm> algorithms{Algorithm::kAuto};
  bool shared_memory = true;  ///< buffers from Transport::allocate, or the process's own
  bool quick = false;
};

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ (b + 0x94d049bb133111ebu) * 0x9e3779b97f4a7c15u;
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93u;
  return x ^ (x >> 29);
}

/// Element `index` of what device `device` brings: sums of such numbers depend on their order.
inline void put(void* data, DType dtype, int device, int64_t index, uint64_t round) {
  const uint64_t bits = mix(mix(static_cast<uint64_t>(device), static_cast<uint64_t>(index)), round);
  switch (dtype) {
    case DType::kI32: static_cast<int32_t*>(data)[index] = static_cast<int32_t>(bits); return;
    case DType::kI64: static_cast<int64_t*>(data)[index] = static_cast<int64_t>(bits); return;
    case DType::kU8: static_cast<uint8_t*>(data)[index] = static_cast<uint8_t>(bits); return;
    default: break;
  }
  const double fraction = static_cast<double>(bits >> 40) / (1 << 24) - 0.5;
  const double scale = 1 << (bits % 7);
  store_element(data, dtype, index, index % 13 == 5 ? 0.0 * fraction : fraction * scale);
}

/// The definition, element by element.
inline void expect_reduced(void* out, int64_t at, DType dtype, Reduction kind, const std::vector<const void*>& in,
                           int64_t from) {
  const auto n = static_cast<int64_t>(in.size());
  if (dtype == DType::kI32 || dtype == DType::kI64) {
    const auto leaf = [&](int64_t i) {
      return dtype == DType::kI32 ? static_cast<const int32_t*>(in[static_cast<size_t>(i)])[from]
                                  : static_cast<const int64_t*>(in[static_cast<size_t>(i)])[from];
    };
    const auto join = [&](int64_t a, int64_t b) {
      if (kind == Reduction::kMax) return a > b ? a : b;
      if (kind == Reduction::kMin) return a < b ? a : b;
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    };
    const int64_t value = tree_combine<int64_t>(0, n, leaf, join);
    if (dtype == DType::kI32)
      static_cast<int32_t*>(out)[at] = static_cast<int32_t>(static_cast<uint64_t>(value));
    else
      static_cast<int64_t*>(out)[at] = value;
    return;
  }
  const auto leaf = [&](int64_t i) {
    return static_cast<float>(load_element(in[static_cast<size_t>(i)], dtype, from));
  };
  const auto join = [&](float a, float b) {
    if (kind == Reduction::kMax) return a > b || a != a ? a : b;
    if (kind == Reduction::kMin) return a < b || a != a ? a : b;
    // As the type holds it, wherever two meet.
    const float sum = a + b;
    if (dtype == DType::kBF16) return bf16_to_f32(f32_to_bf16(sum));
    return dtype == DType::kF16 ? f16_to_f32(f32_to_f16(sum)) : sum;
  };
  store_element(out, dtype, at, tree_combine<float>(0, n, leaf, join));
}

/// Bytes of a buffer for a device, shared or not, with guard bytes behind.
class Buffer {
 public:
  Buffer(Transport& transport, size_t bytes, bool shared) : transport_(transport), bytes_(bytes) {
    const size_t room = bytes + kGuard;
    if (shared) {
      data_ = transport.allocate(room);
      shared_ = data_;
    } else {
      own_.resize(room + 64);
      data_ = own_.data() + (64 - reinterpret_cast<uintptr_t>(own_.data()) % 64) % 64;
    }
    std::memset(data_, 0xa5, room);
  }
  ~Buffer() {
    if (shared_) transport_.release(shared_);
  }
  Buffer(const Buffer&) = delete;
  std::byte* data() { return data_; }
  void check_guard(const std::string& what) const {
    for (size_t i = 0; i < kGuard; ++i)
      if (data_[bytes_ + i] != std::byte{0xa5}) throw std::runtime_error(what + ": wrote behind its buffer");
  }

 private:
  static constexpr size_t kGuard = 64;
  Transport& transport_;
  size_t bytes_;
  std::vector<std::byte> own_;
  std::byte *data_ = nullptr, *shared_ = nullptr;
};

/// All collectives of one group, one type and one count against their definitions.
class GroupCheck {
 public:
  GroupCheck(Transport& transport, Collectives& collectives, DType dtype, int64_t count, bool shared, uint64_t round)
      : collectives_(collectives),
        dtype_(dtype),
        count_(count),
        n_(collectives.size()),
        own_(collectives.position()),
        part_(part_range(count, n_, own_)),
        size_(size_of(dtype)),
        in_(transport, bytes(count), shared),
        out_(transport, bytes(std::max(count, part_.count() * n_)), shared) {
    name_ = fmt::format("{} {} of {} devices ({}), position {}", count, name_of(dtype), n_, collectives.group().text(),
                        own_);
    for (int i = 0; i < n_; ++i) {
      inputs_.emplace_back(bytes(count) + 8);
      for (int64_t j = 0; j < count; ++j)
        put(inputs_.back().data(), dtype, collectives.group().members[static_cast<size_t>(i)], j, round);
      pointers_.push_back(inputs_.back().data());
    }
    expected_.resize(bytes(std::max(count, part_.count() * n_)) + 8);
  }

  void run(bool exact) {
    if (dtype_ != DType::kU8)
      for (const Reduction kind : {Reduction::kSum, Reduction::kMax, Reduction::kMin})
        if ((kind == Reduction::kSum || count_ <= 1000) && (exact || dtype_ == DType::kI32 || dtype_ == DType::kI64))
          reductions(kind);
    copies();
    in_.check_guard(name_ + " in");
    out_.check_guard(name_ + " out");
  }

 private:
  size_t bytes(int64_t count) const { return static_cast<size_t>(count) * size_of(dtype_); }
  std::byte* own_part(std::byte* data) const { return data + bytes(part_.begin); }
  void fill_in() { std::memcpy(in_.data(), inputs_[static_cast<size_t>(own_)].data(), bytes(count_)); }
  void compare(const char* what, const std::byte* got, int64_t count) {
    if (std::memcmp(got, expected_.data(), bytes(count)) == 0) return;
    int64_t at = 0;
    while (std::memcmp(got + bytes(at), expected_.data() + bytes(at), size_) == 0) ++at;
    throw std::runtime_error(fmt::format("{} of {}: element {} is {}, expected {}", what, name_, at,
                                         load_element(got, dtype_, at), load_element(expected_.data(), dtype_, at)));
  }
  void reductions(Reduction kind);
  void copies();

  Collectives& collectives_;
  DType dtype_;
  int64_t count_;
  int n_, own_;
  PartRange part_;
  size_t size_;
  Buffer in_, out_;
  std::string name_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<const void*> pointers_;
  std::vector<std::byte> expected_;
};

inline void GroupCheck::reductions(Reduction kind) {
  for (int64_t j = 0; j < count_; ++j) expect_reduced(expected_.data(), j, dtype_, kind, pointers_, j);
  fill_in();
  collectives_.all_reduce(in_.data(), out_.data(), count_, dtype_, kind);
  compare("all_reduce", out_.data(), count_);
  collectives_.all_reduce(in_.data(), in_.data(), count_, dtype_, kind);
  compare("all_reduce in place", in_.data(), count_);
  for (int root = 0; root < n_; root += std::max(1, n_ - 1)) {
    fill_in();
    std::memset(out_.data(), 0, bytes(count_));
    collectives_.reduce(in_.data(), out_.data(), count_, dtype_, root, kind);
    if (own_ == root) compare("reduce", out_.data(), count_);
  }
  for (int64_t j = 0; j < part_.count(); ++j)
    expect_reduced(expected_.data(), j, dtype_, kind, pointers_, part_.begin + j);
  fill_in();
  collectives_.reduce_scatter(in_.data(), out_.data(), count_, dtype_, kind);
  compare("reduce_scatter", out_.data(), part_.count());
  collectives_.reduce_scatter(in_.data(), own_part(in_.data()), count_, dtype_, kind);
  compare("reduce_scatter in place", own_part(in_.data()), part_.count());
}

inline void GroupCheck::copies() {
  std::vector<std::byte> gathered(bytes(count_) + 8);  // never null
  for (int i = 0; i < n_; ++i) {
    const PartRange part = part_range(count_, n_, i);
    if (part.count() > 0)
      std::memcpy(gathered.data() + bytes(part.begin), inputs_[static_cast<size_t>(i)].data() + bytes(part.begin),
                  bytes(part.count()));
  }
  std::memcpy(expected_.data(), gathered.data(), bytes(count_));
  fill_in();
  collectives_.all_gather(own_part(in_.data()), out_.data(), count_, dtype_);
  compare("all_gather", out_.data(), count_);
  collectives_.all_gather(own_part(in_.data()), in_.data(), count_, dtype_);
  compare("all_gather in place", in_.data(), count_);
  for (int root = 0; root < n_; root += std::max(1, n_ - 1)) {
    fill_in();
    std::memcpy(expected_.data(), gathered.data(), bytes(count_));
    collectives_.gather(own_part(in_.data()), out_.data(), count_, dtype_, root);
    if (own_ == root) compare("gather", out_.data(), count_);
    const auto& given = inputs_[static_cast<size_t>(root)];
    if (part_.count() > 0) std::memcpy(expected_.data(), given.data() + bytes(part_.begin), bytes(part_.count()));
    collectives_.scatter(in_.data(), out_.data(), count_, dtype_, root);
    compare("scatter", out_.data(), part_.count());
    std::memcpy(expected_.data(), given.data(), bytes(count_));
    std::memcpy(out_.data(), in_.data(), bytes(count_));
    collectives_.broadcast(out_.data(), count_, dtype_, root);
    compare("broadcast", out_.data(), count_);
  }
  for (int i = 0; i < n_ && part_.count() > 0; ++i)
    std::memcpy(expected_.data() + bytes(part_.count() * i),
                inputs_[static_cast<size_t>(i)].data() + bytes(part_.begin), bytes(part_.count()));
  collectives_.all_to_all(in_.data(), out_.data(), count_, dtype_);
  compare("all_to_all", out_.data(), part_.count() * n_);
}

/// One group with all types and counts.
inline void check_group(Transport& transport, const Group& group, CollectiveOptions options, const Plan& plan) {
  Collectives collectives(transport, group, options);
  const std::vector<int64_t> counts = plan.quick ? std::vector<int64_t>{0, 1, 7, 20'011}
                                                 : std::vector<int64_t>{0, 1, 2, 3, 5, 8, 63, 1000, 20'011, 300'007};
  uint64_t round = 0;
  for (const int64_t count : counts)
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64, DType::kU8}) {
      if (count > 1000 && dtype != DType::kF32 && dtype != DType::kBF16) continue;
      GroupCheck(transport, collectives, dtype, count, plan.shared_memory, ++round)
          .run(options.bits == ExactBits::kExact);
    }
  collectives.barrier();
}

/// Fast bits: the sum is right, if not to the last bit.
inline void check_fast(Transport& transport, const Group& group, Algorithm algorithm, const Plan& plan) {
  Collectives fast(transport, group, {ExactBits::kFast, algorithm});
  const int64_t count = 10'007;
  Buffer data(transport, static_cast<size_t>(count) * 4, plan.shared_memory);
  auto* values = reinterpret_cast<float*>(data.data());
  for (int64_t j = 0; j < count; ++j) put(values, DType::kF32, transport.device(), j, 99);
  std::vector<std::vector<float>> inputs(group.members.size(), std::vector<float>(static_cast<size_t>(count)));
  for (size_t i = 0; i < group.members.size(); ++i)
    for (int64_t j = 0; j < count; ++j) put(inputs[i].data(), DType::kF32, group.members[i], j, 99);
  fast.all_reduce(values, values, count, DType::kF32);
  for (int64_t j = 0; j < count; ++j) {
    double sum = 0, size = 0;
    for (size_t i = 0; i < group.members.size(); ++i) {
      sum += inputs[i][static_cast<size_t>(j)];
      size += std::abs(inputs[i][static_cast<size_t>(j)]);
    }
    if (std::abs(values[j] - sum) > 1e-6 * size)
      throw std::runtime_error(fmt::format("fast all_reduce: {} is {}, expected {}", j, values[j], sum));
  }
  check_group(transport, group, {ExactBits::kFast, algorithm}, {{algorithm}, plan.shared_memory, true});
}

/// Groups that are all devices, consecutive, strided and orthogonal; those of one kind work at the same time.
inline void check_collectives(Transport& transport, const Plan& plan) {
  const int devices = transport.devices(), device = transport.device();
  std::vector<Group> groups{Group::all(devices)};
  for (int parts = 2; parts < devices; ++parts)
    if (devices % parts == 0) {
      groups.push_back(Group::consecutive(device, parts));
      groups.push_back(Group::orthogonal(device, parts, devices));
    }
  if (devices == 8) groups.push_back(Group::strided(device, 2, 2));
  Group backwards = Group::all(devices);
  std::reverse(backwards.members.begin(), backwards.members.end());
  groups.push_back(backwards);
  for (const Algorithm algorithm : plan.algorithms)
    for (size_t i = 0; i < groups.size(); ++i)
      check_group(transport, groups[i], {ExactBits::kExact, algorithm}, {{}, plan.shared_memory, plan.quick || i > 0});
  for (const Algorithm algorithm : {Algorithm::kAuto, Algorithm::kRing})
    check_fast(transport, groups[0], algorithm, plan);
}

/// Many small calls one right after another, of two groups in turn: nobody may overtake.
inline void check_back_to_back(Transport& transport, int rounds, bool shared) {
  const int devices = transport.devices(), device = transport.device();
  Collectives all(transport, Group::all(devices));
  Collectives pair(transport, devices % 2 == 0 ? Group::consecutive(device, 2) : Group::all(devices));
  Buffer buffer(transport, 64 * 8, shared);
  auto* data = reinterpret_cast<int64_t*>(buffer.data());
  for (int round = 0; round < rounds; ++round) {
    Collectives& group = round % 3 == 2 ? pair : all;
    for (int64_t j = 0; j < 33; ++j) data[j] = round + j * (device + 1);
    group.all_reduce(data, data, 33, DType::kI64);
    int64_t factors = 0;
    for (const int member : group.group().members) factors += member + 1;
    for (int64_t j = 0; j < 33; ++j)
      if (data[j] != static_cast<int64_t>(round) * group.size() + j * factors)
        throw std::runtime_error(fmt::format("round {} of many, element {}: {}", round, j, data[j]));
    if (round % 7 == 0) group.barrier();
  }
}

/// Messages in a ring and between all pairs, in and out of order of tags, small, empty and large.
inline void check_messages(Transport& transport, bool shared) {
  const int devices = transport.devices(), device = transport.device();
  const int next = (device + 1) % devices, before = (device + devices - 1) % devices;
  for (const int64_t count : {0, 1, 1000, 700'001}) {
    Buffer out(transport, static_cast<size_t>(count), shared), in(transport, static_cast<size_t>(count), shared);
    Buffer second_out(transport, static_cast<size_t>(count), shared),
        second_in(transport, static_cast<size_t>(count), shared);
    for (int64_t j = 0; j < count; ++j) {
      put(out.data(), DType::kU8, device, j, 1);
      put(second_out.data(), DType::kU8, device, j, 2);
    }
    // The receives of two tags are started against the order of the sends, the waits too.
    const Ticket a = transport.start_receive(before, 5, second_in.data(), static_cast<size_t>(count));
    const Ticket b = transport.start_send(next, 4, out.data(), static_cast<size_t>(count));
    const Ticket c = transport.start_send(next, 5, second_out.data(), static_cast<size_t>(count));
    const Ticket d = transport.start_receive(before, 4, in.data(), static_cast<size_t>(count));
    transport.wait(d);
    transport.wait(a);
    transport.wait(c);
    transport.wait(b);
    std::vector<std::byte> expected(static_cast<size_t>(count) + 1);
    for (int64_t j = 0; j < count; ++j) {
      put(expected.data(), DType::kU8, before, j, 1);
      if (in.data()[j] != expected[static_cast<size_t>(j)])
        throw std::runtime_error(fmt::format("message of {}: byte {}", count, j));
      put(expected.data(), DType::kU8, before, j, 2);
      if (second_in.data()[j] != expected[static_cast<size_t>(j)])
        throw std::runtime_error(fmt::format("second message of {}: byte {}", count, j));
    }
    in.check_guard("message");
    second_in.check_guard("second message");
  }
  // A long queue of one tag keeps its order.
  std::vector<int64_t> sent(40), received(40);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 40; ++i) {
    sent[static_cast<size_t>(i)] = device * 1000 + i;
    tickets.push_back(transport.start_send(next, 7, &sent[static_cast<size_t>(i)], 8));
  }
  for (int i = 0; i < 40; ++i)
    tickets.push_back(transport.start_receive(before, 7, &received[static_cast<size_t>(i)], 8));
  for (const Ticket ticket : tickets) transport.wait(ticket);
  for (int i = 0; i < 40; ++i)
    if (received[static_cast<size_t>(i)] != before * 1000 + i)
      throw std::runtime_error(fmt::format("message {} of a queue: {}", i, received[static_cast<size_t>(i)]));
  Collectives all(transport, Group::all(devices));
  int64_t value = device;
  if (devices > 1) {
    if (all.position() == 0) all.send(&value, 1, DType::kI64, devices - 1);
    if (all.position() == devices - 1) {
      all.receive(&value, 1, DType::kI64, 0);
      if (value != 0) throw std::runtime_error("send by position");
    }
  }
}

}  // namespace ramet::tests::checks
