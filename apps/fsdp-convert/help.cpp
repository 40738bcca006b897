#include "fsdp-convert/help.h"

#include <fmt/format.h>

#include <array>

#include "console/paragraph.h"

namespace converter {

namespace {

constexpr std::array<Flag, 9> kFlags = {
    {{"--to", "FORMAT", "The format of TARGET. A name that ends with .pt or .pth says pt."},
     {"--from", "FORMAT", "The format of SOURCE, where it is not recognised."},
     {"--dtype", "DTYPE",
      "fp32, bf16 or fp16 for the model's floating-point numbers [as they are; fp32 in place of halves with --to "
      "fsdp]. The optimizer's state keeps its own."},
     {"--model-only", "", "Leaves out the optimizer's state, the step and the notes."},
     {"--max-shard-size", "BYTES", "The most bytes of one file of --to hf; more tensors go to further ones [5GB]."},
     {"--buffer", "PATTERN",
      "Tensors whose names match (* and ?) are buffers, not parameters, beside those that look like some: formats "
      "other than fsdp do not say. May be given several times."},
     {"--transpose", "PATTERN",
      "Matrices whose names match lie the other way round in TARGET. Without it a GPT-2's are found by their names, "
      "between hf and fsdp and from all formats to hf; none leaves them as they are. May be given several times."},
     {"--force", "", "Replaces TARGET where it is there: a file, or a folder that holds its format's files alone."},
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
