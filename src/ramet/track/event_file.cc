#include "ramet/track/event_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ramet/base/dtype.h"
#include "ramet/base/proto.h"
#include "ramet/track/json_text.h"
#include "ramet/track/tf_record.h"

namespace ramet::track {

using nlohmann::json;

std::string json_of(const Histogram& histogram) {
  return json{{"edges", histogram.edges}, {"counts", histogram.counts}}.dump();
}

std::optional<Histogram> parse_histogram(std::string_view text) {
  const json value = parse_json(text);
  Histogram histogram;
  if (!value.is_object()) return std::nullopt;
  for (const auto& [key, list] : {std::pair("edges", &histogram.edges), std::pair("counts", &histogram.counts)}) {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_array()) return std::nullopt;
    for (const json& number : *found) {
      if (!number.is_number()) return std::nullopt;
      list->push_back(number.get<double>());
    }
  }
  if (histogram.edges.size() != histogram.counts.size() + 1) return std::nullopt;
  return histogram;
}

namespace event_file {
namespace {

// Types of tensors, by number in tensorflow/core/framework/types.proto.
constexpr uint64_t kDouble = 2, kString = 7;
constexpr uint64_t kTensorClass = 2, kBlobSequence = 3;
constexpr uint64_t kStart = 1;
constexpr std::string_view kFormat = "brain.Event:2";

ProtoMessage event(double time, int64_t step) {
  ProtoMessage message;
  message.real(1, time);
  if (step != 0) message.number(2, static_cast<uint64_t>(step));
  return message;
}

std::string with_value(double time, int64_t step, const ProtoMessage& value) {
  ProtoMessage summary, message = event(time, step);
  summary.message(1, value);
  message.message(5, summary);
  return tf_record(message.data());
}

ProtoMessage metadata(std::string_view plugin, std::string_view content, uint64_t data_class) {
  ProtoMessage data, message;
  data.bytes(1, plugin);
  if (!content.empty()) data.bytes(2, content);
  message.message(1, data);
  if (data_class != 0) message.number(4, data_class);
  return message;
}

/// A tensor with these dimensions and no values yet.
ProtoMessage tensor(uint64_t type, std::span<const uint64_t> sizes) {
  ProtoMessage shape, message;
  for (const uint64_t size : sizes) {
    ProtoMessage dimension;
    dimension.number(1, size);
    shape.message(2, dimension);
  }
  message.number(1, type).message(2, shape);
  return message;
}

ProtoMessage strings(std::span<const std::string_view> values) {
  const uint64_t sizes[] = {values.size()};
  ProtoMessage message = tensor(kString, sizes);
  for (const std::string_view value : values) message.bytes(8, value);
  return message;
}

/// A google.protobuf.Value.
ProtoMessage value_of(const std::string& text) {
  const json value = parse_json(text);
  ProtoMessage message;
  if (value.is_number())
    message.real(2, value.get<double>());
  else if (value.is_boolean())
    message.number(4, value.get<bool>() ? 1 : 0);
  else
    message.bytes(3, value.is_string() ? value.get<std::string>() : text);
  return message;
}

}  // namespace

std::string version(double time) {
  ProtoMessage message = event(time, 0);
  message.bytes(3, kFormat);
  return tf_record(message.data());
}

std::string restart(double time, int64_t step) {
  ProtoMessage log, message = event(time, step);
  log.number(1, kStart);
  message.message(7, log);
  return tf_record(message.data());
}

std::string scalars(double time, int64_t step, std::span<const LoggedNumber> values) {
  ProtoMessage summary, message = event(time, step);
  for (const auto& [name, number] : values) {
    ProtoMessage value;
    value.bytes(1, name).single(2, static_cast<float>(number));
    summary.message(1, value);
  }
  message.message(5, summary);
  return tf_record(message.data());
}

std::string text(double time, int64_t step, const std::string& tag, const std::string& text) {
  const std::string_view values[] = {text};
  ProtoMessage value;
  value.bytes(1, tag).message(8, strings(values)).message(9, metadata("text", "", kTensorClass));
  return with_value(time, step, value);
}

std::string image(double time, int64_t step, const std::string& tag, std::string_view encoded, int64_t width,
                  int64_t height) {
  const std::string wide = std::to_string(width), high = std::to_string(height);
  const std::string_view values[] = {wide, high, encoded};
  ProtoMessage value;
  value.bytes(1, tag).message(8, strings(values)).message(9, metadata("images", "", kBlobSequence));
  return with_value(time, step, value);
}

std::string histogram(double time, int64_t step, const std::string& tag, const Histogram& histogram) {
  const uint64_t sizes[] = {histogram.counts.size(), 3};
  std::vector<double> rows;
  for (size_t i = 0; i < histogram.counts.size(); ++i)
    rows.insert(rows.end(), {histogram.edges[i], histogram.edges[i + 1], histogram.counts[i]});
  ProtoMessage content = tensor(kDouble, sizes), value;
  content.bytes(4, {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(double)});
  value.bytes(1, tag).message(8, content).message(9, metadata("histograms", "", kTensorClass));
  return with_value(time, step, value);
}

std::string begin_session(double time, std::span<const ConfigValue> config) {
  ProtoMessage start, data, value;
  for (const auto& [key, text] : config) {
    ProtoMessage entry;
    entry.bytes(1, key).message(2, value_of(text));
    start.message(1, entry);
  }
  start.real(5, time);
  data.number(1, 0).message(3, start);
  value.bytes(1, "_hparams_/session_start_info").message(9, metadata("hparams", data.data(), 0));
  return with_value(time, 0, value);
}

std::string end_session(double time, bool success) {
  ProtoMessage end, data, value;
  end.number(1, success ? 1 : 2).real(2, time);
  data.number(1, 0).message(4, end);
  value.bytes(1, "_hparams_/session_end_info").message(9, metadata("hparams", data.data(), 0));
  return with_value(time, 0, value);
}

}  // namespace event_file

