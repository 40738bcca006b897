// Figures that courses and papers give for training, beside ours: `fsdp-plan textbook` and docs/arithmetic.md. Pure.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace trainer {

// The value of a figure that asks for a device which none of those in question is.
inline constexpr double kNoDevice = std::numeric_limits<double>::infinity();

// A figure, by its source and by us. Only `published` is typed in; the others are computed.
struct TextbookRow {
  std::string id;         // "zero-stage-1"
  std::string what;       // "ZeRO stage 1"
  std::string source;     // "courses", "ZeRO", "FSDP", "YaFSDP", "llm.c"
  std::string formula;    // the source's, "4 P + 12 P / N"
  std::string unit;       // "GB"
  double published = 0;   // as the source prints it, or `recomputed` if it prints a formula alone
  double recomputed = 0;  // the value of the formula
  double ours = 0;
  std::string why = {};  // the reason for the difference, in sentences
};

struct TextbookTopic {
  std::string title;
  std::string setting;  // that the rows have in common, in sentences
  std::vector<TextbookRow> rows;
};

std::vector<TextbookTopic> textbook();

}  // namespace trainer
