#include <cstring>
#include <limits>
#include <map>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/program/executable.h"

namespace ramet::program {
namespace {

// The saved form, little-endian: the magic, then u32 version, u32 CRC-32C of the body, u64 length of the body, then the
// body: fields in the order of `transfer` below; numbers as they are, strings and lists after a u64 count.
constexpr char kMagic[8] = {'R', 'A', 'M', 'E', 'T', 'E', 'X', 'E'};
constexpr size_t kHeader = sizeof kMagic + 4 + 4 + 8;

class Writer {
 public:
  static constexpr bool kReads = false;
  template <typename Number>
  void number(const Number& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<uint64_t>(value.size()));
    bytes += value;
  }
  template <typename Item>
  void count(const std::vector<Item>& list, size_t) {
    number(static_cast<uint64_t>(list.size()));
  }
  std::string bytes;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  Reader(std::string_view bytes, const std::string& source) : rest_(bytes), source_(source) {}
  template <typename Number>
  void number(Number& value) {
    need(sizeof value);
    rest_.copy(reinterpret_cast<char*>(&value), sizeof value);
    rest_.remove_prefix(sizeof value);
  }
  void text(std::string& value) {
    const size_t size = length(1);
    value.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
  }
  /// Sizes the list; every item takes at least `least` bytes, so that no count can ask for more memory than the file
  /// has.
  template <typename Item>
  void count(std::vector<Item>& list, size_t least) {
    list.resize(length(least));
  }
  [[noreturn]] void fail(const std::string& what, const std::string& found = "") const {
    throw FormatError(
        {.what = what, .where = source_, .found = found, .remedy = "Delete it; it will be compiled again"});
  }
  bool at_end() const { return rest_.empty(); }

 private:
  size_t length(size_t least) {
    uint64_t size = 0;
    number(size);
    if (size > rest_.size() / least) fail("executable ends too early");
    return static_cast<size_t>(size);
  }
  void need(size_t size) const {
    if (rest_.size() < size) fail("executable ends too early");
  }
  std::string_view rest_;
  const std::string& source_;
};

// One function reads and writes, so that the two always agree.
template <typename Stream, typename T>
void transfer(Stream& s, T& value)
  requires(std::is_arithmetic_v<T>)
{
  s.number(value);
}
template <typename Stream>
void transfer(Stream& s, std::string& value) {
  s.text(value);
}

template <typename Stream, typename E>
void transfer_enum(Stream& s, E& value, int count) {
  uint8_t byte = static_cast<uint8_t>(value);
  s.number(byte);
  if constexpr (Stream::kReads)
    if (byte >= count) s.fail("executable has an unknown kind", std::to_string(byte));
  value = static_cast<E>(byte);
}

template <typename Stream>
void transfer_bool(Stream& s, bool& value) {
  uint8_t byte = value;
  s.number(byte);
  value = byte != 0;
}

template <typename Stream, typename Item, typename Transfer>
void transfer_list(Stream& s, std::vector<Item>& list, Transfer item, size_t least = 1) {
  s.count(list, least);
  for (Item& each : list) item(s, each);
}

template <typename Stream>
void transfer_numbers(Stream& s, auto& list) {
  transfer_list(s, list, [](Stream& stream, auto& value) { stream.number(value); }, sizeof list[0]);
}

template <typename Stream>
void transfer(Stream& s, TensorType& type) {
  transfer_enum(s, type.dtype, kDTypeCount);
  std::vector<int64_t> dims = type.shape.dims();
  transfer_numbers(s, dims);
  if constexpr (Stream::kReads) {
    int64_t bytes = 8;  // the largest element
    for (int64_t dim : dims)
      if (dim < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes))
        s.fail("executable has a tensor of an impossible size");
    type.shape = Shape(std::move(dims));
  }
}

template <typename Stream>
void transfer(Stream& s, TensorData& data) {
  TensorType type = data.type();
  transfer(s, type);
  std::vector<std::byte> bytes = data.bytes();
  transfer_numbers(s, bytes);
  if constexpr (Stream::kReads) {
    if (static_cast<int64_t>(bytes.size()) != type.bytes()) s.fail("executable has a tensor without all of its bytes");
    HostTensor tensor;
    tensor.type = std::move(type);
    tensor.data = std::move(bytes);
    data = TensorData(std::move(tensor));
  }
}

template <typename Stream>
void transfer(Stream& s, Attribute& attribute) {
  auto kind = static_cast<uint8_t>(attribute.index());
  s.number(kind);
  if constexpr (Stream::kReads) {
    switch (kind) {
      case 0: attribute = false; break;
      case 1: attribute = int64_t{0}; break;
      case 2: attribute = 0.0; break;
      case 3: attribute = std::string(); break;
      case 4: attribute = std::vector<int64_t>(); break;
      case 5: attribute = DType::kF32; break;
      case 6: attribute = TensorData(); break;
      default: s.fail("executable has an unknown kind of attribute", std::to_string(kind));
    }
  }
  std::visit(
      [&](auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>)
          transfer_bool(s, value);
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          transfer_numbers(s, value);
        else if constexpr (std::is_same_v<T, DType>)
          transfer_enum(s, value, kDTypeCount);
        else
          transfer(s, value);
      },
      attribute);
}

