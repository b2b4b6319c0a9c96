#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ramet::cli {

/// Which names of files may stand in a place of the command line, beside words.
enum class PathKind { kNone, kFolders, kFiles };

/// A word that may stand in a place of the command line, and what --help says of it.
struct CompletionWord {
  std::string word, description;
};

/// The possible words at the place where the tab key was pressed.
struct Completion {
  PathKind paths = PathKind::kNone;
  std::vector<CompletionWord> words;
};

/// `line`: the words of a command line, from the program's name to the one that is being typed (which may be empty).
/// All words of the result begin with the typed text. Behind a "=" only the text behind it is completed, as in
/// "--layout=au" or "--set train.precision=b".
Completion complete(const CLI::App& root, const std::vector<std::string>& line);

/// The script that makes a shell ("bash", "zsh" or "fish") call `ramet complete`.
std::string completion_script(const std::string& shell);

}  // namespace ramet::cli
