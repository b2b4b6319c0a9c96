#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "ramet/base/clock.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/kernel/devices.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/survey.h"
#include "ramet/transport/mpi_transport.h"

namespace ramet::cli {
namespace {

struct ProbeArguments {
  std::string out = "local.toml", folder = ".";
  int threads = 1;
  double seconds = 60;
};

std::string with_spread(const Machine& machine, const std::string& key, double value, const char* unit) {
  const auto note = machine.notes.find(key);
  char text[80];
  std::snprintf(text, sizeof text, "%.4g %s", value, unit);
  std::string line = text;
  if (note != machine.notes.end() && note->second.spread > 0) {
    std::snprintf(text, sizeof text, " +-%.1f%%", 100 * note->second.spread);
    line += text;
  }
  return line;
}

std::string summary(const Machine& machine) {
  std::vector<std::vector<std::string>> rows = {{"what", "measured"}};
  const auto add = [&](const std::string& what, const std::string& key, double value, const char* unit) {
    rows.push_back({what, with_spread(machine, key, value, unit)});
  };
  const DeviceKind& device = machine.device;
  add("clock", "device.clock", device.clock * 1e-9, "GHz");
  add("an instruction's overhead", "device.overhead", device.overhead * 1e6, "us");
  for (const auto& [dtype, rate] : device.operations_per_cycle)
    add("products of " + dtype, "device.operations_per_cycle." + dtype, rate * device.clock * device.units * 1e-9,
        "GF/s");
  for (size_t i = 0; i < device.caches.size(); ++i)
    add("element-wise in " + device.caches[i].name, "device.caches." + std::to_string(i) + ".bandwidth",
        device.caches[i].bandwidth * 1e-9, "GB/s");
  for (const MemoryKind& memory : machine.memories) {
    const std::string key = std::string("memory.") + name_of(memory.role);
    add(std::string(name_of(memory.role)) + " memory, read", key + ".read", memory.read * 1e-9, "GB/s");
    add(std::string(name_of(memory.role)) + " memory, written", key + ".write", memory.write * 1e-9, "GB/s");
  }
  for (size_t i = 0; i < machine.links.size(); ++i) {
    const std::string key = "links." + std::to_string(i);
    add(machine.links[i].name + ", large messages", key + ".bandwidth", machine.links[i].bandwidth * 1e-9, "GB/s");
    add(machine.links[i].name + ", small messages", key + ".latency", machine.links[i].latency * 1e6, "us");
    add(machine.links[i].name + ", barrier", key + ".barrier", machine.links[i].barrier * 1e6, "us");
  }
  return table_text(rows);
}

int probe(const ProbeArguments& arguments, Session& session) {
  const std::filesystem::path folder = std::filesystem::absolute(arguments.out).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw Error({.what = "no such folder", .where = "--out " + arguments.out, .found = folder.string()});
  MpiSession* job = join_job(session);
  Transports endpoints;
  if (job) endpoints = job->make_transports(1, {.time_limit = std::chrono::minutes(10)});
  SurveyOptions options{.threads = arguments.threads, .seconds = arguments.seconds, .folder = arguments.folder};
  const bool quiet = session.json || !session.leads();
  StatusLine line;
  if (!quiet)
    options.progress = [&](const std::string& what, double done) {
      char percent[16];
      std::snprintf(percent, sizeof percent, "%3.0f%%  ", 100 * done);
      line.show(percent + what);
    };
  const auto start = std::chrono::steady_clock::now();
  const Machine machine = survey_machine(find_device().backend(), options, job ? endpoints[0].get() : nullptr);
  line.clear();
  if (!session.leads()) return 0;
  write_file_atomic(arguments.out, print_machine(machine));
  const double seconds = seconds_since(start);
  if (session.json) {
    JsonLine()
        .set("event", "end")
        .set("file", arguments.out)
        .set("seconds", seconds)
        .set("devices", static_cast<int64_t>(machine.devices))
        .set("threads", static_cast<int64_t>(machine.device.units))
        .set("f32_flops", machine.device.peak(DType::kF32))
        .set("bf16_flops", machine.device.peak(DType::kBF16))
        .set("bandwidth", machine.bandwidth())
        .print();
    return 0;
  }
  std::printf("%s: %d devices of %d cores; measured in %s\n%s\nwritten to %s: use it as --machine %s\n",
              machine.description.c_str(), machine.devices, machine.device.units, duration_text(seconds).c_str(),
              summary(machine).c_str(), arguments.out.c_str(), arguments.out.c_str());
  return 0;
}

}  // namespace

void add_probe(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ProbeArguments>();
  CLI::App* command = app.add_subcommand(
      "probe",
      "Measure this machine and write it as a machine file, with the spread of each figure\n"
      "Under `mpirun -n N ramet probe` the links between ranks are measured, and the devices are the ranks.");
  command->add_option("--out", arguments->out, "file to write")->type_name("FILE")->capture_default_str();
  add_device_option(*command);
  command->add_option("--threads", arguments->threads, "cores of one device")
      ->type_name("N")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--seconds", arguments->seconds, "time that the measurements take, about")
      ->type_name("S")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--folder", arguments->folder, "where to stream a file; nothing stays there")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  add_json_option(*command, session);
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return probe(*arguments, session); }; });
}

}  // namespace ramet::cli
