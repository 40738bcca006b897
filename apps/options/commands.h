// The commands of fsdp-train: the first word of its command line.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace trainer {

enum class Command { Train, Prepare, Sample, Report, Models, Doctor, Completion, Man };

struct CommandEntry {
  Command command;
  const char* word;
  const char* usage;       // what follows the word; may be empty
  const char* summary;     // a sentence or two
  const char* examples;    // lines of at most 80 columns
  const char* words = "";  // the option that takes the words that are no option's; empty: there is none
};

inline constexpr std::array<CommandEntry, 8> kCommands = {{
    {Command::Train, "train", "(--text PATH | --data PATH) [OPTIONS]",
     "Trains a model, sharded over the ranks of a job. The word train may be left out.",
     "  fsdp-train --text book.txt --ranks 2 --steps 500\n"
     "  fsdp-train --data tokens --model llama-mini --ranks 2 --batch 16 --run first\n"
     "  fsdp-train --resume first --steps 2_000\n"
     "  fsdp-train --dry-run --model gpt2 --ranks 8 --memory 64GB --peak-flops 2T\n"},
    {Command::Prepare, "prepare", "--text PATH --output FOLDER [OPTIONS]",
     "Turns text into files of tokens, so that runs on it begin at once.",
     "  fsdp-train prepare --text books --tokenizer train:4096 --output tokens\n"
     "  fsdp-train prepare --text a.txt --validation b.txt --output tokens --threads 2\n"},
    {Command::Sample, "sample", "(RUN | CHECKPOINT | MODEL) [OPTIONS]", "Lets a trained model write.",
     "  fsdp-train sample run-1 --prompt 'Once upon a time'\n"
     "  fsdp-train sample run-1/step-500 --samples 3 --temperature 0.7\n"
     "  fsdp-train sample run-1/model --prompt -\n",
     "--checkpoint"},
    {Command::Report, "report", "RUN... [OPTIONS]", "Shows runs in one HTML page.",
     "  fsdp-train report run-1\n"
     "  fsdp-train report run-1 run-2 --output compared.html\n",
     "RUN"},
    {Command::Models, "models", "", "Lists the models that --model knows by name.", "  fsdp-train models\n"},
    {Command::Doctor, "doctor", "", "Says what this machine lacks for training, with the commands that mend it.",
     "  fsdp-train doctor\n"},
    {Command::Completion, "completion", "SHELL",
     "Prints a script that lets a shell complete commands, options and their values.",
     "  fsdp-train completion bash >> ~/.bashrc\n"
     "  fsdp-train completion fish > ~/.config/fish/completions/fsdp-train.fish\n",
     "SHELL"},
    {Command::Man, "man", "", "Prints the manual page.", "  fsdp-train man | man -l -\n"},
}};

constexpr const CommandEntry& entry_of(Command command) { return kCommands[static_cast<size_t>(command)]; }

std::optional<Command> command_named(std::string_view word);

// Sets of commands.
constexpr unsigned in(Command command) { return 1u << static_cast<unsigned>(command); }
inline constexpr unsigned kTrain = in(Command::Train), kPrepare = in(Command::Prepare), kSample = in(Command::Sample),
                          kReport = in(Command::Report), kCompletion = in(Command::Completion);

}  // namespace trainer