namespace {

/// The doubles of a repeated field, packed or not, as Protocol Buffers allow for both.
void take_doubles(const ProtoReader& field, std::vector<double>& to) {
  if (field.wire() == ProtoReader::Wire::kFixed64) to.push_back(field.real());
  const std::string_view packed = field.bytes();
  for (size_t at = 0; at + 8 <= packed.size(); at += 8) {
    double value;
    std::memcpy(&value, packed.data() + at, 8);
    to.push_back(value);
  }
}

/// Values of a TensorProto that the plugins of scalars, texts, images and histograms use.
class TensorReader {
 public:
  std::vector<double> numbers;
  std::vector<std::string> strings;

  explicit TensorReader(std::string_view bytes) {
    ProtoReader fields(bytes);
    std::string_view content;
    while (fields.next()) switch (fields.field()) {
        case 1: type_ = fields.number(); break;
        case 4: content = fields.bytes(); break;
        case 5: take_floats(fields); break;
        case 6: take_doubles(fields, numbers); break;
        case 7:
        case 10:
        case 11:
        case 16:
        case 17: take_integers(fields); break;
        case 13: take_halves(fields); break;
        case 8: strings.emplace_back(fields.bytes()); break;
        default: break;
      }
    if (numbers.empty()) take_content(content);
  }

