#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/runs_catalogue.h"
#include "ramet/track/run_record.h"

namespace ramet::cli {
namespace {

namespace fs = std::filesystem;

struct AnnotateArguments {
  std::vector<std::string> runs, tags, removed;
  std::string run, text;
  bool off = false;
};

void print_annotations(const std::string& id, const Annotations& all, bool json) {
  if (json) {
    JsonLine()
        .set("id", id)
        .set("name", all.name)
        .set("group", all.group)
        .set("tags", all.tags)
        .set("note", all.note)
        .set("colour", all.colour)
        .set("pinned", all.pinned)
        .set("archived", all.archived)
        .print();
    return;
  }
  std::string tags;
  for (const auto& tag : all.tags) tags += (tags.empty() ? "" : ", ") + tag;
  std::vector<std::vector<std::string>> rows = {{id, ""}};
  const auto row = [&](const char* name, const std::string& value) {
    if (!value.empty()) rows.push_back({std::string("  ") + name, value});
  };
  row("name", all.name), row("group", all.group), row("tags", tags), row("note", all.note), row("colour", all.colour);
  if (all.pinned) row("pinned", "yes");
  if (all.archived) row("archived", "yes");
  std::fputs(table_text(rows).c_str(), stdout);
}

/// Changes runs, or where there is nothing to change prints what they have. The catalogue takes the change in the next
/// time that it is asked.
int annotate(const std::string& folder, const std::vector<std::string>& runs, const AnnotationChanges& changes,
             bool change, bool json) {
  std::vector<fs::path> paths;
  for (const auto& run : runs) paths.push_back(find_run(run, folder));  // all of them before the first is changed
  for (const auto& path : paths)
    print_annotations(path.filename().string(), change ? annotate_run(path, changes) : read_annotations(path), json);
  return 0;
}

void add_runs_argument(CLI::App& command, std::vector<std::string>& runs) {
  command.add_option("run", runs, "a run's folder, its id, the end of its id, or latest")
      ->type_name("RUN")
      ->required()
      ->expected(1, 10'000);
}
void add_run_argument(CLI::App& command, std::string& run) {
  command.add_option("run", run, "a run's folder, its id, the end of its id, or latest")->type_name("RUN")->required();
}

}  // namespace

void add_annotation_commands(const AddRunsCommand& add, const std::string& folder) {
  const auto tag = std::make_shared<AnnotateArguments>();
  CLI::App* tagging = add("tag", "Give a run tags, or take tags away", [tag, &folder](bool json) {
    AnnotationChanges changes;
    changes.added_tags = tag->tags, changes.removed_tags = tag->removed;
    return annotate(folder, {tag->run}, changes, !tag->tags.empty() || !tag->removed.empty(), json);
  });
  add_run_argument(*tagging, tag->run);
  tagging->add_option("tag", tag->tags, "tags to give")->type_name("TAG")->expected(0, 100);
  tagging->add_option("--remove", tag->removed, "a tag to take away; may stand several times")->type_name("TAG");

  const auto note = std::make_shared<AnnotateArguments>();
  CLI::App* noting =
      add("note", "Write a run's note, in Markdown; without a text: show it", [note, &folder](bool json) {
        AnnotationChanges changes;
        changes.note = note->text;
        if (note->text == "-") changes.note = std::string(std::istreambuf_iterator<char>(std::cin), {});
        return annotate(folder, {note->run}, changes, !note->text.empty() || note->off, json);
      });
  add_run_argument(*noting, note->run);
  noting->add_option("text", note->text, "the note; - reads it from the standard input")->type_name("TEXT");
  noting->add_flag("--clear", note->off, "take the note away");

  const auto group = std::make_shared<AnnotateArguments>();
  CLI::App* grouping = add("group", "Put runs into a group", [group, &folder](bool json) {
    AnnotationChanges changes;
    changes.group = group->text;
    return annotate(folder, group->runs, changes, true, json);
  });
  grouping->add_option("group", group->text, "the group's name; '' takes the runs out of theirs")
      ->type_name("GROUP")
      ->required();
  add_runs_argument(*grouping, group->runs);

  const auto name = std::make_shared<AnnotateArguments>();
  CLI::App* renaming = add("rename", "Give a run another name; its folder and its id stay", [name, &folder](bool json) {
    AnnotationChanges changes;
    changes.name = name->text;
    return annotate(folder, {name->run}, changes, true, json);
  });
  add_run_argument(*renaming, name->run);
  renaming->add_option("name", name->text, "the name; '' gives the recipe's back")->type_name("NAME")->required();

  const auto pin = std::make_shared<AnnotateArguments>();
  CLI::App* pinning = add("pin", "Mark runs that others are compared with", [pin, &folder](bool json) {
    AnnotationChanges changes;
    changes.pinned = !pin->off;
    return annotate(folder, pin->runs, changes, true, json);
  });
  add_runs_argument(*pinning, pin->runs);
  pinning->add_flag("--off", pin->off, "take the mark away");

  const auto archive = std::make_shared<AnnotateArguments>();
  CLI::App* archiving = add("archive", "Leave runs out of lists; nothing is deleted", [archive, &folder](bool json) {
    AnnotationChanges changes;
    changes.archived = !archive->off;
    return annotate(folder, archive->runs, changes, true, json);
  });
  add_runs_argument(*archiving, archive->runs);
  archiving->add_flag("--off", archive->off, "list them again");
}

}  // namespace ramet::cli
