// Checks that the ranks in a store belong to one job.
//
// Each rank leaves a proof there that it knows the job's secret. Rank 0 looks at everybody's and everybody at rank 0's,
// so that a stray rank or another job is found at once, on both sides. The first keeps a rank's place: a later stranger
// is refused and does no harm.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

#include "world/identity.h"
#include "world/job_secret.h"

namespace fsdp::world {

// `store` is as it was reached, without a guard, and `place` how messages call it. A collective; throws Error for a
// rank with another secret, PeerLost where one does not come in time.
void check_members(c10d::Store& store, const JobSecret& secret, const Identity& identity, const std::string& place);

}  // namespace fsdp::world