 private:
  void take_floats(const ProtoReader& field) {
    if (field.wire() == ProtoReader::Wire::kFixed32) numbers.push_back(field.single());
    add<float>(field.bytes());
  }
  void take_integers(const ProtoReader& field) {
    if (field.wire() == ProtoReader::Wire::kVarint) {
      numbers.push_back(static_cast<double>(field.integer()));
      return;
    }
    for (const uint64_t value : varints(field.bytes()))
      numbers.push_back(static_cast<double>(static_cast<int64_t>(value)));
  }
  void take_halves(const ProtoReader& field) {
    std::vector<uint64_t> values = varints(field.bytes());
    if (field.wire() == ProtoReader::Wire::kVarint) values = {field.number()};
    for (const uint64_t value : values) numbers.push_back(half(static_cast<uint16_t>(value)));
  }
  static std::vector<uint64_t> varints(std::string_view packed) {
    std::vector<uint64_t> values;
    uint64_t value = 0;
    unsigned shift = 0;
    for (const char c : packed) {
      value |= shift < 64 ? static_cast<uint64_t>(c & 0x7f) << shift : 0;
      shift += 7;
      if (c & 0x80) continue;
      values.push_back(value);
      value = 0, shift = 0;
    }
    return values;
  }
  double half(uint16_t bits) const { return type_ == 14 ? bf16_to_f32(bits) : f16_to_f32(bits); }
  template <typename T>
  void add(std::string_view bytes) {
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      numbers.push_back(static_cast<double>(value));
    }
  }
  void take_content(std::string_view bytes) {
    switch (type_) {
      case 1: add<float>(bytes); break;
      case 2: add<double>(bytes); break;
      case 3: add<int32_t>(bytes); break;
      case 4:
      case 10: add<uint8_t>(bytes); break;
      case 5: add<int16_t>(bytes); break;
      case 6: add<int8_t>(bytes); break;
      case 9: add<int64_t>(bytes); break;
      case 22: add<uint32_t>(bytes); break;
      case 23: add<uint64_t>(bytes); break;
      case 14:
      case 19:
        for (size_t at = 0; at + 2 <= bytes.size(); at += 2) {
          uint16_t bits;
          std::memcpy(&bits, bytes.data() + at, 2);
          numbers.push_back(half(bits));
        }
        break;
      default: break;
    }
  }

  uint64_t type_ = 0;
};

/// A histogram of TensorFlow 1 and PyTorch: limits of buckets, where the first begins at the least value.
Histogram old_histogram(std::string_view bytes) {
  double least = 0, most = 0;
  std::vector<double> limits;
  Histogram histogram;
  ProtoReader fields(bytes);
  while (fields.next()) switch (fields.field()) {
      case 1: least = fields.real(); break;
      case 2: most = fields.real(); break;
      case 6: take_doubles(fields, limits); break;
      case 7: take_doubles(fields, histogram.counts); break;
      default: break;
    }
  if (limits.empty() || limits.size() != histogram.counts.size()) return {};
  limits.back() = most;
  histogram.edges = {least};
  histogram.edges.insert(histogram.edges.end(), limits.begin(), limits.end());
  return histogram;
}

/// A histogram of TensorFlow 2: rows of left, right, count.
Histogram new_histogram(const std::vector<double>& rows) {
  Histogram histogram;
  if (rows.empty() || rows.size() % 3 != 0) return histogram;
  histogram.edges = {rows[0]};
  for (size_t i = 0; i < rows.size(); i += 3) {
    histogram.edges.push_back(rows[i + 1]);
    histogram.counts.push_back(rows[i + 2]);
  }
  return histogram;
}

class ValueReader {
 public:
  EventValue value;

  explicit ValueReader(std::string_view bytes) {
    ProtoReader fields(bytes);
    while (fields.next()) switch (fields.field()) {
        case 1: value.tag = fields.bytes(); break;
        case 2:
          if (fields.wire() == ProtoReader::Wire::kFixed32) {
            value.kind = EventValue::Kind::kScalar;
            value.scalar = fields.single();
          }
          break;
        case 4: take_image(fields.bytes()); break;
        case 5:
          value.histogram = old_histogram(fields.bytes());
          if (!value.histogram.counts.empty()) value.kind = EventValue::Kind::kHistogram;
          break;
        case 8: tensor_ = fields.bytes(); break;
        case 9: take_metadata(fields.bytes()); break;
        default: break;
      }
    damaged = fields.damaged();
    if (plugin_ == "hparams") {
      value.kind = EventValue::Kind::kSession;
      value.session = content_;
    } else if (!tensor_.empty()) {
      take_tensor();
    }
  }
  bool damaged = false;

