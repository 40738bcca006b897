// The command line of fsdp-convert.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/convert.h"

namespace converter {

enum class Task { Convert, List };

struct Arguments {
  Task task = Task::Convert;
  std::string source, target;
  std::optional<fsdp::formats::Format> from;  // none: as it is recognised
  std::vector<std::string> buffers;
  fsdp::formats::Conversion conversion;
  std::string answer;                 // of --help, --version, man and completion; not empty when it was asked for
  std::vector<std::string> problems;  // every one, a sentence each
};

// Looks at what lies at source and target, too. `width` is that of the help.
Arguments parse_arguments(const std::vector<std::string>& arguments, int width);

}  // namespace converter
