#include "doctor/doctor_command.h"

#include <torch/cuda.h>
#include <torch/version.h>

#include <filesystem>

#include "console/terminal.h"
#include "doctor/build.h"
#include "doctor/limits.h"
#include "doctor/memory.h"
#include "doctor/processor.h"
#include "doctor/self_check.h"
#include "doctor/text.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

void append_findings(std::vector<Finding>& findings, const std::vector<Finding>& more) {
  findings.insert(findings.end(), more.begin(), more.end());
}

}  // namespace

int run_doctor() {
  const std::vector<Finding> check = check_two_ranks();  // first: what follows may start threads
  const auto gpus = torch::cuda::device_count();
  std::error_code ignored;
  const bool is_gpu_there = fs::exists("/dev/nvidiactl", ignored);
  Build build = read_build();
  build.torch_version = TORCH_VERSION;

  std::vector<Finding> machine = findings_of(read_processor());
  append_findings(machine, findings_of(read_memory()));
  const std::vector<Findings> all = {
      {.title = "Machine", .findings = machine},
      {.title = "Versions", .findings = version_findings(build)},
      {.title = "Backends", .findings = backend_findings(build, gpus, is_gpu_there)},
      {.title = "Limits", .findings = findings_of(read_limits(fs::current_path(ignored)), gpus > 0)},
      {.title = "Check", .findings = check}};
  print(doctor_text(all, standard_output().utf8));
  return has_problem(all) ? 1 : 0;
}

}  // namespace trainer