 private:
  void take_image(std::string_view bytes) {
    ProtoReader fields(bytes);
    while (fields.next())
      if (fields.field() == 4) value.parts.emplace_back(fields.bytes());
    if (!value.parts.empty()) value.kind = EventValue::Kind::kImage;
  }
  void take_metadata(std::string_view bytes) {
    ProtoReader fields(bytes);
    while (fields.next()) {
      if (fields.field() != 1) continue;
      ProtoReader data(fields.bytes());
      while (data.next()) {
        if (data.field() == 1) plugin_ = data.bytes();
        if (data.field() == 2) content_ = data.bytes();
      }
    }
  }
  void take_tensor() {
    TensorReader tensor(tensor_);
    if (plugin_ == "text" && !tensor.strings.empty()) {
      value.kind = EventValue::Kind::kText;
      value.parts = std::move(tensor.strings);
    } else if (plugin_ == "images" && tensor.strings.size() > 2) {
      value.kind = EventValue::Kind::kImage;
      value.parts.assign(tensor.strings.begin() + 2, tensor.strings.end());  // behind width and height
    } else if (plugin_ == "histograms") {
      value.histogram = new_histogram(tensor.numbers);
      if (!value.histogram.counts.empty()) value.kind = EventValue::Kind::kHistogram;
    } else if ((plugin_ == "scalars" || plugin_.empty()) && tensor.numbers.size() == 1) {
      value.kind = EventValue::Kind::kScalar;
      value.scalar = tensor.numbers[0];
    }
  }

  std::string_view tensor_, plugin_, content_;
};

}  // namespace

FileEvent parse_event(std::string_view payload) {
  FileEvent event;
  ProtoReader fields(payload);
  while (fields.next()) switch (fields.field()) {
      case 1: event.time = fields.real(); break;
      case 2: event.step = fields.integer(); break;
      case 3: event.file_version = fields.bytes(); break;
      case 5: {
        ProtoReader values(fields.bytes());
        while (values.next()) {
          if (values.field() != 1) continue;
          ValueReader reader(values.bytes());
          event.damaged |= reader.damaged;
          event.values.push_back(std::move(reader.value));
        }
        event.damaged |= values.damaged();
        break;
      }
      case 7: {
        ProtoReader log(fields.bytes());
        while (log.next()) event.restart |= log.field() == 1 && log.number() == 1;
        break;
      }
      default: break;
    }
  event.damaged |= fields.damaged();
  return event;
}

namespace {

/// A google.protobuf.Value as JSON text.
std::string value_text(std::string_view bytes) {
  json value;
  ProtoReader fields(bytes);
  while (fields.next()) switch (fields.field()) {
      case 2: value = fields.real(); break;
      case 3: value = std::string(fields.bytes()); break;
      case 4: value = fields.number() != 0; break;
      default: break;
    }
  return dump_json(value);
}

}  // namespace

EventSession parse_session(std::string_view bytes) {
  EventSession session;
  ProtoReader fields(bytes);
  while (fields.next()) {
    ProtoReader info(fields.bytes());
    if (fields.field() == 3) {
      while (info.next()) {
        if (info.field() == 4) session.group = info.bytes();
        if (info.field() == 5) session.started = info.real();
        if (info.field() != 1) continue;
        ProtoReader entry(info.bytes());
        std::string key, value = "null";
        while (entry.next()) {
          if (entry.field() == 1) key = entry.bytes();
          if (entry.field() == 2) value = value_text(entry.bytes());
        }
        session.config.emplace_back(std::move(key), std::move(value));
      }
    } else if (fields.field() == 4) {
      while (info.next()) {
        if (info.field() == 1) session.status = info.integer();
        if (info.field() == 2) session.ended = info.real();
      }
    }
  }
  return session;
}

}  // namespace ramet::track
