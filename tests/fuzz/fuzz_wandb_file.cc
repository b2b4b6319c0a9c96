#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/proto.h"
#include "ramet/track/import.h"
#include "ramet/track/wandb_file.h"

using namespace ramet::tests;

// Behind 'r' the bytes of a file; else records between record separators, framed here, so that mutations get past the
// checksums.
RAMET_FUZZ_TARGET(wandb_file, std::string_view input) {
  WandbFile framed;
  std::string file;
  if (input.starts_with('r')) {
    file = framed.bytes() + std::string(input.substr(1));
  } else {
    for (size_t at = 0; at < input.size();) {
      const size_t end = std::min(input.find('\x1e', at), input.size());
      framed.add(input.substr(at, end - at));
      at = end + 1;
    }
    file = framed.bytes();
  }
  size_t points = 0;
  read_wandb_file({.kind = ImportKind::kWandb, .path = fuzz::as_file(file), .files = {}, .name = "f"},
                  {.wants = [](const std::string&) { return true; },
                   .take = [&](ImportedRun run) { points = run.points(); },
                   .remark = {},
                   .progress = {}});
  if (points > file.size()) internal_error(".wandb file", "more points than bytes");
}

RAMET_FUZZ_SEEDS(wandb_file) {
  const auto item = [](const std::string& key, const std::string& value) {
    return ProtoMessage().bytes(1, key).bytes(16, value);
  };
  const auto record = [](int kind, const ProtoMessage& message) {
    return ProtoMessage().number(1, 1).message(kind, message).data();
  };
  ProtoMessage nested;
  nested.bytes(2, "a").bytes(2, "b").bytes(16, "{\"c\":[1,NaN]}");
  const ProtoMessage config = ProtoMessage().message(1, item("lr", "0.1")).message(1, nested);
  const std::string records[] = {
      record(17, ProtoMessage()
                     .bytes(1, "id")
                     .bytes(3, "project")
                     .message(4, config)
                     .bytes(10, "tag")
                     .message(17, ProtoMessage().number(1, 1700000000).number(2, 5))),
      record(2, ProtoMessage()
                    .message(1, item("loss", "0.5"))
                    .message(1, item("_timestamp", "1.5"))
                    .message(2, ProtoMessage().number(1, 3))),
      record(2, ProtoMessage().message(1, item("h", R"({"_type":"histogram","values":[1,2],"bins":[0,1,2]})"))),
      record(2, ProtoMessage().message(
                    1, item("h", R"({"_type":"histogram","values":[1],"packedBins":{"min":0,"size":2,"count":1}})"))),
      record(2, ProtoMessage().message(
                    1, item("i", R"({"_type":"images/separated","filenames":["a.png","../b"],"captions":["c"]})"))),
      record(2, ProtoMessage().message(1, item("i", R"({"_type":"image-file","path":"media/x.png"})"))),
      record(3, ProtoMessage().message(1, item("best", "-Infinity"))),
      record(7, ProtoMessage().message(2, ProtoMessage().number(1, 5)).message(3, item("gpu.0.gpu", "50"))),
      record(10, ProtoMessage().bytes(1, "title").bytes(3, "WARN")),
      record(18, ProtoMessage().number(1, 1).number(2, 60))};
  WandbFile file;
  std::string payloads;
  for (const std::string& bytes : records) {
    file.add(bytes);
    payloads += (payloads.empty() ? "" : "\x1e") + bytes;
  }
  return {.inputs = {"r" + file.bytes().substr(7), payloads},
          .words = {"\x1e", "NaN", "Infinity", "\"_type\"", "\"path\"", "_step", "[[",
                    "{\"a\":", std::string("\x82\x01", 2)}};
}
