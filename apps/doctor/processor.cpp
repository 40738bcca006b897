#include "doctor/processor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace trainer {

namespace {

Finding cores_finding(const Processor& processor) {
  Finding finding{.subject = "cores", .text = fmt::format("{}, all of them usable", processor.cores)};
  if (processor.usable < processor.cores) {
    finding.text = fmt::format("{}, of which this process may use {}", processor.cores, processor.usable);
  }
  if (processor.quota > 0) {
    finding.text += fmt::format("; a control group allows the time of {:.3g}", processor.quota);
  }
  const bool is_short = processor.quota > 0 && processor.quota < static_cast<double>(processor.usable);
  if (!is_short) return finding;
  finding.verdict = Verdict::Note;
  finding.text += ", so that more threads than these only wait";
  finding.mend = fmt::format("export OMP_NUM_THREADS={}", std::max<int64_t>(1, static_cast<int64_t>(processor.quota)));
  return finding;
}

Finding instructions_finding(const Processor& processor) {
  Finding finding{.subject = "instructions", .text = fmt::format("{}", fmt::join(processor.features, " "))};
  if (!processor.has_vectors()) {
    finding.verdict = Verdict::Note;
    finding.text = "none for wide vectors that fsdp-train knows: products of matrices take long";
  } else if (!processor.multiplies_bf16()) {
    finding.verdict = Verdict::Note;
    finding.text += "; none for bf16: --param-dtype bf16 saves memory here, and no time";
  }
  return finding;
}

}  // namespace

std::vector<Finding> findings_of(const Processor& processor) {
  const std::string model = processor.model.empty() ? "of a kind that the kernel does not name" : processor.model;
  return {{.subject = "processor", .text = model}, cores_finding(processor), instructions_finding(processor)};
}

}  // namespace trainer
