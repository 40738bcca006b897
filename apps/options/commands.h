// The commands of fsdp-train: the first word of its command line.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace trainer {

enum class Command { Train, Prepare, Sample, Report };

struct CommandEntry {
  Command command;
  const char* word;
  const char* usage;  // what follows the word
  const char* summary;
};

inline constexpr std::array<CommandEntry, 4> kCommands = {{
    {Command::Train, "train", "(--text FILE | --data FILE) [OPTIONS]",
     "trains a model, sharded over the ranks; this is what is done without a command"},
    {Command::Prepare, "prepare", "--text FILE --output FOLDER [OPTIONS]", "turns text into files of tokens"},
    {Command::Sample, "sample", "(RUN | CHECKPOINT | MODEL) [OPTIONS]", "lets a trained model write"},
    {Command::Report, "report", "RUN... [OPTIONS]", "shows runs in one HTML page"},
}};

constexpr const CommandEntry& entry_of(Command command) { return kCommands[static_cast<size_t>(command)]; }

std::optional<Command> command_named(std::string_view word);

// Sets of commands.
constexpr unsigned in(Command command) { return 1u << static_cast<unsigned>(command); }
inline constexpr unsigned kTrain = in(Command::Train), kPrepare = in(Command::Prepare), kSample = in(Command::Sample),
                          kReport = in(Command::Report);

}  // namespace trainer
