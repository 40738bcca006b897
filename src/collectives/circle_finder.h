// The board on which the ranks of a job show their long waits, and the search for circles of them (wait_circle.h).
//
// One for a process, whatever groups and worlds it has. A thread begins with the first long wait. While a wait is long,
// it writes this rank's waits to the board twice per second, and follows the waits from rank to rank. It reads only the
// ranks that are awaited.
#pragma once

#include <memory>

#include "collectives/status_board.h"
#include "collectives/world_calls.h"

namespace fsdp::collectives {

// `rank` is this one's number in messages, and on the board, which is of all ranks that messages name. `calls` owns the
// finder.
std::unique_ptr<CircleFinder> make_circle_finder(std::unique_ptr<StatusBoard> board, int rank, WorldCalls& calls);

}  // namespace fsdp::collectives
