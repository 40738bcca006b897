#include "fsdp-convert/convert_command.h"

#include <fmt/format.h>

#include <utility>

#include "console/terminal.h"
#include "console/units.h"
#include "formats/convert.h"
#include "fsdp-convert/arguments.h"
#include "fsdp-convert/gpt2_matrices.h"
#include "fsdp-convert/hugging_face.h"
#include "fsdp-convert/list.h"

namespace converter {

namespace formats = fsdp::formats;

namespace {

constexpr int kUsageProblem = 2;  // the exit code

int refuse(const std::vector<std::string>& problems) {
  std::string text =
      fmt::format("fsdp-convert: {}\n", trainer::counted(static_cast<int64_t>(problems.size()), "problem"));
  for (const std::string& problem : problems) text += fmt::format("  {}\n", problem);
  trainer::print_error(text + "fsdp-convert --help lists all options. Nothing was written.\n");
  return kUsageProblem;
}

void convert(formats::Source& source, Arguments arguments) {
  formats::Conversion& conversion = arguments.conversion;
  std::string remark;
  if (conversion.transposed.empty()) {
    auto [transposed, text] = gpt2_matrices(source, arguments.source, conversion.to);
    conversion.transposed = std::move(transposed);
    remark = std::move(text);
  }
  if (conversion.to == formats::Format::HuggingFace) {
    conversion.folder.config = config_of(source, arguments.source, conversion.dtype);
  }
  const formats::Converted converted = formats::convert(source, arguments.target, conversion);
  std::string text = fmt::format(
      "{} of {}: {}, {}, is now {}, {}.\n", trainer::counted(static_cast<int64_t>(converted.tensors), "tensor"),
      trainer::short_bytes(static_cast<size_t>(converted.bytes)), arguments.source,
      formats::entry_of(source.format()).description, arguments.target, formats::entry_of(conversion.to).description);
  for (const std::string& one : converted.remarks) text += fmt::format("  {}\n", one);
  if (!remark.empty()) text += fmt::format("  {}\n", remark);
  trainer::print(text);
}

}  // namespace

int convert_command(const std::vector<std::string>& words, int width) {
  const Arguments arguments = parse_arguments(words, width);
  if (!arguments.answer.empty()) {
    trainer::print(arguments.answer);
    return 0;
  }
  if (!arguments.problems.empty()) return refuse(arguments.problems);
  const auto source = formats::open_source(arguments.source, *arguments.from, arguments.buffers);
  if (arguments.task == Task::List) {
    trainer::print(list_of_tensors(*source, arguments.source));
  } else {
    convert(*source, arguments);
  }
  return 0;
}

}  // namespace converter
