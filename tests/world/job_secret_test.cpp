#include "world/job_secret.h"

#include <gtest/gtest.h>

namespace fsdp::world {
namespace {

TEST(JobSecret, IsTheUsersOwnBeforeAnyLaunchers) {
  const JobSecret secret = find_secret({{"TORCHELASTIC_RUN_ID", "run"}, {"FSDP_JOB_SECRET", "own"}});
  EXPECT_EQ(secret.text, "own");
  EXPECT_EQ(secret.source, "FSDP_JOB_SECRET");
  EXPECT_FALSE(secret.others_can_guess);
}

TEST(JobSecret, IsWhatTheLauncherDrew) {
  EXPECT_EQ(find_secret({{"TORCHELASTIC_RUN_ID", "run"}}).text, "run");
  const JobSecret drawn =
      find_secret({{"OMPI_MCA_orte_precondition_transports", "0099b3-afb287"}, {"PMIX_NAMESPACE", "prterun-1"}});
  EXPECT_EQ(drawn.text, "0099b3-afb287");
  EXPECT_FALSE(drawn.others_can_guess);
}

TEST(JobSecret, CanBeGuessedWhereTheLauncherOnlyCounts) {
  const JobSecret slurm = find_secret({{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_EQ(slurm.text, "77.0.");
  EXPECT_TRUE(slurm.others_can_guess);
  EXPECT_TRUE(find_secret({{"PMIX_NAMESPACE", "prterun-1"}}).others_can_guess);
}

TEST(JobSecret, IsNoneWhereNothingIsSet) {
  for (const auto& environment : {std::map<std::string, std::string>{},
                                  {{"TORCHELASTIC_RUN_ID", "none"}},
                                  {{"FSDP_JOB_SECRET", ""}, {"TORCHELASTIC_RUN_ID", ""}}}) {
    EXPECT_EQ(find_secret(environment).text, "");
    EXPECT_TRUE(find_secret(environment).others_can_guess);
  }
}

}  // namespace
}  // namespace fsdp::world
