#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ramet::tests {

/// How a program ended and what it printed.
struct Outcome {
  int status = -1;  ///< exit status; -1 after a signal
  std::string out, err;

  /// Last line of the output.
  std::string last_line() const {
    std::string line, last;
    for (std::istringstream lines(out); std::getline(lines, line);) last = line;
    return last;
  }
};

/// The program under test, running in a folder.
class Process {
 public:
  /// `launcher`: a program and its arguments that starts it, as mpirun.
  Process(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
          const std::vector<std::string>& launcher = {})
      : folder_(folder), tag_(std::to_string(++count())) {
    std::vector<std::string> words = launcher;
    words.push_back(std::string(RAMET_BINARY_DIR) + "/ramet");
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string out = (folder / ("out." + tag_)).string(), err = (folder / ("err." + tag_)).string();
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::chdir(folder.c_str()) != 0) ::_exit(126);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), 2);
      ::execvp(pointers[0], pointers.data());
      ::_exit(127);
    }
  }
  /// Does nothing once the program has ended.
  void signal(int number) {
    if (!ended()) ::kill(pid_, number);
  }
  bool ended() {
    int status = 0;
    if (!done_ && ::waitpid(pid_, &status, WNOHANG) == pid_) done_ = true, status_ = status;
    return done_;
  }
  /// Waits until the program has printed `text`, or has ended.
  void wait_for(const std::string& text) {
    while (!ended() && output().find(text) == std::string::npos) ::usleep(1000);
  }
  std::string output() const { return text_of("out."); }
  std::string errors() const { return text_of("err."); }  ///< so far
  Outcome wait() {
    if (!done_) ::waitpid(pid_, &status_, 0), done_ = true;
    return {WIFEXITED(status_) ? WEXITSTATUS(status_) : -1, text_of("out."), text_of("err.")};
  }

 private:
  static int& count() {
    static int counter = 0;
    return counter;
  }
  std::string text_of(const std::string& kind) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / (kind + tag_)).rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
  std::string tag_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool done_ = false;
};

}  // namespace ramet::tests
