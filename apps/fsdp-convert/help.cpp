#include "fsdp-convert/help.h"

#include <fmt/format.h>

#include <array>

#include "console/paragraph.h"

namespace converter {

namespace {

constexpr std::array<Flag, 9> kFlags = {
    {{"--to", "FORMAT", "The format of TARGET. By default pt for names that end with .pt or .pth."},
     {"--from", "FORMAT", "The format of SOURCE, if it is not recognised."},
     {"--dtype", "DTYPE",
      "fp32, bf16 or fp16 for the model's floating-point numbers [as they are; fp32 in place of halves with --to "
      "fsdp]. The optimizer's state keeps its own."},
     {"--model-only", "", "Leaves out the optimizer's state, the step and the notes."},
     {"--max-shard-size", "BYTES", "The most bytes of one file of --to hf; more tensors go to further ones [5GB]."},
     {"--buffer", "PATTERN",
      "Tensors with matching names (* and ?) are buffers, not parameters. Formats other than fsdp do not mark buffers; "
      "well-known names are recognised. May be given several times."},
     {"--transpose", "PATTERN",
      "Matrices with matching names are transposed in TARGET. By default a GPT-2's are recognised by name, between hf "
      "and fsdp and from all formats to hf; none leaves them as they are. May be given several times."},
     {"--force", "", "Replaces an existing TARGET: a file, or a folder with only its format's files."},
     {"--list", "", "Shows the tensors of SOURCE and writes nothing."}}};

constexpr size_t kIndent = 26;

}  // namespace

std::span<const Flag> flags() { return kFlags; }

std::string format_text(const fsdp::formats::FormatEntry& entry) {
  return fmt::format("{}, {}.", entry.description, entry.has_states ? "with the optimizer's state" : "a model alone");
}

std::string help_text(int width) {
  const auto columns = static_cast<size_t>(width);
  std::string text =
      "Usage: fsdp-convert SOURCE TARGET [--to FORMAT] [OPTIONS]\n"
      "       fsdp-convert --list SOURCE\n"
      "Converts checkpoints and models. SOURCE is read and never run: nothing in it is code.\n\n"
      "Examples\n";
  text += std::string(kExamples) + "\nFormats\n";
  for (const auto& entry : fsdp::formats::formats()) {
    text += trainer::paragraph(entry.word, format_text(entry), kIndent, columns);
  }
  text += "\nOptions\n";
  for (const Flag& flag : kFlags) {
    const std::string left = *flag.value == '\0' ? flag.name : fmt::format("{} {}", flag.name, flag.value);
    text += trainer::paragraph(left, flag.help, kIndent, columns);
  }
  text += trainer::paragraph("-h, --help", "Shows this.", kIndent, columns);
  return text + trainer::paragraph("--version", "Shows the version.", kIndent, columns);
}

}  // namespace converter
