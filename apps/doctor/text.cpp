#include "doctor/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "console/paragraph.h"
#include "console/units.h"

namespace trainer {

namespace {

constexpr size_t kTextColumn = 28, kPageWidth = 80;

const char* word_of_verdict(Verdict verdict) {
  switch (verdict) {
    case Verdict::Note:
      return "note";
    case Verdict::Problem:
      return "problem";
    case Verdict::Ok:
      break;
  }
  return "ok";
}

// Each line of a command stays one, to be copied.
std::string mend_lines(const std::string& mend) {
  std::string text;
  std::istringstream lines(mend);
  for (std::string line; std::getline(lines, line);) {
    text += fmt::format("{:{}}{} {}\n", "", kTextColumn, text.empty() ? "->" : "  ", line);
  }
  return text;
}

std::string text_of_finding(const Finding& finding) {
  const std::string left = fmt::format("{:<9}{}", word_of_verdict(finding.verdict), finding.subject);
  return paragraph(left, finding.text, kTextColumn, kPageWidth) + mend_lines(finding.mend);
}

int64_t count_of(const std::vector<Findings>& all, Verdict verdict) {
  int64_t count = 0;
  for (const Findings& part : all) {
    count += std::ranges::count_if(part.findings, [&](const Finding& one) { return one.verdict == verdict; });
  }
  return count;
}

std::string summary_of(const std::vector<Findings>& all) {
  const int64_t problems = count_of(all, Verdict::Problem), notes = count_of(all, Verdict::Note);
  const std::string can = problems == 0 ? "fsdp-train can train here"
                                        : fmt::format("{} {} fsdp-train from training here",
                                                      counted(problems, "problem"), problems == 1 ? "keeps" : "keep");
  return notes == 0 ? can + ".\n" : fmt::format("{}; {}.\n", can, counted(notes, "note"));
}

}  // namespace

bool has_problem(const std::vector<Findings>& all) { return count_of(all, Verdict::Problem) > 0; }

std::string doctor_text(const std::vector<Findings>& all, bool utf8) {
  std::string text;
  for (const Findings& part : all) {
    text += part.title + "\n";
    for (const Finding& finding : part.findings) text += text_of_finding(finding);
    text += "\n";
  }
  text += summary_of(all);
  if (!utf8)
    std::ranges::replace_if(
        text, [](unsigned char c) { return c > 127; }, '?');
  return text;
}

}  // namespace trainer