template <typename Stream>
void transfer(Stream& s, Attributes& attributes) {
  std::vector<std::pair<std::string, Attribute>> list(attributes.begin(), attributes.end());
  transfer_list(s, list, [](Stream& stream, auto& item) {
    transfer(stream, item.first);
    transfer(stream, item.second);
  });
  if constexpr (Stream::kReads)
    for (auto& [name, attribute] : list) attributes.set(name, std::move(attribute));
}

template <typename Stream>
void transfer(Stream& s, Call& call) {
  std::string op = call.node.op ? call.node.op->name : "";
  transfer(s, op);
  if constexpr (Stream::kReads) {
    call.node.op = OpRegistry::instance().find(op);
    if (!call.node.op) s.fail("executable has an unknown op", "'" + op + "'");
  }
  const auto type = [](Stream& stream, TensorType& each) { transfer(stream, each); };
  transfer_list(s, call.node.inputs, type);
  transfer_list(s, call.node.outputs, type);
  transfer(s, call.node.attributes);
  transfer(s, call.node.name);
  transfer(s, call.kernel);
  s.number(call.scratch_bytes);
  s.number(call.cost.flops);
  s.number(call.cost.bytes_read);
  s.number(call.cost.bytes_written);
}

template <typename Stream>
void transfer(Stream& s, Buffer& buffer) {
  transfer(s, buffer.name);
  transfer_enum(s, buffer.kind, kBufferClassCount);
  s.number(buffer.bytes);
  s.number(buffer.offset);
  s.number(buffer.first);
  s.number(buffer.last);
  s.number(buffer.slots);
  s.number(buffer.alignment);
}

template <typename Stream>
void transfer(Stream& s, Sharding& sharding) {
  transfer(s, sharding.logical);
  transfer_list(s, sharding.cuts, [](Stream& stream, Cut& cut) {
    stream.number(cut.dim);
    transfer_enum(stream, cut.axis, static_cast<int>(kMeshAxes.size()));
    for (int64_t* number : {&cut.parts, &cut.blocks, &cut.stride}) stream.number(*number);
    transfer_bool(stream, cut.dealt);
  });
  s.number(sharding.flat_parts);
  s.number(sharding.flat_stride);
  transfer_numbers(s, sharding.deal);
}

template <typename Stream>
void transfer(Stream& s, Instruction& instruction) {
  s.number(instruction.call);
  transfer(s, instruction.name);
  transfer_numbers(s, instruction.inputs);
  transfer_numbers(s, instruction.outputs);
  s.number(instruction.scratch);
  transfer(s, instruction.part.stack);
  s.number(instruction.part.index);
  transfer_enum(s, instruction.pass, kNodePassCount);
  transfer(s, instruction.gradient);
  transfer(s, instruction.origin);
}

template <typename Stream>
void transfer(Stream& s, Binding& binding) {
  transfer(s, binding.name);
  transfer(s, binding.type);
  s.number(binding.buffer);
  s.number(binding.ready);
  transfer_bool(s, binding.guard);
  transfer(s, binding.sharding);
}

template <typename Stream>
void transfer(Stream& s, Segment& segment) {
  transfer(s, segment.name);
  transfer_enum(s, segment.kind, kPieceKindCount);
  s.number(segment.part);
  s.number(segment.region);
  s.number(segment.program);
  transfer_list(s, segment.instructions, [](Stream& stream, Instruction& each) { transfer(stream, each); });
  for (auto* bindings : {&segment.feeds, &segment.scalars, &segment.results})
    transfer_list(s, *bindings, [](Stream& stream, Binding& each) { transfer(stream, each); });
  transfer_numbers(s, segment.accumulators);
  s.number(segment.first);
  s.number(segment.last);
}

template <typename Stream>
void transfer(Stream& s, StatePlace& state) {
  transfer(s, state.tensor.name);
  transfer(s, state.tensor.type);
  transfer_enum(s, state.tensor.kind, kStateKindCount);
  transfer_enum(s, state.tensor.init.kind, kStateInitKinds);
  s.number(state.tensor.init.a);
  s.number(state.tensor.init.b);
  transfer(s, state.tensor.init.function);
  bool has_data = state.tensor.init.data.has_value();
  transfer_bool(s, has_data);
  if constexpr (Stream::kReads)
    if (has_data) state.tensor.init.data.emplace();
  if (has_data) transfer(s, *state.tensor.init.data);
  transfer(s, state.tensor.group);
  transfer(s, state.tensor.of);
  transfer(s, state.tensor.role);
  transfer(s, state.tensor.part);
  transfer(s, state.tensor.external_name);
  transfer_bool(s, state.tensor.low_half);
  transfer_numbers(s, state.slots);
  transfer(s, state.sharding);
  s.number(state.home);
}

