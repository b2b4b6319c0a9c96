#include "ramet/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ramet/base/error.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

/// The bytes of a file with this header and so many bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> 8 * i & 255);
  return file + header + std::string(data_bytes, '\1');
}

std::string error_of(const std::string& file) {
  try {
    parse_safetensors_header(file, "w.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, WritesAndReadsBack) {
  const TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  const std::vector<float> weights = {1, -2, 3.5f, 4, 5, 6};
  const std::vector<int64_t> positions = {7, -8};
  {
    SafetensorsWriter writer(path,
                             {{"w", {DType::kF32, {2, 3}}},
                              {"empty", {DType::kF32, {0, 4}}},
                              {"p \"q\" ä", {DType::kI64, {2}}},
                              {"s", {DType::kBF16, {}}}},
                             {{"format", "pt"}, {"note", "line\nbreak"}});
    writer.write(weights.data(), 5);  // in pieces of any size
    writer.write(reinterpret_cast<const char*>(weights.data()) + 5, 19);
    writer.write(positions.data(), 16);
    writer.write("ab", 2);
    writer.close();
    EXPECT_EQ(writer.file_bytes(), std::filesystem::file_size(path));
    const std::string bytes = read_file(path);
    EXPECT_EQ(writer.hash(), hash_text(bytes));
  }
  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.tensors().size(), 4u);
  EXPECT_EQ(reader.metadata().at("note"), "line\nbreak");
  const auto& w = reader.get("w");
  EXPECT_EQ(w.type.text(), "f32[2,3]");
  EXPECT_EQ(std::memcmp(reader.bytes(w).data(), weights.data(), 24), 0);
  EXPECT_EQ(reader.get("empty").type.bytes(), 0);
  EXPECT_EQ(reader.get("s").type.text(), "bf16[]");
  int64_t second = 0;
  reader.read(reader.get("p \"q\" ä"), 8, std::as_writable_bytes(std::span(&second, 1)));
  EXPECT_EQ(second, -8);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(reader.bytes(w).data()) % 64, 0u);
}

TEST(Safetensors, RefusesReadsOutsideAndUnknownNames) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "a.safetensors", {{"encoder.weight", {DType::kF32, {2}}}});
  const float zeros[2] = {};
  writer.write(zeros, 8);
  writer.close();
  const SafetensorsReader reader(folder / "a.safetensors");
  std::byte out[8];
  const auto& entry = reader.get("encoder.weight");
  try {
    reader.read(entry, 4, out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr(
            "tensor 'encoder.weight': a read goes past the end of the tensor; found bytes 4 + 8; expected at most 8"));
  }
  try {
    reader.read(entry, UINT64_MAX, out);
    FAIL();
  } catch (const Error&) {
  }
  try {
    reader.get("encoder.weigth");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("found 'encoder.weigth'; expected perhaps 'encoder.weight'"));
  }
}

TEST(Safetensors, WriterRefusesBadNames) {
  const TemporaryFolder folder;
  const TensorType type{DType::kF32, {1}};
  EXPECT_THROW(SafetensorsWriter(folder / "a", {{"x", type}, {"x", type}}), Error);
  EXPECT_THROW(SafetensorsWriter(folder / "a", {{"__metadata__", type}}), Error);
  EXPECT_THROW(SafetensorsWriter(folder / "a", {{"\xff", type}}), Error);
}

TEST(Safetensors, WriterInsistsOnAllBytes) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "a", {{"x", {DType::kF32, {2}}}});
  const float value[4] = {};
  writer.write(value, 4);
  EXPECT_THROW(writer.close(), Error);
  EXPECT_THROW(writer.write(value, 16), Error);
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  EXPECT_EQ(error_of(file_of("{}", 0)), "no error");
  EXPECT_EQ(error_of(file_of("{}     ", 0)), "no error");
  EXPECT_EQ(error_of(file_of("{\"__metadata__\":{\"a\":\"b\"}}", 0)), "no error");
  EXPECT_EQ(
      error_of(file_of("{" + tensor("b", "U8", "[]", "[3,4]") + "," + tensor("a", "U8", "[3]", "[0,3]") + "}", 4)),
      "no error");
}

