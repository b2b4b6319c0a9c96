#pragma once

namespace CLI {
class App;
}

namespace ramet::cli {

struct Session;

/// `ramet onnx`: what concerns ONNX files alone.
void add_onnx(CLI::App& app, Session& session);
/// `ramet import`: files of models of other programs as model files.
void add_import(CLI::App& app, Session& session);

}  // namespace ramet::cli
