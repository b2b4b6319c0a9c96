// Tokenizes the lines of text files and prints seconds, tokens and a checksum as one JSON object.
// usage: tokenize VOCABULARY THREADS REPEATS FILE... [--ids OUT]; bench/tokenize.py compares with Hugging Face's.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "ramet/text/tokenizer.h"

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: tokenize VOCABULARY THREADS REPEATS FILE... [--ids OUT]\n"), 2;
  try {
    const auto tokenizer = ramet::text::load_tokenizer(argv[1]);
    ramet::ThreadTeam team(std::atoi(argv[2]));
    std::vector<std::string> texts;
    std::string out;
    for (int i = 4; i < argc; ++i) {
      if (std::strcmp(argv[i], "--ids") == 0 && i + 1 < argc)
        out = argv[++i];
      else
        texts.push_back(ramet::read_file(argv[i]));
    }
    std::vector<std::string_view> lines;
    size_t bytes = 0;
    for (const std::string& text : texts)
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        lines.emplace_back(text.data() + begin, end - begin);
        bytes += end - begin;
        begin = end + 1;
      }
    std::vector<double> seconds;
    std::vector<std::vector<int32_t>> result;
    for (int repeat = 0; repeat < std::atoi(argv[3]); ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      result = tokenizer->encode_batch(lines, team);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    size_t tokens = 0;
    for (const auto& ids : result) tokens += ids.size();
    if (!out.empty()) {
      ramet::FileWriter writer(out);
      for (const auto& ids : result) {
        const auto count = static_cast<int32_t>(ids.size());
        writer.write(&count, sizeof count);
        writer.write(ids.data(), ids.size() * sizeof(int32_t));
      }
      writer.close();
    }
    std::printf("{\"bytes\": %zu, \"tokens\": %zu, \"seconds\": [", bytes, tokens);
    for (size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.6f", i ? ", " : "", seconds[i]);
    std::printf("]}\n");
  } catch (const ramet::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