template <typename Stream>
void transfer(Stream& s, Transfer& way) {
  transfer(s, way.name);
  transfer(s, way.type);
  for (int32_t* number : {&way.buffer, &way.peer, &way.tag, &way.streaming, &way.state}) s.number(*number);
}

template <typename Stream>
void transfer(Stream& s, ProgramStep& step) {
  transfer_enum(s, step.kind, ProgramStep::kKinds);
  for (int32_t* number : {&step.subject, &step.micro, &step.slot, &step.from, &step.superstep}) s.number(*number);
}

template <typename Stream>
void transfer(Stream& s, Program& program) {
  transfer(s, program.name);
  transfer_enum(s, program.when.kind, 3);
  s.number(program.when.every);
  s.number(program.when.micro);
  s.number(program.width);
  transfer_bool(s, program.writes_states);
  transfer_bool(s, program.prepares);
  transfer_bool(s, program.reads_data);
  transfer_list(s, program.steps, [](Stream& stream, ProgramStep& each) { transfer(stream, each); });
  s.number(program.supersteps);
}

template <typename Stream>
void transfer(Stream& s, Executable& exe) {
  s.number(exe.key.low);
  s.number(exe.key.high);
  transfer(s, exe.kernel_class);
  s.number(exe.threads);
  s.number(exe.lanes);
  s.number(exe.micro_batches_per_lane);
  for (int* number : {&exe.mesh.p, &exe.mesh.r, &exe.mesh.t1, &exe.mesh.t2, &exe.stage}) s.number(*number);
  transfer_bool(s, exe.joined);
  transfer_list(s, exe.calls, [](Stream& stream, Call& each) { transfer(stream, each); });
  transfer_list(s, exe.buffers, [](Stream& stream, Buffer& each) { transfer(stream, each); });
  transfer_list(s, exe.states, [](Stream& stream, StatePlace& each) { transfer(stream, each); });
  transfer_list(s, exe.segments, [](Stream& stream, Segment& each) { transfer(stream, each); });
  transfer_list(s, exe.transfers, [](Stream& stream, Transfer& each) { transfer(stream, each); });
  transfer_list(s, exe.streaming, [](Stream& stream, Buffer& each) { transfer(stream, each); });
  s.number(exe.streaming_bytes);
  transfer_list(s, exe.programs, [](Stream& stream, Program& each) { transfer(stream, each); });
  s.number(exe.instants);
  s.number(exe.arena_bytes);
  s.number(exe.bound_bytes);
  s.number(exe.peak_instant);
  transfer(s, exe.placement);
}

}  // namespace

std::string executable_bytes(const Executable& executable) {
  Writer body;
  transfer(body, const_cast<Executable&>(executable));  // a writer changes nothing
  return sealed_executable(body.bytes);
}

std::string sealed_executable(std::string_view body) {
  Writer whole;
  whole.bytes.assign(kMagic, sizeof kMagic);
  whole.number(static_cast<uint32_t>(Executable::kVersion));
  whole.number(crc32c(body.data(), body.size()));
  whole.number(static_cast<uint64_t>(body.size()));
  return whole.bytes.append(body);
}

Executable executable_from_bytes(std::string_view bytes, const std::string& source) {
  Reader header(bytes.substr(0, kHeader), source);
  if (bytes.size() < kHeader || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    header.fail("not an executable of Ramet");
  uint64_t skipped = 0, length = 0;
  uint32_t version = 0, crc = 0;
  header.number(skipped);
  header.number(version);
  header.number(crc);
  header.number(length);
  if (version != Executable::kVersion) header.fail("executable of another version of Ramet", std::to_string(version));
  const std::string_view body = bytes.substr(kHeader);
  if (body.size() != length)
    header.fail("executable is cut off or has something behind it", std::to_string(body.size()) + " bytes");
  if (crc32c(body.data(), body.size()) != crc) header.fail("executable is damaged: its checksum does not fit");
  Reader reader(body, source);
  Executable exe;
  transfer(reader, exe);
  if (!reader.at_end()) reader.fail("executable has something behind its end");
  verify(exe, source);
  return exe;
}

void save_executable(const Executable& executable, const std::filesystem::path& path) {
  write_file_atomic(path, executable_bytes(executable));
}

Executable load_executable(const std::filesystem::path& path) {
  return executable_from_bytes(read_file(path), path.string());
}

}  // namespace ramet::program
