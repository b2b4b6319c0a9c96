// Bad ONNX files in one table: each is refused by name, in bounded memory and time.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/onnx_model.h"
#include "ramet/front/onnx_program.h"
#include "support/onnx_file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using namespace onnx;
using Location = std::vector<std::pair<std::string, std::string>>;

constexpr int64_t kHuge = int64_t{1} << 40;

/// y = op(inputs), each of f32 [2, 3].
Graph one_node(const std::string& op, const std::vector<std::string>& names,
               const std::vector<ProtoMessage>& attributes = {}) {
  Graph graph{.nodes = {node(op, names, {"y"}, attributes)}};
  for (const std::string& name : names) graph.inputs.push_back(value(name, 1, {2, 3}));
  graph.outputs = {value("y", 1, {2, 3})};
  return graph;
}
/// y = a + w, with the initializer w.
std::string with_tensor(const ProtoMessage& tensor) {
  Graph graph = one_node("Add", {"a", "w"});
  graph.inputs.pop_back();
  graph.initializers = {tensor};
  return model(graph);
}
std::string with_external(const Location& location, const std::vector<int64_t>& dims = {2, 3}) {
  return with_tensor(external("w", dims, location));
}
std::string with_nodes(std::vector<ProtoMessage> nodes, std::vector<ProtoMessage> initializers = {}) {
  Graph graph = one_node("Identity", {"a"});
  graph.nodes = std::move(nodes), graph.initializers = std::move(initializers);
  return model(graph);
}
/// y = op of a huge size that an initializer of integers gives.
std::string with_size(const std::string& op, const std::vector<int64_t>& sizes) {
  const bool of_shape = op == "ConstantOfShape";
  return with_nodes(
      {node(op, of_shape ? std::vector<std::string>{"sizes"} : std::vector<std::string>{"a", "sizes"}, {"y"})},
      {longs("sizes", {std::ssize(sizes)}, sizes)});
}
ProtoMessage nested_branches(int depth) {
  ProtoMessage nested = Graph{.nodes = {node("Identity", {"a"}, {"r"})}, .outputs = {value("r", 1, {2, 3})}}.message();
  for (int i = 0; i < depth; ++i)
    nested = Graph{.nodes = {node("If", {"c"}, {"r"}, {graph_attribute("then_branch", nested)})},
                   .outputs = {value("r", 1, {2, 3})}}
                 .message();
  return nested;
}
std::string loop_of(int64_t steps) {
  const Graph body{.nodes = {node("Add", {"x", "x"}, {"next"}), node("Identity", {"go"}, {"on"})},
                   .inputs = {value("i", 7, {}), value("go", 9, {}), value("x", 1, {2, 3})},
                   .outputs = {value("on", 9, {}), value("next", 1, {2, 3})}};
  return with_nodes({node("Loop", {"n", "", "a"}, {"y"}, {graph_attribute("body", body.message())})},
                    {longs("n", {}, {steps})});
}
std::string many_functions(int count) {
  std::vector<ProtoMessage> functions;
  for (int i = 0; i < count; ++i)
    functions.push_back(function("f" + std::to_string(i), {"x"}, {"y"}, {node("Neg", {"x"}, {"y"})}));
  return model(one_node("Neg", {"a"}), 20, functions);
}
/// Functions that each call the next one twice: 2^depth nodes.
std::string doubling_functions(int depth) {
  std::vector<ProtoMessage> functions;
  for (int i = 0; i < depth; ++i) {
    const std::string next = "f" + std::to_string(i + 1);
    functions.push_back(function("f" + std::to_string(i), {"x"}, {"z"},
                                 {node(next, {"x"}, {"y"}, {}, "local"), node(next, {"y"}, {"z"}, {}, "local")}));
  }
  functions.push_back(function("f" + std::to_string(depth), {"x"}, {"y"}, {node("Neg", {"x"}, {"y"})}));
  Graph graph = one_node("Identity", {"a"});
  graph.nodes = {node("f0", {"a"}, {"y"}, {}, "local")};
  return model(graph, 20, functions);
}
std::string many_nodes(int count) {
  std::vector<ProtoMessage> nodes(static_cast<size_t>(count), node("Neg", {"a"}, {"y"}));
  return with_nodes(std::move(nodes));
}
/// A field that says it has more bytes than the file.
std::string field_with_length(std::string length) { return std::string("\x3a") + length + "abc"; }

