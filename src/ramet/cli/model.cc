// The commands that look at a model before, without or after training: plan, eval, export.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <set>

#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/task.h"
#include "ramet/front/onnx_export.h"
#include "ramet/front/onnx_update.h"
#include "ramet/front/open_model.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/model_file.h"
#include "ramet/model/sparsify.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/publish.h"
#include "ramet/recipe/sparse.h"
#include "ramet/recipe/task.h"
#include "ramet/recipe/text_predictor.h"
#include "ramet/train/evaluate.h"
#include "ramet/train/predictor.h"
#include "ramet/train/scaling.h"

namespace ramet::cli {
namespace {

struct SubjectArguments : ModelOptions {
  std::string subject, out, like;
  std::string program;  ///< that an ONNX file has
  OnnxWriteOptions onnx;
  TaskArguments task;
  bool sparse = false;  ///< export sparse weights as index triples
};

struct Evaluated {
  Numbers numbers;
  int64_t steps = 0;
  std::string weights_hash;
};

/// Of a predictor, which has the weights alone.
Evaluated evaluate_weights(const Preparation& preparation, const Subject& subject, const Where& where, bool leads) {
  const Workload& workload = preparation.workload;
  Predictor predictor(workload.model, preparation.options, parse_layout(preparation.recipe.layout, where.layout_source),
                      where, {evaluation_program(workload)});
  Evaluated found;
  if (subject.checkpoint) {
    const Checkpoint checkpoint(*subject.checkpoint);
    const std::string warnings = check_origin(checkpoint, workload, predictor.model().identity().hex(),
                                              predictor.cluster().stages()[0].kernel_class);
    if (!warnings.empty() && leads) warn(warnings.substr(0, warnings.size() - 1));
    predictor.load(checkpoint);
    found.steps = checkpoint.info().step;
    found.weights_hash = checkpoint.info().weights_hash;
  } else {
    predictor.initialize(workload.init_from);
    found.weights_hash = predictor.weights_hash();
  }
  found.numbers = evaluate(predictor.cluster(), workload, preparation.options);
  return found;
}

/// Of a training, which has tables in streaming memory.
Evaluated evaluate_by_rows(Preparation preparation, const Subject& subject, const Where& where) {
  Training training = make_training(std::move(preparation), where);
  if (subject.checkpoint) {
    const std::string warnings = training.restore(Checkpoint(*subject.checkpoint));
    if (!warnings.empty()) warn(warnings.substr(0, warnings.size() - 1));
  } else {
    training.initialize();
  }
  return {training.evaluate(), training.steps_done(), training.weights_hash()};
}

int eval(const SubjectArguments& arguments, const Session& session) {
  const Subject subject = find_subject(arguments.subject, arguments);
  if (is_task_run(subject)) return eval_task(subject, arguments.task, arguments, session);
  if (!arguments.task.split.empty() || !arguments.task.file.empty() || !arguments.task.with.empty())
    throw Error({.what = "--split, --file and --with are for runs of tasks", .where = arguments.subject});
  Preparation preparation = prepare(subject.recipe);
  // The recipe is the run's own. What --set changes, as the part of the data to measure, is on purpose; that weights
  // fit the model is checked without it.
  preparation.workload.recipe_identity.clear();
  if (session.leads()) tell_before(preparation.workload);
  if (preparation.task && !task_split(*preparation.task, "dev")->labelled())
    throw Error({.what = "the file has no answers to measure against", .where = subject.recipe.where("task.dev")});
  if (!preparation.workload.held_out && !preparation.workload.evaluator)
    throw kind_of(subject.recipe).without_samples(subject.recipe, true);
  if (preparation.recipe.train.evaluation.batches == 0)
    throw Error({.what = "the recipe evaluates no batches",
                 .where = subject.recipe.where("train.evaluation.batches"),
                 .found = "0",
                 .expected = "1 or more"});
  Where where = arguments.where(session.mpi.get());
  where.layout_source = layout_source(preparation.recipe);
  const auto [numbers, steps, weights_hash] = preparation.layout.offload.rows
                                                  ? evaluate_by_rows(std::move(preparation), subject, where)
                                                  : evaluate_weights(preparation, subject, where, session.leads());
  if (!session.leads()) return 0;
  if (session.json) {
    JsonLine line;
    line.set("event", "end").set("steps", steps);
    for (const auto& [name, value] : numbers) line.set("held_out_" + name, value);
    line.set("weights_hash", weights_hash).print();
  } else {
    const std::string weights = subject.checkpoint ? "after " + std::to_string(steps) + " steps" : "before training";
    std::printf("held out, %s: %s\n", weights.c_str(), numbers_text(numbers, !subject.recipe.is_task()).c_str());
  }
  return 0;
}

/// A name that ends as a file of weights does is one; any other is a folder.
bool is_file_name(const std::string& out) { return std::filesystem::path(out).extension() == ".safetensors"; }

/// The model as a file, whose states begin as a checkpoint has them.
void export_model_file(const std::string& out, const Recipe& recipe, const Checkpoint& checkpoint) {
  Model model = build_model(recipe);
  std::map<std::string, StateTensor*> states;
  std::vector<StateTensor> saved;
  for (std::vector<StateTensor>* list : {&model.weights, &model.states})
    for (StateTensor& state : *list) {
      states[state.name] = &state;
      if (is_saved(state.kind) || state.kind == StateKind::kConstant) saved.push_back(state);
    }
  checkpoint.load(saved, [&](const StateTensor& state, std::span<const std::byte> bytes) {
    HostTensor tensor(state.type);
    std::copy(bytes.begin(), bytes.end(), tensor.data.begin());
    states.at(state.name)->init = StateInit::from(TensorData(std::move(tensor)));
  });
  save_model(out, model, recipe.model.file.empty() ? Units{} : open_model(recipe.model.file).second);
}

/// The state of this name as a checkpoint has it; states that runs do not save have their first value.
StateValue saved_values(const Model& model, const Checkpoint& checkpoint) {
  std::map<std::string, StateTensor> saved;
  for (const std::vector<StateTensor>* list : {&model.weights, &model.states})
    for (const StateTensor& state : *list)
      if (is_saved(state.kind)) saved[state.name] = state;
  return [saved = std::move(saved), first = first_values(model), &checkpoint](const std::string& name) {
    const auto found = saved.find(name);
    if (found == saved.end()) return first(name);
    HostTensor tensor(found->second.type);
    checkpoint.load({found->second}, [&](const StateTensor&, std::span<const std::byte> bytes) {
      std::copy(bytes.begin(), bytes.end(), tensor.data.begin());
    });
    return tensor;
  };
}

/// Values of the states of a model whose weights are dense, of which a checkpoint has those of the same model with
/// sparse weights.
StateValue dense_values(const Model& dense, const Model& sparse, const StateValue& saved) {
  std::map<std::string, TensorType> types;
  for (const StateTensor& weight : dense.weights) types.emplace(weight.name, weight.type);
  std::set<std::string> stored;
  for (const SparseWeight& weight : sparse_weights(sparse)) stored.insert(weight.name);
  const ReadBytes read = dense_reader(sparse, [saved](const std::string& name, std::span<std::byte> to) {
    std::ranges::copy(saved(name).data, to.begin());
  });
  return [=](const std::string& name) {
    if (!stored.count(name)) return saved(name);
    HostTensor made(types.at(name));
    read(name, made.data);
    return made;
  };
}

/// The model of a recipe before the passes of training, which choose an order of dimensions; with the program that
/// `program` names, where it is one that is made on request.
Model build_plain_model(const Recipe& recipe, const std::string& program) {
  Model model = kind_of(recipe).build_model(recipe);
  for (const int64_t width : Decoding{}.widths)
    if (program == decode_program(width)) {
      Decoding decoding = decoding_of(recipe, recipe.train.micro_batch, 0);
      decoding.cache = DType::kF32;
      decoding.widths = {width};
      kind_of(recipe).add_decoding(recipe, decoding, model);
    }
  return model;
}

/// With --like, the ONNX file that the run began with, with the weights of a checkpoint; else the predictions of the
/// model as an ONNX file.
void export_onnx_file(const SubjectArguments& arguments, const Recipe& recipe, const Checkpoint& checkpoint) {
  Model model = build_plain_model(recipe, arguments.program);
  const Model stored = with_sparse_weights(recipe, model, false);
  StateValue value = saved_values(stored, checkpoint);
  if (arguments.sparse)
    model = stored;
  else
    value = dense_values(model, stored, value);
  if (arguments.like.empty())
    return write_onnx(arguments.out, predictions_of(model, arguments.program), model.name, value, arguments.onnx);
  std::map<std::string, HostTensor> weights;
  for (const StateTensor& weight : model.weights) weights[weight.name] = value(weight.name);
  update_onnx_weights(arguments.like, arguments.out, weights);
}

/// A model file, with the numbers that it holds.
int export_model_as_onnx(const SubjectArguments& arguments, bool json) {
  if (std::filesystem::path(arguments.out).extension() != ".onnx" || arguments.sparse || !arguments.like.empty())
    throw Error({.what = "a model file is written as an ONNX file alone",
                 .where = "--out",
                 .found = arguments.out,
                 .expected = "FILE.onnx"});
  const Model model = open_model(arguments.subject).first;
  write_onnx(arguments.out, predictions_of(model, arguments.program), model.name, first_values(model), arguments.onnx);
  if (json)
    JsonLine().set("event", "end").set("out", arguments.out).print();
  else
    std::printf("%s from %s\n", arguments.out.c_str(), arguments.subject.c_str());
  return 0;
}

int tell_exported(const SubjectArguments& arguments, const Subject& subject, bool json) {
  if (json)
    JsonLine().set("event", "end").set("checkpoint", subject.checkpoint->string()).set("out", arguments.out).print();
  else
    std::printf("%s from %s\n", arguments.out.c_str(), subject.checkpoint->c_str());
  return 0;
}

int export_model(const SubjectArguments& arguments, bool json) {
  if (is_model_file_name(arguments.subject)) return export_model_as_onnx(arguments, json);
  const Subject subject = find_subject(arguments.subject, arguments);
  if (!subject.checkpoint) throw Error({.what = "has no checkpoint to export", .where = arguments.subject});
  const bool to_onnx = std::filesystem::path(arguments.out).extension() == ".onnx";
  if (arguments.sparse && !is_file_name(arguments.out) && (!to_onnx || !arguments.like.empty()))
    throw Error({.what = "--sparse writes a file of weights, or an ONNX file that is not --like another",
                 .where = "--out",
                 .found = arguments.out,
                 .expected = "FILE.safetensors or FILE.onnx"});
  const Recipe recipe = complete_recipe(subject.recipe);
  const Checkpoint checkpoint(*subject.checkpoint);
  if (std::filesystem::path(arguments.out).extension() == ".ramet") {
    export_model_file(arguments.out, recipe, checkpoint);
    return tell_exported(arguments, subject, json);
  }
  if (to_onnx) {
    export_onnx_file(arguments, recipe, checkpoint);
    return tell_exported(arguments, subject, json);
  }
  check_exportable(recipe.train, arguments.subject);
  const Model model = build_model(recipe);
  const ReadBytes stored = [&](const std::string& name, std::span<std::byte> to) {
    for (const std::vector<StateTensor>* list : {&model.weights, &model.states})
      for (const StateTensor& state : *list)
        if (state.name == name)
          checkpoint.load({state}, [&](const StateTensor&, std::span<const std::byte> bytes) {
            std::copy(bytes.begin(), bytes.end(), to.begin());
          });
  };
  if (arguments.sparse) {
    export_sparse_weights(arguments.out, model, stored);
    return tell_exported(arguments, subject, json);
  }
  const std::vector<StateTensor> published = dense_published(model);
  const ReadBytes read = dense_reader(model, stored);
  if (is_file_name(arguments.out)) {
    export_weights(arguments.out, published, read);
  } else {
    std::error_code ignored;
    std::unique_ptr<Tokenizer> tokenizer;
    if (std::filesystem::is_directory(subject.run / "tokenizer", ignored))
      tokenizer = load_tokenizer(subject.run / "tokenizer");
    publish_model(arguments.out, recipe, published, tokenizer.get(), read);
  }
  return tell_exported(arguments, subject, json);
}

}  // namespace

void add_eval(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SubjectArguments>();
  CLI::App* command = app.add_subcommand("eval", "Measure a model on held-out data");
  command
      ->add_option("subject", arguments->subject,
                   "a recipe (fresh weights), a run (its newest checkpoint) or a checkpoint of a run")
      ->type_name("RECIPE|RUN")
      ->required();
  add_task_options(*command, arguments->task);
  add_model_options(*command, *arguments);
  add_layout_option(*command, *arguments);
  add_time_limit_option(*command, *arguments);
  add_runs_option(*command, arguments->runs);
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    session.action = [arguments, &session] {
      join_job(session);
      return eval(*arguments, session);
    };
  });
}

