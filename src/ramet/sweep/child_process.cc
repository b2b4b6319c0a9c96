#include "ramet/sweep/child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "ramet/base/error.h"

namespace ramet::sweep {
namespace {

/// Between fork and exec: system calls alone.
[[noreturn]] void become(char* const* words, int output, const cpu_set_t* processors, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(126);  // the sweep ended before the line above
  if (processors) ::sched_setaffinity(0, sizeof *processors, processors);
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGINT, &standard, nullptr);
  ::sigaction(SIGTERM, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::execvp(words[0], words);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& output,
                           const std::vector<int>& processors) {
  std::vector<std::string> words = command;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors)
    if (processor < CPU_SETSIZE) CPU_SET(processor, &set);
  const int fd = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0)
    throw Error({.what = "cannot write the output of a run (" + std::generic_category().message(errno) + ")",
                 .where = output.string()},
                ErrorKind::kFailure);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(pointers.data(), fd, processors.empty() ? nullptr : &set, parent);
  const int problem = errno;
  ::close(fd);
  if (pid_ < 0)
    throw Error(
        {.what = "cannot start a process (" + std::generic_category().message(problem) + ")", .where = command[0]},
        ErrorKind::kFailure);
}

ChildProcess::~ChildProcess() {
  if (ended()) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
}

std::optional<ProcessEnd> ChildProcess::ended() {
  int status = 0;
  if (!end_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
    end_ = WIFEXITED(status) ? ProcessEnd{WEXITSTATUS(status), 0} : ProcessEnd{-1, WTERMSIG(status)};
  return end_;
}

void ChildProcess::ask_to_stop() {
  if (asked_ || ended()) return;
  asked_ = true;
  ::kill(pid_, SIGTERM);
}

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  return processors;
}

}  // namespace ramet::sweep