struct BadFile {
  std::string name;
  std::string file;
  std::string message;  ///< the whole text of the refusal
};

/// A folder beside which a secret lies, with links, a folder and a pipe in it.
class BadFolder {
 public:
  BadFolder() {
    const float numbers[] = {9, 1, 2, 3, 4, 5, 6};
    const std::string bytes(reinterpret_cast<const char*>(numbers), sizeof numbers);
    std::filesystem::create_directories(inside() / "data");
    write_file_atomic(inside() / "data" / "w.bin", bytes);
    write_file_atomic(inside() / "short.bin", "1234");
    write_file_atomic(folder_ / "secret.bin", bytes);
    std::filesystem::create_symlink(folder_ / "secret.bin", inside() / "link.bin");
    std::filesystem::create_symlink("/dev/zero", inside() / "zeros.bin");
    std::filesystem::create_symlink("circle.bin", inside() / "circle.bin");
    std::filesystem::create_symlink(folder_.path(), inside() / "up");
    ::mkfifo((inside() / "pipe.bin").c_str(), 0600);
  }
  std::filesystem::path inside() const { return folder_ / "model"; }

 private:
  TemporaryFolder folder_;
};

std::string refusal(const std::string& file, const std::filesystem::path& folder) {
  const front::OnnxFeeds feeds = {{"a", {.tensors = {HostTensor::of(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})}}}};
  try {
    const front::OnnxModel parsed = front::parse_onnx(file, "bad.onnx");
    front::import_onnx_program(parsed, feeds, {.folder = folder, .source = "bad.onnx"});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<BadFile> bad_files() {
  const std::string plain = model(one_node("Neg", {"a"}));
  const ProtoMessage twice = floats("w", {1}, {1});
  Graph unmade = one_node("Identity", {"a"});
  unmade.outputs = {value("z", 1, {2, 3})};
  Graph outputs_twice = one_node("Identity", {"a"});
  outputs_twice.outputs.push_back(outputs_twice.outputs[0]);
  Graph inputs_twice = one_node("Identity", {"a"});
  inputs_twice.inputs.push_back(inputs_twice.inputs[0]);
  Graph initialized_twice = one_node("Add", {"a", "w"});
  initialized_twice.inputs.pop_back(), initialized_twice.initializers = {twice, twice};
  Graph deep = one_node("Identity", {"a"});
  deep.nodes = {node("If", {"c"}, {"y"}, {graph_attribute("then_branch", nested_branches(200))})};
  Graph recursive = one_node("Identity", {"a"});
  recursive.nodes = {node("Again", {"a"}, {"y"}, {}, "local")};
  const ProtoMessage again = function("Again", {"x"}, {"y"}, {node("Again", {"x"}, {"y"}, {}, "local")});
  const ProtoMessage no_numbers = ProtoMessage().number(1, 6).number(2, 1).bytes(8, "w");
  std::vector<int64_t> many_ones(65, 1);
  const std::string beyond = "18446744073709551615";
  return {
      // damaged messages
      {"no bytes", "", "bad.onnx: no ONNX model: the file has no graph"},
      {"another file", "PK\x03\x04 a zip file", "bad.onnx: a damaged message in an ONNX file; found ModelProto"},
      {"cut in the middle", plain.substr(0, plain.size() / 2),
       "bad.onnx: a damaged message in an ONNX file; found ModelProto"},
      {"without its last byte", plain.substr(0, plain.size() - 1),
       "bad.onnx: a damaged message in an ONNX file; found ModelProto"},
      {"a field longer than the file", field_with_length("\x7f"),
       "bad.onnx: a damaged message in an ONNX file; found ModelProto"},
      {"a field of 2^63 bytes", field_with_length("\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
       "bad.onnx: a damaged message in an ONNX file; found ModelProto"},
      {"a length that never ends", field_with_length("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
       "bad.onnx: a damaged message in an ONNX file; found ModelProto"},
      {"a graph that is a number", ProtoMessage().number(7, 1).data(),
       "bad.onnx: a field of an ONNX file has the wrong wire type; found field 7"},
      {"two graphs", plain + plain, "bad.onnx: an ONNX file has two graphs"},
      {"a name of a megabyte", with_nodes({node("Neg", {"a"}, {std::string(1 << 20, 'y')})}),
       "bad.onnx: a name in an ONNX file is too long; found 1048576 bytes"},
      // nesting and size of the graph
      {"graphs in graphs", model(deep), "bad.onnx: graphs are nested too deeply in an ONNX file; expected 64"},
      {"functions that call themselves", model(recursive, 20, {again}),
       "model 'bad.onnx': the model uses what is not supported; found \n  local.Again (1x; output 'y'): functions or "
       "graphs are nested too deeply"},
      {"functions that double", doubling_functions(40),
       "model 'bad.onnx': the model uses what is not supported; found \n  local.f0 (1x; output 'y'): the graph becomes "
       "too large; expected 200000 nodes at most"},
      {"too many functions", many_functions(5000),
       "bad.onnx: an ONNX file has too many functions; expected 4096 at most"},
      {"too many nodes", many_nodes(1'000'001), "bad.onnx: an ONNX file has too many nodes; expected 1000000 at most"},
      {"a loop without an end", loop_of(INT64_MAX),
       "model 'bad.onnx': the model uses what is not supported; found \n  Loop (1x; output 'y'): a loop has more than "
       "65536 steps"},
      // graphs that contradict themselves
      {"a cycle", with_nodes({node("Add", {"a", "y"}, {"x"}), node("Add", {"a", "x"}, {"y"})}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Add (1x; output 'x'): a value is read before "
       "it is made; found 'y'"},
      {"a node that reads itself", with_nodes({node("Add", {"a", "y"}, {"y"})}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Add (1x; output 'y'): a value is read before "
       "it is made; found 'y'"},
      {"two values of one name", with_nodes({node("Neg", {"a"}, {"y"}), node("Abs", {"a"}, {"y"})}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Abs (1x; output 'y'): two values have one "
       "name; found 'y'"},
      {"two initializers of one name", model(initialized_twice), "two initializers have one name; found 'w'"},
      {"two inputs of one name", model(inputs_twice), "two inputs have one name; found 'a'"},
      {"two outputs of one name", model(outputs_twice), "two outputs of the model have one name; found 'y'"},
      {"an output that is never made", model(unmade), "an output of the model is never made; found 'z'"},
      {"an unknown operator", with_nodes({node("Nonsense", {"a"}, {"y"})}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Nonsense (1x; output 'y'): the operator is "
       "not supported"},
      {"an operator of strings", with_nodes({node("StringConcat", {"a", "a"}, {"y"})}),
       "model 'bad.onnx': the model uses what is not supported; found \n  StringConcat (1x; output 'y'): strings are "
       "not "
       "supported"},
      {"an operator set of the future", model(one_node("Neg", {"a"}), 99),
       "model 'bad.onnx': the model uses what is not supported; found \n  Neg (1x; output 'y'): the operator set is "
       "not supported; found version 99; expected 1 to 28"},
      // tensors
      {"fewer bytes than the shape", with_tensor(floats("w", {2, 3}, {1, 2})),
       "bad.onnx, tensor 'w': the bytes of a tensor do not fit its type and shape; found 8 bytes; expected 24, for "
       "f32[2,3]"},
      {"no bytes for the shape", with_tensor(no_numbers),
       "bad.onnx, tensor 'w': a tensor has another number of elements than its shape says; found 0; expected 6"},
      {"a negative extent", with_tensor(floats("w", {-2, 3}, {})),
       "bad.onnx, tensor 'w': a tensor has a negative extent; found -2"},
      {"2^80 elements", with_tensor(floats("w", {kHuge, kHuge}, {})),
       "bad.onnx, tensor 'w': a tensor has too many elements; expected 2^47 at most"},
      {"2^46 elements without bytes", with_tensor(floats("w", {int64_t{1} << 46}, {})),
       "bad.onnx, tensor 'w': the bytes of a tensor do not fit its type and shape; found 0 bytes; expected "
       "281474976710656, for f32[70368744177664]"},
      {"65 dimensions", with_tensor(floats("w", many_ones, {1})),
       "bad.onnx: a tensor has too many dimensions; found 65"},
      {"an unknown element type", with_tensor(tensor<float>("w", 99, {2, 3}, {1, 2, 3, 4, 5, 6})),
       "bad.onnx, tensor 'w': the element type is not supported; found type 99"},
      {"a tensor of strings", with_tensor(tensor<float>("w", 8, {2, 3}, {1, 2, 3, 4, 5, 6})),
       "bad.onnx, tensor 'w': the element type is not supported; found string"},
      // sizes that operators are given
      {"a huge constant", with_size("ConstantOfShape", {kHuge, 2}),
       "model 'bad.onnx': the model uses what is not supported; found \n  ConstantOfShape (1x; output 'y'): the shape "
       "is too large"},
      {"a huge expansion", with_size("Expand", {128 * kHuge, 1, 1}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Expand (1x; output 'y'): extent out of "
       "range; found 140737488355328 in [140737488355328,2,3]; expected 0 to 2^40"},
      {"huge repeats", with_size("Tile", {kHuge, kHuge}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Tile (1x; output 'y'): a tensor of too many "
       "elements; found [1099511627776,2,1099511627776,3]; expected at most 2^48"},
      {"a huge pad", with_size("Pad", {kHuge, 0, 0, kHuge}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Pad (1x; output 'y'): extent out of range; "
       "found 1099511627778 in [1099511627778,1099511627779]; expected 0 to 2^40"},
      {"a huge range",
       with_nodes({node("Range", {"from", "to", "step"}, {"y"})},
                  {longs("from", {}, {0}), longs("to", {}, {INT64_MAX}), longs("step", {}, {1})}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Range (1x; output 'y'): a constant of "
       "8000000000000000 bytes is too large"},
      {"a shape that overflows", with_size("Reshape", {int64_t{1} << 62, 4, 6}),
       "model 'bad.onnx': the model uses what is not supported; found \n  Reshape (1x; output 'y'): extent out of "
       "range; found 4611686018427387904 in [4611686018427387904,4,6]; expected 0 to 2^40"},
      // files of external data
      {"a location above the folder", with_external({{"location", "../secret.bin"}}),
       "bad.onnx, tensor 'w': the location of external data leaves the model's folder; found ../secret.bin; expected a "
       "path beneath the model's folder"},
      {"a location through the folder above", with_external({{"location", "data/../../secret.bin"}}),
       "bad.onnx, tensor 'w': the location of external data leaves the model's folder; found data/../../secret.bin; "
       "expected a path beneath the model's folder"},
      {"an absolute location", with_external({{"location", "/etc/passwd"}}),
       "bad.onnx, tensor 'w': the location of external data is not relative; found /etc/passwd; expected a path "
       "beneath the model's folder"},
      {"a link out of the folder", with_external({{"location", "link.bin"}}),
       "bad.onnx, tensor 'w': a link leads external data out of the model's folder; found link.bin; expected a path "
       "beneath the model's folder"},
      {"a linked folder above", with_external({{"location", "up/secret.bin"}}),
       "bad.onnx, tensor 'w': a link leads external data out of the model's folder; found up/secret.bin; expected a "
       "path beneath the model's folder"},
      {"a link to a device", with_external({{"location", "zeros.bin"}}),
       "bad.onnx, tensor 'w': the file of external data cannot be opened; found zeros.bin"},
      {"a link to itself", with_external({{"location", "circle.bin"}}),
       "bad.onnx, tensor 'w': the file of external data cannot be opened; found circle.bin"},
      {"a pipe", with_external({{"location", "pipe.bin"}}),
       "bad.onnx, tensor 'w': the file of external data cannot be opened; found pipe.bin"},
      {"a folder", with_external({{"location", "data"}}),
       "bad.onnx, tensor 'w': the file of external data cannot be opened; found data"},
      {"no such file", with_external({{"location", "data/none.bin"}}),
       "bad.onnx, tensor 'w': the file of external data cannot be opened; found data/none.bin"},
      {"a location with a zero byte", with_external({{"location", std::string("data/w.bin\0", 11)}}),
       "bad.onnx, tensor 'w': external data without a location; expected a path beneath the model's folder"},
      {"no location", with_external({{"offset", "0"}}),
       "bad.onnx, tensor 'w': external data without a location; expected a path beneath the model's folder"},
      {"an offset behind the end", with_external({{"location", "data/w.bin"}, {"offset", "29"}}),
       "bad.onnx, tensor 'w': external data begin behind the end of their file; found 29; expected 28 at most"},
      {"a length beyond the end", with_external({{"location", "data/w.bin"}, {"offset", "8"}, {"length", "24"}}),
       "bad.onnx, tensor 'w': external data end behind the end of their file; found 24 bytes; expected 20 at most"},
      {"a length that is not the tensor's", with_external({{"location", "data/w.bin"}, {"length", "20"}}),
       "bad.onnx, tensor 'w': external data have another length than their tensor; found 20 bytes; expected 24, for "
       "f32[2,3]"},
      {"a negative offset", with_external({{"location", "data/w.bin"}, {"offset", "-1"}}),
       "bad.onnx, tensor 'w': the offset of external data is no number of bytes; found '-1'"},
      {"an offset of 2^64 - 1", with_external({{"location", "data/w.bin"}, {"offset", beyond}}),
       "bad.onnx, tensor 'w': the offset of external data is no number of bytes; found '18446744073709551615'"},
      {"a length of 2^64 - 1", with_external({{"location", "data/w.bin"}, {"length", beyond}}),
       "bad.onnx, tensor 'w': the length of external data is no number of bytes; found '18446744073709551615'"},
      {"an unknown key", with_external({{"location", "data/w.bin"}, {"mode", "x"}}),
       "bad.onnx, tensor 'w': unknown key of external data; found 'mode'; expected location, offset, length or "
       "checksum"},
      {"a truncated file", with_external({{"location", "short.bin"}}),
       "bad.onnx, tensor 'w': external data have another length than their tensor; found 4 bytes; expected 24, for "
       "f32[2,3]"},
      {"a file too short for 2^40 elements", with_external({{"location", "short.bin"}}, {1 << 20, 1 << 20}),
       "bad.onnx, tensor 'w': external data have another length than their tensor; found 4 bytes; expected "
       "4398046511104, for f32[1048576,1048576]"},
  };
}

/// What this process has had in memory at most, in bytes.
int64_t most_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

TEST(OnnxBadFiles, AreRefusedByNameInBoundedMemoryAndTime) {
  constexpr int64_t kMostMemory = int64_t{1} << 30;  // the million nodes are the most
  constexpr double kMostSeconds = 20;                // of processor time: a debug build under sanitizers has time
  const BadFolder folder;
  for (const BadFile& bad : bad_files()) {
    const int64_t memory = most_memory();
    const std::clock_t start = std::clock();
    const std::string found = refusal(bad.file, folder.inside());
    EXPECT_EQ(found, bad.message) << bad.name;
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kMostSeconds) << bad.name;
    EXPECT_LT(most_memory() - memory, kMostMemory) << bad.name;
    if (found != bad.message) std::printf("FOUND|%s|%s|\n", bad.name.c_str(), found.c_str());
  }
}

/// Wherever a file is cut, it is refused, or what is left is the whole model.
TEST(OnnxBadFiles, NoCutIsTakenForAnotherModel) {
  const std::string whole = model(one_node("Neg", {"a"}));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string message = refusal(whole.substr(0, size), {});
    EXPECT_NE(message, "") << size;
  }
}

}  // namespace
}  // namespace ramet::tests
