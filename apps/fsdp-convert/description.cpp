#include "fsdp-convert/description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "fsdp-convert/help.h"
#include "fsdp-convert/values.h"
#include "options/options.h"

namespace converter {

namespace {

constexpr const char* kConvert = "convert";  // the command that is never typed

std::vector<std::string> shells() { return {trainer::kShells.begin(), trainer::kShells.end()}; }

trainer::ValueHints flag_hints(const Flag& flag) {
  const std::string_view value = flag.value;
  if (value == "FORMAT") return {.words = format_words()};
  if (value == "DTYPE") return {.words = dtype_words()};
  return {};
}

std::vector<trainer::ProgramCommand> program_commands() {
  const trainer::ValueHints files{.paths = trainer::Paths::Files};
  return {{.word = kConvert,
           .usages = {"SOURCE TARGET [--to FORMAT] [OPTIONS]", "--list SOURCE"},
           .examples = kExamples,
           .words = {{.name = "SOURCE", .hints = files}, {.name = "TARGET", .hints = files}},
           .typing = trainer::CommandWord::NeverTyped},
          {.word = kCompletionWord,
           .usages = {"SHELL"},
           .summary = "Prints a script that lets a shell complete options, their values and files.",
           .examples = "  fsdp-convert completion bash >> ~/.bashrc\n"
                       "  fsdp-convert completion fish > ~/.config/fish/completions/fsdp-convert.fish\n",
           .words = {{.name = "SHELL", .hints = {.words = shells()}}}},
          {.word = kManWord,
           .usages = {""},
           .summary = "Prints the manual page.",
           .examples = "  fsdp-convert man | man -l -\n"}};
}

std::vector<trainer::ProgramOption> program_options() {
  std::vector<trainer::ProgramOption> options = {
      {.flag = "SOURCE",
       .text = "A checkpoint, a Hugging Face folder or a file of tensors. One that is called man or completion is "
               "written with its folder: ./man.",
       .commands = {kConvert}},
      {.flag = "TARGET", .text = "The file or folder to write.", .commands = {kConvert}}};
  for (const Flag& flag : flags()) {
    options.push_back({.flag = flag.name,
                       .placeholder = flag.value,
                       .text = flag.help,
                       .hints = flag_hints(flag),
                       .commands = {kConvert},
                       .takes_several = std::string_view(flag.value) == "PATTERN"});
  }
  options.push_back({.flag = "SHELL",
                     .text = fmt::format("Shell that the script is for. One of {}.", fmt::join(trainer::kShells, ", ")),
                     .heading = "Completion",
                     .commands = {kCompletionWord}});
  return options;
}

trainer::PageSection program_formats() {
  trainer::PageSection section{.title = "FORMATS"};
  for (const auto& entry : fsdp::formats::formats()) section.items.push_back({entry.word, format_text(entry)});
  return section;
}

trainer::PageSection program_codes() {
  return {
      .title = "EXIT STATUS",
      .items = {{"0", "All went well."},
                {"1",
                 "It failed while it worked: SOURCE is damaged, or TARGET cannot hold it or be written; or standard "
                 "output could not take the result."},
                {"2", "Options, or what they name, cannot be. All problems are listed, and nothing was written."},
                {"128 + N", "Signal N ended it: 130 after Ctrl-C."}}};
}

}  // namespace

const trainer::Program& program() {
  static const trainer::Program all = {
      .name = "fsdp-convert",
      .summary = "converts checkpoints and models from one format to another",
      .description =
          "fsdp-convert converts checkpoints and models between the formats below, in both directions, one "
          "tensor at a time. SOURCE is read and never run: nothing in it is code. TARGET is there whole or "
          "not at all.",
      .commands = program_commands(),
      .brief_help = "Stands for --help.",
      .full_help = "Shows all options.",
      .options_note = "Defaults are in [brackets]. Bytes may be written as 500MB, 5GB or 4GiB.",
      .options = program_options(),
      .sections = {program_formats(), program_codes()}};
  return all;
}

}  // namespace converter
