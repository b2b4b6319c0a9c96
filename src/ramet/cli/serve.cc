#include <pthread.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/serve/page_server.h"

namespace ramet::cli {
namespace {

struct ServeArguments {
  std::string folder = "runs", host = "127.0.0.1", token_file, proxy_header, ui_dir;
  std::vector<std::string> allowed_hosts;
  int port = 8420;
  bool read_only = false, no_token = false;
};

PageServerOptions options_of(const ServeArguments& arguments) {
  PageServerOptions options;
  options.runs = arguments.folder;
  options.http.host = arguments.host;
  options.http.port = arguments.port;
  options.access.token = !arguments.no_token;
  options.access.token_file = arguments.token_file;
  options.access.proxy_header = arguments.proxy_header;
  options.access.allowed_hosts = arguments.allowed_hosts;
  options.read_only = arguments.read_only;
  options.ui_dir = arguments.ui_dir;
  return options;
}

int serve(const ServeArguments& arguments, bool json) {
  // All threads of the server inherit this mask, so that the signals wait for this thread.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  StatusLine status;
  const PageServer server(options_of(arguments), [&](int64_t done, int64_t total) {
    // A few runs are read before anybody could read this.
    constexpr int64_t kMany = 200;
    if (total >= kMany && is_terminal())
      status.show("reading runs: " + std::to_string(done) + " of " + std::to_string(total));
  });
  status.clear();
  if (!server.remark().empty()) warn(server.remark());
  if (!server.has_page()) warn("this build has no page: the server shows a plain list of runs, and its API works");
  const std::string link = server.link();
  if (json)
    JsonLine()
        .set("event", "serving")
        .set("url", link)
        .set("address", server.url())
        .set("port", static_cast<int64_t>(server.port()))
        .set("read_only", arguments.read_only)
        .print();
  else
    std::printf("%s\n", link.c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  return 0;
}

}  // namespace

void add_serve(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = app.add_subcommand("serve", "Show runs in the browser, as they go on");
  add_runs_option(*command, arguments->folder);
  command->add_option("--port", arguments->port, "port to listen on; 0: a free one")
      ->type_name("N")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--host", arguments->host, "address to listen on; 127.0.0.1: this machine alone")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command->add_flag("--read-only", arguments->read_only, "refuse every change: tags, notes, views, reports");
  command
      ->add_option("--token-file", arguments->token_file,
                   "file with the token of scripts (Authorization: Bearer); made when it is not there")
      ->type_name("FILE");
  command->add_flag("--no-token", arguments->no_token, "ask for no token: every user of this machine may come");
  command
      ->add_option("--trust-proxy-header", arguments->proxy_header,
                   "trust a reverse proxy, which names the user that it let in by this header; only the proxy may "
                   "reach the port")
      ->type_name("NAME");
  command
      ->add_option("--allow-host", arguments->allowed_hosts,
                   "answer to this name of a host, too, as that of a reverse proxy; may stand several times")
      ->type_name("NAME")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--ui-dir", arguments->ui_dir, "take the page from this folder, to work on it")->type_name("DIR");
  add_json_option(*command, session);
  command->footer(
      "Prints one line, the address with a token that works once; Ctrl-C ends the server. Over ssh:\n"
      "    ssh -L 8420:127.0.0.1:8420 HOST ramet serve");
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return serve(*arguments, session.json); }; });
}

}  // namespace ramet::cli
