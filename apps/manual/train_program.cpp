#include "manual/train_program.h"

#include <fmt/format.h>

#include "manual/value_hints.h"
#include "options/option_table.h"
#include "options/option_text.h"

namespace trainer {

namespace {

std::vector<ProgramCommand> train_commands() {
  std::vector<ProgramCommand> commands;
  for (const CommandEntry& entry : kCommands) {
    ProgramCommand command{
        .word = entry.word, .usages = {entry.usage}, .summary = entry.summary, .examples = entry.examples};
    if (entry.command == Command::Train) command.typing = CommandWord::MayBeLeftOut;
    if (const Row* row = row_of_words(entry.command)) {
      command.words.push_back({.name = row->takes_words() ? row->flag : "place",
                               .hints = hints_of(*row),
                               .takes_several = row->takes_several()});
    }
    commands.push_back(command);
  }
  return commands;
}

std::vector<std::string> commands_that_know(const Row& row) {
  std::vector<std::string> words;
  for (const CommandEntry& entry : kCommands) {
    if (row.is_for(entry.command)) words.emplace_back(entry.word);
  }
  return words;
}

std::vector<ProgramOption> train_options() {
  std::vector<ProgramOption> options;
  std::string title, heading;
  for (const Row& row : option_rows()) {
    if (title != row.title) {
      title = row.title;
      heading = row.in_file() ? fmt::format("{} [{}]", title, row.section) : title;
    }
    options.push_back({.flag = row.flag,
                       .placeholder = placeholder(row),
                       .text = described(row),
                       .hints = hints_of(row),
                       .heading = heading,
                       .commands = commands_that_know(row),
                       .takes_several = row.takes_several()});
  }
  return options;
}

PageSection train_files() {
  return {.title = "FILES",
          .items = {{"RUN/config.toml", "Every option of a run as it was resolved."},
                    {"RUN/metrics.jsonl", "One record per step, events, and how each process began and ended."},
                    {"RUN/tensorboard/", "Its metrics for TensorBoard."},
                    {"RUN/step-N/", "A checkpoint. RUN/best is the one with the lowest validation loss."},
                    {"RUN/sample.txt", "Text that the model wrote at the end."},
                    {"RUN/model/", "With --export, the model in Hugging Face's format."},
                    {"RUN/report.html", "The page that fsdp-train report writes."},
                    {"~/.cache/fsdp/",
                     "Tokens of texts, and trained tokenizers. --cache and XDG_CACHE_HOME name another place."}}};
}

PageSection train_variables() {
  return {
      .title = "ENVIRONMENT",
      .items = {{"OMP_NUM_THREADS", "Number of threads per rank, where --threads does not say it."},
                {"OMP_WAIT_POLICY",
                 "How the threads of a rank wait for each other. fsdp-train sets passive unless this or GOMP_SPINCOUNT "
                 "is set; active may be faster where no other program computes."},
                {"CUDA_VISIBLE_DEVICES", "The GPUs that ranks may use. Empty: they compute on the CPU."},
                {"FSDP_PYTHON", "The Python that has the package tokenizers, for tokenizers of Hugging Face."},
                {"NO_COLOR", "Set to anything, keeps colours away."},
                {"LC_ALL, LC_CTYPE, LANG", "The locale. Where it is not UTF-8, bars and curves are drawn in ASCII."},
                {"RANK, WORLD_SIZE, SLURM_PROCID, OMPI_COMM_WORLD_RANK",
                 "Set by torchrun, SLURM and Open MPI: this process is one rank of their job."}}};
}

PageSection train_codes() {
  return {.title = "EXIT STATUS",
          .items = {{"0", "All went well."},
                    {"1",
                     "It failed while it worked; or standard output could not take its result; or "
                     "fsdp-train doctor found a problem that keeps it from training."},
                    {"2", "Options, or what they name, cannot be. All problems are listed, and nothing was written."},
                    {"128 + N", "Signal N ended it: 130 after Ctrl-C."}}};
}

}  // namespace

const Program& train_program() {
  static const Program program = {
      .name = "fsdp-train",
      .summary = "trains language models, sharded over the ranks of a job",
      .description =
          "fsdp-train trains GPT-2 and Llama models on text, on one process or several (ranks), which divide "
          "the parameters, the gradients and the state of the optimizer among them. Ranks are started by "
          "--ranks on this machine, or by torchrun, SLURM or Open MPI on several. A run lies in a folder, "
          "with its configuration, its metrics and its checkpoints, and goes on from the newest of these "
          "when it is started again.",
      .commands = train_commands(),
      .help_word = "Explains a command.",
      .brief_help = "Shows the options that are most used.",
      .full_help = "Shows all options.",
      .options_note =
          "Options are those of train, but where others stand in parentheses. Defaults are in "
          "[brackets]; beside a heading stands the section of a configuration file (--config). "
          "Numbers may be written as 2_000, 16k or 1.5M.",
      .options = train_options(),
      .sections = {train_files(), train_variables(), train_codes()}};
  return program;
}

}  // namespace trainer
