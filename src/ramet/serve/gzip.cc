#include "ramet/serve/gzip.h"

#include <zlib.h>

#include <limits>

#include "ramet/base/error.h"
#include "ramet/serve/url.h"

namespace ramet::serve {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib's way to say: 32 KiB of window, a gzip head

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? "" : text.substr(begin, end - begin + 1);
}

/// Whether "q=0.5" among the parameters is more than zero; true without it.
bool has_weight(std::string_view parameters) {
  const size_t at = parameters.find("q=");
  return at == std::string_view::npos || parameters.substr(at + 2).find_first_of("123456789") != std::string_view::npos;
}

}  // namespace

std::string gzip(std::string_view bytes, int level) {
  z_stream stream{};
  if (bytes.size() > std::numeric_limits<uInt>::max() ||
      deflateInit2(&stream, level, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error({.what = "cannot compress"}, ErrorKind::kFailure);
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw Error({.what = "cannot compress"}, ErrorKind::kFailure);
  return out;
}

std::string gunzip(std::string_view bytes, size_t most) {
  z_stream stream{};
  if (bytes.size() > std::numeric_limits<uInt>::max() || inflateInit2(&stream, kGzipWindow) != Z_OK)
    throw Error({.what = "cannot unpack"}, ErrorKind::kFailure);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int code = Z_OK;
  while (code == Z_OK && out.size() <= most) {
    const size_t before = out.size();
    out.resize(std::max<size_t>(2 * before, 64 << 10));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(out.size() - before);
    code = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (code == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) break;
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END || out.size() > most) throw Error({.what = "no whole gzip file, or too large a one"});
  return out;
}

bool takes_gzip(std::string_view accept_encoding) {
  bool any = false;
  for (size_t at = 0; at < accept_encoding.size();) {
    const size_t end = std::min(accept_encoding.find(',', at), accept_encoding.size());
    const std::string_view entry = accept_encoding.substr(at, end - at);
    const size_t semicolon = std::min(entry.find(';'), entry.size());
    const std::string_view name = trimmed(entry.substr(0, semicolon));
    if (same_letters(name, "gzip") || same_letters(name, "x-gzip")) return has_weight(entry.substr(semicolon));
    if (name == "*") any = has_weight(entry.substr(semicolon));
    at = end + 1;
  }
  return any;
}

}  // namespace ramet::serve
