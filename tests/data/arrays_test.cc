#include "ramet/data/arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "ramet/base/error.h"
#include "ramet/data/checked.h"
#include "ramet/model/array_file.h"
#include "ramet/weights/safetensors.h"
#include "text/temporary_folder.h"

namespace ramet::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_text(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// A .npy file as NumPy writes it.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                const std::string& order = "False", char version = 1) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  const size_t prefix = version == 1 ? 10 : 12;
  header.append(63 - (prefix + header.size()) % 64, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  for (size_t i = 0; i < prefix - 8; ++i) file += static_cast<char>(header.size() >> 8 * i);
  return file + header + data;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> values_of(const Batch& batch, std::string_view name) {
  const NamedTensor& tensor = batch.at(name);
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void write_npz(const std::filesystem::path& path, const std::vector<std::pair<std::string, std::string>>& entries,
               bool compressed) {
  int error = 0;
  zip_t* const zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  ASSERT_NE(zip, nullptr);
  for (const auto& [name, bytes] : entries) {
    const auto index =
        zip_file_add(zip, name.c_str(), zip_source_buffer(zip, bytes.data(), bytes.size(), 0), ZIP_FL_OVERWRITE);
    ASSERT_GE(index, 0);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  ASSERT_EQ(zip_close(zip), 0);
}

/// Ten samples: x f32[10,2] of 0 to 19, y i64[10] of 0 to 9.
std::vector<ArrayColumn> ten() {
  static const std::vector<float> x = [] {
    std::vector<float> values(20);
    for (size_t i = 0; i < 20; ++i) values[i] = static_cast<float>(i);
    return values;
  }();
  static const std::vector<int64_t> y = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  return {{.name = "x", .stored = "f32", .shape = {10, 2}, .data = reinterpret_cast<const std::byte*>(x.data())},
          {.name = "y", .stored = "i64", .shape = {10}, .data = reinterpret_cast<const std::byte*>(y.data())}};
}

TEST(Npy, ReadsWhatNumPyWrites) {
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  for (const char version : {1, 2, 3}) {
    const std::string file = npy("<f4", "(3, 2)", bytes_of(numbers), "False", version);
    const ArrayColumn column = parse_npy(file, "x.npy");
    EXPECT_EQ(column.stored, "f32");
    EXPECT_EQ(column.shape, (Shape{3, 2}));
    EXPECT_EQ(std::memcmp(column.data, numbers.data(), 24), 0);
  }
  EXPECT_EQ(parse_npy(npy("|u1", "(4,)", "abcd"), "x").stored, "u8");
  EXPECT_EQ(parse_npy(npy("|b1", "(2,)", std::string("\1\0", 2)), "x").stored, "bool");
  EXPECT_EQ(parse_npy(npy("<f4", "(3,)", std::string(12, 'x'), "True"), "x").shape, (Shape{3}));  // one order is both
}

TEST(Npy, NamesWhatIsWrong) {
  const auto text = [](const std::string& file) { return error_text([&] { parse_npy(file, "x.npy"); }); };
  EXPECT_THAT(text("PK\3\4 something else"), HasSubstr("x.npy: this is no .npy file"));
  EXPECT_THAT(text(npy(">f4", "(1,)", "abcd")), AllOf(HasSubstr("big-endian"), HasSubstr("newbyteorder")));
  EXPECT_THAT(text(npy("<f4", "(1, 1)", "abcd", "True")), HasSubstr("Fortran's order"));
  EXPECT_THAT(text(npy("|O", "(1,)", "abcd")), HasSubstr("x.npy: the array's element type is not read; found |O"));
  EXPECT_THAT(text(npy("<f4", "(2,)", "abcd")), HasSubstr("other bytes than its header says"));
  EXPECT_THAT(text(npy("<f4", "(1,)", "abcdX")), HasSubstr("found 5 bytes of data; expected f32[1]"));
  EXPECT_THAT(text(npy("<f4", "(-1,)", "")), HasSubstr("an extent that is no number"));
  EXPECT_THAT(text(npy("<f4", "(99999999999, 99999999999)", "")), testing::Not(testing::IsEmpty()));
  std::string damaged = npy("<f4", "(1,)", "abcd");
  damaged.resize(40);
  EXPECT_THAT(text(damaged), HasSubstr("the file is not whole"));
}

TEST(Npz, MapsWhatIsStoredAndInflatesWhatIsNot) {
  const TemporaryFolder folder;
  const std::vector<int32_t> labels = {7, 8, 9};
  const std::string images(3 * 1000, 'i');
  for (const bool compressed : {false, true}) {
    const auto path = folder.path() / (compressed ? "packed.npz" : "plain.npz");
    write_npz(path, {{"images.npy", npy("|u1", "(3, 10, 100)", images)}, {"labels.npy", npy("<i4", "(3,)", bytes_of(labels))}},
              compressed);
    const auto columns = open_npz(path);
    ASSERT_EQ(columns.size(), 2u);
    EXPECT_EQ(columns[0].name, "images");
    EXPECT_EQ(columns[0].shape, (Shape{3, 10, 100}));
    EXPECT_EQ(columns[0].host_bytes > 0, compressed);
    const auto source = make_array_source(columns, {.shuffle = false});
    const Batch batch = source->make(1, 2);
    EXPECT_EQ(values_of<int32_t>(batch, "labels"), (std::vector<int32_t>{8, 9}));
    EXPECT_EQ(values_of<uint8_t>(batch, "images"), std::vector<uint8_t>(2000, 'i'));
    EXPECT_EQ(batch.at("images").type, (TensorType{DType::kU8, {2, 10, 100}}));
  }
}

TEST(Npz, NamesWhatIsDamaged) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npz";
  write(path, std::string(100, 'x'));
  EXPECT_THAT(error_text([&] { open_npz(path); }), HasSubstr("the archive is damaged, or no zip archive"));
  write_npz(path, {{"x.npy", "not an array at all"}}, false);
  EXPECT_THAT(error_text([&] { open_npz(path); }), HasSubstr("a.npz: x.npy"));
  write_npz(path, {{"x.npy", npy("|u1", "(5000,)", std::string(5000, 'x'))}}, true);
  std::ifstream in(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  bytes[60] = static_cast<char>(bytes[60] ^ 0x55);
  write(path, bytes);
  EXPECT_NE(error_text([&] { open_npz(path); }), "");
}

TEST(Arrays, EpochsAreOrdersOfAllSamples) {
  const auto source = make_array_source(ten(), {.seed = 3});
  EXPECT_EQ(source->epoch_samples(0), 10);
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const Batch batch = source->make(10 * epoch, 10);
    auto y = values_of<int64_t>(batch, "y");
    const auto x = values_of<float>(batch, "x");
    for (size_t i = 0; i < 10; ++i) EXPECT_EQ(x[2 * i + 1], static_cast<float>(2 * y[i] + 1));
    orders.insert(y);
    std::sort(y.begin(), y.end());
    EXPECT_EQ(y, values_of<int64_t>(make_array_source(ten(), {.shuffle = false})->make(0, 10), "y"));
  }
  EXPECT_EQ(orders.size(), 4u);
  // A sample does not depend on its batch, across epochs either.
  const auto whole = values_of<int64_t>(source->make(0, 25), "y");
  for (int64_t i = 0; i < 25; ++i)
    EXPECT_EQ(values_of<int64_t>(source->make(i, 1), "y")[0], whole[static_cast<size_t>(i)]);
}

TEST(Arrays, HeldOutSamplesAreTheOthers) {
  const auto train = make_array_source(ten(), {.seed = 1, .held_out = 0.3}),
             other = make_array_source(ten(), {.seed = 9, .held_out = 0.3}),
             held = make_array_source(ten(), {.held_out = 0.3, .evaluation = true});
  EXPECT_EQ(train->epoch_samples(0), 7);
  EXPECT_EQ(held->epoch_samples(0), 3);
  const auto set = [](const Source& source, int64_t count) {
    const auto y = values_of<int64_t>(source.make(0, count), "y");
    return std::set<int64_t>(y.begin(), y.end());
  };
  std::set<int64_t> all = set(*train, 7);
  EXPECT_EQ(all, set(*other, 7));  // whatever the seed
  for (const int64_t y : set(*held, 3)) EXPECT_TRUE(all.insert(y).second);
  EXPECT_EQ(all.size(), 10u);
}

TEST(Arrays, DeliverTypesThatModelsTake) {
  const std::vector<double> doubles = {0.5, -2};
  const std::vector<uint16_t> halves = {0x3C00, 0xC000};
  const std::vector<int64_t> large = {5, int64_t{1} << 40};
  const std::vector<int8_t> small = {-3, 4};
  const auto column = [](const char* name, const char* stored, const auto& values) {
    return ArrayColumn{.name = name, .stored = stored, .shape = {2}, .data = reinterpret_cast<const std::byte*>(values.data())};
  };
  const auto source = make_array_source({column("d", "f64", doubles), column("h", "f16", halves), column("s", "i8", small),
                                         column("l", "i64", large)},
                                        {.types = {{"h", DType::kF32}, {"l", DType::kI32}}, .shuffle = false});
  const Batch first = source->make(0, 1);
  EXPECT_EQ(values_of<float>(first, "d")[0], 0.5f);
  EXPECT_EQ(values_of<float>(first, "h")[0], 1.0f);
  EXPECT_EQ(values_of<int32_t>(first, "s")[0], -3);
  EXPECT_EQ(values_of<int32_t>(first, "l")[0], 5);
  // Any type as it lies, for a model that takes it; other integers where the numbers fit.
  const auto plain = make_array_source({column("d", "f64", doubles), column("s", "i8", small), column("l", "i64", large)},
                                       {.types = {{"d", DType::kF64}, {"s", DType::kI8}, {"l", DType::kU16}}, .shuffle = false});
  const Batch as_stored = plain->make(0, 1);
  EXPECT_EQ(values_of<double>(as_stored, "d")[0], 0.5);
  EXPECT_EQ(values_of<int8_t>(as_stored, "s")[0], -3);
  EXPECT_EQ(values_of<uint16_t>(as_stored, "l")[0], 5);
  EXPECT_THAT(error_text([&] { plain->make(1, 1); }), AllOf(HasSubstr("'l', row 1, element 0"), HasSubstr("u16")));
  EXPECT_THAT(error_text([&] { source->make(1, 1); }),
              AllOf(HasSubstr("does not fit the type"), HasSubstr("'l', row 1, element 0"), HasSubstr("i32")));
  EXPECT_THAT(error_text([&] { make_array_source({column("s", "i8", small)}, {.types = {{"s", DType::kF32}}}); }),
              AllOf(HasSubstr("cannot be delivered"), HasSubstr("'s'"), HasSubstr("found i8; expected f32")));
}

TEST(Arrays, RefuseWhatIsNoSetOfSamples) {
  auto columns = ten();
  columns[1].shape = {9};
  EXPECT_THAT(error_text([&] { make_array_source(columns, {}); }),
              AllOf(HasSubstr("'y': arrays have different"), HasSubstr("found 9; expected 10, as 'x' has")));
  columns = ten();
  columns[1].name = "x";
  EXPECT_THAT(error_text([&] { make_array_source(columns, {}); }), HasSubstr("two arrays have one name"));
  EXPECT_THAT(error_text([&] { make_array_source({}, {}); }), HasSubstr("no array"));
  columns = ten();
  columns[0].shape = {};
  EXPECT_THAT(error_text([&] { make_array_source({columns[0]}, {}); }), HasSubstr("has no samples"));
  EXPECT_THAT(error_text([&] { make_array_source(ten(), {.held_out = 1}); }), HasSubstr("out of range"));
  EXPECT_THAT(error_text([&] { make_array_source(ten(), {.types = {{"z", DType::kI32}}}); }), HasSubstr("'z'"));
}

TEST(Arrays, IdentityIsThatOfTheContents) {
  const Hash hash = make_array_source(ten(), {})->identity();
  EXPECT_EQ(make_array_source(ten(), {})->identity(), hash);
  EXPECT_NE(make_array_source(ten(), {.seed = 1})->identity(), hash);
  auto columns = ten();
  std::vector<int64_t> other = {0, 1, 2, 3, 4, 5, 6, 7, 8, 8};
  columns[1].data = reinterpret_cast<const std::byte*>(other.data());
  EXPECT_NE(make_array_source(columns, {})->identity(), hash);
  int64_t told = 0;
  make_array_source(ten(), {.progress = [&](int64_t done, int64_t) { told = done; }})->identity();
  EXPECT_EQ(told, 160);
}

TEST(Arrays, OpenFilesOfEveryKind) {
  const TemporaryFolder folder;
  const std::vector<float> x = {1, 2, 3, 4};
  std::filesystem::create_directory(folder.path() / "arrays");
  write(folder.path() / "arrays" / "x.npy", npy("<f4", "(2, 2)", bytes_of(x)));
  write(folder.path() / "arrays" / "y.npy", npy("<i4", "(2,)", std::string(8, '\0')));
  SafetensorsWriter writer(folder.path() / "x.safetensors", {{"x", {DType::kF32, {2, 2}}}});
  writer.write(x.data(), 16);
  writer.close();
  const Batch npys = make_array_source(open_arrays(folder.path() / "arrays"), {.shuffle = false})->make(0, 2),
              safe = make_array_source(open_arrays(folder.path() / "x.safetensors"), {.shuffle = false})->make(0, 2);
  EXPECT_EQ(values_of<float>(npys, "x"), x);
  EXPECT_EQ(npys.at("y").type.text(), "i32[2]");
  EXPECT_EQ(values_of<float>(safe, "x"), x);
  EXPECT_THAT(error_text([&] { open_arrays(folder.path() / "x.csv"); }), HasSubstr("of a kind that is not known"));
  EXPECT_THAT(error_text([&] { open_arrays(folder.path()); }), HasSubstr("has no .npy file"));
}

TEST(CheckedSource, NamesWrongNamesTypesShapesAndValues) {
  const std::shared_ptr<const Source> source = make_array_source(ten(), {.shuffle = false});
  const std::vector<InputSpec> good = {{.name = "x", .type = {DType::kF32, {4, 2}}}, {.name = "y", .type = {DType::kI64, {4}}}};
  EXPECT_EQ(check_inputs(source, good, 4), source);  // nothing is limited
  auto inputs = good;
  inputs[0].name = "xs";
  EXPECT_THAT(error_text([&] { check_inputs(source, inputs, 4); }),
              AllOf(HasSubstr("'xs' f32[4,2]: the data has no tensor for an input of the model; found x, y"), HasSubstr("Rename 'x'")));
  inputs = good;
  inputs[1].type.dtype = DType::kI32;
  EXPECT_THAT(error_text([&] { check_inputs(source, inputs, 4); }), HasSubstr("another type"));
  EXPECT_EQ(types_of(ten(), inputs).at("y"), DType::kI32);  // delivered so, it fits
  EXPECT_EQ(check_inputs(make_array_source(ten(), {.types = types_of(ten(), inputs)}), inputs, 4)->epoch_samples(0), 10);
  inputs = good;
  inputs[0].type.shape = {4, 3};
  EXPECT_THAT(error_text([&] { check_inputs(source, inputs, 4); }),
              AllOf(HasSubstr("'x': the data gives another shape"), HasSubstr("found f32[4,2]; expected f32[4,3]")));
  inputs = good;
  inputs[1].low = 0, inputs[1].high = 6;
  const auto checked = check_inputs(source, inputs, 4);
  EXPECT_EQ(values_of<int64_t>(checked->make(3, 4), "y").back(), 6);
  EXPECT_THAT(error_text([&] { checked->make(4, 4); }),
              AllOf(HasSubstr("'y' of row 7, element 0: a value"), HasSubstr("found 7; expected 0 to 6")));
  inputs[1] = good[1];
  inputs[0].high = 10;
  EXPECT_THAT(error_text([&] { check_inputs(source, inputs, 4)->make(4, 4); }), HasSubstr("expected 10 or less"));
}

}  // namespace
}  // namespace ramet::tests