TEST(Safetensors, SaysWhatIsWrong) {
  const auto one = [](const std::string& text, size_t data) { return error_of(file_of("{" + text + "}", data)); };
  EXPECT_THAT(error_of(""),
              HasSubstr("w.safetensors: not a safetensors file: it is shorter than a header's length; found 0 bytes"));
  EXPECT_THAT(error_of(std::string(8, '\xff')), HasSubstr("the header is longer than the file"));
  EXPECT_THAT(error_of(file_of("{}", 0).substr(0, 9)), HasSubstr("found a header of 2 bytes in a file of 9"));
  EXPECT_THAT(error_of(file_of("[]", 0)), HasSubstr("the header does not begin with '{'"));
  EXPECT_THAT(error_of(file_of("{\"a\":", 0)), HasSubstr("w.safetensors, byte 14: the header is not JSON"));
  EXPECT_THAT(error_of(file_of("{} {}", 0)), HasSubstr("the header is not JSON"));
  EXPECT_THAT(one("\"a\":3", 0), HasSubstr("tensor 'a': a tensor is not described by an object; found a number"));
  EXPECT_THAT(one("\"a\":{\"dtype\":\"F32\",\"shape\":[]}", 0), HasSubstr("the key 'data_offsets' is missing"));
  EXPECT_THAT(one(tensor("a", "C64", "[1]", "[0,8]"), 8),
              HasSubstr("tensor 'a': unknown element type; found 'C64'; expected one of F32, F16"));
  EXPECT_THAT(one(tensor("a", "F32", "[1]", "[0,8]"), 8),
              HasSubstr("data_offsets do not fit the shape; found 8 bytes; expected 4 bytes for f32[1]"));
  EXPECT_THAT(one(tensor("a", "F32", "[-1]", "[0,4]"), 4), HasSubstr("a number is negative; found -1"));
  EXPECT_THAT(one(tensor("a", "F32", "[1.5]", "[0,4]"), 4),
              HasSubstr("an extent is not a whole number; found the number 1.5"));
  EXPECT_THAT(one(tensor("a", "F32", "[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("the shape is too large"));
  EXPECT_THAT(one(tensor("a", "F32", "[4611686018427387904,2]", "[0,0]"), 0), HasSubstr("the shape is too large"));
  EXPECT_THAT(one(tensor("a", "F32", "[18446744073709551615]", "[0,0]"), 0), HasSubstr("an extent is too large"));
  EXPECT_THAT(one(tensor("a", "F32", "[1]", "[4,0]"), 4),
              HasSubstr("data_offsets end before they begin; found [4, 0]"));
  EXPECT_THAT(one(tensor("a", "F32", "[1]", "[0,4,8]"), 4), HasSubstr("data_offsets has more than two numbers"));
  EXPECT_THAT(one(tensor("a", "F32", "[1]", "[0]"), 4), HasSubstr("data_offsets needs two numbers; found 1"));
  EXPECT_THAT(one(tensor("a", "F32", "[1]", "[0,4]"), 3), HasSubstr("the file ends before the tensor does"));
  EXPECT_THAT(one(tensor("a", "F32", "[1]", "[0,4]"), 5),
              HasSubstr("bytes after the last tensor belong to none; found 5 bytes of data; expected 4"));
  EXPECT_THAT(one(tensor("a", "F32", "[1]", "[4,8]"), 8),
              HasSubstr("tensor 'a': bytes before the tensor belong to none"));
  EXPECT_THAT(one(tensor("a", "F32", "[2]", "[0,8]") + "," + tensor("b", "F32", "[1]", "[4,8]"), 8),
              HasSubstr("tensor 'b': the tensor overlaps the one before it"));
  EXPECT_THAT(one(tensor("a", "U8", "[1]", "[0,1]") + "," + tensor("a", "U8", "[1]", "[1,2]"), 2),
              HasSubstr("the name stands twice"));
  EXPECT_THAT(one("\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}", 0), HasSubstr("the key 'dtype' stands twice"));
  EXPECT_THAT(one("\"a\":{\"typ\":\"U8\"}", 0),
              HasSubstr("unknown key; found 'typ'; expected dtype, shape and data_offsets"));
  EXPECT_THAT(one("\"a\":{\"shape\":{}}", 0),
              HasSubstr("the key 'shape' has a value of the wrong kind; found an object"));
  EXPECT_THAT(one("\"a\":{\"shape\":[[1]]}", 0), HasSubstr("an extent is not a whole number; found a list"));
  EXPECT_THAT(one("\"__metadata__\":{\"a\":1}", 0), HasSubstr("metadata is not a text; found a number"));
  EXPECT_THAT(one(tensor("a", "U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1),
              HasSubstr("too many dimensions"));
}

TEST(Safetensors, DeepNestingIsRefusedAtOnce) {
  std::string deep = "{\"a\":{\"shape\":";
  deep += std::string(1'000'000, '[');
  EXPECT_THAT(error_of(file_of(deep, 0)), HasSubstr("an extent is not a whole number; found a list"));
}

/// Flips, cuts and doubles bytes of a good file: whatever comes, an Error or a header whose ranges lie in the file.
TEST(Safetensors, SurvivesMutatedFiles) {
  const std::string good =
      file_of("{\"__metadata__\":{\"k\":\"v\"}," + tensor("a", "F32", "[2,3]", "[0,24]") + "," +
                  tensor("b", "BF16", "[4]", "[24,32]") + "," + tensor("c", "BOOL", "[]", "[32,33]") + "}",
              33);
  ASSERT_EQ(error_of(good), "no error");
  std::mt19937_64 random(20260101);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string file = good;
    for (auto edits = random() % 4 + 1; edits > 0 && !file.empty(); --edits) {
      const size_t at = random() % file.size();
      switch (random() % 5) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file[at] = "0123456789[]{},:\"-.e"[random() % 20]; break;
        case 2: file.resize(at); break;
        case 3: file.erase(at, random() % 8); break;
        default: file.insert(at, file.substr(random() % file.size(), random() % 16));
      }
    }
    try {
      const SafetensorsHeader header = parse_safetensors_header(file, "mutated");
      for (const auto& entry : header.tensors) {
        ASSERT_LE(header.data_offset + entry.end, file.size());
        ASSERT_EQ(static_cast<int64_t>(entry.end - entry.begin), entry.type.bytes());
      }
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 10);
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace ramet::tests
