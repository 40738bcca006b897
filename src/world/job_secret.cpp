#include "world/job_secret.h"

namespace fsdp::world {

namespace {

std::string value_of(const std::map<std::string, std::string>& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

JobSecret find_secret(const std::map<std::string, std::string>& environment) {
  const auto value = [&](const char* name) { return value_of(environment, name); };
  // mpirun draws the third one for each job (PSM and MXM authenticate by it).
  for (const char* name : {"FSDP_JOB_SECRET", "TORCHELASTIC_RUN_ID", "OMPI_MCA_orte_precondition_transports"}) {
    const std::string text = value(name);
    const bool is_default = text == "none";  // torchrun's own, where --rdzv-id was not given
    if (!text.empty() && !is_default) return {text, name, /*others_can_guess=*/false};
  }
  // Numbers that anybody can list. srun has no secret for its tasks: its own (MUNGE) never leaves the daemons.
  if (const std::string text = value("PMIX_NAMESPACE"); !text.empty()) return {text, "the name of the MPI job"};
  if (const std::string job = value("SLURM_JOB_ID"); !job.empty())
    return {job + "." + value("SLURM_STEP_ID") + "." + value("SLURM_RESTART_COUNT"), "the number of the SLURM step"};
  return {"", "none"};
}

}  // namespace fsdp::world