void add_export(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SubjectArguments>();
  CLI::App* command =
      app.add_subcommand("export", "Write a run's model as Hugging Face's libraries read it, or as a model file");
  command
      ->add_option("subject", arguments->subject,
                   "a run (its newest checkpoint), a checkpoint of a run, or a model file (FILE.ramet, FILE.onnx, "
                   "FILE.pt2), which becomes FILE.onnx")
      ->type_name("RUN|FILE")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "the folder to write (model.safetensors, config.json and the tokenizer), FILE.safetensors for "
                   "the weights alone, FILE.ramet for the model as a file that begins with them, or FILE.onnx for the "
                   "predictions of the model as an ONNX file")
      ->type_name("PATH")
      ->required();
  command->add_flag(
      "--sparse", arguments->sparse,
      "write block-sparse weights as they are stored, not as dense ones with zeros: FILE.safetensors gets "
      "the index triples that torch.sparse_bsr_tensor takes, FILE.onnx the blocks and their places");
  command
      ->add_option("--like", arguments->like,
                   "FILE.onnx is a copy of this ONNX file, of which the model was made, with the new weights in place "
                   "of the old")
      ->type_name("FILE");
  command
      ->add_option(
          "--program", arguments->program,
          "ONNX: what the file computes: \"evaluate\", a program of the model, or \"decode 1\", 16 or 128: so many "
          "more tokens of texts, with caches as inputs and outputs (default: \"predict\", else the logits of the "
          "evaluation's losses, else the evaluation)")
      ->type_name("NAME");
  command->add_option("--opset", arguments->onnx.opset, "ONNX: version of the operator set")
      ->check(CLI::Range(kLeastWrittenOpset, kMostWrittenOpset))
      ->capture_default_str();
  command->add_flag("--external-data", arguments->onnx.external,
                    "ONNX: numbers stand in FILE.onnx.data (weights over 2 GB always do)");
  add_runs_option(*command, arguments->runs);
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return export_model(*arguments, session.json); };
  });
}

}  // namespace ramet::cli
