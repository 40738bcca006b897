#include "manual/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <utility>
#include <vector>

#include "manual/roff.h"
#include "options/option_table.h"
#include "options/option_text.h"

namespace trainer {

namespace {

using Items = std::vector<std::pair<const char*, const char*>>;

const Items& page_files() {
  static const Items files = {
      {"RUN/config.toml", "Every option of a run as it was resolved."},
      {"RUN/metrics.jsonl", "One record per step, events, and how each process began and ended."},
      {"RUN/tensorboard/", "Its metrics for TensorBoard."},
      {"RUN/step-N/", "A checkpoint. RUN/best is the one with the lowest validation loss."},
      {"RUN/sample.txt", "Text that the model wrote at the end."},
      {"RUN/model/", "With --export, the model in Hugging Face's format."},
      {"RUN/report.html", "The page that fsdp-train report writes."},
      {"~/.cache/fsdp/", "Tokens of texts, and trained tokenizers. --cache and XDG_CACHE_HOME name another place."}};
  return files;
}

const Items& page_variables() {
  static const Items variables = {
      {"OMP_NUM_THREADS", "Number of threads per rank, where --threads does not say it."},
      {"CUDA_VISIBLE_DEVICES", "The GPUs that ranks may use. Empty: they compute on the CPU."},
      {"FSDP_PYTHON", "The Python that has the package tokenizers, for tokenizers of Hugging Face."},
      {"NO_COLOR", "Set to anything, keeps colours away."},
      {"LC_ALL, LC_CTYPE, LANG", "The locale. Where it is not UTF-8, bars and curves are drawn in ASCII."},
      {"RANK, WORLD_SIZE, SLURM_PROCID, OMPI_COMM_WORLD_RANK",
       "Set by torchrun, SLURM and Open MPI: this process is one rank of their job."}};
  return variables;
}

const Items& page_codes() {
  static const Items codes = {
      {"0", "All went well."},
      {"1", "It failed while it worked; or fsdp-train doctor found a problem that keeps it from training."},
      {"2", "Options, or what they name, cannot be. All problems are listed, and nothing was written."},
      {"128 + N", "Signal N ended it: 130 after Ctrl-C."}};
  return codes;
}

std::string page_section(const char* title, const Items& items) {
  std::string text = fmt::format(".SH {}\n", title);
  for (const auto& [name, meaning] : items) text += roff_item(roff_bold(name), meaning);
  return text;
}

std::string synopsis() {
  std::string text = ".SH SYNOPSIS\n.nf\n";
  for (const CommandEntry& entry : kCommands) {
    const std::string word =
        entry.command == Command::Train ? fmt::format("[{}]", roff_bold("train")) : roff_bold(entry.word);
    const std::string usage = *entry.usage == '\0' ? "" : " " + roff_text(entry.usage);
    text += fmt::format("{} {}{}\n", roff_bold("fsdp-train"), word, usage);
  }
  return text + fmt::format("{} {} {}\n.fi\n", roff_bold("fsdp-train"), roff_bold("help"), roff_text("[COMMAND]"));
}

std::string list_of_page_commands() {
  std::string text = ".SH COMMANDS\n";
  for (const CommandEntry& entry : kCommands) text += roff_item(roff_bold(entry.word), entry.summary);
  return text;
}

// "--ranks PROCESSES", and the commands that know it where they are not train alone.
std::string option_tag(const Row& row) {
  std::string tag = roff_bold(row.flag);
  const std::string value = placeholder(row);
  if (!value.empty()) tag += " " + roff_italic(value);
  std::vector<const char*> words;
  for (const CommandEntry& entry : kCommands) {
    if (row.is_for(entry.command)) words.push_back(entry.word);
  }
  return row.commands == kTrain ? tag : fmt::format("{}  ({})", tag, fmt::join(words, ", "));
}

std::string page_options() {
  std::string text = ".SH OPTIONS\n" +
                     roff_text(
                         "Options are those of train, but where others stand in parentheses. Defaults are in "
                         "[brackets]; beside a heading stands the section of a configuration file (--config). "
                         "Numbers may be written as 2_000, 16k or 1.5M.") +
                     "\n";
  std::string title;
  for (const Row& row : option_rows()) {
    if (title != row.title) {
      title = row.title;
      text += fmt::format(".SS {}\n", roff_text(row.in_file() ? fmt::format("{} [{}]", title, row.section) : title));
    }
    text += roff_item(option_tag(row), described(row));
  }
  text += ".SS Other\n" + roff_item(roff_bold("-h"), "Shows the options that are most used.");
  return text + roff_item(roff_bold("--help"), "Shows all options.") +
         roff_item(roff_bold("--version"), "Shows the version.");
}

std::string page_examples() {
  std::string lines;
  for (const CommandEntry& entry : kCommands) {
    std::istringstream examples(entry.examples);
    for (std::string line; std::getline(examples, line);) lines += line.substr(line.find_first_not_of(' ')) + "\n";
  }
  return ".SH EXAMPLES\n" + roff_lines(lines);
}

}  // namespace

std::string man_page() {
  std::string text = fmt::format(
      ".\\\" Made by `fsdp-train man`.\n.TH FSDP\\-TRAIN 1 \"\" \"fsdp\\-train {}\" \"User Commands\"\n.ad l\n.nh\n.SH "
      "NAME\n{} \\- "
      "trains language models, sharded over the ranks of a job\n",
      FSDP_VERSION, roff_text("fsdp-train"));
  text += synopsis();
  text += ".SH DESCRIPTION\n" +
          roff_text(
              "fsdp-train trains GPT-2 and Llama models on text, on one process or several (ranks), which divide "
              "the parameters, the gradients and the state of the optimizer among them. Ranks are started by "
              "--ranks on this machine, or by torchrun, SLURM or Open MPI on several. A run lies in a folder, "
              "with its configuration, its metrics and its checkpoints, and goes on from the newest of these "
              "when it is started again.") +
          "\n";
  text += list_of_page_commands() + page_options() + page_examples();
  return text + page_section("FILES", page_files()) + page_section("ENVIRONMENT", page_variables()) +
         page_section("EXIT STATUS", page_codes());
}

}  // namespace trainer
